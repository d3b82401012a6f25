"""The socket of a connection to a gateway, which can send several requests in one packet."""

from __future__ import annotations

import socket

PACKET = 8 * 1024
"""Bytes that are held back at most: the gateway is to begin with the first requests while others are still being made."""


class JoinedSocket:
    """What a Thrift transport takes for a socket. Each request goes out at once, but for those between `join` and `part`.

    A packet for each of many small requests costs the client a system call, and the gateway a waking of its thread.

    Args:
        opened: the connection.
    """

    def __init__(self, opened: socket.socket) -> None:
        self.sock: socket.socket | None = opened
        self.joining = False
        self._held: list[bytes] = []
        self._size = 0

    def join(self) -> None:
        """From now on bytes are held back until there are enough of them."""
        self.joining = True

    def part(self) -> None:
        """Sends what is held back, and from now on everything at once."""
        self.joining = False
        if self._held:
            self._send_held()

    def write(self, data: bytes) -> None:
        """Sends bytes or holds them back."""
        if self.sock is None:
            raise BrokenPipeError
        if not self.joining:
            self.sock.sendall(data)
            return
        self._held.append(data)
        self._size += len(data)
        if self._size >= PACKET:
            self._send_held()

    def flush(self) -> None:
        """Nothing is left here by `write` that should go out at once."""

    def read(self, size: int) -> bytes:
        """Some bytes of the replies; raises EOFError where the other side has closed the connection."""
        if self.sock is None:
            raise BrokenPipeError
        data = self.sock.recv(size)
        if not data:
            raise EOFError
        return data

    def _send_held(self) -> None:
        held, self._held, self._size = self._held, [], 0
        if self.sock is None:
            raise BrokenPipeError
        self.sock.sendall(b"".join(held))
