"""Evaluates HBase's filters as a region server does."""
