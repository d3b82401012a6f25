"""What every store must do, whatever is behind it."""
