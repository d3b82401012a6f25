"""Executes plans by scans and gets, and returns items, pages and slices."""
