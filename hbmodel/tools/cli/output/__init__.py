"""What commands print: objects, errors and the programs that they wait for."""
