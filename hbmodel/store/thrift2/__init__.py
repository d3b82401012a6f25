"""A store on HBase through its second Thrift gateway."""
