"""Presents each object of a wide row as a separate row, and reads slices of wide rows."""
