"""Writes of rows without system cells, with timestamps from the server."""
