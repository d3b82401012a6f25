"""The arguments of commands: stores, tables, models, conditions and numbers on the command line."""
