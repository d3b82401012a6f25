"""Runs the queries of a session, on one table or on two tables, and with the names of dictionaries."""
