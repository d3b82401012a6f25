"""Protocols that write, as generators without input and output, the operations they yield, and the driver."""
