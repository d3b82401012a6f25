"""The rules of commits of several kinds into one row broken on purpose; the checker must notice every one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from attrs import evolve, frozen

from hbmodel.protocol.indexed.indexed_plan import RowPlan
from hbmodel.protocol.operations import Acknowledge, CheckAndMutateRows, Operation, Protocol, ReadClock
from hbmodel.protocol.versioned import versioned_write
from hbmodel.protocol.versioned.versioned_write import WrittenRows
from hbmodel.session.commit.shared_row_commit import JointCommit, Part
from hbmodel.store import Delete, Put
from hbmodel.store.port import EVERYTHING_POSSIBLE
from hbmodel.store.row_changes import RowChanges
from tests.checker.protocol_joint import SHIPPED, Rules, joint


@frozen
class Mutant:
    """One rule broken; see `protocol_mutants.Mutant`."""

    rules: Rules
    where: Callable[[Rules], Iterable[Any]]
    violation: str


class PartByPart(JointCommit):
    """The row changes of one part are carried out before the next part continues."""

    def _until_rows_change(self, part: Part) -> None:
        super()._until_rows_change(part)
        self._carry_out(frozenset())


class Torn(JointCommit):
    """Puts and deletes of a row are separate calls."""

    def __init__(self, store: Any, table: str, parts: Any, shared: Any, clock: Any) -> None:
        super().__init__(store, table, parts, shared, clock)
        apart = evolve(EVERYTHING_POSSIBLE, mutate_row=False)
        self._changes = RowChanges(_Limited(store, apart), table, frozenset())  # type: ignore[arg-type]


class _Limited:
    """A store that can do less."""

    def __init__(self, store: Any, capabilities: Any) -> None:
        self.capabilities, self.put, self.delete = capabilities, store.put, store.delete


class SeveralTimes(JointCommit):
    """Each object gets the time that it needs, regardless of the other objects in the row."""

    def _gather(self, part: Part, changes: Sequence[Put | Delete]) -> None:
        self._changes.add(changes)


class OwnReadings(SeveralTimes):
    """Each part reads the clock for itself."""

    def _perform(self, part: Part, operation: Operation) -> Any:
        return self._clock.now() if isinstance(operation, ReadClock) else super()._perform(part, operation)


class Early(JointCommit):
    """Writes are acknowledged before the row is changed."""

    def _until_rows_change(self, part: Part) -> None:
        super()._until_rows_change(part)
        if part.gathered and not isinstance(part.operation, CheckAndMutateRows):
            part.gathered = False
            while part.operation is not None and not isinstance(part.operation, Acknowledge):
                part.step(self._perform(part, part.operation))
            if isinstance(part.operation, Acknowledge):
                part.outcomes = part.operation.outcomes
                part.step(None)
            super()._until_rows_change(part)


class ConditionalApart(JointCommit):
    """The conditional changes of each part are a separate call."""

    def _change_if(self, parts: Sequence[Part]) -> None:
        for part in parts:
            super()._change_if([part])


class Settled(WrittenRows):
    """A write that changes nothing has its outcome whatever becomes of the others of its row."""

    def _judged_with_row(self, plan: RowPlan) -> bool:
        return False


class Untraced(JointCommit):
    """Whether a refused change was carried out before is left to those who have changed something."""

    def _landed(self, parts: Any, asked: Any, ready: Any, applied: Sequence[bool]) -> Sequence[bool]:
        return applied


def _settled(protocol: Protocol[Any]) -> Protocol[Any]:
    """The protocol, with rounds that are broken."""
    answer: Any = None
    while True:
        made, versioned_write.WrittenRows = versioned_write.WrittenRows, Settled  # type: ignore[misc]
        try:
            operation = protocol.send(answer)
        except StopIteration as stop:
            return stop.value
        finally:
            versioned_write.WrittenRows = made  # type: ignore[misc]
        answer = yield operation


def pair(
    kind: str, one: str, other: str, clocks: Sequence[int] = (12,), **options: Any
) -> Callable[[Rules], Iterable[Any]]:
    """These two commits."""
    return lambda rules: joint(kind, (one,), (other,), clocks, rules, **options)


FINAL = evolve(EVERYTHING_POSSIBLE, final_refusals=True)

MUTANTS: Mapping[str, Mutant] = {
    "each part by itself": Mutant(Rules(PartByPart), pair("no index", "put both", "put all"), "HALF"),
    "each part by itself, with an index": Mutant(Rules(PartByPart), pair("indexed", "put both", "delete both"), "HALF"),
    "puts and deletes apart": Mutant(Rules(Torn), pair("no index", "delete, put", "put both"), "HALF"),
    "several times in one row": Mutant(Rules(SeveralTimes), pair("indexed", "put all", "put both", (5, 12)), "HALF"),
    "a reading of the clock for each part": Mutant(
        Rules(OwnReadings), pair("indexed", "put all", "put both", (11, 12)), "HALF"
    ),
    "acknowledged before the row": Mutant(Rules(Early), pair("indexed", "put both", "tags"), "MISSING"),
    "conditional changes apart": Mutant(Rules(ConditionalApart), pair("versioned", "put both", "put all"), "HALF"),
    "an absent object settled at once": Mutant(
        Rules(around=_settled), pair("versioned", "put, delete nothing", "put both pets"), "HALF"
    ),
    "an absent object of another kind settled at once": Mutant(
        Rules(around=_settled), pair("versioned", "put owner, delete nothing", "put owner and pet"), "HALF"
    ),
    "an absent object beside a lost answer": Mutant(
        Rules(Untraced), pair("versioned", "put owner, delete nothing", "put owner and pet", lost=0), "HALF"
    ),
    "two commits in one millisecond": Mutant(
        evolve(SHIPPED, distinct=False), pair("no index", "delete, put", "put both"), "HALF"
    ),
}
