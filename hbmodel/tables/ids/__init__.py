"""Dictionaries and sequences: tables, names and ids."""
