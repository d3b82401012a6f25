"""From the terms of a query to its plan: the path, the key ranges and the filters."""
