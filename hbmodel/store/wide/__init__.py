"""Objects of wide rows as rows of their own, and slices of the rows that hold them."""
