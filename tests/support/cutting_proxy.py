"""A TCP proxy in front of a Thrift gateway that breaks the connection at a chosen request or reply."""

from __future__ import annotations

import socket
import struct
from collections import deque
from collections.abc import Iterator
from typing import Literal

from tests.support.proxy import Link, Proxy

Fault = Literal["before", "torn", "after", "truncated", "silent", "reset", "gone"]
"""The faults at a request, in this order: the connection is closed before the request reaches the gateway; after half
of the request; after the whole request, when the reply arrives; after half of the reply. Or no further reply on the
connection is delivered. Or the connection is reset (RST) when the reply arrives. Or the request is lost, all
connections are closed, and none is accepted until `disarm`.
"""

FAULTS: tuple[Fault, ...] = ("before", "torn", "after", "truncated", "silent", "reset")
CARRIED_OUT: frozenset[Fault] = frozenset({"after", "truncated", "silent", "reset"})
"""The faults at which the gateway gets the whole request."""


class CuttingProxy(Proxy):
    """Counts the requests on connections that were opened since `arm`, and causes a fault at one of them.

    Attributes:
        count: the number of these requests.
        fired: whether the fault happened.
    """

    def __init__(self, url: str) -> None:
        self.count = 0
        self._fault: Fault | None = None
        self._at = 0
        self._lasting = False
        self._links_before = 0
        self.fired = False
        super().__init__(url)

    def arm(self, fault: Fault, at: int, *, lasting: bool = False) -> None:
        """Counts from 0, and causes the fault at request `at` and, if `lasting`, at all later requests."""
        with self._lock:
            self.count, self._fault, self._at, self._lasting, self.fired = 0, fault, at, lasting, False
            self._links_before = self.connections

    def disarm(self) -> None:
        """Lets everything pass."""
        with self._lock:
            self._fault = None
            if self._listener is None:
                self.listen()

    def _link(self, client: socket.socket, gateway: socket.socket) -> Link:
        return _CountingLink(self, client, gateway, self.connections)

    def _next(self, link: int) -> Fault | None:
        """Returns the fault of the next request on a connection, which is given by its number."""
        with self._lock:
            if link < self._links_before:
                return None
            number, self.count = self.count, self.count + 1
            if self._fault is None or number < self._at or (number > self._at and not self._lasting):
                return None
            self.fired = True
            if self._fault == "gone":
                self.refuse()
                for each in self._links:
                    each.close()
                self._links.clear()
            return self._fault


class _CountingLink(Link):
    """One connection through the proxy, message by message."""

    def __init__(self, proxy: CuttingProxy, client: socket.socket, gateway: socket.socket, number: int) -> None:
        super().__init__(proxy, client, gateway)
        self._cutting, self._number = proxy, number
        self._asked, self._answered = bytearray(), bytearray()
        self._faults: deque[Fault | None] = deque()
        self._silent = False

    def _request(self, data: bytes) -> bool:
        self._asked += data
        for message in _messages(self._asked):
            fault = self._cutting._next(self._number)
            if fault == "before":
                return False
            if fault == "gone":
                return False
            if fault == "torn":
                self._gateway.sendall(message[: len(message) // 2])
                return False
            self._faults.append(fault)
            self._gateway.sendall(message)
        return True

    def _reply(self, data: bytes) -> bool:
        self._answered += data
        for message in _messages(self._answered):
            fault = self._faults.popleft()
            self._silent = self._silent or fault == "silent"
            if self._silent:
                continue
            if fault is None:
                self._client.sendall(message)
                continue
            if fault == "truncated":
                self._client.sendall(message[: len(message) // 2])
            elif fault == "reset":
                self._client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self._client.close()
            return False
        return True


# --- Thrift's binary protocol -----------------------------------------------------------------------------------------

_FIXED = {2: 1, 3: 1, 4: 8, 6: 2, 8: 4, 10: 8}
_STRING, _STRUCT, _MAP, _SET, _LIST = range(11, 16)


def _messages(buffer: bytearray) -> Iterator[bytes]:
    """Removes complete messages from the front of the received bytes."""
    while True:
        try:
            (length,) = struct.unpack_from(">i", buffer, 4)
            end = _skip(buffer, 4 + 4 + length + 4, _STRUCT)
        except (struct.error, IndexError):
            return
        if end > len(buffer):
            return
        message = bytes(buffer[:end])
        del buffer[:end]
        yield message


def _skip(data: bytearray, at: int, kind: int) -> int:
    """Returns the end of the value that begins at `at`."""
    if kind in _FIXED:
        return at + _FIXED[kind]
    if kind == _STRING:
        (length,) = struct.unpack_from(">i", data, at)
        return at + 4 + int(length)
    if kind == _STRUCT:
        while data[at]:
            at = _skip(data, at + 3, data[at])
        return at + 1
    if kind == _MAP:
        of, to, count = struct.unpack_from(">bbi", data, at)
        at += 6
        for _ in range(count):
            at = _skip(data, _skip(data, at, of), to)
        return at
    assert kind in {_SET, _LIST}
    of, count = struct.unpack_from(">bi", data, at)
    at += 5
    for _ in range(count):
        at = _skip(data, at, of)
    return at
