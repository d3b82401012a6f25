"""A view of a store as of a time: of each cell, it reads the newest version before that time, but later deletes apply
too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NoReturn

from attrs import evolve

from hbmodel.errors import InvalidRequest
from hbmodel.store.port import Store
from hbmodel.store.values import ConditionalChange, ConditionalPut, Delete, Get, Put, Row, Scan
from hbmodel.store.wrapping import WrappingStore


class AsOfStore(WrappingStore):
    """A view of a store that reads rows as of a time, and refuses writes.

    Args:
        before: the time, in ms; only versions before it are read.
    """

    def __init__(self, store: Store, before: int) -> None:
        super().__init__(store)
        self._before = before

    def get(self, table: str, rows: Sequence[bytes], columns: Sequence[bytes] = ()) -> Sequence[Row | None]:
        """See `Store.get`."""
        return self._store.get_each(table, [Get(row, columns, before=self._before) for row in rows])

    def get_each(self, table: str, gets: Sequence[Get]) -> Sequence[Row | None]:
        """See `Store.get_each`."""
        return self._store.get_each(table, [evolve(get, before=self._before) for get in gets])

    def scan(self, table: str, scans: Sequence[Scan]) -> Sequence[Iterator[Sequence[Row]]]:
        """See `Store.scan`."""
        return self._store.scan(table, [evolve(scan, before=self._before) for scan in scans])

    # --- writing: refused ---------------------------------------------------------------------------------------------

    def put(self, table: str, puts: Sequence[Put]) -> NoReturn:
        """Raises an error, because the view cannot write."""
        _refuse(table)

    def delete(self, table: str, deletes: Sequence[Delete]) -> NoReturn:
        """Raises an error, because the view cannot write."""
        _refuse(table)

    def mutate_row(self, table: str, mutations: Sequence[Put | Delete]) -> NoReturn:
        """Raises an error, because the view cannot write."""
        _refuse(table)

    def check_and_put(self, table: str, row: bytes, column: bytes, expected: bytes | None, put: Put) -> NoReturn:
        """Raises an error, because the view cannot write."""
        _refuse(table)

    def check_and_put_each(self, table: str, puts: Sequence[ConditionalPut]) -> NoReturn:
        """Raises an error, because the view cannot write."""
        _refuse(table)

    def check_and_mutate(
        self, table: str, row: bytes, column: bytes, expected: bytes | None, mutations: Sequence[Put | Delete]
    ) -> NoReturn:
        """Raises an error, because the view cannot write."""
        _refuse(table)

    def check_and_mutate_many(self, table: str, changes: Sequence[ConditionalChange]) -> NoReturn:
        """Raises an error, because the view cannot write."""
        _refuse(table)

    def increment(self, table: str, row: bytes, column: bytes, amount: int) -> NoReturn:
        """Raises an error, because the view cannot write."""
        _refuse(table)


def _refuse(table: str) -> NoReturn:
    raise InvalidRequest("A view of a store as of a time is read-only: write to the store itself.", table=table)
