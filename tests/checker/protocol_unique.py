"""Unique indexes in the model checker: writers of two rows that want the same values, and the rules of claims broken
on purpose.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from attrs import define, evolve

import hbmodel as hb
from hbmodel.protocol.operations import (
    Acknowledge,
    CheckAndMutateRows,
    GetRows,
    Protocol,
)
from hbmodel.protocol.versioned.unique_values import CLAIMED, RELEASED, Claim, claim_of, owner_of
from hbmodel.protocol.writes import DeleteRow, PutObject, UpdateFields, put_object
from hbmodel.store import ConditionalChange, Put
from tests.checker.behaviour import once
from tests.checker.clocks import Clocks, at_clocks
from tests.checker.protocol_adapter import Store, visible
from tests.checker.protocol_invariants import ProtocolModel
from tests.checker.protocol_processes import Insert
from tests.checker.protocol_sweeps import Configuration, Process
from tests.checker.protocol_version_mutants import Mutant
from tests.checker.protocol_versions import SHIPPED, Action, Rules, VersionWatch, claims_in, prepared, writer


@hb.model(table="members", family="d")
class Member:
    """One unique index."""

    name: hb.Key[str] = hb.key()
    tag: hb.Column[str | None] = hb.column("t", default=None)
    note: hb.Column[str | None] = hb.column("n", default=None)
    version: hb.Column[int] = hb.version()

    by_tag = hb.index("tag", unique=True)


MEMBER = hb.schema.schema_of(Member)
INDEX = MEMBER.indexes["by_tag"]


def put(name: str, tag: str | None) -> PutObject:
    """A full write."""
    return put_object(MEMBER, Member(name=name, tag=tag))


def change(name: str, **changes: Any) -> UpdateFields:
    """A partial update."""
    return UpdateFields(None, hb.row_key(Member, name=name), {"name": name}, changes)


def gone(name: str) -> DeleteRow:
    """A delete."""
    return DeleteRow(None, hb.row_key(Member, name=name))


ACTIONS: Mapping[str, tuple[Action, ...]] = {
    "k x": (put("k", "x"),),
    "k y": (change("k", tag="y"),),
    "k none": (change("k", tag=None),),
    "k note": (change("k", note="n"),),
    "k gone": (gone("k"),),
    "m x": (put("m", "x"),),
    "m y": (put("m", "y"),),
    "m insert x": (Insert(put("m", "x")),),
    "k y, k x": (change("k", tag="y"), change("k", tag="x")),
    "k gone, m x": (gone("k"), put("m", "x")),
}


def _claimed(store: Store, tag: str, owner: str) -> Store:
    """With the claim of a writer that crashed before it wrote its row."""
    (entry,) = put(owner, tag).entries["by_tag"]
    claim = claim_of(INDEX, entry)
    assert claim is not None
    cell = (MEMBER.claim_column, (-1, 3, CLAIMED + b"crashed!" + hb.row_key(Member, name=owner)))
    return {**store, (claims_in(INDEX.table), claim.key): (-1, (cell,))}


OWNED = prepared(MEMBER, (10, put("k", "x")))
STORES: Mapping[str, Store] = {
    "empty": {},
    "owned": OWNED,
    "a claim of nobody": _claimed({}, "x", "k"),
    "a claim beside": _claimed(OWNED, "y", "k"),
}


@define(eq=False)
class UniqueWatch(VersionWatch):
    """No value twice, and each claimed for the row that holds it."""

    def _broken(self, store: Store) -> Iterator[str]:
        yield from super()._broken(store)
        seen: dict[Claim, bytes] = {}
        for row in self.rows(store):
            for index, entry in self.view(store, row).entries:
                claim = claim_of(index, entry) if index.unique else None
                if claim is None:
                    continue
                if claim in seen:
                    yield f"DUPLICATE: rows {seen[claim]!r} and {row!r} hold {claim.values}"
                seen[claim] = row
                cells = [value for _, _, value in visible(store, claims_in(index.table), claim.key)]
                if not cells or owner_of(cells[0]) != row:
                    yield f"CLAIM: row {row!r} holds {claim.values}, whose claim is {cells}"


@once
def watch_of() -> UniqueWatch:
    """The invariants, with all that was found out about stores."""
    return UniqueWatch(MEMBER)


def members(
    names: Sequence[str] = tuple(ACTIONS),
    rules: Rules = SHIPPED,
    *,
    stores: Sequence[str] = tuple(STORES),
    clocks: Clocks = (12,),
    count: int = 2,
    crashes: int = 1,
    ordered: bool = False,
    **options: Any,
) -> Iterator[Configuration]:
    """Writers of two rows; `options` are of the first."""
    chosen_of = (
        itertools.product(names, repeat=count) if ordered else itertools.combinations_with_replacement(names, count)
    )
    for kind, chosen, clock in at_clocks(clocks, 1, stores, list(chosen_of)):
        running: list[Process] = [
            (f"W{n}", writer(MEMBER, n, ACTIONS[name], clock, rules, **(options if n == 1 else {})), clock)
            for n, name in enumerate(chosen, 1)
        ]
        yield f"{kind}, {chosen}, {options}", ProtocolModel(watch_of(), STORES[kind], running, crashes)


# --- rules broken on purpose ------------------------------------------------------------------------------------------


def around(change: Callable[[CheckAndMutateRows], Protocol[Any]]) -> Rules:
    """Conditional changes are carried out by `change`."""

    def changed(protocol: Protocol[Any]) -> Protocol[Any]:
        answer: Any = None
        while True:
            try:
                operation = protocol.send(answer)
            except StopIteration as stop:
                return stop.value
            answer = yield from change(operation) if isinstance(operation, CheckAndMutateRows) else _as_it_is(operation)

    return Rules(around=changed)


def _as_it_is(operation: Any) -> Protocol[Any]:
    return (yield operation)


def _is_fence(change: ConditionalChange) -> bool:
    return all(isinstance(put, Put) and put.cells.keys() <= {b"d:_v", b"d:_l"} for put in change.mutations)


def unfenced(operation: CheckAndMutateRows) -> Protocol[Any]:
    """A claim is taken over from a row that is not fenced."""
    if operation.table == MEMBER.table and all(map(_is_fence, operation.changes)):
        return [True for _ in operation.changes]
    return (yield operation)


def unclaimed(operation: CheckAndMutateRows) -> Protocol[Any]:
    """Nothing is claimed."""
    if operation.table == INDEX.table:
        return [True for _ in operation.changes]
    return (yield operation)


def by_force(operation: CheckAndMutateRows) -> Protocol[Any]:
    """A claim is put over whatever is there."""
    if operation.table != INDEX.table:
        return (yield operation)
    rows = yield GetRows(operation.table, [change.row for change in operation.changes], [MEMBER.claim_column])
    now = [None if row is None else row.columns[MEMBER.claim_column] for row in rows]
    forced = [
        evolve(
            change,
            expected=None if cell is None else cell.value,
            mutations=[
                evolve(put, timestamp=max(put.timestamp, 0 if cell is None else cell.timestamp + 1))
                for put in change.mutations
            ],
        )
        for change, cell in zip(operation.changes, now, strict=True)
    ]
    return (yield CheckAndMutateRows(operation.table, forced))


def _value(change: ConditionalChange) -> bytes:
    (put,) = change.mutations
    assert isinstance(put, Put)
    return bytes(put.cells[MEMBER.claim_column])


def late_release(operation: CheckAndMutateRows) -> Protocol[Any]:
    """The claims to release are read only after the row is written."""
    if operation.table == INDEX.table and all(_value(change)[:1] == RELEASED for change in operation.changes):
        return (yield from by_force(operation))
    return (yield operation)


def loser_releases(protocol: Protocol[Any]) -> Protocol[Any]:
    """Whoever does not come to write the row gives its claim up."""
    answer: Any = None
    held: list[ConditionalChange] = []
    while True:
        try:
            operation = protocol.send(answer)
        except StopIteration as stop:
            return stop.value
        answer = yield operation
        if not isinstance(operation, CheckAndMutateRows):
            continue
        if operation.table == INDEX.table:
            held += [change for change, applied in zip(operation.changes, answer, strict=True) if applied]
        elif not all(answer) and not all(map(_is_fence, operation.changes)):
            for change in held:
                (put,) = change.mutations
                assert isinstance(put, Put)
                value = _value(change)
                freed = evolve(
                    put, cells={MEMBER.claim_column: RELEASED + value[1:9]}, timestamp=(put.timestamp or 0) + 1
                )
                yield CheckAndMutateRows(INDEX.table, [evolve(change, expected=value, mutations=[freed])])
            held = []


def same_nonce(operation: CheckAndMutateRows) -> Protocol[Any]:
    """The writer's own earlier claim is used again unchanged."""
    if operation.table == INDEX.table:
        (change,) = operation.changes
        if change.expected is not None and _value(change)[:1] == CLAIMED and change.expected[9:] == _value(change)[9:]:
            return [True]
    return (yield operation)


