"""Work on the indexes of tables that are in use, done in key ranges so that programs can share it."""
