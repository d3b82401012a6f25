"""Assigns ids as OpenTSDB does, with the calls of `UniqueId.UniqueIdAllocator` in their order."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from hbmodel.protocol.driver import perform
from hbmodel.protocol.operations import CheckAndPut, GetRows, Increment, Operation
from hbmodel.store import Family, Put, Store

FAMILIES = (Family(b"id"), Family(b"name"))
"""The column families of OpenTSDB's table of ids."""


class Collided(Exception):
    """Raised if the id from the counter already has a name: `WTF! Failed to CAS reverse mapping`. OpenTSDB tries three
    more times.
    """


def assigned(table: str, kind: str, name: str, width: int = 3) -> Generator[Operation, Any, bytes]:
    """Assigns an id to a name, unless it has one, and returns the id."""
    row, forward, reverse = name.encode("latin-1"), f"id:{kind}".encode(), f"name:{kind}".encode()
    (found,) = yield GetRows(table, [row], [forward])
    if found is not None:
        return bytes(found.columns[forward].value)
    number: int = yield Increment(table, b"\x00", forward, 1)
    uid = number.to_bytes(width, "big")
    if not (yield CheckAndPut(table, uid, reverse, b"", Put(uid, {reverse: row}))):
        raise Collided(number)
    if (yield CheckAndPut(table, row, forward, b"", Put(row, {forward: uid}))):
        return uid
    (found,) = yield GetRows(table, [row], [forward])
    assert found is not None
    return bytes(found.columns[forward].value)


def run(store: Store, steps: Generator[Operation, Any, bytes], calls: int | None = None) -> bytes | None:
    """Runs the calls of `assigned`. After the given number of calls, stops and returns None."""
    answer: Any = None
    try:
        while calls is None or calls:
            answer = perform(store, steps.send(answer))
            calls = None if calls is None else calls - 1
    except StopIteration as stop:
        return bytes(stop.value)
    return None
