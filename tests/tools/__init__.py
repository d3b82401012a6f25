"""Tests of `hbmodel.tools`."""
