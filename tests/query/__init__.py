"""Tests of `hbmodel.query`."""
