"""The calls of a session that write one row, such as insert, put, update and increment, and groups of calls."""
