"""What commands are given: stores, tables, models, conditions and numbers on the command line."""
