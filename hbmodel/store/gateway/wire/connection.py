"""A connection to a Thrift gateway, with separate calls to send requests and to read replies, so that several can be in
progress.
"""

from __future__ import annotations

import os
import select
import socket
import ssl
import struct
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Literal

from attrs import field, frozen
from thriftpy2.protocol import TBinaryProtocol, TCompactProtocol
from thriftpy2.thrift import TType
from thriftpy2.transport import TBufferedTransport, TFramedTransport, TTransportException

from hbmodel.errors import HbmodelError, InvalidRequest, StoreUnavailable, UnknownOutcome
from hbmodel.store.gateway.wire.gateways import Gateway
from hbmodel.store.gateway.wire.http import Http, HttpSocket
from hbmodel.store.gateway.wire.joined_socket import JoinedSocket
from hbmodel.store.gateway.wire.thrift_client import ThriftClient
from hbmodel.store.gateway.wire.tls import Tls, refused_certificate, secured
from hbmodel.store.jitter import jitter

Transport = Literal["buffered", "framed", "http"]
Protocol = Literal["binary", "compact"]

TRANSPORTS: dict[str, Callable[..., Any]] = {
    "buffered": TBufferedTransport,
    "framed": TFramedTransport,
    "http": TBufferedTransport,
}
PROTOCOLS: dict[str, Callable[..., Any]] = {"binary": TBinaryProtocol, "compact": TCompactProtocol}

# By default, thriftpy2 reads 4 KiB at a time from the socket, but a batch of rows is hundreds of KiB long.
BUFFER_SIZE = 64 * 1024


_FRAME = struct.Struct(">I")

_LOST = "The connection to the HBase gateway was lost."
_LATE = "The HBase gateway did not answer in time."
_NEVER = "The HBase gateway did not answer in time; if it never does, check the options transport, protocol and tls."
_NO_ANSWER = (
    "The HBase gateway closed the connection without an answer; if it always does, check the options transport, "
    "protocol and tls."
)


@frozen
class Wire:
    """The options of connections to gateways.

    Attributes:
        timeout: the maximum number of seconds that a request waits without receiving data from the gateway.
        connect_timeout: the maximum number of seconds for opening a connection.
        transport: `"buffered"` for a gateway started with `-threadpool` (the default there), `"http"` for a gateway
            that is an HTTP server, otherwise `"framed"`.
        protocol: `"binary"`, or `"compact"` for a gateway started with `-compact`.
        tls: the TLS options, or None for connections that are not encrypted.
        http: the options of HTTP, if that is the transport.
        max_age: the number of seconds for which a connection is used; it is shortened by up to a fifth at random. So
            connections that were opened at the same time, when only one gateway was up, are not all replaced at the
            same time.
    """

    timeout: float = 30.0
    connect_timeout: float = 5.0
    transport: Transport = "buffered"
    protocol: Protocol = "binary"
    tls: Tls | None = None
    http: Http = field(factory=Http)
    max_age: float = 600.0

    def __attrs_post_init__(self) -> None:
        if self.timeout <= 0 or self.connect_timeout <= 0 or self.max_age <= 0:
            raise InvalidRequest("Timeouts and ages must be positive.")
        if self.transport not in TRANSPORTS or self.protocol not in PROTOCOLS:
            raise InvalidRequest(
                "There is no such transport or protocol: see the options of store URLs.",
                transport=self.transport,
                protocol=self.protocol,
            )
        if self.transport == "http":
            if self.protocol != "binary":
                raise InvalidRequest(
                    "Over HTTP, HBase's gateways use only the binary protocol: leave out protocol=.", option="protocol"
                )
        elif self.http != Http():
            raise InvalidRequest("A path, a user and a password need transport=http.", option="transport")
        if self.http.user is not None and self.tls is None:
            raise InvalidRequest("A user and a password are sent over TLS only: they need tls=true.", option="tls")

    @property
    def takes_encoded(self) -> bool:
        """Whether connections can send requests that are already encoded."""
        return self.protocol == "binary" and self.transport != "http"


