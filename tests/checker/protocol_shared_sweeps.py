"""Configurations for the model checker with versioned objects that share a row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from attrs import evolve

import hbmodel as hb
from hbmodel.mapping.predicates import Predicate
from hbmodel.mapping.rows.mapper import KeyMapper
from hbmodel.protocol.writes import DeleteRow, PutObject, RowWrite, UpdateFields, put_object
from tests.checker.behaviour import once
from tests.checker.clocks import Clocks, at_clocks
from tests.checker.protocol_adapter import Store
from tests.checker.protocol_invariants import ProtocolModel
from tests.checker.protocol_processes import Insert, reader, repairer
from tests.checker.protocol_processes import Rules as Around
from tests.checker.protocol_shared import SHIPPED, Action, Pinned, Rules, prepared, writer
from tests.checker.protocol_sweeps import Configuration, Process
from tests.checker.protocol_versions import watch_of


@hb.model(table="parts", family="d", row=b"r", kind=b"p")
class Part:
    """One index over one column, with a covered column; one column outside. All objects are in one row."""

    name: hb.Key[str] = hb.key(in_qualifier=True)
    tag: hb.Column[str] = hb.column("t")
    extra: hb.Column[str | None] = hb.column("e", default=None)
    note: hb.Column[str | None] = hb.column("n", default=None)
    version: hb.Column[int] = hb.version()

    by_tag = hb.index("tag", covers=("extra",))


@hb.model(table="scraps", family="d", row=b"r", kind=b"s")
class Scrap:
    """No index. All objects are in one row."""

    name: hb.Key[str] = hb.key(in_qualifier=True)
    tag: hb.Column[str] = hb.column("t")
    note: hb.Column[str | None] = hb.column("n", default=None)
    version: hb.Column[int] = hb.version()


MODELS: Mapping[str, Any] = {"indexed": Part, "without an index": Scrap}
BARE = "without an index"


def _place(model: Any, name: str) -> bytes:
    return KeyMapper(hb.schema.schema_of(model)).rows([name])[0]


def actions_of(model: Any) -> dict[str, tuple[Action, ...]]:
    """The actions of writers of the objects `k` and `m`; those named `at 10` hold an object of version 10, which is the
    version of a live object.
    """
    schema = hb.schema.schema_of(model)

    def put(name: str, version: int = 0, **values: Any) -> PutObject:
        return evolve(put_object(schema, model(name=name, **values)), version=version)

    def change(name: str, version: int = 0, condition: Predicate | None = None, **changes: Any) -> UpdateFields:
        return UpdateFields(None, _place(model, name), {"name": name}, changes, None, version, condition)

    def gone(name: str, version: int = 0) -> DeleteRow:
        return DeleteRow(None, _place(model, name), version)

    def pinned(*writes: RowWrite) -> tuple[Action, ...]:
        return (Pinned((_place(model, "k"), _place(model, "m")), writes),)

    found: dict[str, tuple[Action, ...]] = {}
    for name in "km":
        found |= {
            f"{name} put b": (put(name, tag="b", note="new"),),
            f"{name} tag c at 10": (change(name, 10, tag="c"),),
            f"{name} note": (change(name, note="n"),),
            f"{name} tag b if a": (change(name, 0, model.tag == "a", tag="b"),),
            f"{name} delete": (gone(name),),
            f"{name} insert": (Insert(put(name, tag="b")),),
            f"{name} delete, insert": (gone(name), Insert(put(name, tag="a"))),
        }
    return {
        **found,
        "put both": ((put("k", tag="b"), put("m", tag="a")),),
        "delete both": ((gone("k"), gone("m")),),
        "k delete, m note at 10": ((gone("k"), change("m", 10, note="n")),),
        "pinned m note": pinned(change("m", note="p")),
        "pinned k tag b, m note": pinned(change("k", tag="b"), change("m", note="p")),
        "pinned k delete": pinned(gone("k")),
        "pinned k delete, m put": pinned(gone("k"), put("m", tag="b")),
    }


ACTIONS = {name: actions_of(model) for name, model in MODELS.items()}
NAMES = tuple(ACTIONS["indexed"])
OF_K, OF_M = (tuple(name for name in NAMES if name.startswith(f"{of} ") and ", m" not in name) for of in "km")
BOTH = tuple(name for name in NAMES if "both" in name or (", m" in name and not name.startswith("pinned")))
PINNED = tuple(name for name in NAMES if name.startswith("pinned"))


FEW = ("k note", "k put b", "k delete", "k insert", "put both", "pinned m note", "pinned k delete, m put")
LATE = evolve(SHIPPED, repair=Around(grace="clock"))
"""A purge that goes by its clock alone: a writer may stand still for longer than the grace time."""


def _stores(model: Any) -> dict[str, Store]:
    schema = hb.schema.schema_of(model)
    k, m = (put_object(schema, model(name=name, tag="a", note="old")) for name in "km")
    return {
        "live": prepared(schema, (10, k), (10, m)),
        "dead": prepared(schema, (9, k), (10, DeleteRow(None, k.row)), (10, m)),
        "beside": prepared(schema, (10, m)),
        "absent": {},
    }


STORES = {name: _stores(model) for name, model in MODELS.items()}
PART = hb.schema.schema_of(Part)
INDEX = PART.indexes["by_tag"]
KEY = _place(Part, "k")


@once
def repairers(rules: Rules) -> list[Process]:
    """A repairer of the index that also purges the dead marker of the first object."""
    return [("G", repairer(PART, INDEX, rules.repair, purge=KEY), 0)]


@once
def purgers(rules: Rules) -> list[Process]:
    """A purge of the dead marker of the first object alone."""
    return [("G", repairer(PART, INDEX, rules.repair, purge=KEY, entries=False), 0)]


@once
def readers(rules: Rules) -> list[Process]:
    """A query for one tag."""
    return [("R", reader(PART, INDEX, b"b", b"b\xff", lambda values: values["tag"] == "b", rules=rules.repair), 0)]


def shared(
    mine: Sequence[str] = OF_K,
    theirs: Sequence[str] = NAMES,
    clocks: Clocks = (5, 12),
    rules: Rules = SHIPPED,
    *,
    model: str = "indexed",
    stores: Sequence[str] = ("live",),
    others: Callable[[Rules], Sequence[Process]] | None = None,
    crashes: int = 1,
    compaction: str | None = None,
    always: bool = True,
    first: Mapping[str, Any] | None = None,
    **options: Any,
) -> Iterator[Configuration]:
    """Two writers of the same object, of neighbours or of both, and at most one other process.

    Args:
        mine: the actions of the first writer.
        theirs: the actions of the other writer.
        clocks: their readings.
        rules: the code under test.
        model: with an index or without.
        stores: the possible initial stores.
        others: makes other processes, one of which is used at a time.
        crashes: how many writers may crash.
        compaction: as for `ProtocolModel`.
        always: as for `ProtocolModel`.
        first: options of the first writer.
        **options: of both.
    """
    schema, actions = hb.schema.schema_of(MODELS[model]), ACTIONS[model]
    watch = watch_of(schema)
    for kind, one, two, *readings in at_clocks(clocks, 2, stores, mine, theirs):
        for other in others(rules) if others is not None else (None,):
            running: list[Process] = [
                (
                    f"W{n}",
                    writer(schema, n, actions[name], at, rules, **{**options, **(first or {} if n == 1 else {})}),
                    at,
                )
                for n, (name, at) in enumerate(zip((one, two), readings, strict=True), 1)
            ]
            running += [] if other is None else [other]
            label = (
                f"{model}, {kind}, {one} at {readings[0]}, {two} at {readings[1]}, "
                f"{None if other is None else other[0]}, {first}"
            )
            yield label, ProtocolModel(watch, STORES[model][kind], running, crashes, compaction, always=always)
