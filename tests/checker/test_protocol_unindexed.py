"""Writers of a row without an index through every interleaving with each other, the server's clock and the end of lives."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest
from attrs import evolve

from hbmodel.protocol.index_build import RowIndexer
from hbmodel.protocol.operations import CheckAndMutate, LetClockTick, MutateRow, Operation, Protocol, PutRows
from hbmodel.protocol.server_time import StampedRow
from hbmodel.protocol.unindexed_batch import UnindexedRowPlan
from hbmodel.protocol.unindexed_plan import UnindexedRowPlanner
from hbmodel.store import Capabilities, Put
from hbmodel.tables.registration import RowState
from tests.checker.protocol_unindexed import APART, ATOMIC, SHIPPED, RowModel, Rules, Slip, Sparse, calls_of

BEGINNINGS = ("absent", "add", "expiring add", "expiring add, add")
ENOUGH = 40_000
"""States of one pair of programs, at most, in the default run."""


def run(
    model: Any, begin: str, programs: Sequence[Sequence[str]], can: Capabilities = ATOMIC, rules: Rules = SHIPPED, **options: Any
) -> Any:
    """What the checker says of two programs; under `null="delete"` two writers of one millisecond may mix."""
    return RowModel(model, begin, programs, can, rules, distinct=model is Sparse, **options).run(limit=options.pop("limit", ENOUGH))


def pairs(model: Any, can: Capabilities) -> Iterator[tuple[str, str, str]]:
    """Every two calls over every beginning; without atomic changes there is no insert, and columns whose None is no cell may mix."""
    names = [name for name in calls_of(model) if can is ATOMIC or "insert" not in name]
    return ((begin, *two) for begin in BEGINNINGS for two in itertools.combinations_with_replacement(names, 2))


@pytest.mark.parametrize(("model", "can"), [(Slip, ATOMIC), (Slip, APART), (Sparse, ATOMIC)], ids=["atomic", "apart", "absent cells"])
def test_two_calls_are_as_if_made_one_after_the_other(model: Any, can: Capabilities, record_property: Callable[[str, Any], None]) -> None:
    states = 0
    for begin, one, other in list(pairs(model, can))[::7]:
        found = run(model, begin, [[one], [other]], can, ticks=0)
        states += found["states"]
        assert found["ok"] is not False, (begin, one, other, found["error"], found["trace"])
    record_property("states", states)
    assert states > 10_000


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("model", "can"), [(Slip, ATOMIC), (Slip, APART), (Sparse, ATOMIC)], ids=["atomic", "apart", "absent cells"])
def test_every_two_calls_and_every_tick(model: Any, can: Capabilities, record_property: Callable[[str, Any], None]) -> None:
    states = 0
    for begin, one, other in pairs(model, can):
        found = RowModel(model, begin, [[one], [other]], can, distinct=model is Sparse).run(limit=600_000)
        states += found["states"]
        assert found["ok"] is not False, (begin, one, other, found["error"], found["trace"])
    record_property("states", states)


@pytest.mark.parametrize("programs", [(("delete", "expiring add"), ("get",)), (("delete", "expiring insert"), ("update page",))])
def test_a_call_that_follows_another_sees_it(programs: Sequence[Sequence[str]]) -> None:
    for begin in BEGINNINGS:
        found = run(Slip, begin, programs, ticks=0)
        assert found["ok"] is not False, (begin, found["error"], found["trace"])


# --- rules broken on purpose ------------------------------------------------------------------------------------------


class OwnClock(UnindexedRowPlanner):
    """A row that expires takes its time from the clock of its writer, which stands a little behind the server's."""

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


def _changed(protocol: Protocol[Any], change: Callable[[Operation], Operation | None]) -> Protocol[Any]:
    answer: Any = None
    while True:
        try:
            operation = protocol.send(answer)
        except StopIteration as stop:
            return stop.value
        made = change(operation)
        answer = None if made is None else (yield made)
        if made is not operation and isinstance(operation, CheckAndMutate):
            answer = True


