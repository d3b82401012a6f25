"""Dictionaries and sequences: their tables, their names and their ids."""
