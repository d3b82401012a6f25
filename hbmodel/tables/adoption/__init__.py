"""Checks whether a model fits the bytes in a table that other programs write."""
