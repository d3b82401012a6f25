"""This program's part in the writers' roll, and the cached bindings."""
