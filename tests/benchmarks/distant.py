"""Comparisons with code by hand on happybase, of calls whose gateway is far away.

On one machine a round trip costs next to nothing, and the processors decide. Over a network, each time that a call
waits for an answer costs as much as all the rest.
"""

from __future__ import annotations

import itertools
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from urllib.parse import urlsplit

import happybase

import hbmodel as hb
from tests.benchmarks.comparison import Case
from tests.support.distant_proxy import distant

ONE_WAY = 0.002
"""How long a request or a reply is on its way, in seconds."""

OBJECTS = 1000
CALLS = 60
WARM_UP = 2000
IN_ROW = 5


@hb.model(table=f"bench_distant_{os.getpid()}", family="d")
class Distant:
    number: hb.Key[int] = hb.key(hb.UInt32)
    first: hb.Column[str] = hb.column("f")
    second: hb.Column[str] = hb.column("s")


def distant_objects(rows: int) -> Iterator[Distant]:
    """The objects that are read and updated."""
    for number in range(min(rows, OBJECTS)):
        yield Distant(number=number, first="the first value", second="the second value")


def distant_cases(urls: Sequence[str], stack: ExitStack) -> Iterator[Case]:
    """A get, a put, an update and a page through each gateway; by hand always through the first.

    Args:
        urls: of both gateways.
        stack: closes the proxies, connections and stores.
    """
    far_urls = [stack.enter_context(distant(url, ONE_WAY)) for url in urls]
    near, far = (_ByHand(links[0], stack) for links in (urls, far_urls))
    for gateway, *links in zip(("thrift1", "thrift2"), urls, far_urls, strict=True):
        near_session, far_session = (hb.Session(stack.enter_context(hb.connect(link))) for link in links)
        for name, ours, theirs, target in _WORK:
            yield Case(
                f"{gateway}, {2000 * ONE_WAY:.0f} ms away: {name}",
                _Warmed(partial(ours, near_session), partial(ours, far_session)),
                _Warmed(partial(theirs, near), partial(theirs, far)),
                CALLS,
                target,
                IN_ROW,
                (Distant,),
            )


class _Warmed:
    """Work on a far connection, after the same work on a near one: Java programs are slow until they have done the same
    a thousand times, which would take long from far away.
    """

    def __init__(self, near: Callable[[], object], far: Callable[[], object]) -> None:
        self._near, self._far = near, far
        self._cold = True

    def __call__(self) -> None:
        if self._cold:
            self._cold = False
            for _ in range(WARM_UP):
                self._near()
        self._far()


class _ByHand:
    """A connection of happybase that is opened by the first call, because a gateway closes unused connections."""

    def __init__(self, url: str, stack: ExitStack) -> None:
        self._where, self._stack = urlsplit(url), stack
        self._connection: happybase.Connection | None = None

    @property
    def table(self) -> happybase.Table:
        if self._connection is None:
            self._connection = happybase.Connection(self._where.hostname, self._where.port)
            self._stack.callback(self._connection.close)
        return self._connection.table(hb.schema.schema_of(Distant).table)


_numbers = itertools.count()


def _key() -> bytes:
    return struct.pack(">I", next(_numbers) % OBJECTS)


def _get(session: hb.Session) -> None:
    assert session.get(Distant, number=next(_numbers) % OBJECTS)


def _get_by_hand(hand: _ByHand) -> None:
    assert hand.table.row(_key())


def _put(session: hb.Session) -> None:
    session.add(Distant(number=next(_numbers) % OBJECTS, first="the first", second="the second"))
    session.commit()


def _put_by_hand(hand: _ByHand) -> None:
    hand.table.put(_key(), {b"d:f": b"the first", b"d:s": b"the second"})


def _update(session: hb.Session) -> None:
    session.update_key(Distant, number=next(_numbers) % OBJECTS, second=f"value {next(_numbers)}")
    session.commit()


def _update_by_hand(hand: _ByHand) -> bytes:
    row = _key()
    assert hand.table.row(row)
    hand.table.put(row, {b"d:s": f"value {next(_numbers)}".encode()})
    return row


def _checked_update_by_hand(hand: _ByHand) -> None:
    assert hand.table.row(_update_by_hand(hand))


def _page(session: hb.Session) -> None:
    first = next(_numbers) % (OBJECTS - 20)
    assert len(session.query(Distant).where(Distant.number >= first).page(20)) == 20


def _page_by_hand(hand: _ByHand) -> None:
    first = struct.pack(">I", next(_numbers) % (OBJECTS - 20))
    assert len(list(hand.table.scan(row_start=first, limit=20, batch_size=20))) == 20


_WORK: Sequence[tuple[str, Callable[[hb.Session], None], Callable[[_ByHand], object], float | None]] = (
    ("get / row", _get, _get_by_hand, 1.2),
    ("one put / put", _put, _put_by_hand, 1.2),
    ("one update / row, put and row", _update, _checked_update_by_hand, 0.8),
    ("one update / row and put", _update, _update_by_hand, None),
    ("page of 20 / scan", _page, _page_by_hand, 1.0),
)
"""The name of each comparison, our work, the same by hand, and the maximum ratio."""
