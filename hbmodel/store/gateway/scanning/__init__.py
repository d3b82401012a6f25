"""Carries out scans through a gateway."""
