"""Tests of `hbmodel.session`."""
