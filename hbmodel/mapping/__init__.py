"""What a class declares, as a frozen schema, and objects to rows and back."""
