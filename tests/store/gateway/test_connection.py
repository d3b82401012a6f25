"""Connections that break at each point of a request, or on which something else than a gateway answers; without
HBase.
"""

from __future__ import annotations

import socket
import struct

import pytest

from hbmodel.errors import StoreUnavailable, UnknownOutcome
from hbmodel.store.gateway.wire.connection import ThriftConnection, Wire
from hbmodel.store.gateway.wire.gateways import Gateway
from hbmodel.store.thrift1.service import SERVICE
from hbmodel.store.thrift1.store import Thrift1Store
from tests.store.gateway.test_http import ONE_TABLE
from tests.support.fronts import Front


class Scripted(Front):
    """Answers the requests of each connection one by one, then closes it."""

    def __init__(self, *answers: bytes) -> None:
        self._answers = answers
        super().__init__()

    def serve(self, client: socket.socket) -> None:
        for answer in self._answers:
            client.recv(65536)
            client.sendall(answer)


def test_a_request_that_cannot_be_sent_was_not_carried_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        connection = ThriftConnection(Gateway(*listener.getsockname()), Wire(), SERVICE, ())
        accepted, _ = listener.accept()
        # closing resets the connection
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        accepted.close()
        with pytest.raises(
            StoreUnavailable, match="The connection to the HBase gateway broke before the request was sent"
        ) as caught:
            connection.send("getTableNames")
        assert caught.value.gateway == f"127.0.0.1:{listener.getsockname()[1]}"
        connection.close()


def test_a_connection_that_is_lost_after_an_answer_is_told() -> None:
    with Scripted(ONE_TABLE, b"") as front, Thrift1Store("127.0.0.1", front.port, attempts=1) as store:
        assert store.tables() == ["t"]
        with pytest.raises(StoreUnavailable, match="see `reason`") as caught:
            store.tables()
        assert caught.value.reason == "The connection to the HBase gateway was lost."
        assert store.tables() == ["t"]
        with pytest.raises(UnknownOutcome, match="read the rows to find out") as lost:
            store.increment("t", b"k", b"d:n", 1)
        assert lost.value.reason == "The connection to the HBase gateway was lost."


def test_an_answer_in_another_format_is_told_with_the_options_to_check() -> None:
    another_version = b"\x80\x07\x00\x02" + bytes(40)
    with Scripted(another_version) as front, Thrift1Store("127.0.0.1", front.port, attempts=1) as store:
        with pytest.raises(StoreUnavailable) as caught:
            store.tables()
        assert (
            caught.value.reason
            == "The answer of the HBase gateway cannot be read; check the options transport, protocol and tls."
        )
