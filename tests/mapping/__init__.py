"""Tests of `hbmodel.mapping`."""
