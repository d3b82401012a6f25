"""Tests of `hbmodel.store.embedded`."""
