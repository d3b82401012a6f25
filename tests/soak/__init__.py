"""Programs on one table of a real HBase, killed at random: writers, readers, repairers, a builder, the gateways and
the server too.
"""
