"""The output of commands: objects, errors, and the programs for which a command waits."""
