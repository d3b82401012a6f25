"""The writers' roll as this program keeps it, and the bindings that its lease covers."""
