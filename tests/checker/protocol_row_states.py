"""Two programs that write rows from before the first index while the states of the table change: nothing is lost.

`protocol_row_sweeps` has all pairs of calls; there an update that puts a whole row again may cover what was written
since it was read.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from attrs import evolve

from hbmodel.protocol.indexed.indexed_plan import IndexedRowPlanner, OldRow, RowPlan
from hbmodel.protocol.row_condition import cell_of_condition
from hbmodel.protocol.writes import UpdateFields
from hbmodel.store.values import Row
from hbmodel.tables.registry.registration import RowState
from tests.checker.protocol_mutants import Mutant
from tests.checker.protocol_row_sweeps import STORES, RowConfiguration
from tests.checker.protocol_unindexed import ATOMIC, SHIPPED, RowModel, Rules

States = tuple[RowState, RowState]

BESIDE: Sequence[tuple[States, RowState]] = (
    (("marking", "marking"), "marking"),
    (("marking", "mixed"), "marking"),
    (("marking", "mixed"), "mixed"),
    (("mixed", "mixed"), "marking"),
    (("mixed", "mixed"), "mixed"),
    (("mixed", "adopting"), "marking"),
    (("mixed", "adopting"), "mixed"),
    (("adopting", "adopting"), "marking"),
)
"""What the two programs know of the table, and what the one knew that put the row."""

CALLS: Mapping[str, Sequence[str]] = {
    "add": ("add b", "update page", "update line", "update note", "delete", "insert", "expiring update"),
    "expiring add": ("update page", "update line", "delete", "expiring update"),
}
"""Calls, by what was done before. A put is beside no row that expires: the other one may count although it came
first.
"""


def kept(store: str, rules: Rules = SHIPPED) -> Iterator[RowConfiguration]:
    """Every two calls over a row, in states that may stand side by side."""
    atomic = STORES[store][1] is ATOMIC
    for (rows, before), (begin, known) in itertools.product(BESIDE, CALLS.items()):
        if not atomic and begin != "add":
            continue  # such a row is not updated there
        names = [name for name in known if atomic or name not in {"insert", "expiring update"}]
        for one, other in itertools.product(names, names):
            if (rows[0] != rows[1] or one <= other) and not _covers(rows, one, other):
                yield two(store, begin, (one, other), rows, before, rules)


def _covers(rows: States, one: str, other: str) -> bool:
    """Whether one call is an update with a TTL over a row that has none, by a program that sees no version cell.

    Such a program cannot see that another program has updated the row in the meantime. If there is also a put, the
    later time counts.
    """
    expiring = "expiring update"
    return (one == expiring and (other == "add b" or (rows == ("marking", "mixed") and "update" in other))) or (
        other == expiring and one == "add b"
    )


def two(
    store: str, begin: str, calls: Sequence[str], rows: States, before: RowState, rules: Rules = SHIPPED
) -> RowConfiguration:
    """Two calls."""
    model, can = STORES[store]
    made = RowModel(
        model,
        begin,
        [[name] for name in calls],
        can,
        rules,
        distinct=True,
        rows=rows,
        before=before,
        ends=False,
        exact=True,
    )
    return f"{store}, {begin} by {before}: {' beside '.join(calls)}, {rows}", made


# --- rules broken on purpose ------------------------------------------------------------------------------------------


class PutsWholeRows(IndexedRowPlanner):
    """Updates put the whole row again if one of its cells is unchanged."""

    def _partial(self, write: UpdateFields, old: OldRow, timestamp: int) -> RowPlan:
        plan = super()._partial(write, old, timestamp)
        if old.row is None or plan.put is None or not self.mixed:
            return plan
        cells = {column: cell.value for column, cell in old.row.columns.items()}
        return evolve(plan, put=evolve(plan.put, cells={**cells, **plan.put.cells}))


class Unconditional(IndexedRowPlanner):
    """Updates have no condition, but a timestamp of their own."""

    def condition(self, row: Row) -> tuple[bytes, bytes] | None:
        return None if self.mixed else super().condition(row)

    def _partial(self, write: UpdateFields, old: OldRow, timestamp: int) -> RowPlan:
        plan = super()._partial(write, old, timestamp)
        return plan if plan.put is None else evolve(plan, put=evolve(plan.put, timestamp=timestamp))


class NoExpiry(IndexedRowPlanner):
    """A row that expires counts as unchanged if one of its cells is unchanged, whatever the time of its expiry."""

    def condition(self, row: Row) -> tuple[bytes, bytes] | None:
        columns = {column: cell for column, cell in row.columns.items() if column != self.schema.expiry_column}
        return cell_of_condition(self.schema, evolve(row, columns=columns))  # type: ignore[type-var]


class DeletesAnyway(IndexedRowPlanner):
    """Deletes of rows that do not expire have no condition."""

    def _condition_of_delete(self, row: Row) -> tuple[bytes, bytes | None] | None:
        return super()._condition_of_delete(row) if self.rewritten_by_updates(row) else None


class OneExpiry(IndexedRowPlanner):
    """Rows that are put again have the same expiry cell."""

    def _end_cells(self, end: int | None, nonce: bytes) -> dict[bytes, bytes]:
        return super()._end_cells(end, b"")


BROKEN: Mapping[str, tuple[type[IndexedRowPlanner], tuple[str, str, Sequence[str], States, RowState]]] = {
    "updates put whole rows": (
        PutsWholeRows,
        ("atomic", "add", ("update page", "update line"), ("mixed", "mixed"), "marking"),
    ),
    "updates put whole rows, a delete": (
        PutsWholeRows,
        ("absent cells", "add", ("update line", "delete"), ("mixed", "adopting"), "marking"),
    ),
    "updates have no condition": (
        Unconditional,
        ("atomic", "add", ("delete", "update page"), ("marking", "mixed"), "marking"),
    ),
    "updates have no condition, two calls": (
        Unconditional,
        ("apart", "add", ("delete", "update page"), ("marking", "mixed"), "marking"),
    ),
    "nothing shows that a row is put again": (
        NoExpiry,
        ("absent cells", "expiring add", ("update page", "delete"), ("adopting", "adopting"), "marking"),
    ),
    "deletes have no condition": (
        DeletesAnyway,
        ("atomic", "add", ("expiring update", "delete"), ("marking", "mixed"), "marking"),
    ),
    "an expiry does not say whose it is": (
        OneExpiry,
        ("atomic", "expiring add", ("update page", "update line"), ("marking", "mixed"), "mixed"),
    ),
}


def _case(case: tuple[str, str, Sequence[str], States, RowState], rules: Rules) -> Iterator[RowConfiguration]:
    yield two(*case, rules)


MUTANTS: Mapping[str, Mutant] = {
    f"states: {name}": Mutant(Rules(indexed=planner), partial(_case, case), "")
    for name, (planner, case) in BROKEN.items()
}
