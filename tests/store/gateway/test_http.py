"""Possible answers of HTTP servers other than a gateway, and their meaning. HBase's own is in test_https.py."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPResponse
from typing import Any

import pytest

import hbmodel as hb
from hbmodel.store import Put, Scan
from hbmodel.store.gateway.wire.http import Http
from hbmodel.store.thrift1.store import Thrift1Store
from tests.support.fronts import HttpFront

# Replies of the first gateway, in the binary protocol: a list of no rows, and of one table.
NO_ROWS = b"\x80\x01\x00\x02\x00\x00\x00\x12getRowsWithColumns\x00\x00\x00\x00\x0f\x00\x00\x0c\x00\x00\x00\x00\x00"
ONE_TABLE = (
    b"\x80\x01\x00\x02\x00\x00\x00\x0dgetTableNames\x00\x00\x00\x00\x0f\x00\x00\x0b\x00\x00\x00\x01"
    b"\x00\x00\x00\x01t\x00"
)


def answer(
    body: bytes = b"", status: str = "200 OK", *headers: str, content_type: str = "application/x-thrift"
) -> bytes:
    head = "\r\n".join(
        [f"HTTP/1.1 {status}", f"Content-Type: {content_type}", f"Content-Length: {len(body)}", *headers]
    )
    return head.encode() + b"\r\n\r\n" + body


def open_store(front: HttpFront, **options: Any) -> Thrift1Store:
    return Thrift1Store("127.0.0.1", front.port, transport="http", attempts=3, timeout=2, **options)


def write(store: hb.Store) -> None:
    store.put("t", [Put(b"k", {b"d:a": b""}, 1)])


@pytest.mark.parametrize(
    ("status", "message"),
    [
        ("401 Unauthorized", "check user and password"),
        ("403 Forbidden", "check user and password"),
        ("404 Not Found", "check host, port and path"),
        ("302 Found", "check host, port and path"),
        ("413 Payload Too Large", "refuses the request"),
    ],
)
def test_a_refusal_is_told_once_and_with_its_status(status: str, message: str) -> None:
    with (
        HttpFront(lambda head: answer(b"<html>", status, content_type="text/html")) as front,
        open_store(front) as store,
    ):
        calls: list[Callable[[], object]] = [
            store.tables,
            lambda: write(store),
            lambda: store.increment("t", b"k", b"d:n", 1),
            lambda: next(store.scan("t", [Scan()])[0]),
        ]
        for call in calls:
            front.heads.clear()
            with pytest.raises(hb.StoreError, match=message) as caught:
                call()
            assert type(caught.value) is hb.StoreError
            assert caught.value.status == int(status[:3])
            assert caught.value.gateway == f"127.0.0.1:{front.port}"
            # a scan begins before its rows are asked for
            assert len(front.heads) == (1 if call is not calls[-1] else 2)


@pytest.mark.parametrize("status", ["500 Server Error", "502 Bad Gateway", "503 Unavailable", "504 Gateway Timeout"])
def test_a_failure_may_come_after_the_fact(status: str) -> None:
    with (
        HttpFront(lambda head: answer(b"<html>", status, content_type="text/html")) as front,
        open_store(front) as store,
    ):
        with pytest.raises(hb.StoreUnavailable) as caught:
            store.tables()
        assert caught.value.reason == f"HTTP {status[:3]}"
        assert str(caught.value.__cause__).startswith("The HBase gateway's HTTP server failed.")
        assert len(front.heads) == 3
        for call in (lambda: write(store), lambda: store.increment("t", b"k", b"d:n", 1)):
            front.heads.clear()
            with pytest.raises(hb.UnknownOutcome, match="The write may or may not have been applied, fully or in part"):
                call()
        assert len(front.heads) == 1  # an increment is not repeated


@pytest.mark.parametrize("status", ["408 Request Timeout", "425 Too Early", "429 Too Many Requests"])
def test_what_was_not_looked_at_is_sent_again(status: str) -> None:
    replies = [answer(b"", status), answer(ONE_TABLE)]
    with HttpFront(lambda head: replies.pop(0)) as front, open_store(front) as store:
        assert store.tables() == ["t"]
    with HttpFront(lambda head: answer(b"", status)) as front, open_store(front) as store:
        with pytest.raises(hb.StoreUnavailable) as caught:
            store.increment("t", b"k", b"d:n", 1)
        assert type(caught.value) is hb.StoreUnavailable
        assert caught.value.reason == f"HTTP {status[:3]}"
        assert str(caught.value.__cause__).startswith("The HBase gateway's HTTP server rejected the request.")
        assert len(front.heads) == 3


def test_another_kind_of_server_is_told() -> None:
    page = answer(b"<html>" * 1000, content_type="text/html; charset=utf-8")
    with (
        HttpFront(lambda head: page) as front,
        open_store(front) as store,
        pytest.raises(hb.StoreError, match="The answer comes from an HTTP server that") as caught,
    ):
        store.tables()
    assert caught.value.content_type == "text/html"


@pytest.mark.lengthy
@pytest.mark.parametrize(
    "nonsense",
    [
        b"",
        b"\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        answer(),
        answer(b"\x00" * 40),
        answer(b"<html>"),
        answer(ONE_TABLE[:-9]),
        answer(ONE_TABLE).replace(b"Length: 3", b"Length: 9"),
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: application/x-thrift\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
def test_nonsense_never_crashes(nonsense: bytes) -> None:
    with (
        HttpFront(lambda head: nonsense) as front,
        Thrift1Store("127.0.0.1", front.port, transport="http", attempts=2, timeout=0.2) as store,
    ):
        with pytest.raises(hb.StoreUnavailable):
            store.tables()
        with pytest.raises(hb.UnknownOutcome):
            store.increment("t", b"k", b"d:n", 1)


@pytest.mark.parametrize(
    "reply",
    [
        answer(b"<html>", "403 Forbidden"),
        answer(b"<html>", "502 Bad Gateway"),
        answer(b"<html>", content_type="text/html"),
        answer(),
        answer(ONE_TABLE).replace(b"Length: 3", b"Length: 9"),
        b"SSH-2.0-OpenSSH_9.6\r\n",
        answer(ONE_TABLE),
    ],
)
def test_every_answer_is_closed_when_it_was_read(reply: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[HTTPResponse] = []

    def noted(*arguments: Any, **options: Any) -> HTTPResponse:
        answers.append(HTTPResponse(*arguments, **options))
        return answers[-1]

    monkeypatch.setattr("hbmodel.store.gateway.wire.http.HTTPResponse", noted)
    with (
        HttpFront(lambda head: reply) as front,
        Thrift1Store("127.0.0.1", front.port, transport="http", attempts=1, timeout=0.2) as store,
    ):
        with suppress(hb.StoreError):
            store.tables()
        assert [response.closed for response in answers] == [True]


def test_chunks_and_farewells_are_understood() -> None:
    chunked = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-thrift\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunked += b"".join(b"%x\r\n%b\r\n" % (1, ONE_TABLE[at : at + 1]) for at in range(len(ONE_TABLE))) + b"0\r\n\r\n"
    for reply, connections in ((chunked, 1), (answer(ONE_TABLE, "200 OK", "Connection: close"), 3)):
        with HttpFront(lambda head, reply=reply: reply) as front, open_store(front, pool=1) as store:  # type: ignore[misc]
            for _ in range(3):
                assert store.tables() == ["t"]
                time.sleep(0.02)
            assert front.connections == connections


OPENED = b"\x80\x01\x00\x02\x00\x00\x00\x13scannerOpenWithScan\x00\x00\x00\x00\x08\x00\x00\x00\x00\x00\x01\x00"


@pytest.mark.parametrize("good", [0, 1, 2])
def test_scans_that_are_refused_end_once_and_for_all(good: int) -> None:
    opened: list[bytes] = []

    def reply(head: str) -> bytes:
        if "getTableNames" in head:
            return answer(ONE_TABLE)
        return opened.pop() if opened else answer(b"", "403 Forbidden")

    with HttpFront(reply) as front, open_store(front, pool=2) as store:
        for _ in range(5):
            opened[:] = [answer(OPENED)] * good
            for step in (*[next] * 2, list):
                with pytest.raises(hb.StoreError, match="check user"):
                    step(store.scan("t", [Scan(limit=10)] * 3)[0])
            for scan in list(store.scan("t", [Scan(limit=10)] * 3)) * 2:
                with pytest.raises(hb.StoreError, match="check user"):
                    next(scan)
            [one, *_] = store.scan("t", [Scan(limit=10)] * 3)
            one.close()
        del scan, one, _
        assert store.tables() == ["t"]
        assert store._pool._members().streams == 0


def test_requests_are_sent_ahead_and_answers_come_in_order() -> None:
    with HttpFront(lambda head: answer(NO_ROWS)) as front, open_store(front) as store:
        assert store.get("t", [b"%06d" % number for number in range(5000)]) == [None] * 5000
        assert len(front.heads) > 1
        assert front.connections == 1


def test_the_head_of_a_request() -> None:
    with HttpFront(lambda head: answer(ONE_TABLE)) as front:
        with open_store(front, path="/hbase/thrift?x=%20") as store:
            assert store.tables() == ["t"]
        [head] = front.heads
    lines = head.splitlines()
    assert lines[0] == "POST /hbase/thrift?x=%20 HTTP/1.1"
    assert f"Host: 127.0.0.1:{front.port}" in lines
    assert "Content-Type: application/x-thrift" in lines
    assert not any(line.startswith("Authorization") for line in lines)


@pytest.mark.parametrize(
    "arguments",
    [
        {"path": "thrift"},
        {"path": "/a b"},
        {"path": "/a\r\nX: y"},
        {"path": "/ä"},
        {"user": "ann", "password": "pw"},  # without TLS
        {"user": "ann"},
        {"password": "pw"},
        {"protocol": "compact"},
    ],
)
def test_what_http_cannot_say_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(hb.errors.InvalidRequest) as caught:
        Thrift1Store("h", transport="http", **arguments)
    assert "pw" not in str(caught.value)


@pytest.mark.parametrize("arguments", [{"path": "/x"}, {"user": "ann", "password": "pw", "tls": True}])
def test_what_only_http_can_say_is_refused_elsewhere(arguments: dict[str, Any]) -> None:
    for transport in ("buffered", "framed"):
        with pytest.raises(hb.errors.InvalidRequest, match="transport=http"):
            Thrift1Store("h", transport=transport, **arguments)


def test_secrets_are_not_shown() -> None:
    assert "pw" not in repr(Http("/", "ann", "pw"))