class ThriftConnection:
    """An open connection to one gateway.

    Replies come in the order of the requests, so a caller may `send` several times and then `receive` as often. Replies
    that are no longer wanted may stay outstanding: `settle` skips them without decoding them.

    happybase's connection class is not used for two reasons. It has no separate time limit for connecting. And its
    destructor shuts the socket down; in a forked child this would break the parent's connection.

    Args:
        gateway: the gateway to which the connection is opened; it is notified when the connection breaks.
        wire: the options of the connection.
        service: the Thrift service, as thriftpy2 generated it.
        failures: exceptions that the gateway returns. `receive` raises them, and the connection can still be used.

    Raises:
        StoreUnavailable: the connection cannot be opened.
    """

    def __init__(self, gateway: Gateway, wire: Wire, service: Any, failures: tuple[type[Exception], ...]) -> None:
        self.gateway = gateway
        self.pid = os.getpid()
        self._failures = failures
        self._outstanding: deque[tuple[str, bool]] = deque()  # each call, and whether its reply is wanted
        self._later: list[tuple[str, dict[str, Any]]] = []
        self._watched: socket.socket | None = None
        self._poll = select.poll()
        self._in_step = True
        try:
            opened = _opened(gateway, wire)
        except HbmodelError:  # raised by the TLS handshake; note that StoreUnavailable is also an OSError
            raise
        except (OSError, UnicodeError, OverflowError) as error:
            raise StoreUnavailable(
                "Cannot connect to the HBase gateway.",
                gateway=str(gateway),
                reason=getattr(error, "strerror", None) or str(error),
            ) from error
        self._socket: Any = HttpSocket(opened, gateway, wire.http) if wire.transport == "http" else JoinedSocket(opened)
        self._protocol: Any = PROTOCOLS[wire.protocol](
            TRANSPORTS[wire.transport](self._socket, BUFFER_SIZE), decode_response=False
        )
        self._client = ThriftClient(service, self._protocol)
        self._joins = wire.transport != "http"
        self._framed = wire.transport == "framed"
        self.opened_at = self.used_at = time.monotonic()
        self.expires_at = self.opened_at + wire.max_age * jitter.uniform(0.8, 1.0)

    def call(self, api: str, **arguments: Any) -> Any:
        """Sends one request, and waits for its reply. Raises the errors of `send` and `receive`."""
        self.send(api, **arguments)
        return self.receive()

    def send(self, api: str, **arguments: Any) -> None:
        """Sends one request without waiting.

        A gateway reads a whole request before it does anything, so a request that was not sent completely was not
        carried out. The same is true with TLS, because a record cannot be read before its last byte has arrived, and
        with HTTP, because a request is not complete before the end of its body.

        Raises:
            StoreUnavailable: the connection is broken; this request was certainly not carried out.
            InvalidRequest: an argument does not fit the Thrift type of its field.
        """
        if not self._in_step:
            raise StoreUnavailable("The connection to the HBase gateway is broken.", **self._address)
        self._in_step = False
        try:
            self._client.send(api, arguments)
        except (OSError, EOFError) as error:
            raise self._unsent(error) from error
        except Exception:
            # The message of thriftpy2 contains the argument, and row values must not occur in errors.
            raise InvalidRequest(
                "The request contains a value that does not fit its Thrift type.", request=api
            ) from None
        self._outstanding.append((api, True))
        self._in_step = True
        if self._later:
            self._send_later()

    def send_encoded(self, api: str, messages: Sequence[bytes], *, wanted: bool = True) -> None:
        """Sends requests that are already encoded in the binary protocol, in one packet. This is not possible over
        HTTP.

        Args:
            api: the name of the call that all of them make.
            messages: the requests.
            wanted: whether the replies will be read by `receive`.

        Raises:
            StoreUnavailable: the connection is broken; some of the requests may have been carried out.
        """
        if not self._in_step:
            raise StoreUnavailable("The connection to the HBase gateway is broken.", **self._address)
        self._in_step = False
        parts = (
            [part for message in messages for part in (_FRAME.pack(len(message)), message)]
            if self._framed
            else messages
        )
        try:
            self._socket.write(b"".join(parts))
        except (OSError, EOFError) as error:
            raise self._unsent(error) from error
        self._outstanding.extend([(api, wanted)] * len(messages))
        self._in_step = True
        if self._later:
            self._send_later()

    @contextmanager
    def joined(self) -> Iterator[None]:
        """Holds back the requests in its block, to send several of them in one packet. They are sent at the latest when
        the block ends, or when a reply is read inside it.

        Raises:
            StoreUnavailable: the connection is broken.
        """
        if self._joins:
            self._socket.join()
        try:
            yield
        finally:
            if self._joins:
                self._send_joined()

    def _send_joined(self) -> None:
        try:
            self._socket.part()
        except OSError as error:
            raise self._unsent(error) from error

    def _unsent(self, error: Exception) -> HbmodelError:
        """Returns the error for a request that could not be sent."""
        self._in_step = False
        self._broke()
        if (refusal := refused_certificate(_last_word(self._socket.sock, error), str(self.gateway))) is not None:
            return refusal
        return StoreUnavailable(
            "The connection to the HBase gateway broke before the request was sent.", **self._address
        )

    def later(self, api: str, **arguments: Any) -> None:
        """Sends a request whose reply is not wanted, but not until right after the next request, or before the
        connection is closed.

        Scanners that were read to the end are closed in this way. If such a request were sent at once, the next request
        would have to wait until the gateway has answered it.
        """
        self._later.append((api, arguments))

    def _send_later(self) -> None:
        """Sends the postponed requests. No error is raised here: if the connection is broken, the next `receive` raises
        it.
        """
        later, self._later = self._later, []
        with suppress(OSError, EOFError):
            for api, arguments in later:
                self._client.send(api, arguments)
                self._outstanding.append((api, False))

    def receive(self) -> Any:
        """Returns the reply to the oldest outstanding request whose reply is wanted.

        Raises:
            UnknownOutcome: the connection was lost or timed out; the gateway may or may not have carried out the
                request.
            StoreUnavailable: an HTTP server did not process the request, or the gateway does not accept the client's
                certificate.
            StoreError: an HTTP server refused the request.
            Exception: one of the gateway's `failures`.
        """
        if self._outstanding and not self._outstanding[0][1]:
            self._pass_unwanted()
        return self._read(self._client.receive)

    def skip(self) -> None:
        """Skips the reply that `receive` would return, with any content. Raises UnknownOutcome as `receive` does."""
        self._pass_unwanted()
        self._read(self._read_past)

    def settle(self) -> None:
        """Skips all outstanding replies. Raises UnknownOutcome as `receive` does."""
        while self._outstanding:
            self._read(self._read_past)

    def _pass_unwanted(self) -> None:
        while self._outstanding and not self._outstanding[0][1]:
            self._read(self._read_past)

    def _read(self, read: Callable[[str], Any]) -> Any:
        if self._joins and self._socket.joining:
            self._send_joined()
        if not self._in_step:
            raise UnknownOutcome(_LOST, **self._address)
        self._in_step = False
        try:
            answer = read(self._outstanding.popleft()[0])
        except self._failures:
            self._in_step = self.gateway.answered = True
            raise
        except TimeoutError as error:
            self._broke()
            raise UnknownOutcome(
                _LATE if self._answered else _NEVER, **self._address, timed_out=True, answered=self._answered
            ) from error
        except HbmodelError:  # an HTTP server refused the request or failed
            self._broke()
            raise
        except (OSError, EOFError, TTransportException) as error:
            self._broke()
            if (refusal := refused_certificate(error, str(self.gateway))) is not None:
                self._outstanding.clear()  # the gateway read none of these requests
                raise refusal from error
            raise UnknownOutcome(_LOST if self._answered else _NO_ANSWER, **self._address) from error
        except Exception as error:
            self._broke()
            raise UnknownOutcome(
                "The answer of the HBase gateway cannot be read; check the options transport, protocol and tls.",
                **self._address,
            ) from error
        self._in_step = self.gateway.answered = True
        self.used_at = time.monotonic()
        return answer

    def _read_past(self, api: str) -> None:
        self._protocol.read_message_begin()
        self._protocol.skip(TType.STRUCT)
        self._protocol.read_message_end()

    @property
    def _answered(self) -> bool:
        """Whether any reply has been read on this connection."""
        return self.used_at > self.opened_at

    def _broke(self) -> None:
        self.gateway.failed(answered=self._answered)

    @property
    def _address(self) -> dict[str, Any]:
        return {"gateway": str(self.gateway)}

    @property
    def outstanding(self) -> int:
        """The number of requests that were sent and whose reply is wanted and has not been read."""
        return sum(1 for _, wanted in self._outstanding if wanted)

    def limit(self, timeout: float) -> None:
        """Sets the timeout in seconds, see `Wire.timeout`, for this connection only."""
        if self._socket.sock is not None:
            self._socket.sock.settimeout(timeout)

    def ready(self) -> bool:
        """Returns whether the connection can send a new request: no reply is outstanding, nothing unexpected was
        received, and the other side has not closed it.

        A connection is also not ready if, since its last reply, another connection to the same gateway has broken.
        Otherwise, each connection to a gateway that has disappeared silently would cost a timeout.
        """
        if not self._in_step or self._socket.sock is None or self.gateway.failed_at > self.used_at:
            return False
        try:
            if self._outstanding:
                self.settle()
            return self._is_quiet()
        except (HbmodelError, OSError, ValueError):
            return False

    def _is_quiet(self) -> bool:
        """Returns whether there is nothing to read. While no request is outstanding, the only possible event is that
        the other side closes the connection.
        """
        opened = self._socket.sock
        if isinstance(opened, ssl.SSLSocket):
            return _is_quiet_inside(opened)
        if self._watched is not opened:
            self._watched, self._poll = opened, select.poll()
            self._poll.register(opened, select.POLLIN)
        return not self._poll.poll(0)

    def close(self) -> None:
        """Closes the connection. In a forked child, only the child's copy is closed, and the parent's connection stays
        open.
        """
        if self._later and self._in_step and self.pid == os.getpid() and self._socket.sock is not None:
            self._send_later()
        self._in_step = False
        self._outstanding.clear()
        self._watched = None
        opened, self._socket.sock = self._socket.sock, None
        if opened is None:
            return
        if self.pid == os.getpid():
            with suppress(OSError):  # the other side has closed it already
                opened.shutdown(socket.SHUT_RDWR)
        opened.close()


def _opened(gateway: Gateway, wire: Wire) -> socket.socket:
    """Returns a connection to any of the addresses that a host name resolves to."""
    opened = socket.create_connection((gateway.host, gateway.port), wire.connect_timeout)
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if wire.tls is not None:
        opened = secured(opened, wire.tls.context(), gateway.host, str(gateway))
    opened.settimeout(wire.timeout)
    return opened


def _last_word(opened: socket.socket | None, error: Exception) -> Exception:
    """Returns the reason why the other side closed a connection on which sending failed. If the other side has sent an
    alert over TLS before, this is the alert; in all other cases, it is the given error.
    """
    if isinstance(opened, ssl.SSLSocket):
        try:
            opened.settimeout(0)
            opened.recv(1)
        except (OSError, ValueError) as word:
            return word
    return error


def _is_quiet_inside(opened: ssl.SSLSocket) -> bool:
    """Returns whether TLS has no data to read. Messages of TLS itself, such as session tickets, are read by this check
    and do not count as data.
    """
    timeout = opened.gettimeout()
    opened.settimeout(0)
    try:
        opened.recv(1)
    except ssl.SSLWantReadError:
        return True
    finally:
        opened.settimeout(timeout)
    return False
