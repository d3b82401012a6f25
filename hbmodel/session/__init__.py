"""What a program holds in its hand: sessions, the unit of work, bulk loads and `connect`."""
