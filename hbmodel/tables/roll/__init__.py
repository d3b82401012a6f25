"""The lines of this program on the writers' roll, and the cached bindings."""
