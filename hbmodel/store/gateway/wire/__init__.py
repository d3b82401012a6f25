"""Connections to a gateway: addresses, sockets, TLS and Thrift messages."""
