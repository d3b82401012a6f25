"""Requests made from a template, byte for byte as thriftpy2 encodes them, and as a gateway reads them from a
connection.
"""

from __future__ import annotations

import socket
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from thriftpy2.protocol import TBinaryProtocol
from thriftpy2.transport import TBufferedTransport, TFramedTransport, TSocket

from hbmodel.errors import StoreUnavailable
from hbmodel.store.gateway.scanning.message_template import NUMBER, START, STOP, encoded, with_bounds, with_number
from hbmodel.store.gateway.scanning.scan_calls import Reading, Request, ScanCalls
from hbmodel.store.gateway.wire.connection import ThriftConnection, Wire
from hbmodel.store.gateway.wire.gateways import Gateway
from hbmodel.store.thrift1.scans import Thrift1ScanCalls
from hbmodel.store.thrift1.service import SERVICE as FIRST
from hbmodel.store.thrift2.scans import Thrift2ScanCalls
from hbmodel.store.thrift2.service import SERVICE as SECOND

GATEWAYS: list[tuple[ScanCalls, Any]] = [(Thrift1ScanCalls(), FIRST), (Thrift2ScanCalls(), SECOND)]

each_gateway = pytest.mark.parametrize(("calls", "service"), GATEWAYS)

readings = st.builds(
    Reading,
    table=st.just(b"ns:t"),
    start=st.just(START),
    stop=st.just(STOP),
    columns=st.sampled_from([(), (b"d",), (b"d:a", b"e:")]),
    filter=st.none() | st.binary(max_size=20),
    reversed=st.booleans(),
    rows=st.integers(1, 3),
    most=st.integers(1, 3),
    before=st.none() | st.integers(1, 2**62),
)


def first_request(calls: ScanCalls, reading: Reading) -> Request:
    """By which the rows are asked for, or the scanner."""
    return calls.whole(reading) or calls.open(reading)


@each_gateway
@given(reading=readings, start=st.binary(max_size=300), stop=st.binary(max_size=300))
def test_bounds_are_filled_in(calls: ScanCalls, service: Any, reading: Reading, start: bytes, stop: bytes) -> None:
    template = with_bounds(service, first_request(calls, reading))
    fields = {
        name: getattr(reading, name)
        for name in ("table", "columns", "filter", "reversed", "rows", "most", "cells", "before")
    }
    request = first_request(calls, Reading(start=start, stop=stop, **fields))
    assert template.api == request[0]
    assert template.complete(start, stop) == encoded(service, request)


@each_gateway
@given(scanner=st.integers(-(2**31), 2**31 - 1), rows=st.integers(1, 3))
def test_numbers_are_filled_in(calls: ScanCalls, service: Any, scanner: int, rows: int) -> None:
    for template, request in (
        (with_number(service, calls.rows(NUMBER, rows)), calls.rows(scanner, rows)),
        (with_number(service, calls.close(NUMBER)), calls.close(scanner)),
    ):
        assert template.api == request[0]
        assert template.complete(scanner) == encoded(service, request)


@pytest.mark.parametrize(("name", "transport"), [("buffered", TBufferedTransport), ("framed", TFramedTransport)])
def test_encoded_requests_arrive_as_others_do(name: Any, transport: Any) -> None:
    requests = [Thrift1ScanCalls().rows(number, 1) for number in range(5)]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        connection = ThriftConnection(Gateway(*listener.getsockname()), Wire(transport=name), FIRST, ())
        accepted = TSocket()
        accepted.set_handle(listener.accept()[0])
        connection.send(requests[0][0], **requests[0][1])
        connection.send_encoded("scannerGetList", [encoded(FIRST, request) for request in requests[1:4]])
        connection.send_encoded("scannerGetList", [], wanted=False)
        connection.send(requests[4][0], **requests[4][1])
        assert connection.outstanding == 5
        protocol = TBinaryProtocol(transport(accepted))
        for api, arguments in requests:
            assert protocol.read_message_begin()[0] == api
            found = FIRST.scannerGetList_args()
            protocol.read_struct(found)
            protocol.read_message_end()
            assert vars(found) == arguments
        connection.close()
        with pytest.raises(StoreUnavailable, match="The connection to the HBase gateway is broken"):
            connection.send_encoded("scannerGetList", [])
        accepted.close()


def test_which_connections_take_encoded_requests() -> None:
    assert Wire().takes_encoded
    assert Wire(transport="framed").takes_encoded
    assert not Wire(protocol="compact").takes_encoded
    assert not Wire(transport="http").takes_encoded
