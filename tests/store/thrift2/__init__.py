"""Tests of `hbmodel.store.thrift2`."""
