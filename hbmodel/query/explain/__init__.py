"""The explanation of a plan."""
