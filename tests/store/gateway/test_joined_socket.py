"""Tests of several requests in one packet."""

from __future__ import annotations

import socket

import pytest

from hbmodel.store.gateway.wire.joined_socket import PACKET, JoinedSocket


class Counted:
    """A socket that keeps what is sent apart."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def sendall(self, data: bytes) -> None:
        self.sent.append(data)


def counted() -> tuple[JoinedSocket, list[bytes]]:
    opened = Counted()
    return JoinedSocket(opened), opened.sent  # type: ignore[arg-type]


def test_a_request_goes_out_at_once() -> None:
    joined, sent = counted()
    joined.write(b"one")
    joined.write(b"two")
    assert sent == [b"one", b"two"]


def test_requests_between_join_and_part_are_one_packet() -> None:
    joined, sent = counted()
    joined.join()
    for request in (b"one", b"two", b"three"):
        joined.write(request)
    assert sent == []
    joined.part()
    assert sent == [b"onetwothree"]
    joined.write(b"four")
    joined.part()
    assert sent == [b"onetwothree", b"four"]


def test_no_more_than_a_packet_is_held_back() -> None:
    joined, sent = counted()
    joined.join()
    request = b"x" * 1000
    for _ in range(20):
        joined.write(request)
    assert [len(packet) for packet in sent] == [-(-PACKET // 1000) * 1000] * 2
    joined.part()
    assert b"".join(sent) == request * 20


def test_the_end_of_a_connection() -> None:
    near, far = socket.socketpair()
    with near, far:
        joined = JoinedSocket(near)
        far.sendall(b"reply")
        assert joined.read(100) == b"reply"
        far.close()
        with pytest.raises(EOFError):
            joined.read(100)
        joined.sock = None
        for call in (lambda: joined.read(1), lambda: joined.write(b"x")):
            with pytest.raises(BrokenPipeError):
                call()
