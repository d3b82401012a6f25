"""An activity feed as a small web application: next and previous pages with the state in the URL, a filter, and
query deletes.
"""
