"""Scans through a gateway."""
