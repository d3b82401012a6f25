"""A socket for a connection to a gateway, which can send several requests in one packet."""

from __future__ import annotations

import socket

PACKET = 8 * 1024
"""The maximum number of bytes that are held back. Because of the limit, the gateway can begin with the first requests
while the client is still encoding others.
"""


class JoinedSocket:
    """A socket for a Thrift transport that sends each request at once, except between `join` and `part`.

    Each packet costs a system call in the client and wakes up a thread of the gateway. For many small requests, this
    would be too expensive.
    """

    def __init__(self, opened: socket.socket) -> None:
        self.sock: socket.socket | None = opened
        self.joining = False
        self._held: list[bytes] = []
        self._size = 0

    def join(self) -> None:
        """Begins to hold back bytes until there are enough of them for a packet."""
        self.joining = True

    def part(self) -> None:
        """Sends the bytes that are held back. After that, all bytes are sent immediately."""
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
        """Does nothing, because `write` leaves no bytes that must be sent at once."""

    def read(self, size: int) -> bytes:
        """Returns some bytes of the replies. Raises EOFError if the other side has closed the connection."""
        if self.sock is None:
            raise BrokenPipeError
        data = self.sock.recv(size)
        if not data:
            raise EOFError
        return data

    def _send_held(self) -> None:
        pieces, self._held, self._size = self._held, [], 0
        if self.sock is None:
            raise BrokenPipeError
        self.sock.sendall(b"".join(pieces))
