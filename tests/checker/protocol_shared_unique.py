"""A unique index of objects that share a row in the model checker: writers, inserts and local transactions that want
one value.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import hbmodel as hb
from hbmodel.mapping.rows.mapper import KeyMapper
from hbmodel.protocol.versioned.unique_values import CLAIMED, claim_of
from hbmodel.protocol.writes import DeleteRow, PutObject, RowWrite, UpdateFields, put_object
from tests.checker.behaviour import once
from tests.checker.protocol_adapter import Store
from tests.checker.protocol_invariants import ProtocolModel
from tests.checker.protocol_joint_unique import fence_of
from tests.checker.protocol_processes import Insert
from tests.checker.protocol_shared import SHIPPED, Action, Pinned, Rules, prepared, writer
from tests.checker.protocol_shared_mutants import Mutant
from tests.checker.protocol_sweeps import Configuration, Process
from tests.checker.protocol_unique import UniqueWatch
from tests.checker.protocol_versions import claims_in


@hb.model(table="badges", family="d", kind=b"b")
class Badge:
    """One unique index. The objects are in two rows."""

    hall: hb.Key[str] = hb.key()
    name: hb.Key[str] = hb.key(in_qualifier=True)
    tag: hb.Column[str | None] = hb.column("t", default=None)
    version: hb.Column[int] = hb.version()

    by_tag = hb.index("tag", unique=True)


BADGE = hb.schema.schema_of(Badge)
INDEX = BADGE.indexes["by_tag"]


def _place(name: str) -> bytes:
    return KeyMapper(BADGE).rows((name[0], name))[0]


def put(name: str, tag: str | None) -> PutObject:
    """A full write; the row is the first letter of the name."""
    return put_object(BADGE, Badge(hall=name[0], name=name, tag=tag))


def change(name: str, tag: str | None) -> UpdateFields:
    """A partial update."""
    return UpdateFields(None, _place(name), {"hall": name[0], "name": name}, {"tag": tag})


def _pinned(name: str, *writes: RowWrite) -> tuple[Action, ...]:
    return (Pinned((_place(name),), writes),)


ACTIONS: Mapping[str, tuple[Action, ...]] = {
    "k x": (put("k", "x"),),
    "k insert x": (Insert(put("k", "x")),),
    "k y": (change("k", "y"),),
    "k gone": (DeleteRow(None, _place("k")),),
    "k y, k x": (change("k", "y"), change("k", "x")),
    "ka x": (put("ka", "x"),),
    "m x": (put("m", "x"),),
    "m insert x": (Insert(put("m", "x")),),
    "pinned k x": _pinned("k", put("k", "x")),
    "pinned ka x": _pinned("ka", put("ka", "x")),
    "pinned m x": _pinned("m", put("m", "x")),
}


def _claimed(owner: str) -> Store:
    """With the claim of `x` that a crashed writer has left."""
    (entry,) = put(owner, "x").entries["by_tag"]
    claim = claim_of(INDEX, entry)
    assert claim is not None
    cell = (BADGE.claim_column, (-1, 3, CLAIMED + b"crashed!" + _place(owner)))
    return {(claims_in(INDEX.table), claim.key): (-1, (cell,))}


STORES: Mapping[str, Store] = {
    "empty": {},
    "owned": prepared(BADGE, (10, put("k", "x"))),
    "a claim of nobody": _claimed("kz"),
    "a claim of the first": _claimed("k"),
}


@once
def watch_of() -> UniqueWatch:
    """The invariants, with all that was found out about stores."""
    return UniqueWatch(BADGE)


def badges(
    mine: Sequence[str] = tuple(ACTIONS),
    theirs: Sequence[str] = tuple(ACTIONS),
    rules: Rules = SHIPPED,
    *,
    stores: Sequence[str] = tuple(STORES),
    crashes: int = 1,
    first: Mapping[str, Any] | None = None,
) -> Iterator[Configuration]:
    """Two writers; `first` are options of the first one."""
    for kind, one, two in itertools.product(stores, mine, theirs):
        running: list[Process] = [
            ("W1", writer(BADGE, 1, ACTIONS[one], 12, rules, **(first or {})), 12),
            ("W2", writer(BADGE, 2, ACTIONS[two], 12, rules), 12),
        ]
        yield f"{kind}, {one}, {two}, {first}", ProtocolModel(watch_of(), STORES[kind], running, crashes)


own_fence = fence_of(BADGE)

MUTANTS: Mapping[str, Mutant] = {
    f"a fence of the object alone: {one}": Mutant(
        Rules(around=own_fence), lambda rules, one=one: badges((one,), ("m x",), rules, stores=("empty",)), "CLAIM"
    )
    for one in ("k x", "k insert x", "pinned k x")
}
