"""Fences of unique claims in the model checker, with an index whose entries are used instead of whole rows, including
their version.

Queries take the version from an entry only if no index is unique. The entries that fences have left still exist when
the unique index is dropped.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from attrs import define

import hbmodel as hb
from hbmodel.mapping.rows.covering import EntryDecoder
from hbmodel.protocol.versioned.unique_values import CLAIMED, claim_of
from hbmodel.protocol.writes import DeleteRow, UpdateFields, put_object
from tests.checker.protocol_adapter import Store
from tests.checker.protocol_invariants import ProtocolModel
from tests.checker.protocol_sweeps import Configuration, Process
from tests.checker.protocol_unique import UniqueWatch
from tests.checker.protocol_version_mutants import Mutant, VersionsAlone
from tests.checker.protocol_versions import SHIPPED, Rules, claims_in, prepared, writer


@hb.model(table="holders", family="d")
class Holder:
    """A unique index, and one with every column."""

    name: hb.Key[str] = hb.key()
    tag: hb.Column[str | None] = hb.column("t", default=None)
    note: hb.Column[str | None] = hb.column("n", default=None)
    version: hb.Column[int] = hb.version()

    by_tag = hb.index("tag", unique=True)
    by_note = hb.index("note", covers=("tag",))


HOLDER = hb.schema.schema_of(Holder)
WHOLE = frozenset(("name", "tag", "note", "version"))


def _row(name: str) -> bytes:
    return hb.row_key(Holder, name=name)


ACTIONS: Mapping[str, tuple[Any, ...]] = {
    "k y": (UpdateFields(None, _row("k"), {"name": "k"}, {"tag": "y"}),),
    "k note": (UpdateFields(None, _row("k"), {"name": "k"}, {"note": "n"}),),
    "k gone": (DeleteRow(None, _row("k")),),
    "m x": (put_object(HOLDER, Holder(name="m", tag="x")),),
    "m y": (put_object(HOLDER, Holder(name="m", tag="y")),),
}


def _claimed(store: Store, tag: str, owner: str) -> Store:
    """With the claim of a writer that crashed before it wrote its row."""
    index = HOLDER.indexes["by_tag"]
    (entry,) = put_object(HOLDER, Holder(name=owner, tag=tag)).entries["by_tag"]
    claim = claim_of(index, entry)
    assert claim is not None
    cell = (HOLDER.claim_column, (-1, 3, CLAIMED + b"crashed!" + _row(owner)))
    return {**store, (claims_in(index.table), claim.key): (-1, (cell,))}


OWNED = prepared(HOLDER, (10, put_object(HOLDER, Holder(name="k", tag="x", note="o"))))
STORES: Mapping[str, Store] = {"owned": OWNED, "a claim beside": _claimed(OWNED, "y", "k")}


@define(eq=False)
class WholeWatch(UniqueWatch):
    """Verified entries have the version of their row."""

    @cached_property
    def _covering(self) -> dict[str, EntryDecoder]:
        index = self.schema.indexes["by_note"]
        return {index.table: EntryDecoder(self.schema, index, WHOLE)}


def holders(
    names: Sequence[str] = tuple(ACTIONS),
    rules: Rules = SHIPPED,
    *,
    stores: Sequence[str] = tuple(STORES),
    crashes: int = 1,
) -> Iterator[Configuration]:
    """Two writers."""
    watch = WholeWatch(HOLDER)
    for kind, chosen in itertools.product(stores, list(itertools.combinations_with_replacement(names, 2))):
        running: list[Process] = [
            (f"W{n}", writer(HOLDER, n, ACTIONS[name], 12, rules), 12) for n, name in enumerate(chosen, 1)
        ]
        yield f"{kind}, {chosen}", ProtocolModel(watch, STORES[kind], running, crashes)


MUTANTS: Mapping[str, Mutant] = {
    "a fence that leaves the version of an entry": Mutant(
        Rules(planner=VersionsAlone),
        lambda rules: holders(("m y", "k note"), rules, stores=("a claim beside",)),
        "VERIFIED",
    )
}
