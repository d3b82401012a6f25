"""The registry, which records how each table is stored."""
