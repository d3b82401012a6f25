"""Encodes requests that differ only in a few values once, and then completes them with the values of each request."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable
from typing import Any

from attrs import frozen
from thriftpy2.protocol import TBinaryProtocol
from thriftpy2.thrift import TMessageType
from thriftpy2.transport import TMemoryBuffer

from hbmodel.store.gateway.scanning.scan_calls import Request
from hbmodel.store.gateway.wire.thrift_client import arguments_of

START, STOP = uuid.uuid4().bytes, uuid.uuid4().bytes
"""The placeholders for byte strings to be filled in. They are random, so that nothing else in a request equals them."""

NUMBER = 0x7E81_93A5
"""The placeholder for a 32-bit number to be filled in. Nothing else equals it, because the rest of such a request has
only names and small numbers.
"""

_new_buffer: Callable[[], Any] = TMemoryBuffer
_new_protocol: Callable[[Any], Any] = TBinaryProtocol

_length = struct.Struct(">I").pack
_number = struct.Struct(">i").pack


@frozen
class MessageTemplate:
    """A request with placeholders.

    Attributes:
        complete: makes the encoded request from the values to be filled in.
    """

    api: str
    complete: Callable[..., bytes]


def encoded(service: Any, request: Request) -> bytes:
    """Returns a request in the binary protocol."""
    api, arguments = request
    buffer = _new_buffer()
    protocol = _new_protocol(buffer)
    protocol.write_message_begin(api, TMessageType.CALL, 0)
    protocol.write_struct(arguments_of(service, api, arguments))
    protocol.write_message_end()
    return bytes(buffer.getvalue())


def with_bounds(service: Any, request: Request) -> MessageTemplate:
    """Returns a template of a request that contains `START` and, after it, `STOP`."""
    head, rest = encoded(service, request).split(_length(len(START)) + START)
    between, tail = rest.split(_length(len(STOP)) + STOP)

    def complete(start: bytes, stop: bytes) -> bytes:
        return b"".join((head, _length(len(start)), start, between, _length(len(stop)), stop, tail))

    return MessageTemplate(request[0], complete)


def with_number(service: Any, request: Request) -> MessageTemplate:
    """Returns a template of a request that contains `NUMBER`."""
    head, tail = encoded(service, request).split(_number(NUMBER))
    return MessageTemplate(request[0], lambda number: head + _number(number) + tail)
