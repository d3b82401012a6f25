"""Runs the queries of a session: on one table, on two, and with the names of dictionaries."""
