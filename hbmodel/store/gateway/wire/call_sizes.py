"""The sizes of the calls that are sent to a gateway."""

from __future__ import annotations

from attrs import frozen

from hbmodel.store.gateway.wire.joined_socket import PACKET


@frozen(kw_only=True)
class CallSizes:
    """The sizes of the calls of a store, and of the requests that it sends before it reads a reply.

    Attributes:
        rows: the maximum number of rows in one call.
        write_bytes: roughly the maximum number of bytes in one call that writes, unless a single row is larger. A
            gateway with framed transport refuses more than two MiB
            (`hbase.regionserver.thrift.framed.max_frame_size_in_mb`).
        read_bytes: roughly the maximum number of bytes in one call that reads. While a gateway waits until its reply is
            read, it reads no requests, so requests that are sent ahead must fit into the buffers between client and
            gateway.
        first_bytes: roughly the number of bytes of the first requests of scans that are sent before a reply is read;
            they must fit into these buffers too.
        packet: roughly the number of bytes of the first requests of short scans that are sent together.
        scans_each: how many short scans justify opening one more connection. A gateway serves each connection with one
            thread, which waits for one region server at a time.
    """

    rows: int = 1000
    write_bytes: int = 1024 * 1024
    read_bytes: int = 64 * 1024
    first_bytes: int = 64 * 1024
    packet: int = PACKET
    scans_each: int = 64


CALL_SIZES = CallSizes()
"""The sizes that a store uses by default."""
