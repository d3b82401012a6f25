"""Rules of models without indexes, and of tables that get their first one, broken on purpose; the checker must
notice every one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

from attrs import evolve

from hbmodel.mapping.rows.mapper import RowDecoder
from hbmodel.mapping.schema import LIVE
from hbmodel.protocol.indexed.index_build import RowIndexer
from hbmodel.protocol.operations import (
    CheckAndMutate,
    GetRows,
    LetClockTick,
    MutateRow,
    Operation,
    Protocol,
    PutRows,
    carried_out,
)
from hbmodel.protocol.server_timed.unindexed_batch import UnindexedRowPlan
from hbmodel.protocol.server_timed.unindexed_plan import UnindexedRowPlanner
from hbmodel.protocol.ttl_timestamps import StampedRow
from hbmodel.store import Put
from hbmodel.tables.registry.registration import Binding, RowState
from tests.checker.protocol_mutants import Mutant
from tests.checker.protocol_row_sweeps import Case, RowConfiguration, early_reads, side_by_side
from tests.checker.protocol_unindexed import SHIPPED, Free, PageIndexed, RowModel, Rules, Slip


class OwnClock(UnindexedRowPlanner):
    """A row that expires takes its time from the clock of its writer, which is a little behind the server's."""

    behind = -1

    def stamped(self, rows: Any, bound: int) -> Protocol[dict[bytes, StampedRow]]:
        found = yield from super().stamped(rows, bound)
        return {row: evolve(stamped, timestamp=stamped.timestamp + self.behind) for row, stamped in found.items()}


class ClockAhead(OwnClock):
    """The same with a clock that runs ahead."""

    behind = 5


class OlderStays(UnindexedRowPlanner):
    """A put that expires deletes nothing below itself."""

    def _expiring(self, *args: Any) -> UnindexedRowPlan:
        plan = super()._expiring(*args)
        return evolve(plan, deletes=plan.deletes[1:])


class DeleteAtTime(UnindexedRowPlanner):
    """The delete of what is older is at the time of the put."""

    def _expiring(self, *args: Any) -> UnindexedRowPlan:
        plan = super()._expiring(*args)
        older = evolve(plan.deletes[0], timestamp=plan.outcome.timestamp)
        return evolve(plan, deletes=[older, *plan.deletes[1:]])


class ForgetsInserts(UnindexedRowPlanner):
    """A row that is put again, to expire, loses the cell that shows which insert put it."""

    def _owned(self, plan: UnindexedRowPlan, row: StampedRow) -> UnindexedRowPlan:
        return plan


class NoSpareFlag(UnindexedRowPlanner):
    """A row without any cell but those that may be deleted gets no flag."""

    def cells(self, write: Any) -> Mapping[bytes, bytes]:
        return {
            column: value for column, value in super().cells(write).items() if column != self.schema.spare_flag_column
        }

    def _plan(self, *args: Any) -> UnindexedRowPlan:
        plan = super()._plan(*args)
        cells = (
            {} if plan.put is None else {c: v for c, v in plan.put.cells.items() if c != self.schema.spare_flag_column}
        )
        return evolve(plan, put=evolve(plan.put, cells=cells) if plan.put is not None and cells else None)


def without_ticks(protocol: Protocol[Any]) -> Protocol[Any]:
    """The time of a row is taken and used within a millisecond."""
    return _changed(protocol, lambda operation: None if isinstance(operation, LetClockTick) else operation)


def without_checks(protocol: Protocol[Any]) -> Protocol[Any]:
    """Updates put what they put, whether the row is still there or not."""

    def unchecked(operation: Operation) -> Operation:
        if not isinstance(operation, CheckAndMutate):
            return operation
        if all(isinstance(mutation, Put) for mutation in operation.mutations):
            return PutRows(operation.table, [mutation for mutation in operation.mutations if isinstance(mutation, Put)])
        return MutateRow(operation.table, operation.mutations)

    return _changed(protocol, unchecked)


def put_until_seen(protocol: Protocol[Any]) -> Protocol[Any]:
    """An insert puts its row again while no cell of the row is visible."""

    def step(operation: Operation) -> Protocol[Any]:
        answer = yield operation
        while isinstance(operation, CheckAndMutate) and answer:
            (row,) = yield GetRows(operation.table, [operation.row], ())
            if row is not None:
                break
            yield LetClockTick()
            answer = yield operation
        return answer

    return carried_out(protocol, step)


def _changed(protocol: Protocol[Any], change: Callable[[Operation], Operation | None]) -> Protocol[Any]:
    def step(operation: Operation) -> Protocol[Any]:
        made = change(operation)
        answer = None if made is None else (yield made)
        return True if isinstance(operation, CheckAndMutate) and not isinstance(made, CheckAndMutate) else answer

    return carried_out(protocol, step)


CALLS: Mapping[str, tuple[Rules, str, Sequence[Sequence[str]]]] = {
    "a clock behind the server's": (Rules(writer=OwnClock), "add", (("delete", "expiring add"),)),
    "a clock ahead of the server's": (Rules(writer=ClockAhead), "add", (("expiring add", "delete"),)),
    "older cells stay": (Rules(writer=OlderStays), "add", (("expiring add",),)),
    "older cells go at the time of the put": (Rules(writer=DeleteAtTime), "add", (("expiring add",),)),
    "no tick between time and read": (
        Rules(around=without_ticks),
        "absent",
        (("expiring add",), ("add b", "update note")),
    ),
    "no tick after a delete": (Rules(ticks=False), "add", (("delete", "add"),)),
    "a row put again forgets its insert": (Rules(writer=ForgetsInserts), "absent", (("insert",), ("expiring update",))),
    "an insert that is hidden is put again": (
        Rules(around=put_until_seen),
        "absent",
        (("insert",), ("insert", "delete")),
    ),
    "no check of what is updated": (Rules(around=without_checks), "add", (("update page",), ("delete",))),
}


