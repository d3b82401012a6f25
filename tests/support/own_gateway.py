"""A Thrift gateway in this process whose calls are answered by Python functions, so that a test determines HBase's
answers.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import SimpleNamespace
from typing import Any

from thriftpy2.protocol import TBinaryProtocol
from thriftpy2.thrift import TApplicationException, TProcessor
from thriftpy2.transport import TBufferedTransport, TSocket, TTransportException


@contextmanager
def own_gateway(service: Any, **answers: Callable[..., Any]) -> Iterator[int]:
    """Runs a gateway on this machine, and yields its port.

    Args:
        service: the Thrift service, as thriftpy2 generated it.
        **answers: for each expected call, a function of its arguments in order. Exceptions are answered as by HBase's
            gateways: an exception that the call declares is passed on, and any other becomes an "internal error".
    """
    workers: list[threading.Thread] = []

    def accept() -> None:
        with suppress(OSError):
            while True:
                workers.append(
                    threading.Thread(target=_serve, args=(listener.accept()[0], service, answers), daemon=True)
                )
                workers[-1].start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        acceptor = threading.Thread(target=accept, daemon=True)
        acceptor.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            acceptor.join(10)
    for worker in workers:  # the client has closed its connections by now
        worker.join(10)


def _serve(connection: socket.socket, service: Any, answers: dict[str, Callable[..., Any]]) -> None:
    protocol = TBinaryProtocol(TBufferedTransport(TSocket(sock=connection)), decode_response=False)
    processor = _Processor(service, SimpleNamespace(**answers))
    with connection, suppress(TTransportException, OSError):
        while True:
            processor.process(protocol, protocol)


class _Processor(TProcessor):
    """A processor that answers with an internal error if a call raises an exception that it does not declare, and keeps
    the connection.
    """

    def process(self, iprot: Any, oprot: Any) -> None:
        api, number, result, call = self.process_in(iprot)
        if call is None:
            self.send_exception(oprot, api, result, number)
            return
        try:
            result.success = call()
        except Exception as error:
            if not self.handle_exception(error, result):
                said = TApplicationException(TApplicationException.INTERNAL_ERROR, f"Internal error processing {api}")
                self.send_exception(oprot, api, said, number)
                return
        self.send_result(oprot, api, result, number)
