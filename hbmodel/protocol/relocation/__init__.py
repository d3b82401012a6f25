"""Moves objects to another key or another table."""
