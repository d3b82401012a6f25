"""The rules of moves to another key broken on purpose; the checker must notice every one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from attrs import evolve, frozen

from hbmodel.mapping.rows.covering import VERIFIED
from hbmodel.mapping.schema import LIVE
from hbmodel.protocol.indexed.indexed_plan import IndexedRowPlanner, OldRow, RowPlan
from hbmodel.protocol.indexed.move_marks import COPIED, MoveMark
from hbmodel.protocol.operations import (
    CheckAndMutate,
    CheckAndMutateRows,
    GetRows,
    MutateRow,
    Operation,
    Protocol,
    PutRows,
    ReadClock,
    Together,
    carried_out,
)
from hbmodel.protocol.relocation.rekey_indexed_steps import IndexedMover, VersionedMover
from hbmodel.protocol.relocation.rekey_steps import UnindexedMover
from hbmodel.protocol.ttl_timestamps import OWN
from hbmodel.protocol.versioned.unique_values import CLAIMED, change_claim, claim_of, read_claims
from hbmodel.protocol.writes import PutObject
from hbmodel.store import ConditionalChange, Delete, Put, Row
from tests.checker.protocol_rekey import Rules, moves, refusals, renewals, values
from tests.checker.protocol_rekey_inserts import inserts
from tests.checker.protocol_version_mutants import VersionsAlone


@frozen
class Mutant:
    """One rule broken; see `protocol_mutants.Mutant`."""

    rules: Rules
    where: Callable[[Rules], Iterable[Any]]
    violation: str


class OldFirst(IndexedMover[IndexedRowPlanner]):
    """The old row is deleted before the new row exists."""

    def mark(self, row: Row, mark: MoveMark, version: int, over: MoveMark | None = None) -> Protocol[bool]:
        """Marks the row, and deletes it."""
        yield from super().mark(row, mark, version, over)
        return (yield from self._deleted(row))


class MarkedByForce(IndexedMover[IndexedRowPlanner]):
    """A mark is put over that of another program."""

    def mark(self, row: Row, mark: MoveMark, version: int, over: MoveMark | None = None) -> Protocol[bool]:
        """Puts the mark unchecked."""
        timestamp = self._after(row, (yield ReadClock()))
        yield PutRows(self.schema.table, [Put(row.row, {self.schema.move_column: mark.value}, timestamp)])
        return True


class MarksStay(IndexedMover[IndexedRowPlanner]):
    """No mark is taken away."""

    def clear(self, mark: MoveMark, row: bytes) -> Protocol[None]:
        """Does nothing."""
        return
        yield


class TwoMutations(IndexedMover[IndexedRowPlanner]):
    """An object moves within its row as between rows."""

    def moves_within_row(self, row: Row) -> bool:
        """Never."""
        return False


class Unwatched(IndexedRowPlanner):
    """An update puts a row that expires again, even if the row has changed or was marked by a move."""

    def condition(self, row: Row) -> None:
        """None."""


class MarksAlone(IndexedMover[IndexedRowPlanner]):
    """A mark in a row that expires does not change its version."""

    def mark(self, row: Row, mark: MoveMark, version: int, over: MoveMark | None = None) -> Protocol[bool]:
        """Only the mark is put."""
        planner = self.planner
        self.planner = Immortal(planner.schema, planner.indexes, planner.bound, planner.nonce)
        try:
            return (yield from super().mark(row, mark, version, over))
        finally:
            self.planner = planner


class WithinRow(IndexedMover[IndexedRowPlanner]):
    """An object with a TTL moves within its row by one mutation."""

    def moves_within_row(self, row: Row) -> bool:
        """Always."""
        return True


class Immortal(IndexedRowPlanner):
    """Treats no row as one that expires."""

    def rewritten_by_updates(self, row: Row) -> bool:
        """Never."""
        return False


class LeavesWhatever(UnindexedMover):
    """The old row is deleted under any mark, even a renewed one."""

    def leave(self, row: Row) -> Protocol[bool]:
        """Checks that the row is there."""
        column = self.schema.required_columns[0]
        applied: bool = yield CheckAndMutate(
            self.schema.table, row.row, column, row.columns[column].value, self._deletion(row)
        )
        return applied


class WithoutTraces(UnindexedMover):
    """An insert does not learn that its row was seen."""

    def mark(self, row: Row, mark: MoveMark, version: int, over: MoveMark | None = None) -> Protocol[bool]:
        """Leaves out the traces."""
        return super().mark(_unowned(row), mark, version, over)

    def _deletion(self, row: Row, masks: Sequence[Delete] = ()) -> list[Put | Delete]:
        return super()._deletion(_unowned(row), masks)


def _unowned(row: Row) -> Row:
    return evolve(
        row,
        columns={column: cell for column, cell in row.columns.items() if cell.value != OWN or column[:4] != b"d:_p"},
    )


class Nameless(IndexedMover[IndexedRowPlanner]):
    """A dead row does not show which version has been moved."""

    def _moved(self, plan: RowPlan, row: Row) -> RowPlan:
        return plan


class SecondRead(VersionedMover):
    """The checked version of the row is not the version from the first read."""

    def _changed_together(self, plan: RowPlan, before: OldRow, gone: RowPlan, old: Row) -> Protocol[bool]:
        change = self.planner.change(plan, before)
        assert gone.put is not None
        left = [gone.put] if gone.row_delete is None else [gone.put, gone.row_delete]
        both = ConditionalChange(change.row, change.column, change.expected, [*change.mutations, *left])
        (applied,) = yield CheckAndMutateRows(self.schema.table, [both])
        return bool(applied)


class ClaimsFirst(VersionedMover):
    """A value is claimed for the new row before that is there."""

    def copy(self, write: PutObject) -> Protocol[Any]:
        """Claims, and puts the row."""
        planner = self.planner
        found = [claim_of(index, entry) for index in planner.indexes for entry in write.entries[index.name]]
        claims = [claim for claim in found if claim is not None]
        cells = yield from read_claims(planner, claims)
        for claim in claims:
            change = change_claim(planner, claim, cells.get(claim), CLAIMED + planner.nonce() + write.row, 12)
            yield CheckAndMutateRows(claim.table, [change])
        return (yield from super().copy(write))


class ClaimsStay(VersionedMover):
    """A value stays claimed for the old row."""

    def claim(self, old: Row, new: Row) -> Protocol[bool]:
        """Claims nothing."""
        return True
        yield


class Unmarked(IndexedMover[IndexedRowPlanner]):
    """The old entries stay verified until they are deleted, which comes after the row."""

    def _gone(self, old: OldRow, now: int) -> RowPlan:
        return evolve(super()._gone(old, now), marks=[])


class UnmarkedVersions(VersionedMover):
    """The same of versioned rows."""

    def _gone(self, old: OldRow, now: int) -> RowPlan:
        return evolve(super()._gone(old, now), marks=[])


class MarkedVersions(VersionedMover):
    """A mark raises the version alone: the entries that answer for it stay verified."""

    def mark(self, row: Row, mark: MoveMark, version: int, over: MoveMark | None = None) -> Protocol[bool]:
        """Marks without the entries."""
        return (yield from _without_entries(self, super().mark(row, mark, version, over)))


class UnmarkedAlone(VersionedMover):
    """The same where a mark is taken away."""

    def unmark(self, row: Row, mark: MoveMark) -> Protocol[None]:
        """Takes the mark away without the entries."""
        yield from _without_entries(self, super().unmark(row, mark))


def _without_entries(mover: VersionedMover, protocol: Protocol[Any]) -> Protocol[Any]:
    planner = mover.planner
    mover.planner = VersionsAlone(
        planner.schema, planner.indexes, planner.bound, planner.nonce, planner.adopting, moving=True
    )
    try:
        return (yield from protocol)
    finally:
        mover.planner = planner


def _verified_at_once(protocol: Protocol[Any]) -> Protocol[Any]:
    """New entries are verified before their row is there."""
    return carried_out(protocol, lambda operation: _as_it_is(_verified_entries(operation)))


def _verified_entries(operation: Any) -> Any:
    if isinstance(operation, Together):
        return Together([_verified_entries(one) for one in operation.operations])
    return evolve(operation, puts=list(map(_verified, operation.puts))) if isinstance(operation, PutRows) else operation


def _verified(put: Put) -> Put:
    return evolve(
        put, cells={c: VERIFIED + v[1:] if c == b"d:_s" and b"d:_v" in put.cells else v for c, v in put.cells.items()}
    )


def _around(change: Callable[[CheckAndMutate], Protocol[Any]]) -> Rules:
    """Conditional changes are carried out by `change`."""

    def step(operation: Operation) -> Protocol[Any]:
        return change(operation) if isinstance(operation, CheckAndMutate) else _as_it_is(operation)

    return Rules(around=lambda protocol: carried_out(protocol, step))


def _refused_without(live: bool) -> Callable[[Protocol[Any]], Protocol[Any]]:
    """A refused insert begins again, whatever it finds of a row that is `live`, or dead."""

    def changed(protocol: Protocol[Any]) -> Protocol[Any]:
        put: Any = None

        def step(operation: Operation) -> Protocol[Any]:
            nonlocal put
            answer = yield operation
            if isinstance(operation, GetRows) and put is not None:
                (row,) = answer
                own = row is not None and row.columns[b"d:_v"].value == put.cells[b"d:_v"]
                answer = (
                    [None] if row is not None and not own and (row.columns[b"d:_l"].value == LIVE) == live else answer
                )
            put = operation.mutations[0] if isinstance(operation, CheckAndMutate) and not answer else None
            return answer

        return carried_out(protocol, step)

    return changed


def _as_it_is(operation: Any) -> Protocol[Any]:
    return (yield operation)


def _over_whatever(operation: CheckAndMutate) -> Protocol[Any]:
    """The new row is put unchecked."""
    if operation.column != b"d:_l":
        return (yield operation)
    yield MutateRow(operation.table, operation.mutations)
    return True


def _unmarked(operation: CheckAndMutate) -> Protocol[Any]:
    """The new row does not say where it comes from."""
    kept = [
        evolve(one, cells={c: v for c, v in one.cells.items() if c != b"d:_pm" or v[:1] != COPIED})
        if isinstance(one, Put)
        else one
        for one in operation.mutations
    ]
    return (yield evolve(operation, mutations=kept))


def _where(kind: str, beside: str = "nobody", also: str = "one") -> Callable[[Rules], Iterable[Any]]:
    return lambda rules: moves((kind,), (beside,), (also,), rules)


def _inserts(
    kind: str, beside: str = "nobody", repeat: int | None = None, *, late: bool = False
) -> Callable[[Rules], Iterable[Any]]:
    return lambda rules: inserts((kind,), (beside,), rules, (repeat,), late=late)


def _values(*calls: str) -> Callable[[Rules], Iterable[Any]]:
    return lambda rules: values(rules, calls=calls)


OLD, NEW, DELETED, INSERTED = (
    "an update of the old key", "an update of the new key", "a delete of the old key", "an insert of the new key",
)  # fmt: skip

MUTANTS: Mapping[str, Mutant] = {
    "the old row first": Mutant(Rules(indexed=OldFirst), _where("indexed"), "NEITHER"),
    "a mark over another": Mutant(Rules(indexed=MarkedByForce), _where("indexed", also="two ways"), "DOUBLED"),
    "marks stay": Mutant(Rules(indexed=MarksStay), _where("indexed"), "LEFT"),
    "a copy over whatever is there": Mutant(_around(_over_whatever), _where("indexed", INSERTED), "TAKEN"),
    "a copy without a mark": Mutant(_around(_unmarked), _where("indexed", also="twice"), "STUCK"),
    "an update puts an expiring row again where it was": Mutant(
        Rules(planner=Unwatched), _where("expiring", OLD), "DOUBLED"
    ),
    "a mark that an update does not notice": Mutant(Rules(indexed=MarksAlone), _where("expiring", OLD), "DOUBLED"),
    "an expiring object moves within its row at once": Mutant(
        Rules(indexed=WithinRow), _where("wide expiring", OLD), "LEFT"
    ),
    "two mutations of one row": Mutant(Rules(indexed=TwoMutations), _where("wide"), "BOTH"),
    "the version of the second read": Mutant(Rules(versioned=SecondRead), _where("wide versioned", OLD), "LOST"),
    "marks that nobody heeds": Mutant(Rules(frozen=False), _where("versioned", DELETED), "BACK"),
    "marks that nobody heeds, and a unique value": Mutant(Rules(frozen=False), _values("tag m"), "DUPLICATE"),
    "claims before the copy": Mutant(Rules(versioned=ClaimsFirst), _values("take"), "DUPLICATE"),
    "claims that stay": Mutant(Rules(versioned=ClaimsStay), _values("take"), "DUPLICATE"),
    "a delete under a mark that was renewed": Mutant(
        Rules(bare=LeavesWhatever), lambda rules: renewals("bare", rules), "NEITHER"
    ),
    "no traces": Mutant(Rules(bare=WithoutTraces), _inserts("bare"), "REFUSED"),
    "no traces, in one row": Mutant(Rules(bare=WithoutTraces), _inserts("wide bare"), "REFUSED"),
    "old entries without a mark": Mutant(
        Rules(versioned=UnmarkedVersions), lambda rules: refusals("covered", rules), "LIES"
    ),
    "old entries without a mark, rows that never change": Mutant(
        Rules(indexed=Unmarked), _where("covered fact"), "LIES"
    ),
    "old entries without a mark, in one row": Mutant(Rules(versioned=UnmarkedVersions), _where("wide covered"), "LIES"),
    "new entries that are verified before the row": Mutant(Rules(around=_verified_at_once), _where("covered"), "LIES"),
    "a mark that leaves the version of an entry": Mutant(Rules(versioned=MarkedVersions), _where("covered"), "LIES"),
    "a mark that is taken away, and leaves the version": Mutant(
        Rules(versioned=UnmarkedAlone), lambda rules: refusals("covered", rules), "LIES"
    ),
    "a dead row that does not say what has moved": Mutant(
        Rules(indexed=Nameless), _inserts("indexed", repeat=1), "DOUBLED"
    ),
    "a refused insert that begins again over a live row": Mutant(
        Rules(inserts=_refused_without(True)), _inserts("indexed", "an update", 1), "DOUBLED"
    ),
    "a refused insert that begins again over a dead row": Mutant(
        Rules(inserts=_refused_without(False)), _inserts("indexed", "an update", 1), "DOUBLED"
    ),
    "a reader that looks under the new key first": Mutant(Rules(new_first=True), _where("versioned"), "MISSED"),
    "the last write wins, and none may be lost": Mutant(Rules(exact=True), _where("indexed", OLD), "LOST"),
}
"""The last two are no rules of the code: they say what the documentation says that a reader, or a writer, cannot
count on.
"""
