"""Checks that refuse, before any call, requests that HBase or a gateway would refuse."""
