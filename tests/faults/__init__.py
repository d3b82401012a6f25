"""What must hold when connections, processes, clocks and users fail."""
