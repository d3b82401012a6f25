"""What the stores behind Thrift gateways share: addresses, connections, calls with retries, and scans."""