def row_first(protocol: Protocol[Any]) -> Protocol[Any]:
    """The row before its claim."""
    answer: Any = None
    held: list[CheckAndMutateRows] = []
    while True:
        try:
            operation = protocol.send(answer)
        except StopIteration as stop:
            return stop.value
        if isinstance(operation, CheckAndMutateRows) and operation.table == INDEX.table:
            held.append(operation)
            answer = [True for _ in operation.changes]
            continue
        answer = yield operation
        if isinstance(operation, CheckAndMutateRows | Acknowledge):
            while held:
                yield held.pop()


def _where(*names: str, **options: Any) -> Callable[[Rules], Iterable[Configuration]]:
    return lambda rules: members(names, rules, **options)


MUTANTS: Mapping[str, Mutant] = {
    "unique: taken over without a fence": Mutant(around(unfenced), _where("k x", "m x", stores=("empty",)), "CLAIM"),
    "unique: no claim": Mutant(around(unclaimed), _where("k x", "m x", stores=("empty",)), "CLAIM"),
    "unique: claims by force": Mutant(around(by_force), _where("k x", "m x", stores=("empty",)), "CLAIM"),
    "unique: the loser releases": Mutant(
        Rules(around=loser_releases), _where("k y", "k note", stores=("owned",)), "CLAIM"
    ),
    "unique: released by what is read later": Mutant(
        around(late_release), _where("k y", "k x", stores=("owned",)), "CLAIM"
    ),
    "unique: an own claim used again": Mutant(around(same_nonce), _where("k y", "k x", stores=("owned",)), "CLAIM"),
    "unique: the row before its claim": Mutant(
        Rules(around=row_first), _where("k x", "m x", stores=("empty",)), "CLAIM"
    ),
}
