"""The registry: what it says of each table, as values, and the table that holds it."""
