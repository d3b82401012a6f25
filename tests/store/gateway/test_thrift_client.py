"""Requests and replies byte for byte as thriftpy2's own client has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from thriftpy2.protocol import TBinaryProtocol, TCompactProtocol
from thriftpy2.thrift import TApplicationException, TClient, TMessageType
from thriftpy2.transport import TMemoryBuffer

from hbmodel.store.gateway.wire.thrift_client import ThriftClient
from hbmodel.store.thrift1 import service
from hbmodel.store.thrift1.service import SERVICE, IllegalArgument, PutCell, ResultCell, ResultRow

FAILED: type[Exception] = service._generated.IOError

REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("getTableNames", {}),
    ("getRowsWithColumns", {"tableName": b"t", "rows": [b"a", b"\xff"], "columns": [b"d"], "attributes": {}}),
    ("getRowsWithColumns", {"tableName": b"t", "rows": [], "columns": None, "attributes": {}}),
    (
        "mutateRow",
        {"tableName": b"t", "row": b"a", "mutations": [PutCell(b"d:x", b"1")], "attributes": {b"_ttl": b"\0" * 8}},
    ),
    ("scannerGetList", {"id": 7, "nbRows": 100}),
]

REPLIES: list[tuple[str, dict[str, Any]]] = [
    ("getRowsWithColumns", {"success": [ResultRow(row=b"a", columns={b"d:x": ResultCell(value=b"1", timestamp=5)})]}),
    ("getRowsWithColumns", {"success": []}),
    ("getRowsWithColumns", {"io": FAILED(b"no such table")}),
    ("getRowsWithColumns", {}),
    ("mutateRow", {}),
    ("mutateRow", {"ia": IllegalArgument(b"no")}),
    ("checkAndPut", {"success": False}),
    ("atomicIncrement", {"success": 0}),
]

each_protocol = pytest.mark.parametrize("protocol", [TBinaryProtocol, TCompactProtocol])


@each_protocol
@pytest.mark.parametrize(("api", "arguments"), REQUESTS)
def test_requests_are_those_of_thriftpy2(protocol: Callable[..., Any], api: str, arguments: dict[str, Any]) -> None:
    ours, theirs = TMemoryBuffer(), TMemoryBuffer()
    ThriftClient(SERVICE, protocol(ours)).send(api, arguments)
    client: Any = TClient(SERVICE, protocol(theirs))
    client._send(api, **arguments)
    assert ours.getvalue() == theirs.getvalue()


def outcome(read: Callable[[str], Any], api: str) -> Any:
    """The result or the error of reading a reply."""
    try:
        return "answer", read(api)
    except (FAILED, IllegalArgument, TApplicationException) as error:
        return type(error), vars(error)


@each_protocol
@pytest.mark.parametrize(("api", "fields"), REPLIES)
def test_replies_mean_what_they_mean_to_thriftpy2(
    protocol: Callable[..., Any], api: str, fields: dict[str, Any]
) -> None:
    buffer = TMemoryBuffer()
    writing = protocol(buffer)
    reply = getattr(SERVICE, api + "_result")()
    for name, value in fields.items():
        setattr(reply, name, value)
    writing.write_message_begin(api, TMessageType.REPLY, 0)
    writing.write_struct(reply)
    writing.write_message_end()
    check_reply(protocol, api, buffer.getvalue())


@each_protocol
def test_an_error_of_the_gateway_itself_is_raised(protocol: Callable[..., Any]) -> None:
    buffer = TMemoryBuffer()
    writing = protocol(buffer)
    writing.write_message_begin("mutateRow", TMessageType.EXCEPTION, 0)
    writing.write_struct(
        TApplicationException(TApplicationException.INTERNAL_ERROR, "Internal error processing mutateRow")
    )
    writing.write_message_end()
    check_reply(protocol, "mutateRow", buffer.getvalue())
    with pytest.raises(TApplicationException, match="Internal error"):
        ThriftClient(SERVICE, protocol(TMemoryBuffer(buffer.getvalue()))).receive("mutateRow")


def check_reply(protocol: Callable[..., Any], api: str, data: bytes) -> None:
    """Both clients make the same of a reply, and read it to its end."""
    ours, theirs = TMemoryBuffer(data + b"next"), TMemoryBuffer(data + b"next")
    client: Any = TClient(SERVICE, protocol(theirs, decode_response=False))
    found = outcome(ThriftClient(SERVICE, protocol(ours, decode_response=False)).receive, api)
    assert found == outcome(client._recv, api)
    assert ours.read(4) == theirs.read(4) == b"next"
