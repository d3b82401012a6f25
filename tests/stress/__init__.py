"""Tests run several times on a machine that is kept busy, to find those that fail by chance."""
