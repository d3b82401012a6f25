"""Comparisons of `Session.prepend` by several writers on one prefix with the same written by hand on happybase.

By hand a writer scans the first row, claims the key before it by putting its flag under a condition, and then puts the
columns. Others cannot distinguish its claims from rows, so a row is visible before its columns are, and stays without
columns if its writer dies.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import happybase
from Hbase_thrift import Mutation

import hbmodel as hb
from tests.benchmarks.comparison import Case

TABLE = f"bench_comment_{os.getpid()}"
ROUNDS = 100
"""Rounds in which each writer prepends a row."""

WRITERS = (1, 4, 8)


@hb.model(table=TABLE, family="d", exists=hb.flag("e"))
class Comment:
    """The newest first."""

    post: hb.Key[int] = hb.key(hb.UInt32)
    number: hb.Key[int] = hb.key(hb.UInt32, desc=True)
    author: hb.Column[str] = hb.column("a")
    text: hb.Column[str] = hb.column("t")


def prepend_cases(first: hb.Store, second: hb.Store, host: str, port: int) -> Iterator[Case]:
    """Rounds in which 1, 4 and 8 writers prepend a row each; each side has posts of its own."""
    for gateway, store in enumerate((first, second), 1):
        for writers in WRITERS:
            post = 100 * gateway + writers
            ours = [partial(prepend, hb.Session(store), post) for _ in range(writers)]
            theirs = [ByHand(host, port, 50 + post) for _ in range(writers)]
            name = f"thrift{gateway}: prepend, {writers} writers / scan and checkAndPut"
            yield Case(name, _round(ours), _round(theirs), ROUNDS, in_row=5)


def prepend(session: hb.Session, post: int) -> object:
    """One row of ours."""
    return session.prepend(Comment, post=post, author="ann", text="a comment of no great length")


class ByHand:
    """Each call prepends one row by hand. The first call connects, because a gateway closes unused connections."""

    def __init__(self, host: str, port: int, post: int) -> None:
        self._connect = partial(happybase.Connection, host, port)
        self._connection: happybase.Connection | None = None
        self._prefix = struct.pack(">I", post)

    def __call__(self) -> int:
        if self._connection is None:
            self._connection = self._connect()
        table, client = self._connection.table(TABLE), self._connection.client
        while True:
            found = list(table.scan(row_prefix=self._prefix, columns=[b"d:e"], limit=1, batch_size=1))
            left = struct.unpack(">I", found[0][0][4:])[0] - 1 if found else 2**32 - 1
            row = self._prefix + struct.pack(">I", left)
            if client.checkAndPut(TABLE.encode(), row, b"d:e", b"", Mutation(column=b"d:e", value=b"\x01"), {}):
                table.put(row, {b"d:a": b"ann", b"d:t": b"a comment of no great length"})
                return 2**32 - 1 - left


def _round(writers: Sequence[Callable[[], object]]) -> Callable[[], Any]:
    """All writers at once, each in its own thread."""
    if len(writers) == 1:
        return writers[0]
    threads = ThreadPoolExecutor(len(writers))
    return lambda: [done.result() for done in [threads.submit(writer) for writer in writers]]
