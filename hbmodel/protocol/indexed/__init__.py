"""The writes of rows with system cells and index entries, and the check and repair of index entries."""
