"""Writes of rows without system cells, whose timestamps the server sets."""
