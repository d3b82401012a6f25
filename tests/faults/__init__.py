"""The guarantees when connections, processes, clocks and users fail."""
