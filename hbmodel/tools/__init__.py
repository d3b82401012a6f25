"""The command line and the pytest plugin."""