MUTANTS: Mapping[str, tuple[Rules, str, Sequence[Sequence[str]]]] = {
    "a clock behind the server's": (Rules(writer=OwnClock), "add", (("delete", "expiring add"),)),
    "a clock ahead of the server's": (Rules(writer=ClockAhead), "add", (("expiring add", "delete"),)),
    "older cells stay": (Rules(writer=OlderStays), "add", (("expiring add",),)),
    "older cells go at the time of the put": (Rules(writer=DeleteAtTime), "add", (("expiring add",),)),
    "no tick between time and read": (Rules(around=without_ticks), "absent", (("expiring add",), ("add b", "update note"))),
    "no tick after a delete": (Rules(ticks=False), "add", (("delete", "add"),)),
    "no check of what is updated": (Rules(around=without_checks), "add", (("update page",), ("delete",))),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_rule_is_found_where_the_shipped_code_holds(name: str) -> None:
    rules, begin, programs = MUTANTS[name]
    found = run(Slip, begin, programs, rules=rules)
    assert found["ok"] is False, f"the checker does not notice: {name}"
    held = run(Slip, begin, programs)
    assert held["ok"] is True, (held["error"], held["trace"])


# --- a table that gets its first index --------------------------------------------------------------------------------

SIDE_BY_SIDE: Sequence[tuple[RowState, RowState]] = (
    ("unindexed", "marking"), ("marking", "marking"), ("marking", "mixed"), ("mixed", "mixed"), ("mixed", "adopting"),
)  # fmt: skip


def joint(can: Capabilities) -> Iterator[tuple[str, str, str, tuple[RowState, RowState], int]]:
    """Every two calls of programs that know the table in two states, over every beginning made by one of them."""
    names = [name for name in calls_of(Slip) if can is ATOMIC or "insert" not in name]
    return (
        (begin, one, two, rows, first)
        for rows in SIDE_BY_SIDE for begin in BEGINNINGS for one in names for two in names for first in (0, 1)
    )  # fmt: skip


def run_joint(model: Any, case: tuple[str, str, str, tuple[RowState, RowState], int], can: Capabilities, **options: Any) -> Any:
    """Two programs, where no two puts share a millisecond.

    Of a row that expires beside an update its columns alone may stay, which is no object once the table is indexed.
    """
    begin, one, two, rows, first = case
    apart = "expiring" in one + two + begin and "update" in one + two and rows != ("unindexed", "marking")
    return RowModel(model, begin, [[one], [two]], can, distinct=True, rows=rows, first=first, ends=not apart, **options)


@pytest.mark.parametrize(("model", "can"), [(Slip, ATOMIC), (Slip, APART), (Sparse, ATOMIC)], ids=["atomic", "apart", "absent cells"])
def test_programs_of_adjacent_states_see_one_row(model: Any, can: Capabilities, record_property: Callable[[str, Any], None]) -> None:
    states = 0
    for case in list(joint(can))[::89]:
        found = run_joint(model, case, can, ticks=0).run(limit=ENOUGH)
        states += found["states"]
        assert found["ok"] is not False, (case, found["error"], found["trace"])
    record_property("states", states)
    assert states > 10_000


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("model", "can"), [(Slip, ATOMIC), (Slip, APART), (Sparse, ATOMIC)], ids=["atomic", "apart", "absent cells"])
def test_every_two_programs_of_adjacent_states(model: Any, can: Capabilities, record_property: Callable[[str, Any], None]) -> None:
    states = 0
    for case in joint(can):
        found = run_joint(model, case, can, ticks=0).run(limit=600_000)
        states += found["states"]
        assert found["ok"] is not False, (case, found["error"], found["trace"])
    record_property("states", states)


def adopted(names: Sequence[str] = ("add", "update page", "update note", "delete", "expiring add", "insert")) -> Iterator[Any]:
    """Two programs beside a build that adopts their row, which was put before any index was known."""
    for before in ("unindexed", "marking"):
        for begin in BEGINNINGS:
            for programs in itertools.combinations_with_replacement(names, 2):
                yield begin, [[name] for name in programs], before


@pytest.mark.parametrize(("model", "part"), [(Slip, 4), (Sparse, 9)])
def test_rows_that_are_adopted_stay_what_they_are(model: Any, part: int, record_property: Callable[[str, Any], None]) -> None:
    states = 0
    for begin, programs, before in list(adopted())[::part]:
        ends = not any("expiring" in name for name in (begin, *itertools.chain.from_iterable(programs)))
        options: dict[str, Any] = {"rows": ["adopting"] * 2, "before": before, "adopt": True, "distinct": True, "ticks": 0, "ends": ends}
        found = RowModel(model, begin, programs, **options).run(limit=ENOUGH)
        states += found["states"]
        assert found["ok"] is not False, (begin, programs, before, found["error"], found["trace"])
    record_property("states", states)


class AtNewest(RowIndexer):
    """System cells have the time of the row's newest cell."""

    def _oldest(self, row: Any, after: int = -1) -> int:
        return max(cell.timestamp for cell in row.columns.values())


def test_a_row_adopted_at_its_newest_time_comes_back() -> None:
    options: dict[str, Any] = {"rows": ["adopting"] * 2, "before": "unindexed", "adopt": True, "distinct": True, "ticks": 0, "ends": False}
    found = RowModel(Slip, "add", [["update page"], ["delete"]], rules=Rules(indexer=AtNewest), **options).run(limit=ENOUGH)
    assert found["ok"] is False
    held = RowModel(Slip, "add", [["update page"], ["delete"]], **options).run(limit=ENOUGH)
    assert held["ok"] is True, (held["error"], held["trace"])


SKIPPED: Mapping[str, tuple[Rules, tuple[str, str, str, tuple[RowState, RowState], int]]] = {
    "puts set no liveness cell": (Rules(marking=False), ("add", "add", "delete", ("marking", "mixed"), 0)),
    "updates leave the rest of the row": (Rules(mixed=False), ("add", "delete", "update page", ("marking", "mixed"), 0)),
    "writers know of no liveness cell": (SHIPPED, ("add", "add", "delete", ("unindexed", "mixed"), 0)),
    "deletes leave no marker": (SHIPPED, ("add", "delete", "update page", ("marking", "adopting"), 0)),
}


@pytest.mark.parametrize("name", SKIPPED)
def test_a_state_that_is_left_out_is_found(name: str) -> None:
    rules, case = SKIPPED[name]
    found = run_joint(Slip, case, ATOMIC, rules=rules).run(limit=ENOUGH)
    assert found["ok"] is False, f"the checker does not notice: {name}"
