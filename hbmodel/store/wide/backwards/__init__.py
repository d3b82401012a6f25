"""Reads of a wide row from its last object to the first, with guesses and searches of where the last objects begin."""
