"""What the stores behind Thrift gateways share: addresses, connections, calls that are tried again, and scans."""
