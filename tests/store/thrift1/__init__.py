"""Tests of `hbmodel.store.thrift1`."""
