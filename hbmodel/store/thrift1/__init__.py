"""A store on HBase through its first Thrift gateway."""
