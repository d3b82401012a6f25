"""Configurations for the model checker with map columns of versioned objects, in separate rows and in a shared row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from attrs import evolve

import hbmodel as hb
from hbmodel.protocol.writes import DeleteRow, PutObject, UpdateFields, put_object
from hbmodel.session.calls.map_writes import Removed
from tests.checker import protocol_shared as shared
from tests.checker import protocol_versions as versions
from tests.checker.behaviour import once
from tests.checker.clocks import Clocks, at_clocks
from tests.checker.protocol_adapter import Store
from tests.checker.protocol_maps import MapModel, entry_reader, place_of
from tests.checker.protocol_processes import Insert, repairer
from tests.checker.protocol_sweeps import Configuration, Process
from tests.checker.protocol_versions import watch_of


@hb.model(table="ledgers", family="d")
class Ledger:
    """A map column. Each object has a row of its own."""

    name: hb.Key[str] = hb.key()
    tag: hb.Column[str] = hb.column("t")
    lines: hb.Map[str, str] = hb.map_column("l", factory=dict)
    version: hb.Column[int] = hb.version()

    by_tag = hb.index("tag")


@hb.model(table="folios", family="d", row=b"r", kind=b"f")
class Folio:
    """Like the model above, with all objects in one row."""

    name: hb.Key[str] = hb.key(in_qualifier=True)
    tag: hb.Column[str] = hb.column("t")
    lines: hb.Map[str, str] = hb.map_column("l", factory=dict)
    version: hb.Column[int] = hb.version()

    by_tag = hb.index("tag")


@hb.model(table="tallies", family="d")
class Tally:
    """Like the first model, with a row for each object, and an index whose entries also show the version."""

    name: hb.Key[str] = hb.key()
    tag: hb.Column[str] = hb.column("t")
    note: hb.Column[str | None] = hb.column("n", default=None)
    lines: hb.Map[str, str] = hb.map_column("l", factory=dict)
    version: hb.Column[int] = hb.version()

    by_tag = hb.index("tag", covers=("note",))


MODELS: Mapping[str, Any] = {"tall": Ledger, "wide": Folio, "covered": Tally}
OF: Mapping[str, Any] = {"tall": versions, "wide": shared, "covered": versions}
"""The module whose writers run a model."""

Action = Any
Rules = versions.Rules | shared.Rules


@once
def actions_of(model: Any) -> Mapping[str, tuple[Action, ...]]:
    """The actions of writers of the object `k`; those named `at 10` hold an object of version 10, which is the version
    of a live object.
    """
    schema, place = hb.schema.schema_of(model), place_of(model, "k")

    def whole(tag: str = "b", **lines: str) -> PutObject:
        return put_object(schema, model(name="k", tag=tag, lines=lines))

    def change(version: int = 0, **changes: Any) -> UpdateFields:
        return UpdateFields(None, place, {"name": "k"}, changes, None, version)

    gone = DeleteRow(None, place)
    return {
        "put": (whole(x="p", z="p"),),
        "put at 10": (evolve(whole(x="v"), version=10),),
        "entry": (change(lines={"x": "e"}),),
        "new entry at 10": (change(10, lines={"y": "e"}),),
        "remove": (change(lines=Removed(x=None)),),
        "tag and entry": (change(tag="b", lines={"y": "t"}),),
        "delete": (gone,),
        "insert": (Insert(whole(y="i")),),
        "delete, put": (gone, whole(z="q")),
        "delete, insert": (gone, Insert(whole(z="j"))),
    }


NAMES = tuple(actions_of(Ledger))
FEW = ("put", "entry", "remove", "delete, put")


def _stores(kind: str) -> dict[str, Store]:
    model, prepared = MODELS[kind], OF[kind].prepared
    schema = hb.schema.schema_of(model)
    put = put_object(schema, model(name="k", tag="a", lines={"x": "o", "w": "o"}))
    return {
        "live": prepared(schema, (10, put)),
        "dead": prepared(schema, (9, put), (10, DeleteRow(None, put.row))),
        "absent": {},
    }


STORES = {kind: _stores(kind) for kind in MODELS}
EVERY_STORE = tuple(STORES["tall"])

Others = Callable[[Any, Any], Sequence[Process]]


def readers(model: Any, rules: Any) -> list[Process]:
    """A reader of entries."""
    return [("R", entry_reader(model), 0)]


def repairers(model: Any, rules: Any) -> list[Process]:
    """A repairer of the index that also purges the object's dead marker."""
    schema = hb.schema.schema_of(model)
    return [("G", repairer(schema, schema.indexes["by_tag"], rules.repair, purge=place_of(model, "k")), 0)]


def maps(
    mine: Sequence[str] = NAMES,
    theirs: Sequence[str] = NAMES,
    clocks: Clocks = (5, 12),
    rules: Any = None,
    *,
    model: str = "tall",
    stores: Sequence[str] = ("live",),
    others: Others | None = None,
    crashes: int = 1,
    compaction: str | None = None,
    first: Mapping[str, Any] | None = None,
    **options: Any,
) -> Iterator[Configuration]:
    """Two writers of the same object, and at most one other process; see `protocol_maps.maps`."""
    of, module = MODELS[model], OF[model]
    rules = module.SHIPPED if rules is None else rules
    schema, actions = hb.schema.schema_of(of), actions_of(of)
    watch = watch_of(schema)
    for kind, one, two, *readings in at_clocks(clocks, 2, stores, mine, theirs):
        for other in others(of, rules) if others is not None else (None,):
            running: list[Process] = [
                (
                    f"W{n}",
                    module.writer(
                        schema, n, actions[name], at, rules, **{**options, **(first or {} if n == 1 else {})}
                    ),
                    at,
                )
                for n, (name, at) in enumerate(zip((one, two), readings, strict=True), 1)
            ]
            running += [] if other is None else [other]
            label = (
                f"versioned {model}, {kind}, {one} at {readings[0]}, {two} at {readings[1]}, "
                f"{None if other is None else other[0]}"
            )
            yield f"{label}, {first}", MapModel(watch, STORES[model][kind], running, crashes, compaction)
