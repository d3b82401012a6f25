"""The requirements on every store, independent of its implementation."""
