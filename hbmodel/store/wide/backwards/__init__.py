"""Reads a wide row from its last object to its first, after guessing or searching the place where the last objects
begin.
"""
