"""How much is sent to a gateway at once."""

from __future__ import annotations

from attrs import frozen

from hbmodel.store.gateway.wire.joined_socket import PACKET


@frozen(kw_only=True)
class CallSizes:
    """The sizes of the calls of a store, and of what it sends before it reads a reply.

    Attributes:
        rows: the maximum number of rows in one call.
        write_bytes: bytes in one call that writes, roughly, unless a single row is larger. A gateway with framed
            transport refuses more than two MiB (`hbase.regionserver.thrift.framed.max_frame_size_in_mb`).
        read_bytes: bytes in one call that reads, roughly. While a gateway waits until its reply is read, it reads no
            requests, so requests that are sent ahead must fit into the buffers between client and gateway.
        first_bytes: bytes of the first requests of scans that are sent before a reply is read, roughly; they must fit
            into these buffers too.
        packet: bytes of the first requests of short scans that go out together, roughly.
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
