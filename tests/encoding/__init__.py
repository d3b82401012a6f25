"""Tests of `hbmodel.encoding`."""
