"""Checks that refuse requests before any call, if HBase or a gateway would refuse them."""
