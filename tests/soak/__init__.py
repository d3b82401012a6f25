"""Programs on one table of a real HBase, killed at random: writers, readers, a repairer, a builder, the gateways and the server too."""
