"""What several test modules use and is no test itself."""
