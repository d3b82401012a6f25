"""Thrift over HTTP: each message is the body of a POST, and its reply is the body of the response."""

from __future__ import annotations

import io
import socket
from base64 import b64encode
from contextlib import closing
from http.client import HTTPResponse, IncompleteRead
from typing import Any, cast

from attrs import field, frozen

from hbmodel.errors import InvalidRequest, StoreError, StoreUnavailable, UnknownOutcome
from hbmodel.store.gateway.wire.gateways import Gateway

MAX_IDLE = 20.0
"""The number of seconds after which an unused connection is not used again. Jetty, which HBase uses as its HTTP server,
closes connections after 30 seconds.
"""

CONTENT_TYPE = "application/x-thrift"

_NOT_CARRIED_OUT = {408, 425, 429}
"""Status codes which mean that the request was not processed and may be sent again."""


@frozen
class Http:
    """The parts of an HTTP request that are the same for all messages.

    Attributes:
        path: the path of the gateway on its host.
    """

    path: str = "/"
    user: str | None = None
    password: str | None = field(default=None, repr=False)

    def __attrs_post_init__(self) -> None:
        if not self.path.startswith("/") or not self.path.isascii() or not self.path.isprintable() or " " in self.path:
            raise InvalidRequest(
                "A path must begin with / and contain printable ASCII characters only: escape others.", option="path"
            )
        if (self.user is None) != (self.password is None):
            raise InvalidRequest("Give both a user and a password, or neither.", option="user")
        if self.user is not None and ":" in self.user:
            raise InvalidRequest("A user name of basic authentication must not contain a colon.", option="user")

    def head(self, gateway: Gateway) -> bytes:
        """Returns the head of each request, up to the value of Content-Length."""
        host = str(gateway) if str(gateway).isascii() else f"{gateway.host.encode('idna').decode()}:{gateway.port}"
        lines = [f"POST {self.path} HTTP/1.1", f"Host: {host}", "User-Agent: hbmodel", f"Accept: {CONTENT_TYPE}"]
        if self.user is not None:
            lines.append(f"Authorization: Basic {b64encode(f'{self.user}:{self.password}'.encode()).decode()}")
        return "\r\n".join([*lines, f"Content-Type: {CONTENT_TYPE}", "Content-Length: "]).encode()


class HttpSocket:
    """A socket for a Thrift transport over HTTP. Several requests may be in progress at once (HTTP/1.1 pipelining)."""

    def __init__(self, opened: socket.socket, gateway: Gateway, http: Http) -> None:
        self.sock: socket.socket | None = opened
        self._gateway = str(gateway)
        self._head = http.head(gateway)
        self._message: list[bytes] = []
        self._answers = _Answers(socket.SocketIO(opened, "r"), 64 * 1024)
        self._body = b""
        self._position = 0

    def write(self, data: bytes) -> None:
        """Adds data to the message that `flush` sends."""
        self._message.append(data)

    def flush(self) -> None:
        """Sends the message."""
        body, self._message = b"".join(self._message), []
        if self.sock is None:
            raise BrokenPipeError
        self.sock.sendall(b"%b%d\r\n\r\n%b" % (self._head, len(body), body))

    def read(self, size: int) -> bytes:
        """Returns some bytes of the current reply, or of the next reply if the current reply was read to its end.

        Raises:
            StoreUnavailable: the server did not process the request.
            UnknownOutcome: the server failed, perhaps after the request was carried out.
            StoreError: the server refused the request, or is not a gateway.
        """
        if self._position == len(self._body):
            self._body, self._position = self._next_body(), 0
        data = self._body[self._position : self._position + size]
        self._position += len(data)
        return data

    def _next_body(self) -> bytes:
        # A response that was not read to its end is closed explicitly, because the garbage collector might otherwise
        # close it after the connection.
        with closing(HTTPResponse(cast(Any, self._answers), method="POST")) as response:
            return self._body_of(response)

    def _body_of(self, response: HTTPResponse) -> bytes:
        response.begin()
        if response.status != 200:
            raise self._refusal(response.status)
        content_type = response.getheader("Content-Type", "").partition(";")[0].strip().lower()
        if content_type != CONTENT_TYPE:
            raise StoreError(
                "The answer comes from an HTTP server that is not a Thrift gateway; check host, port and path.",
                gateway=self._gateway,
                content_type=content_type[:100],
            )
        try:
            body = response.read()
        except IncompleteRead as error:
            raise EOFError from error
        if not body:
            raise EOFError
        return body

    def _refusal(self, status: int) -> StoreError:
        details = {"gateway": self._gateway, "status": status}
        if status in {401, 403}:
            return StoreError("The HBase gateway's HTTP server refuses this user; check user and password.", **details)
        if status in _NOT_CARRIED_OUT:
            return StoreUnavailable(
                "The HBase gateway's HTTP server rejected the request.", **details, reason=f"HTTP {status}"
            )
        if status >= 500:
            # A proxy, and the gateway itself, may answer with such a status after the request was carried out.
            return UnknownOutcome("The HBase gateway's HTTP server failed.", **details, reason=f"HTTP {status}")
        return StoreError("The HBase gateway's HTTP server refuses the request; check host, port and path.", **details)


class _Answers(io.BufferedReader):
    """The responses on one connection, one after another. HTTPResponse uses this object as the socket and as the
    socket's file.
    """

    def makefile(self, mode: str) -> _Answers:
        return self

    def close(self) -> None:
        """Does nothing. A response closes its file after it has been read, but this file still contains the responses
        that follow.
        """
