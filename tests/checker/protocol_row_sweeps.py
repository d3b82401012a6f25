"""Families of configurations for the model checker with a row of a model without indexes, or of one that gets its
first index.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from hbmodel.mapping.schema import schema_of
from hbmodel.store import Capabilities
from hbmodel.tables.registry.registration import RowState
from tests.checker.protocol_unindexed import (
    APART,
    ATOMIC,
    SHIPPED,
    Blank,
    Free,
    Loose,
    PageIndexed,
    RowModel,
    Rules,
    Slip,
    Sparse,
    Theirs,
    absent_cells,
    calls_of,
)

BEGINNINGS = ("absent", "add", "expiring add", "expiring add, add")
STORES: dict[str, tuple[Any, Capabilities]] = {
    "atomic": (Slip, ATOMIC),
    "apart": (Slip, APART),
    "absent cells": (Sparse, ATOMIC),
    "some absent cells": (Loose, ATOMIC),
    "some absent cells, apart": (Loose, APART),
    "nothing required": (Blank, ATOMIC),
    "nothing required, apart": (Blank, APART),
    "nothing required, absent cells": (Free, ATOMIC),
    "nothing required, absent cells, apart": (Free, APART),
    "others' rows": (Theirs, ATOMIC),
    "others' rows, apart": (Theirs, APART),
}
"""Models and what their store can do, by name."""

TIMED = ("atomic", "absent cells")
"""Those over which time passes at any moment; with the others only lives end."""

SIDE_BY_SIDE: Sequence[tuple[RowState, RowState]] = (
    ("unindexed", "marking"), ("marking", "marking"), ("marking", "mixed"), ("mixed", "mixed"), ("mixed", "adopting"),
)  # fmt: skip
"""What two programs that run at the same time may know of a table."""

Case = tuple[str, str, str, tuple[RowState, RowState], int]
RowConfiguration = tuple[str, RowModel]


CELL_BY_CELL = ("update both", "update page, forget", "forget the rest")
"""Updates of several cells, which a store without atomic changes of a row makes one after the other."""


def _stood_for(begin: str, one: str, other: str, can: Capabilities) -> bool:
    """Whether another pair stands for this one, among pairs of calls of many steps that take half a minute and more.

    Which columns an update changes makes no difference to a call with a TTL: one update of several cells, a put and a
    None, stands for the others. Over a row that expired once two updates of several cells come to the same as over
    `add`.

    Where the cells are changed one by one, two different updates of several may refuse each other again and again, so
    that the states have no end. The same update twice does so too, but with one value.
    `tests/faults/test_two_programs.py` draws them with different ones.
    """
    names = {one, other}
    expiring, updates = any("expiring" in name for name in names), {name for name in names if name in CELL_BY_CELL}
    if can is APART and (len(updates) == 2 or (expiring and updates - {"update page, forget"})):
        return True
    if begin != BEGINNINGS[-1] or len(names) < 2:
        return False
    others = {name for name in names if name.startswith(("update", "forget")) and name != "update page"}
    return names <= set(CELL_BY_CELL) or (bool(others) and any("expiring" in name for name in names - others))


TWINS = {"add": "add b", "expiring add": "expiring add f"}
"""Calls that put the same cells as another with other values. What a program does depends on no value (Wolper,
*Expressing interesting properties of programs in propositional temporal logic*, 1986), so that the other stands for
both, but where they meet."""


def _stands_for_others(model: Any, one: str, other: str) -> bool:
    """Whether no other pair comes to the same; where None is the absence of a cell, twins put other cells."""
    return absent_cells(model) or all(b == TWINS.get(a, b) for a, b in ((one, other), (other, one)))


def calls_for(model: Any, can: Capabilities) -> list[str]:
    """Names of the calls; an insert needs atomic changes and a column that every row has."""
    schema = schema_of(model)
    inserts = can is ATOMIC and (schema.exists_column is not None or bool(schema.required_columns))
    return [name for name in calls_of(model) if name != "glance" and (inserts or "insert" not in name)]


def pairs(store: str, **options: Any) -> Iterator[RowConfiguration]:
    """Every two calls over every beginning.

    Where None is the absence of a cell two writers of one millisecond may mix, and where a row is changed cell by cell,
    any two: then it only counts whether there is a row.
    """
    model, can = STORES[store]
    for begin, (one, other) in itertools.product(
        BEGINNINGS, list(itertools.combinations_with_replacement(calls_for(model, can), 2))
    ):
        if _stands_for_others(model, one, other) and not _stood_for(begin, one, other, can):
            mixed = absent_cells(model) or (can is APART and any(name in CELL_BY_CELL for name in (one, other)))
            distinct = can is ATOMIC and absent_cells(model)
            row = RowModel(
                model, begin, [[one], [other]], can, distinct=distinct, presence=mixed and not distinct, **options
            )
            yield f"{store}, {begin}: {one} and {other} at the same time", row
            if distinct:
                yield (
                    f"{store}, {begin}: {one} and {other} in a millisecond",
                    RowModel(model, begin, [[one], [other]], can, presence=True, **options),
                )


def joint(store: str, **options: Any) -> Iterator[RowConfiguration]:
    """Every two calls of programs that know the table in two states, over every beginning made by one of them."""
    model, can = STORES[store]
    names = calls_for(model, can)
    for rows, begin, one, two, first in itertools.product(SIDE_BY_SIDE, BEGINNINGS, names, names, (0, 1)):
        if (first and begin == "absent") or (rows[0] == rows[1] and (first or one > two)):
            continue  # nobody begins, or the programs know the same: their order makes no difference
        if not _stands_for_others(model, one, two) or _stood_for(begin, one, two, can):
            continue
        yield (
            f"{store}, {begin} by {first}: {one} beside {two}, {rows}",
            side_by_side(store, (begin, one, two, rows, first), **options),
        )


def side_by_side(store: str, case: Case, rules: Rules = SHIPPED, **options: Any) -> RowModel:
    """Two programs, no two puts of which share a millisecond.

    If a row expires at the same time as an update, only its columns may remain, which are not an object once the table
    is indexed.
    """
    model, can = STORES[store]
    begin, one, two, rows, first = case
    presence = can is APART and any(name in CELL_BY_CELL for name in (one, two))
    apart = "expiring" in one + two + begin and "update" in one + two and rows != ("unindexed", "marking")
    return RowModel(
        model,
        begin,
        [[one], [two]],
        can,
        rules,
        distinct=True,
        rows=rows,
        first=first,
        ends=not apart,
        presence=presence,
        **options,
    )


def adopted(
    store: str, names: Sequence[str] = ("add", "update page", "update note", "delete", "expiring add", "insert")
) -> Iterator[RowConfiguration]:
    """Two programs, and a build that adopts their row, which was put before any index was known.

    Lives end, unless a row expires and a program updates it: see `side_by_side`.
    """
    states: tuple[RowState, ...] = ("unindexed", "marking")
    for before, begin, programs in itertools.product(
        states, BEGINNINGS, list(itertools.combinations_with_replacement(names, 2))
    ):
        ends = not any("expiring" in name for name in (begin, *programs)) or not any(
            "update" in name for name in programs
        )
        options: dict[str, Any] = {
            "rows": ["adopting"] * 2,
            "before": before,
            "adopt": True,
            "distinct": True,
            "ticks": 0,
            "ends": ends,
        }
        yield (
            f"{store}, {begin}, {before}: {programs} while adopted",
            RowModel(STORES[store][0], begin, [[n] for n in programs], **options),
        )


BESIDE_READERS: Sequence[tuple[RowState, RowState]] = (
    ("marking", "mixed"), ("mixed", "mixed"), ("mixed", "adopting"), ("adopting", "adopting"), ("indexed", "indexed"),
)  # fmt: skip
"""What two writers may know of a table while a third program still reads it as one without an index."""

INDEXED = Rules(indexed=PageIndexed)
"""The shipped code, of a table with an index."""


def early_reads(
    store: str,
    states: Sequence[tuple[RowState, RowState]] = BESIDE_READERS,
    names: Sequence[str] = ("add", "update page", "update note", "delete", "expiring add", "insert"),
    rules: Rules = INDEXED,
) -> Iterator[RowConfiguration]:
    """Two programs, and a third that reads the row, or a part of it, with the state of the table from before its first
    index.

    The row was put by one of the writers, or before the index was known, unless the build has adopted every such row.
    Only the existence of the row is compared: a put takes its time before it lands, so that a reader may see the values
    of a later write first.
    """
    model, can = STORES[store]
    possible = [name for name in names if name in calls_for(model, can)]
    for rows, begin, one, two, read in itertools.product(states, BEGINNINGS[:3], possible, possible, ("get", "glance")):
        if rows[0] == rows[1] and one > two:
            continue  # their order makes no difference
        ends = not ("expiring" in one + two + begin and "update" in one + two)
        for first in (0,) if begin == "absent" or rows[0] == "indexed" else (0, 2):
            known: tuple[RowState, ...] = (*rows, "unindexed")
            options: dict[str, Any] = {
                "rows": known,
                "first": first,
                "distinct": True,
                "ticks": 0,
                "ends": ends,
                "presence": True,
            }
            yield (
                f"{store}, {begin} by {first}: {one} beside {two}, {rows}, {read}",
                RowModel(model, begin, [[one], [two], [read]], can, rules, **options),
            )
