"""Tests of `hbmodel.store.gateway`."""
