"""A TCP proxy in front of a Thrift gateway that counts the calls and breaks connections at a chosen point."""

from __future__ import annotations

import random
import re
import select
import socket
import struct
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from tests.support.waiting import comes_true

_MESSAGE = re.compile(rb"\x80\x01\x00\x01\x00\x00\x00(.)([A-Za-z0-9]+)", re.DOTALL)
_ROWS = re.compile(rb"(?:scannerGetList|getScannerRows).{4}\x08\x00\x01.{4}\x08\x00\x02(.{4})\x00", re.DOTALL)


class Proxy:
    """Listens on a free port of this machine and forwards to a gateway with binary protocol and buffered transport."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._scheme = parts.scheme
        self._target = (parts.hostname, parts.port)
        self._lock = threading.Lock()
        self._links: list[Link] = []
        self._every_link: list[Link] = []
        self._listener: socket.socket | None = None
        self.connections = 0
        self.reply_bytes = 0
        self._cut_after: int | None = None
        self._reactions: dict[bytes, list[str]] = {}
        self.port = 0
        self.listen()

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self.port}"

    def listen(self) -> None:
        """Accepts connections, on the same port as before."""
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def refuse(self) -> None:
        """Stops accepting connections. Existing connections continue."""
        if self._listener is not None:
            with suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._listener = None

    def cut_all(self) -> None:
        """Breaks all connections now."""
        with self._lock:
            links, self._links = self._links, []
        for link in links:
            link.close()

    def cut_one(self) -> None:
        """Breaks any one of the connections now."""
        with self._lock:
            self._links = [link for link in self._links if link.open]
            if not self._links:
                return
            link = self._links.pop(random.randrange(len(self._links)))
        link.close()

    def open_links(self) -> int:
        """Returns the number of open connections."""
        with self._lock:
            return sum(link.open for link in self._links)

    def falls_to(self, count: int) -> bool:
        """Waits until there are at most this many connections, for a limited time. Returns whether there are."""
        return comes_true(lambda: self.open_links() <= count)

    def cut_after_reply_bytes(self, count: int) -> None:
        """Breaks a connection once, after this many more bytes of replies have been forwarded."""
        self._cut_after = count

    @property
    def has_cut(self) -> bool:
        """Whether the cut that `cut_after_reply_bytes` requested was made."""
        return self._cut_after is None

    def on_call(self, method: str, *reactions: str) -> None:
        """Sets the reactions to the next calls of a method, one after the other.

        `"lose"` breaks the connection before the call reaches the gateway; `"cut"` lets the gateway carry it out and
        breaks the connection when the reply comes; `"mute"` forwards the call and holds back all replies of the
        gateway; `"last"` delivers the reply, breaks the connection and accepts no other; `"pass"` does nothing.
        """
        self._reactions[b"\x80\x01\x00\x01" + struct.pack(">i", len(method)) + method.encode()] = list(reactions)

    def calls(self) -> list[str]:
        """Returns the called methods, connection by connection, each in order."""
        found = []
        for link in self._every_link:
            for length, name in _MESSAGE.findall(bytes(link.requests)):
                found.append(name[: length[0]].decode())
        return found

    def rows_asked_for(self) -> list[int]:
        """Returns the number of rows that each request to a scanner asked for."""
        return [
            struct.unpack(">i", rows)[0] for link in self._every_link for rows in _ROWS.findall(bytes(link.requests))
        ]

    def saw(self, count: int, method: str) -> bool:
        """Waits until a method has been called this often, for a limited time, because some requests are sent without
        waiting. Returns whether it has.
        """
        return comes_true(lambda: self.calls().count(method) >= count)

    def forget(self) -> None:
        """Forgets the calls so far."""
        for link in self._every_link:
            link.requests.clear()

    def close(self) -> None:
        self.refuse()
        self.cut_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            try:
                gateway = socket.create_connection(self._target)
            except OSError:
                client.close()
                continue
            link = self._link(client, gateway)
            with self._lock:
                self.connections += 1
                self._links.append(link)
                self._every_link.append(link)
            threading.Thread(target=link.run, daemon=True).start()

    def _link(self, client: socket.socket, gateway: socket.socket) -> Link:
        return Link(self, client, gateway)

    def _reaction(self, data: bytes) -> str | None:
        """Returns the reaction to a piece of requests."""
        with self._lock:
            for call, reactions in self._reactions.items():
                if reactions and call in data:
                    return reactions.pop(0)
        return None

    def _allowance(self, size: int) -> int | None:
        """Returns how many of the given bytes of replies may pass before the cut, or None if all may pass."""
        with self._lock:
            if self._cut_after is None:
                return None
            if size < self._cut_after:
                self._cut_after -= size
                return None
            allowed, self._cut_after = self._cut_after, None
            return allowed


class Link:
    """One connection through the proxy."""

    def __init__(self, proxy: Proxy, client: socket.socket, gateway: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._gateway = gateway
        self._mute = False
        self._cut_at_reply = False
        self._last = False
        self.open = True
        self.requests = bytearray()
        for side in (client, gateway):
            side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def run(self) -> None:
        with suppress(OSError, ValueError):
            while self.open:
                readable, _, _ = select.select([self._client, self._gateway], [], [])
                for side in readable:
                    data = side.recv(65536)
                    if not data or not (self._request(data) if side is self._client else self._reply(data)):
                        self.close()
                        break
        self.close()
        self._client.close()
        self._gateway.close()

    def _request(self, data: bytes) -> bool:
        self.requests += data
        reaction = self._proxy._reaction(data)
        if reaction == "lose":
            return False
        self._mute = self._mute or reaction == "mute"
        self._cut_at_reply = self._cut_at_reply or reaction == "cut"
        self._last = self._last or reaction == "last"
        self._gateway.sendall(data)
        return True

    def _reply(self, data: bytes) -> bool:
        if self._cut_at_reply:
            return False
        if self._mute:
            return True
        if self._last:
            self._proxy.refuse()
            self._client.sendall(data)
            return False
        self._proxy.reply_bytes += len(data)
        allowed = self._proxy._allowance(len(data))
        self._client.sendall(data if allowed is None else data[:allowed])
        return allowed is None

    def close(self) -> None:
        """Breaks the connection, from any thread. The thread that waits for the sockets closes them."""
        self.open = False
        for side in (self._client, self._gateway):
            with suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)
