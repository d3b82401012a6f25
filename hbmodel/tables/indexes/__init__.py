"""Work on the indexes of tables in use, in key ranges that programs share."""
