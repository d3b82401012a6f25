"""Apache Phoenix's own SQL beside hbmodel, on an HBase with its classes."""
