"""Tests of `hbmodel.protocol`."""
