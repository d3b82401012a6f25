"""Compares models with live tables: families, columns, members of enumerations, and entries in the registry."""
