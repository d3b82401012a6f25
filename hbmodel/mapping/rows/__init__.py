"""The translation between objects and rows."""
