"""Sends requests and reads replies of a Thrift service on one connection, in half the time of thriftpy2's `TClient`."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from thriftpy2.thrift import TApplicationException, TMessageType


def arguments_of(service: Any, api: str, arguments: dict[str, Any]) -> Any:
    """Returns the arguments of a call in an object that thriftpy2's protocols can write."""
    return SimpleNamespace(thrift_spec=getattr(service, api + "_args").thrift_spec, **arguments)


class ThriftClient:
    """Sends requests and reads replies, which come in the order of the requests.

    For each request and each reply, thriftpy2 makes an object of a generated class, and sets its fields one by one, in
    Python. Its protocols need only `thrift_spec` and the fields of an object, so a namespace is enough.

    Args:
        protocol: a protocol of thriftpy2, on an open transport.
    """

    def __init__(self, service: Any, protocol: Any) -> None:
        self._service = service
        self._protocol = protocol

    def send(self, api: str, arguments: dict[str, Any]) -> None:
        """Writes one request, and passes it to the transport."""
        protocol = self._protocol
        protocol.write_message_begin(api, TMessageType.CALL, 0)
        protocol.write_struct(arguments_of(self._service, api, arguments))
        protocol.write_message_end()
        protocol.trans.flush()

    def receive(self, api: str) -> Any:
        """Reads one reply. If it contains an exception, raises it."""
        protocol = self._protocol
        if protocol.read_message_begin()[1] == TMessageType.EXCEPTION:
            failure = TApplicationException()
            failure.read(protocol)
            protocol.read_message_end()
            raise failure
        reply = SimpleNamespace(thrift_spec=getattr(self._service, api + "_result").thrift_spec)
        protocol.read_struct(reply)
        protocol.read_message_end()
        fields = vars(reply)
        spec = fields.pop("thrift_spec")
        for name, value in fields.items():
            if name == "success":
                return value
            raise value
        if 0 in spec:
            raise TApplicationException(TApplicationException.MISSING_RESULT)
        return None
