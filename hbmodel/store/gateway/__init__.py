"""The common parts of the stores behind Thrift gateways: addresses, connections, calls with retries, and scans."""
