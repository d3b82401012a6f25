"""What a query asks for, as frozen values: conditions, order, bounds, pages and tokens."""
