"""The model checker on the protocols of the library."""
