"""Moves of objects to another key or another table."""
