"""Tests of `hbmodel.localhbase`."""
