"""Requests that HBase or a gateway would refuse, refused before any call."""
