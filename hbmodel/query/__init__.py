"""Queries, their plans, and the execution of plans, in pages and parts."""
