"""Models as frozen schemas, and the translation between objects and rows."""
