"""An activity feed as a small web application: next and previous pages with their state in the URL, a filter, and
queries that delete.
"""
