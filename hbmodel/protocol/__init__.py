"""Write protocols as sans-IO generators, the operations that they yield, and the driver that executes them."""
