"""Frozen values that describe what a query asks for: conditions, order, bounds, pages and tokens."""
