"""Comparisons of wide rows: with hand-written happybase code, and with the same objects in separate rows."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import happybase

import hbmodel as hb
from tests.benchmarks.comparison import IN_ROW, MANY, REPEATS, Case

SUFFIX = f"{os.getpid()}"
LONG_ROW = 250_000
"""Objects of four cells in the row of which slices are read."""

OWNERS, EACH = 2_000, 25
"""Rows, and objects in each of them, of the table that is read whole."""


def declare(table: str, *, wide: bool) -> Any:
    """A model of four columns, whose objects share rows or not."""
    part: dict[str, Any] = {"in_qualifier": True} if wide else {}
    names = {
        "owner": (hb.Key[int], hb.key(hb.UInt32)),
        "number": (hb.Key[int], hb.key(hb.UInt32, **part)),
        "place": (hb.Column[str], hb.column("p")),
        "value": (hb.Column[float], hb.column("v")),
        "low": (hb.Column[int], hb.column("l", hb.Int32)),
        "high": (hb.Column[int], hb.column("h", hb.Int32)),
    }
    fields: dict[str, Any] = {name: field for name, (_, field) in names.items()}
    made = type(
        "Item",
        (),
        {**fields, "__annotations__": {name: kind for name, (kind, _) in names.items()}, "__module__": __name__},
    )
    return hb.model(table=f"bench_{table}_{SUFFIX}", family="d")(made)


Long, Wide, Tall = declare("long", wide=True), declare("wide", wide=True), declare("tall", wide=False)
Few = declare("few", wide=True)
MODELS = (Long, Wide, Tall, Few)


def items(model: Any, owners: int, each: int) -> Iterator[Any]:
    """The objects of a model."""
    for owner in range(owners):
        for number in range(each):
            yield model(
                owner=owner, number=number, place=f"hall {number % 7}", value=number / 8, low=-number, high=number
            )


OBJECTS: dict[type, Callable[[int], Iterator[Any]]] = {
    Long: lambda rows: items(Long, 1, LONG_ROW),
    Wide: lambda rows: items(Wide, OWNERS, EACH),
    Tall: lambda rows: items(Tall, OWNERS, EACH),
    Few: lambda rows: items(Few, 500, 4),
}


def by_number(row: Mapping[bytes, bytes]) -> list[tuple[int, dict[bytes, Any]]]:
    """The objects of a wide row of happybase's, decoded by hand."""
    found: dict[bytes, dict[bytes, Any]] = {}
    for column, value in row.items():
        alias = column[6:]
        cells = found.setdefault(column[2:6], {})
        if alias == b"p":
            cells[alias] = value.decode()
        elif alias == b"v":
            (bits,) = struct.unpack(">Q", value)
            bits = bits - (1 << 63) if bits >> 63 else bits ^ ((1 << 64) - 1)
            cells[alias] = struct.unpack(">d", bits.to_bytes(8))[0]
        else:
            cells[alias] = struct.unpack(">I", value)[0] - (1 << 31)
    return [(struct.unpack(">I", prefix)[0], cells) for prefix, cells in found.items()]


def wide_cases(first: hb.Store, second: hb.Store, by_hand: happybase.Connection, embedded: hb.Store) -> Iterator[Case]:
    """Slices of a long row, whole rows of few objects, and tables that are read whole."""
    yield from _slices(first, second, by_hand)
    yield from _rows(first, second, by_hand)
    yield from _whole(first, second, by_hand)
    for name, store in (("embedded", embedded), ("thrift1", first), ("thrift2", second)):
        wide, tall = (hb.Session(store).query(model).allow_full_scan() for model in (Wide, Tall))
        yield Case(
            f"{name}: objects of wide rows / of their own rows", wide.all, tall.all, REPEATS, 1.5, reads=(Wide, Tall)
        )


def _slices(first: hb.Store, second: hb.Store, by_hand: happybase.Connection) -> Iterator[Case]:
    table = by_hand.table(f"bench_long_{SUFFIX}")
    low, high = (struct.pack(">I", number) for number in (LONG_ROW // 2, LONG_ROW // 2 + 100))
    bounds = b"', true, '".join(bound.replace(b"'", b"''") for bound in (low, high))
    chosen = b"ColumnRangeFilter('" + bounds + b"', false) AND ColumnPaginationFilter(400, 0)"
    row = struct.pack(">I", 0)

    def theirs() -> list[Any]:
        found = table.scan(row_start=row, row_stop=row + b"\x00", filter=chosen, limit=1, batch_size=1)
        return [each for _, cells in found for each in by_number(cells)]

    for name, store in (("thrift1", first), ("thrift2", second)):
        some = (
            hb.Session(store)
            .query(Long)
            .where(Long.owner == 0, Long.number >= LONG_ROW // 2, Long.number < LONG_ROW // 2 + 100)
        )
        yield Case(f"{name}: slice of 100 objects / ColumnRangeFilter", some.all, theirs, MANY, 1.1, IN_ROW, (Long,))


def backwards_cases(first: hb.Store, second: hb.Store) -> Iterator[Case]:
    """The last page of a row of a million columns, compared with the first one."""
    for name, store in (("thrift1", first), ("thrift2", second)):
        every = hb.Session(store).query(Long).where(Long.owner == 0)
        yield Case(
            f"{name}: last page of a long row / first page",
            partial(every.reversed().page, 20),
            partial(every.page, 20),
            REPEATS,
            3.0,
            reads=(Long,),
        )


def _rows(first: hb.Store, second: hb.Store, by_hand: happybase.Connection) -> Iterator[Case]:
    """All objects of a row that has four."""
    table, row = by_hand.table(f"bench_few_{SUFFIX}"), struct.pack(">I", 7)
    for name, store in (("thrift1", first), ("thrift2", second)):
        few = hb.Session(store).query(Few).where(Few.owner == 7)
        yield Case(
            f"{name}: the four objects of a row / row", few.all, lambda: by_number(table.row(row)), MANY, 1.3, IN_ROW,
            (Few,),
        )  # fmt: skip


def _whole(first: hb.Store, second: hb.Store, by_hand: happybase.Connection) -> Iterator[Case]:
    table = by_hand.table(f"bench_wide_{SUFFIX}")

    def theirs() -> list[Any]:
        return [each for _, cells in table.scan(batch_size=100) for each in by_number(cells)]

    for name, store in (("thrift1", first), ("thrift2", second)):
        everything = hb.Session(store).query(Wide).allow_full_scan()
        yield Case(
            f"{name}: full read of a wide table / scan decoded by hand",
            partial(everything.all),
            theirs,
            REPEATS,
            0.9,
            reads=(Wide,),
        )