class AtNewest(RowIndexer):
    """System cells have the time of the row's newest cell."""

    def _oldest(self, row: Any, after: int = -1) -> int:
        return max(cell.timestamp for cell in row.columns.values())


class AdoptedForEver(RowIndexer):
    """The system cells of a row that expires are put without a TTL."""

    def _adoption(self, row: Any, end: int | None) -> Put | None:
        put = super()._adoption(row, end)
        return None if put is None else evolve(put, ttl=None)


class EndForgotten(RowIndexer):
    """The liveness cell of a row that expires does not contain the time of expiry."""

    def _adoption(self, row: Any, end: int | None) -> Put | None:
        put, column = super()._adoption(row, end), self.schema.liveness_column
        return put if put is None or column not in put.cells else evolve(put, cells={**put.cells, column: LIVE})


SKIPPED: Mapping[str, tuple[Rules, Case, tuple[RowState, RowState]]] = {
    "puts set no liveness cell": (
        Rules(marking=False),
        ("add", "add", "delete", ("marking", "mixed"), 0),
        ("marking", "mixed"),
    ),
    "updates leave the rest of the row": (
        Rules(mixed=False),
        ("add", "delete", "update page", ("marking", "mixed"), 0),
        ("marking", "mixed"),
    ),
    "writers know of no liveness cell": (
        Rules(),
        ("add", "add", "delete", ("unindexed", "mixed"), 0),
        ("unindexed", "marking"),
    ),
    "deletes leave no marker": (
        Rules(),
        ("add", "delete", "update page", ("marking", "adopting"), 0),
        ("mixed", "adopting"),
    ),
}
"""What programs must do in states of a table, and which states there must be between others: code, case, and the
states that may be.
"""


def _calls(begin: str, programs: Sequence[Sequence[str]], rules: Rules) -> Iterable[RowConfiguration]:
    yield f"{begin}: {programs}", RowModel(Slip, begin, programs, rules=rules)


def _forgetting(model: Any, other: str, rules: Rules) -> Iterable[RowConfiguration]:
    yield (
        f"{other} beside an update to None",
        RowModel(model, "add", ((other,), ("forget the rest",)), rules=rules, presence=True),
    )


def _joint(case: Case, adjacent: tuple[RowState, RowState], rules: Rules) -> Iterable[RowConfiguration]:
    """The shipped code in states that may be in use at the same time; any other code in the states of the case."""
    begin, one, other, rows, first = case
    yield f"{case}", side_by_side("atomic", (begin, one, other, adjacent if rules is SHIPPED else rows, first), rules)


def _adopted(begin: str, programs: Sequence[str], ends: bool, rules: Rules) -> Iterable[RowConfiguration]:
    options: dict[str, Any] = {
        "rows": ["adopting"] * 2,
        "before": "unindexed",
        "adopt": True,
        "distinct": True,
        "ticks": 0,
        "ends": ends,
    }
    yield "an adopted row", RowModel(Slip, begin, [[name] for name in programs], rules=rules, **options)


def _blind(binding: Binding) -> RowDecoder:
    """A session that knows of no index does not look at liveness cells."""
    return RowDecoder.of(binding.schema, binding.indexed, None, binding.indexed and binding.adopting)


class WithoutLiveness(RowDecoder):
    """A projection that does not read the liveness cell."""

    @cached_property
    def columns(self) -> Sequence[bytes]:  # type: ignore[override]
        return RowDecoder.of(self.schema, indexed=False, names=self.names).columns


def _blind_glance(binding: Binding) -> RowDecoder:
    return WithoutLiveness(binding.schema, binding.indexed, frozenset({"note"}), binding.adopting)


def _early(names: Sequence[str], rules: Rules) -> Iterable[RowConfiguration]:
    """The shipped code writes as for an indexed page."""
    return early_reads("atomic", [("adopting", "adopting")], names, evolve(rules, indexed=PageIndexed))


MUTANTS: Mapping[str, Mutant] = {
    "an early reader ignores dead markers": Mutant(
        Rules(reader=_blind), partial(_early, ("delete", "update note")), "UNEXPLAINED"
    ),
    "an early projection leaves dead markers out": Mutant(
        Rules(glance=_blind_glance), partial(_early, ("delete", "update note")), "UNEXPLAINED"
    ),
    **{name: Mutant(rules, partial(_calls, begin, programs), "") for name, (rules, begin, programs) in CALLS.items()},
    **{name: Mutant(rules, partial(_joint, case, adjacent), "") for name, (rules, case, adjacent) in SKIPPED.items()},
    "no flag where each cell may be deleted": Mutant(
        Rules(writer=NoSpareFlag), partial(_forgetting, Free, "update page, forget"), ""
    ),
    "a row that expires is adopted without its end": Mutant(
        Rules(indexer=EndForgotten), partial(_adopted, "expiring add", ("insert", "insert"), True), "UNSAID"
    ),
}
