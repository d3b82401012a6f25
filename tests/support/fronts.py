"""Small servers in front of a gateway, or instead of one: a TLS endpoint, and an HTTP server with fixed answers."""

from __future__ import annotations

import select
import socket
import ssl
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

from tests.support.certificates import Authority, Signed


class Front(ABC):
    """Listens on a free port of this machine and serves each connection in a thread."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.connections = 0
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(client)
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            self.serve(client)

    @abstractmethod
    def serve(self, client: socket.socket) -> None:
        """Answers on one connection."""

    def cut(self) -> None:
        """Breaks all connections."""
        for client in self._open:
            with suppress(OSError):
                socket.socket.shutdown(client, socket.SHUT_RDWR)  # this works for TLS too, without a close message

    def close(self) -> None:
        self.cut()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class TlsFront(Front):
    """A TLS endpoint that forwards the decrypted bytes to a gateway.

    Args:
        holder: the holder of the certificate that is sent.
        target: the port of the gateway; with None, nothing is sent after the handshake.
        clients: the authority of the required client certificates, or None.
        version: the only accepted version of TLS, or None for any.
    """

    def __init__(
        self,
        holder: Signed,
        target: int | None = None,
        clients: Authority | None = None,
        version: ssl.TLSVersion | None = None,
    ) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(holder.cert_file, holder.key_file)
        if clients is not None:
            self._context.verify_mode = ssl.CERT_REQUIRED
            self._context.load_verify_locations(clients.file)
        if version is not None:
            self._context.minimum_version = self._context.maximum_version = version
        self._target = target
        self.handshakes = 0
        super().__init__()

    def serve(self, client: socket.socket) -> None:
        with self._context.wrap_socket(client, server_side=True) as secured:
            self.handshakes += 1
            self._open.append(secured)
            if self._target is None:
                secured.recv(1)
                return
            with socket.create_connection(("127.0.0.1", self._target)) as gateway:
                while True:
                    ready = [secured] if secured.pending() else select.select([secured, gateway], [], [])[0]
                    for side in ready:
                        data = side.recv(65536)
                        if not data:
                            return
                        (gateway if side is secured else secured).sendall(data)


class HttpFront(Front):
    """An HTTP server with given answers, which uses TLS if it has a certificate.

    Args:
        answer: makes the bytes of the answer from the head of a request and the beginning of its body.
        holder: the holder of the certificate, if TLS is used.
    """

    def __init__(self, answer: Callable[[str], bytes], holder: Signed | None = None) -> None:
        self._answer = answer
        self._context: ssl.SSLContext | None = None
        if holder is not None:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.load_cert_chain(holder.cert_file, holder.key_file)
        self.heads: list[str] = []
        super().__init__()

    def serve(self, client: socket.socket) -> None:
        opened = client if self._context is None else self._context.wrap_socket(client, server_side=True)
        with opened, opened.makefile("rb") as requests:
            while True:
                lines = []
                while (line := requests.readline()) not in (b"\r\n", b""):
                    lines.append(line.decode())
                if not lines:
                    return
                [length] = [int(line.partition(":")[2]) for line in lines if line.lower().startswith("content-length:")]
                head = "".join(lines) + requests.read(length)[:60].decode("latin-1")
                self.heads.append(head)
                answer = self._answer(head)
                opened.sendall(answer)
                if not answer or b"Connection: close" in answer:
                    return
