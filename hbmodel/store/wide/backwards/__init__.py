"""Reads a wide row from its last object to its first, after guessing or searching for the place where the last objects
begin.
"""
