"""An activity feed as a small web application: pages both ways with the state in the URL, a filter, and deletes of whole queries."""
