"""Checks whether a model of a table that other programs write fits the bytes of that table."""
