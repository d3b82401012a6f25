"""Writes of versioned models, and their unique values."""
