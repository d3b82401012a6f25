"""The tests, in folders like the rooms of the package."""
