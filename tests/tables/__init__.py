"""Tests of `hbmodel.tables`."""
