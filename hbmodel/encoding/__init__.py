"""Values and keys as bytes that keep their order: codecs, key fields, key layouts and salts."""
