"""Tests of `hbmodel.store`."""
