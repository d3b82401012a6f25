"""Work on the indexes of tables that are in use, in key ranges, so that programs can share the work."""
