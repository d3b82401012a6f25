"""The unit of work: pending writes, and the batches in which they are committed."""
