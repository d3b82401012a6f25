"""Advice on keys and layouts, from samples of objects and rows."""
