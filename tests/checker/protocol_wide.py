"""Configurations for the model checker with objects that share a row, which are deleted by their own columns; and
rules of that broken.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from attrs import evolve

import hbmodel as hb
from hbmodel.mapping.rows.mapper import KeyMapper
from hbmodel.protocol.writes import DeleteRow, UpdateFields, put_object
from hbmodel.store import Delete
from tests.checker.behaviour import once
from tests.checker.clocks import Clocks, at_clocks
from tests.checker.protocol_adapter import END, UNDECLARED, Row, Step, Steps, Store
from tests.checker.protocol_folded import Tombstones
from tests.checker.protocol_invariants import ProtocolModel, watch_of
from tests.checker.protocol_mutants import Mutant
from tests.checker.protocol_processes import SHIPPED, Action, Insert, Rules, prepared, put, reader, repairer, writer
from tests.checker.protocol_sweeps import Configuration, Process

LIFE = END // 2


@hb.model(table="pieces", family="d", row=b"r", kind=b"p")
class Piece:
    """One index over one column, with a covered column, and a column outside; all objects are in one row."""

    name: hb.Key[str] = hb.key(in_qualifier=True)
    tag: hb.Column[str] = hb.column("t")
    extra: hb.Column[str | None] = hb.column("e", default=None)
    note: hb.Column[str | None] = hb.column("n", default=None)

    by_tag = hb.index("tag", covers=("extra",))


PIECE = hb.schema.schema_of(Piece)
INDEX = PIECE.indexes["by_tag"]
WIDE_ROWS = PIECE.wide_rows
assert WIDE_ROWS is not None
KEY, OTHER = (KeyMapper(PIECE).rows([name])[0] for name in "km")


def change(name: str, **changes: Any) -> UpdateFields:
    """A partial update."""
    return UpdateFields(None, KeyMapper(PIECE).rows([name])[0], {"name": name}, changes)


def gone(name: str) -> DeleteRow:
    """A delete."""
    return DeleteRow(None, KeyMapper(PIECE).rows([name])[0])


def _named(name: str) -> dict[str, tuple[Action, ...]]:
    def piece(**fields: Any) -> Piece:
        return Piece(name=name, **fields)

    return {
        f"{name} put b": (put(piece(tag="b", note="new")),),
        f"{name} tag b": (change(name, tag="b"),),
        f"{name} note": (change(name, note="n"),),
        f"{name} delete": (gone(name),),
        f"{name} insert": (Insert(put(piece(tag="b"))),),
        f"{name} delete, put": (gone(name), put(piece(tag="b"))),
        f"{name} delete, insert": (gone(name), Insert(put(piece(tag="a")))),
        f"{name} expiring b": (put_object(PIECE, piece(tag="b", note="x"), LIFE),),
    }


BOTH: Mapping[str, tuple[Action, ...]] = {
    "put both": ((put(Piece(name="k", tag="b")), put(Piece(name="m", tag="a"))),),
    "delete both": ((gone("k"), gone("m")),),
    "k delete, m note": ((gone("k"), change("m", note="n")),),
}
ACTIONS: Mapping[str, tuple[Action, ...]] = {**_named("k"), **_named("m"), **BOTH}
FIRST, SECOND = tuple(_named("k")), tuple(_named("m"))
UNEXPIRING = tuple(name for name in FIRST if "expiring" not in name)


def _older(store: Store) -> Store:
    """The first object as an older version of the model has left it: without one of the current columns, and with a
    column that no longer exists.
    """
    tombstone, columns = store[(PIECE.table, KEY)]
    kept = dict(columns)
    del kept[PIECE.by_name["note"].column]
    kept[UNDECLARED] = (-1, 9, (b"x", 0))
    return {**store, (PIECE.table, KEY): Row((tombstone, tuple(sorted(kept.items()))))}


_OLD = (put(Piece(name="k", tag="a", extra="e", note="old")), put(Piece(name="m", tag="a", note="old")))

STORES: Mapping[str, Store] = {
    "live": prepared(PIECE, (10, _OLD)),
    "older": _older(prepared(PIECE, (10, _OLD))),
    "dead": prepared(PIECE, (9, _OLD), (10, (gone("k"), gone("m")))),
    "absent": {},
}


@once
def repairers(rules: Rules) -> list[Process]:
    """A repairer of the index that also purges the dead marker of the first object."""
    return [("G", repairer(PIECE, INDEX, rules, purge=KEY), 0)]


@once
def readers(rules: Rules) -> list[Process]:
    """Queries for one tag each."""

    def has(tag: str) -> Callable[[dict[str, Any]], bool]:
        return lambda values: values["tag"] == tag

    return [
        (f"R{tag}", reader(PIECE, INDEX, tag.encode(), tag.encode() + b"\xff", has(tag), rules=rules), 0)
        for tag in "ab"
    ]


def time_passes() -> Steps:
    """A process with one step, in which everything that can expire expires."""
    step: Step = ("expire",)
    yield step


def pieces(
    mine: Sequence[str] = UNEXPIRING,
    theirs: Sequence[str] = (*UNEXPIRING, *(name for name in SECOND if "expiring" not in name)),
    clocks: Clocks = (5, 12),
    rules: Rules = SHIPPED,
    *,
    stores: Sequence[str] = ("live",),
    others: Callable[[Rules], Sequence[Process]] | None = None,
    crashes: int = 1,
    compaction: str | None = None,
    strict: bool = True,
    first: Mapping[str, Any] | None = None,
    **options: Any,
) -> Iterator[Configuration]:
    """Two writers of the same object or of neighbours, and the passing of time if an object expires.

    Args:
        mine: the actions of the first writer.
        theirs: the actions of the other writer.
        clocks: their readings.
        rules: the code under test.
        stores: the possible initial stores.
        others: makes other processes, one of which is used at a time.
        crashes: how many writers may crash.
        compaction: as for `ProtocolModel`.
        strict: as for `Watch`.
        first: options of the first writer.
        **options: of both.
    """
    watch = watch_of(PIECE, strict)
    for kind, one, two, *readings in at_clocks(clocks, 2, stores, mine, theirs):
        for other in others(rules) if others is not None else (None,):
            running: list[Process] = [
                (
                    f"W{n}",
                    writer(PIECE, n, ACTIONS[name], reading, rules, **{**options, **((first or {}) if n == 1 else {})}),
                    reading,
                )
                for n, (name, reading) in enumerate(zip((one, two), readings, strict=True), 1)
            ]
            running += [("T", time_passes, 0)] if "expiring" in one + two else []
            running += [] if other is None else [other]
            label = (
                f"{kind} pieces, {one} at {readings[0]}, {two} at {readings[1]}, "
                f"{None if other is None else other[0]}, {first}, {options}"
            )
            yield label, ProtocolModel(watch, STORES[kind], running, crashes, compaction)


# --- rules broken on purpose ------------------------------------------------------------------------------------------


def _prefix(delete: Delete) -> bytes:
    """`family:` and the qualifier prefix of the deleted object."""
    lead, first = WIDE_ROWS.lead, delete.columns[0]
    return first[: len(lead) + (WIDE_ROWS.prefix_end(first[len(lead) :]) or 0)]


def neighbours_too(delete: Delete, listed: Collection[bytes]) -> Delete:
    """A delete that also removes the columns of the neighbour, as a delete of the family would."""
    _, prefix = WIDE_ROWS.places.cut(OTHER)
    neighbour = [WIDE_ROWS.column(prefix, column) for column in WIDE_ROWS.columns]
    return evolve(delete, columns=list(dict.fromkeys([*delete.columns, *neighbour])))


def without(alias: bytes) -> Tombstones:
    """A delete that leaves out one column of the object."""

    def left_out(delete: Delete, listed: Collection[bytes]) -> Delete:
        return evolve(delete, columns=[column for column in delete.columns if column != _prefix(delete) + alias])

    return left_out


def at_time(delete: Delete, listed: Collection[bytes]) -> Delete:
    """A delete of columns at the time of the marker, not at one below it."""
    assert delete.timestamp is not None
    return evolve(delete, timestamp=delete.timestamp + 1)


def pair(first: str, second: str, **options: Any) -> Callable[[Rules], Iterable[Configuration]]:
    """These two writers, by every clock."""
    return lambda rules: pieces((first,), (second,), rules=rules, **options)


MUTANTS: Mapping[str, Mutant] = {
    "a delete takes its neighbour's columns": Mutant(
        Rules(tombstones=neighbours_too), pair("k delete", "m note", clocks=(5, 13)), "LOST"
    ),
    "a delete leaves out a declared column": Mutant(
        Rules(tombstones=without(b"n")), pair("k delete", "m note"), "KEPT"
    ),
    "a delete leaves out a column that was read": Mutant(
        Rules(tombstones=without(b"x")), pair("k delete", "m note", stores=("older",)), "KEPT"
    ),
    "a delete of columns at t": Mutant(Rules(tombstones=at_time), pair("k delete", "k put b"), "LOST"),
    "a delete of columns at t, in two calls": Mutant(
        Rules(tombstones=at_time), pair("k delete", "k put b", atomic=False), "LOST"
    ),
    "an object that expires leaves out its liveness cell": Mutant(
        Rules(tombstones=without(b"_l")), pair("k expiring b", "k note"), "GHOST"
    ),
    "an object that expires leaves out a declared column that was absent": Mutant(
        Rules(tombstones=without(b"_l")), pair("k expiring b", "k put b", stores=("absent",)), "GHOST"
    ),
    "an object that expires takes its neighbour's columns": Mutant(
        Rules(tombstones=neighbours_too), pair("k expiring b", "m note", clocks=(5, 13)), "LOST"
    ),
}
