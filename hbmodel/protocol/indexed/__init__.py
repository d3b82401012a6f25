"""Writes of rows with system cells and index entries, and the entries themselves."""
