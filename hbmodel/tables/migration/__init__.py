"""Moves the objects of a table to a table with a different layout."""
