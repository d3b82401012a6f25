"""Finds out whether a process of HBase is ready, and why it failed to start."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Mapping
from contextlib import closing
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path

from hbmodel.localhbase.directory import log_file, output_file
from hbmodel.localhbase.ports import ADDRESS

SERVER_READY = "Master has completed initialization"
"""The message that the server logs when it is ready for requests."""

_CALLS = {"thrift1": b"getTableNames", "thrift2": b"listNamespaceDescriptors"}
"""For each gateway, a call without arguments that the gateway can answer only if the server runs."""

_PORT_TAKEN = re.compile(r"BindException|Address already in use|Could not start ZK at requested port")
_TROUBLE = re.compile(r"\b(ERROR|FATAL)\b|^Caused by: |^Exception in thread|^Error|^java\.\S+(Exception|Error)\b")
_TAIL = 256 * 1024  # bytes of a log that are searched for trouble
_LONGEST = 300  # characters of a quoted line


def server_is_ready(directory: Path) -> bool:
    """Returns whether the server is ready for requests. Its log must not contain messages of an earlier run."""
    try:
        return SERVER_READY in log_file(directory, "server").read_text("utf-8", "replace")
    except OSError:
        return False


def gateway_answers(role: str, port: int, properties: Mapping[str, str], *, timeout: float) -> bool:
    """Returns whether a gateway answers a call that needs the server.

    The call uses the binary protocol, over HTTP or HTTPS if the properties say so. (A gateway supports TLS only over
    HTTP.) If a gateway uses the compact protocol or the framed transport, only the connection is tested.

    Args:
        role: `thrift1` or `thrift2`.
        port: the port of the gateway on the loopback address.
        properties: the site properties of the gateway.
        timeout: seconds to wait for the answer.
    """

    def on(name: str) -> bool:
        return properties.get(name, "").strip().lower() == "true"

    # In Thrift's strict binary protocol, a message has a version and type, a name, a sequence number, and then a
    # struct, here without fields.
    head = len(_CALLS[role]).to_bytes(4, "big") + _CALLS[role] + bytes(4)
    call = b"\x80\x01\x00\x01" + head + b"\x00"
    reply = b"\x80\x01\x00\x02" + head
    try:
        if on("hbase.regionserver.thrift.framed") or on("hbase.regionserver.thrift.compact"):
            socket.create_connection((ADDRESS, port), timeout).close()
            return True
        length = len(reply) + 3
        if on("hbase.regionserver.thrift.http"):
            answer = _posted(port, call, length, secure=on("hbase.thrift.ssl.enabled"), timeout=timeout)
        else:
            answer = _sent(port, call, length, timeout=timeout)
    except (OSError, HTTPException):
        return False
    # The answer is a struct, too: field 0 is the result, and any other field is an exception.
    return answer.startswith(reply) and answer[-2:] == b"\x00\x00"


def _sent(port: int, call: bytes, length: int, *, timeout: float) -> bytes:
    """Returns the first bytes of the answer to a call over a plain connection."""
    with socket.create_connection((ADDRESS, port), timeout) as connection:
        connection.sendall(call)
        with connection.makefile("rb") as stream:
            return stream.read(length)


def _posted(port: int, call: bytes, length: int, *, secure: bool, timeout: float) -> bytes:
    """Returns the first bytes of the answer to a call over HTTP or HTTPS."""
    # This only tests whether the gateway runs. The clients that connect to it decide which certificates they trust.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    connection = (
        HTTPSConnection(ADDRESS, port, timeout=timeout, context=context)
        if secure
        else HTTPConnection(ADDRESS, port, timeout=timeout)
    )
    with closing(connection):
        connection.request("POST", "/", body=call, headers={"Content-Type": "application/x-thrift"})
        with connection.getresponse() as response:
            return response.read(length)


def last_trouble(directory: Path, role: str) -> str | None:
    """Returns the last line of a process's log, or of its output, that reports an error, or None."""
    for path in (log_file(directory, role), output_file(directory, role)):
        lines = _tail(path).splitlines()
        troubled = [number for number, line in enumerate(lines) if _TROUBLE.search(line)]
        if troubled:
            # A JVM that cannot start gives the reason on the next line.
            count = 2 if lines[troubled[-1]].startswith("Error occurred during initialization") else 1
            text = " ".join(" ".join(lines[troubled[-1] : troubled[-1] + count]).split())
            return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
    return None


def port_was_taken(directory: Path, role: str) -> bool:
    """Returns whether a process failed because another process listens on its port."""
    return bool(_PORT_TAKEN.search(_tail(log_file(directory, role)) + _tail(output_file(directory, role))))


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""
