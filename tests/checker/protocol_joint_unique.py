"""Commits into one row of objects with a unique index in the model checker, concurrent with another commit that wants
the same values.

Besides what must hold of every joint commit, no value is held twice, each is claimed for its object in the table of the
index, and the table of the objects has no row but theirs.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from attrs import evolve

import hbmodel as hb
from hbmodel.mapping.rows.mapper import KeyMapper
from hbmodel.mapping.schema import TableSchema
from hbmodel.protocol.indexed.indexed_plan import DEAD
from hbmodel.protocol.operations import CheckAndMutateRows, GetRows, Operation, Protocol, carried_out
from hbmodel.protocol.versioned.unique_values import CLAIMED, claim_of, owner_of
from hbmodel.protocol.versioned.versioned_plan import VersionedRowPlanner
from hbmodel.protocol.writes import PutObject, RowWrite, UpdateFields, put_object
from hbmodel.session.commit.shared_row_commit import JointCommit, Part
from hbmodel.store import ConditionalChange, Put, Row
from tests.checker.behaviour import once
from tests.checker.protocol_adapter import BOUND, mc
from tests.checker.protocol_joint import SHIPPED, JointModel, Rules, State, Writes, explained, objects_of
from tests.checker.protocol_joint_mutants import Mutant
from tests.checker.replayed import read


@hb.model(table="guilds", family="d", kind=b"p")
class Member:
    """One unique index."""

    owner: hb.Key[str] = hb.key()
    name: hb.Key[str] = hb.key(in_qualifier=True)
    tag: hb.Column[str | None] = hb.column("t", default=None)
    note: hb.Column[str | None] = hb.column("n", default=None)
    version: hb.Column[int] = hb.version()

    by_tag = hb.index("tag", unique=True)


@hb.model(table="guilds", family="d", kind=b"o")
class Guild:
    """The one object of its kind in a row; no index."""

    owner: hb.Key[str] = hb.key()
    note: hb.Column[str | None] = hb.column("n", default=None)
    version: hb.Column[int] = hb.version()


MEMBER, GUILD = hb.schema.schema_of(Member), hb.schema.schema_of(Guild)
INDEX = MEMBER.indexes["by_tag"]
ROWS = (b"r", b"s")


def _place(row: str, name: str) -> bytes:
    return KeyMapper(MEMBER).rows((row, name))[0]


@once
def commits_of() -> Mapping[str, Writes]:
    """The writes of a commit into the row `r` or `s`: to members `k` and `m`, and to the guild."""

    def put(row: str, name: str, tag: str | None) -> Any:
        return MEMBER, put_object(MEMBER, Member(owner=row, name=name, tag=tag))

    def tag(row: str, name: str, value: str | None) -> Any:
        return MEMBER, UpdateFields(None, _place(row, name), {"owner": row, "name": name}, {"tag": value})

    def guild(row: str, note: str) -> Any:
        return GUILD, put_object(GUILD, Guild(owner=row, note=note))

    return {
        "r k x": (put("r", "k", "x"), guild("r", "1")),
        "r k x, m none": (put("r", "k", "x"), put("r", "m", None)),
        "r k x, m y": (put("r", "k", "x"), put("r", "m", "y")),
        "r k x, m x": (put("r", "k", "x"), put("r", "m", "x")),
        "r k z, m x": (tag("r", "k", "z"), put("r", "m", "x")),
        "r k z": (tag("r", "k", "z"), guild("r", "3")),
        "r k z, s m x": (tag("r", "k", "z"), guild("r", "5"), put("s", "m", "x"), guild("s", "6")),
        "s k x": (put("s", "k", "x"), guild("s", "2")),
        "s k x, m y": (put("s", "k", "x"), put("s", "m", "y")),
        "r k x, s m y": (put("r", "k", "x"), guild("r", "1"), put("s", "m", "y"), guild("s", "4")),
        "begin": (put("r", "k", "x"), guild("r", "0")),
    }


STORES: Mapping[str, Mapping[str, Any]] = {
    "empty": {"begin": ()},
    "owned": {},
    "a claim of nobody": {"begin": (), "claims": ("s", "n")},
    "a claim in the row": {"begin": (), "claims": ("r", "n")},
    "a claim of its own": {"begin": (), "claims": ("r", "k")},
    "a claim of the second": {"begin": (), "claims": ("r", "m")},
}
"""What there is before: the objects of `begin` or none, and the claim of `x` that a crashed writer has left for an
object.
"""


def _tag(write: RowWrite) -> Any:
    """The value that a write wants to hold; something else where it wants none."""
    if isinstance(write, PutObject):
        tag = getattr(write.subject, "tag", None)
    else:
        tag = write.changes.get("tag") if isinstance(write, UpdateFields) else None
    return write if tag is None else tag


def _in(row: bytes, place: bytes) -> bool:
    return place.startswith(row)


class UniqueModel(JointModel):
    """The checker over commits of objects with a unique index."""

    def __init__(self, *args: Any, claims: tuple[str, str] | None = None, **options: Any) -> None:
        self._claims = claims
        super().__init__("", *args, **options)

    def models_of(self, kind: str) -> Sequence[Any]:
        return Member, Guild

    def commits(self, kind: str) -> Mapping[str, Writes]:
        return commits_of()

    def prepare(self, store: Any) -> None:
        if self._claims is not None:
            (entry,) = put_object(MEMBER, Member(owner=self._claims[0], name=self._claims[1], tag="x")).entries[
                "by_tag"
            ]
            claim = claim_of(INDEX, entry)
            assert claim is not None
            value = CLAIMED + b"crashed!" + _place(*self._claims)
            mc._put(store, INDEX.table, claim.key, ((MEMBER.claim_column, value),), 3)

    def shown(self, store: Any) -> State:
        return tuple(sorted(found for row in ROWS for found in objects_of(self.models, store, row)))

    def explained(self, history: Mapping[int, Any], shown: State) -> bool:
        """Each row changes by itself. A write of a commit that is not over may have failed if another object holds
        its value, or has. An object that two commits have changed may have held the value in between.
        """
        holders = {(dict(values).get("tag"), key[1:]) for key, values in (*self._first, *shown)}
        written = [(_tag(write), write.row) for writes in self._commits.values() for _, write in writes]
        times = Counter(place for _, place in written)
        between = {(tag, place) for tag, place in written if times[place] > 1}

        def failing(writes: Writes) -> Iterator[frozenset[bytes]]:
            own = {write.row for _, write in writes}
            others = holders | {(tag, place) for tag, place in between if place not in own}
            wanted = [
                write.row
                for _, write in writes
                if any(tag == _tag(write) and place != write.row for tag, place in others)
            ]
            for count in range(len(wanted) + 1):
                yield from map(frozenset, itertools.combinations(wanted, count))

        for row in ROWS:
            commits = {
                n: [(schema, w) for schema, w in writes if _in(row, w.row)] for n, writes in self._commits.items()
            }
            first, found = (tuple(each for each in state if _in(row, each[0][1:])) for state in (self._first, shown))
            if not explained(commits, history, first, found, failing):
                return False
        return True

    def broken(self, store: Any) -> str | None:
        """Also a row of the table that belongs to no object."""
        foreign = [key for table, key in store if table == MEMBER.table and key not in ROWS]
        return f"FOREIGN: {foreign} are no rows of objects" if foreign else super().broken(store)

    def missing(self, store: Any, shown: State) -> str | None:
        seen: dict[bytes, bytes] = {}
        for key, values in shown:
            place = key[1:]
            if not key.startswith(MEMBER.kind) or dict(values)["tag"] is None:
                continue
            for entry in KeyMapper(MEMBER).entries(INDEX, dict(values), place):
                claim = claim_of(INDEX, entry)
                assert claim is not None
                if claim.key in seen:
                    return f"DUPLICATE: {seen[claim.key]!r} and {place!r} hold {claim.values}"
                seen[claim.key] = place
                cells = read(store, INDEX.table, claim.key, (MEMBER.claim_column,))
                if not cells or owner_of(cells[0][2]) != place:
                    return f"CLAIM: {place!r} holds {claim.values}, whose claim is {cells}"
        return super().missing(store, shown)


def joint(
    mine: Sequence[str],
    theirs: Sequence[str],
    rules: Rules = SHIPPED,
    *,
    stores: Sequence[str] = tuple(STORES),
    **options: Any,
) -> Iterator[tuple[str, UniqueModel]]:
    """Two commits, each of two objects or more."""
    for store, one, two in itertools.product(stores, mine, theirs):
        yield (
            f"{store}, {one}, {two}, {options}",
            UniqueModel((one, two), (12, 12), rules, **{**STORES[store], **options}),
        )


NAMES = tuple(name for name in commits_of() if name not in {"begin", "r k z", "r k z, m x", "r k z, s m x"})
CHANGING = ("r k z", "r k z, m x", "r k z, s m x")
"""Commits that find what they change in a store that is owned."""


class ClaimsJoined(JointCommit):
    """Claims of unique values are changes of the table of the objects, together with those."""

    def _joins(self, part: Part) -> bool:
        return isinstance(part.operation, CheckAndMutateRows)


class FencesJoined(JointCommit):
    """Fences are made together with the changes of other parts."""

    def _joins(self, part: Part) -> bool:
        return isinstance(part.operation, CheckAndMutateRows) and part.operation.table == self._table


class Unwaiting(JointCommit):
    """The objects of a row that have their values do not wait for the others."""

    def _change_if(self, parts: Sequence[Part]) -> None:
        for part in parts:
            assert isinstance(part.operation, CheckAndMutateRows)
            part.operation = evolve(part.operation, waiting=())
        super()._change_if(parts)


def fence_of(schema: TableSchema) -> Callable[[Protocol[Any]], Protocol[Any]]:
    """Fences that change the version of their object alone."""

    def step(operation: Operation) -> Protocol[Any]:
        if isinstance(operation, CheckAndMutateRows) and operation.fences:
            rows = yield GetRows(operation.table, [change.row for change in operation.changes], schema.row_columns)
            changes = [_of_the_object(schema, change, row) for change, row in zip(operation.changes, rows, strict=True)]
            operation = evolve(operation, changes=changes)
        return (yield operation)

    return lambda protocol: carried_out(protocol, step)


def _of_the_object(schema: TableSchema, change: ConditionalChange, row: Row | None) -> ConditionalChange:
    (put,) = change.mutations
    assert isinstance(put, Put)
    assert put.timestamp is not None
    (nonce,) = put.cells.values()
    planner = VersionedRowPlanner(schema, (), BOUND, lambda: nonce)
    old = planner.old(row)
    cells = {schema.version_column: planner.version(nonce, old, put.timestamp)}
    if old.row is None:
        cells[schema.liveness_column] = DEAD + nonce
    return ConditionalChange(change.row, schema.version_column, planner.stored(old), [evolve(put, cells=cells)])


def _pair(one: str, other: str, store: str) -> Any:
    return lambda rules: joint((one,), (other,), rules, stores=(store,))


MUTANTS: Mapping[str, Mutant] = {
    "claims in the table of the objects": Mutant(Rules(ClaimsJoined), _pair("r k x, m y", "s k x", "empty"), "FOREIGN"),
    "a fence of the object alone": Mutant(Rules(around=fence_of(MEMBER)), _pair("r k x", "s k x", "empty"), "CLAIM"),
    "fences joined": Mutant(Rules(FencesJoined), _pair("r k x", "s k x", "a claim of nobody"), "HALF"),
    "objects that wait left behind": Mutant(Rules(Unwaiting), _pair("r k x, m none", "s k x", "empty"), "HALF"),
}
