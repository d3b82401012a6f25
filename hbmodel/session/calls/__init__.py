"""Session calls that write one row: insert, update, rekey, increment, prepend, and groups."""
