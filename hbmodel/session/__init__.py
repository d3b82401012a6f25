"""Sessions, the unit of work, bulk loads and `connect`."""
