"""Queries, their plans, and the execution of plans."""
