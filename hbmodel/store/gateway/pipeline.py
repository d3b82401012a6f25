"""Requests to a gateway, several of which are in progress at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from hbmodel.errors import StoreUnavailable, UnknownOutcome
from hbmodel.store.gateway.wire.connection import ThriftConnection


class Exchange:
    """Requests that are carried out in order, and the replies so far. Some requests are sent before the replies to
    earlier ones are read.

    Each call sends requests and reads replies on the given connection. After a connection has broken, the next call
    continues with the first request that was not acknowledged.

    Args:
        requests: the name and the arguments of each request. The iterable is advanced one request at a time, so that
            one request is prepared while the gateway works on another.
        ahead: how many requests may be in progress at once.
    """

    def __init__(self, requests: Iterable[tuple[str, dict[str, Any]]], ahead: int = 3) -> None:
        self._rest = iter(requests)
        self._ahead = ahead
        self._all_sent = False
        self._sent: deque[tuple[str, dict[str, Any]]] = deque()
        self._begun_on: ThriftConnection | None = None
        self.replies: list[Any] = []

    @property
    def repeats(self) -> bool:
        """Whether the next call repeats a request that was sent but not acknowledged."""
        return bool(self._sent) and self._begun_on is None

    def begin(self, connection: ThriftConnection) -> None:
        """Sends the first requests without waiting. The replies are read by the next call with the same connection.

        Raises:
            StoreUnavailable: the connection is broken, and nothing was sent. If something was sent, the next call
                raises the error.
            UnknownOutcome: the connection broke while replies to earlier requests were read, so nothing was sent.
        """
        connection.settle()
        self._begun_on = connection
        try:
            self._send_ahead(connection)
        except StoreUnavailable:
            if not connection.outstanding:
                self._begun_on = None
                raise

    def _send_ahead(self, connection: ThriftConnection) -> None:
        while len(self._sent) < self._ahead and not self._all_sent:
            request = next(self._rest, None)
            if request is None:
                self._all_sent = True
                return
            self._sent.append(request)
            connection.send(request[0], **request[1])

    def __call__(self, connection: ThriftConnection) -> list[Any]:
        """Sends the rest of the requests, and returns all replies. Raises the errors of the connection."""
        begun, self._begun_on = self._begun_on is connection, None
        if not begun:
            connection.settle()
        try:
            for api, arguments in () if begun else self._sent:
                connection.send(api, **arguments)
            while True:
                if not self._all_sent:
                    self._send_ahead(connection)
                if not self._sent:
                    return self.replies
                self.replies.append(connection.receive())
                self._sent.popleft()
        except StoreUnavailable as error:
            # this request was not carried out, but others may have been
            if connection.outstanding or self.replies:
                raise UnknownOutcome(error.message, **error.details) from error
            raise
