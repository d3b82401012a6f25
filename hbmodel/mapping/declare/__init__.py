"""Declarations of models: annotations and functions, and the schemas that are built from them."""
