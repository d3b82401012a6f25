"""Makes the plan of a query from its terms, with the path, the key ranges and the filters."""
