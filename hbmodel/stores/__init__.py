"""Stores: the adapters that fulfil the port of `hbmodel.store`, one module or package for each."""
