"""Configurations for the model checker with map columns of indexed rows: writers of objects and of entries, and
readers of slices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from attrs import frozen

import hbmodel as hb
from hbmodel.mapping.rows.mapper import KeyMapper, RowDecoder
from hbmodel.protocol.writes import DeleteRow, PutObject, UpdateFields, put_object
from hbmodel.query.run.map_entries import EntryReader, MapSlice
from hbmodel.session.calls.map_writes import Removed
from hbmodel.store import Family, Put
from hbmodel.store.embedded import EmbeddedStore
from tests.checker.behaviour import once
from tests.checker.clocks import Clocks, at_clocks
from tests.checker.protocol_adapter import Steps, Store, Told, _put, found_row, mc, visible
from tests.checker.protocol_invariants import ProtocolModel, watch_of
from tests.checker.protocol_processes import SHIPPED, Action, Insert, Rules, prepared, repairer, writer
from tests.checker.protocol_sweeps import Configuration, Process


@hb.model(table="sheets", family="d")
class Sheet:
    """One index over one column, a column outside, and a map column."""

    name: hb.Key[str] = hb.key()
    tag: hb.Column[str] = hb.column("t")
    note: hb.Column[str | None] = hb.column("n", default=None)
    lines: hb.Map[str, str] = hb.map_column("l", factory=dict)

    by_tag = hb.index("tag")


@hb.model(table="leaves", family="d", row=b"r", kind=b"l")
class Leaf:
    """Like the model above, with all objects in one row."""

    name: hb.Key[str] = hb.key(in_qualifier=True)
    tag: hb.Column[str] = hb.column("t")
    note: hb.Column[str | None] = hb.column("n", default=None)
    lines: hb.Map[str, str] = hb.map_column("l", factory=dict)

    by_tag = hb.index("tag")


MODELS: Mapping[str, Any] = {"tall": Sheet, "wide": Leaf}


def place_of(model: Any, name: str) -> bytes:
    """The row key, or the object key, of an object."""
    return KeyMapper(hb.schema.schema_of(model)).rows([name])[0]


@once
def actions_of(model: Any) -> Mapping[str, tuple[Action, ...]]:
    """The actions of writers of the object `k`, and of some writers of its neighbour."""
    schema = hb.schema.schema_of(model)

    def whole(name: str = "k", tag: str = "b", **lines: str) -> PutObject:
        return put_object(schema, model(name=name, tag=tag, lines=lines))

    def change(name: str = "k", **changes: Any) -> UpdateFields:
        return UpdateFields(None, place_of(model, name), {"name": name}, changes)

    gone = DeleteRow(None, place_of(model, "k"))
    return {
        "put": (whole(x="p", z="p"),),
        "put without entries": (whole(),),
        "entry": (change(lines={"x": "e"}),),
        "new entry": (change(lines={"y": "e"}),),
        "remove": (change(lines=Removed(x=None)),),
        "tag and entry": (change(tag="b", lines={"x": "t", "y": "t"}),),
        "note": (change(note="n"),),
        "delete": (gone,),
        "insert": (Insert(whole(y="i")),),
        "delete, put": (gone, whole(z="q")),
        "delete, insert": (gone, Insert(whole(z="j"))),
        "delete, put without entries, delete, put": (gone, whole(), gone, whole(z="q")),
        "entry, remove": (change(lines={"y": "e"}), change(lines=Removed(y=None))),
        "m entry": (change("m", lines={"x": "e"}),),
    }


NAMES = tuple(actions_of(Sheet))
OWN = tuple(name for name in NAMES if not name.startswith("m "))
BRIEF = tuple(name for name in OWN if name.count(",") <= 1)
TWICE_DELETED = "delete, put without entries, delete, put"
FEW = ("put", "new entry", "remove", "delete", "delete, put")

# --- what there is before ---------------------------------------------------------------------------------------------


def object_of(model: Any, name: str = "k") -> PutObject:
    """An object with two entries."""
    return put_object(hb.schema.schema_of(model), model(name=name, tag="a", note="old", lines={"x": "o", "w": "o"}))


def _stores(model: Any) -> dict[str, Store]:
    schema, gone = hb.schema.schema_of(model), DeleteRow(None, place_of(model, "k"))
    live = prepared(schema, (10, object_of(model)), (10, object_of(model, "m")))
    dead = prepared(schema, (9, object_of(model)), (10, gone))
    left = dict(dead)  # entries that were planned while the object was there, and that came when it was deleted
    (of,) = schema.maps
    late = tuple((column, (value, 0)) for column, value in of.cells({"y": "late"}).items())
    _put(left, schema.table, place_of(model, "k"), [("put", late, 11, False)], None)
    return {"live": live, "dead": dead, "entries of a dead object": left, "absent": {}}


STORES = {name: _stores(model) for name, model in MODELS.items()}
EVERY_STORE = tuple(STORES["tall"])

# --- readers of entries -----------------------------------------------------------------------------------------------


@frozen
class Reading:
    """How entries are read; the shipped way or a mutant of it.

    Attributes:
        asks: whether it is asked before each page if the object is there.
        reader: of the entries.
    """

    asks: bool = True
    reader: type[EntryReader] = EntryReader


CAREFUL = Reading()


@once
def entry_reader(model: Any, reading: Reading = CAREFUL, page: int = 2) -> Callable[[], Steps]:
    """Reads all entries of the object `k`, page by page, as `Session.entries` does.

    Of a read of a page first comes whether the object is there, then the cells of the row, by the shipped slice of
    them.
    """
    schema, place = hb.schema.schema_of(model), place_of(model, "k")
    decoder = RowDecoder(schema, indexed=True, names=frozenset())

    def run() -> Steps:
        got: list[Any] = []
        token: str | None = None
        watch: tuple[Any, ...] = (lambda found: len(found) == LIVING and found[0][0] == place,)
        while True:
            head = yield ("scan", schema.table, None, place, place, *watch)
            watch = ()
            there = head is not None and decoder.exists(found_row(place, head[1]))  # type: ignore[arg-type]
            if not there and reading.asks:
                break
            cells = yield Told(("read", schema.table, place, schema.family_names))
            items, token = _page(model, reading.reader, tuple(cells), token, page)
            got += [((place, key), value) for key, value in items]
            if token is None:
                break
        yield ("end", tuple(got))

    return run


@lru_cache(10_000)
def _page(
    model: Any, reader: type[EntryReader], cells: tuple[Any, ...], after: str | None, size: int
) -> tuple[Any, str | None]:
    """One page of entries from these cells of an object."""
    schema = hb.schema.schema_of(model)
    with EmbeddedStore(None) as store:
        store.create_table(schema.table, [Family(b"d")])
        row, prefix = (place_of(model, "k"), b"") if schema.wide is None else schema.wide.form.cut(place_of(model, "k"))
        if cells:
            store.put(schema.table, [Put(row, {column[:2] + prefix + column[2:]: value for column, _, value in cells})])
        found = MapSlice[Any, Any](reader(store, schema, schema.maps[0], place_of(model, "k"), lambda: True)).page(
            size, after
        )
    return tuple(found.items), found.next_token


def readers(model: Any, rules: Rules) -> list[Process]:
    """A reader of entries."""
    return [("R", entry_reader(model), 0)]


def careless(reading: Reading) -> Callable[[Any, Rules], list[Process]]:
    """A reader of entries that reads them another way."""
    return lambda model, rules: [("R", entry_reader(model, reading), 0)]


def repairers(model: Any, rules: Rules) -> list[Process]:
    """A repairer of the index that also purges the object's dead marker."""
    schema = hb.schema.schema_of(model)
    return [("G", repairer(schema, schema.indexes["by_tag"], rules, purge=place_of(model, "k")), 0)]


def purgers(model: Any, rules: Rules) -> list[Process]:
    """A purge of the object's dead marker alone."""
    schema = hb.schema.schema_of(model)
    return [("G", repairer(schema, schema.indexes["by_tag"], rules, purge=place_of(model, "k"), entries=False), 0)]


LIVING = 3
"""Parts of what is noted of an entry whose object is there: place and key, value, and that it is."""


class MapModel(ProtocolModel):
    """Readers see no entry of an object that does not exist, and every entry that exists throughout the read.

    Between the check of the object and the read of its entries, the object may be deleted, and entries that were
    planned earlier may arrive.
    """

    def primary(self, store: Store) -> tuple[Any, ...]:
        """The entries of live objects, all entries that there are, and the objects."""
        schema = self.watch.schema
        live = self.watch.live(store)
        living = [
            ((row, key), value, True)
            for row, values in live
            for of in schema.maps
            for key, value in dict(values)[of.name]
        ]
        return (*living, *self._stored(store), *((row,) for row, _ in live))

    def _stored(self, store: Store) -> Iterator[tuple[Any, Any]]:
        (of,) = self.watch.schema.maps
        for row in self.watch.rows(store):
            found: Any = found_row(row, visible(store, self.watch.schema.table, row))
            yield from (
                () if found is None else (((row, key), value) for key, value in of.entries(found.columns).items())
            )

    def returned(self, found: Sequence[Any], matches: Callable[[Any], bool], seen: frozenset[Any]) -> None:
        """No entry of an object that was not there."""
        if found and (found[0][0][0],) not in seen:
            raise mc.Violation(f"DEAD: entries {found} were returned of an object that never was while they were read")
        if len({key for key, _ in found}) < len(found):
            raise mc.Violation(f"TWICE: of the entries {found} one was returned twice")

    def remembered(self, answer: Any) -> Any:
        """Only the liveness cell of an object, and the time in an entry's key, are of interest."""
        if (
            type(answer) is tuple
            and len(answer) == 2
            and not any(c == self.watch.schema.liveness_column for c, _, _ in answer[1])
        ):
            return super().remembered(answer)
        if type(answer) is tuple and len(answer) == 2:
            return answer[0], tuple((c, 0, v[0]) for c, _, v in answer[1] if c == self.watch.schema.liveness_column)
        return answer


# --- configurations ---------------------------------------------------------------------------------------------------

Others = Callable[[Any, Rules], Sequence[Process]]


def maps(
    mine: Sequence[str] = OWN,
    theirs: Sequence[str] = OWN,
    clocks: Clocks = (5, 12),
    rules: Rules = SHIPPED,
    *,
    model: str = "tall",
    stores: Sequence[str] = ("live",),
    others: Others | None = None,
    crashes: int = 1,
    compaction: str | None = None,
    first: Mapping[str, Any] | None = None,
    **options: Any,
) -> Iterator[Configuration]:
    """Two writers of the same object, and at most one other process.

    Args:
        mine: the actions of the first writer.
        theirs: the actions of the other writer.
        clocks: their readings.
        rules: the code under test.
        model: tall or wide.
        stores: the possible initial stores.
        others: makes other processes, one of which is used at a time.
        crashes: how many writers may crash.
        compaction: as for `ProtocolModel`.
        first: options of the first writer.
        **options: of both.
    """
    of = MODELS[model]
    schema, actions = hb.schema.schema_of(of), actions_of(of)
    watch = watch_of(schema)
    for kind, one, two, *readings in at_clocks(clocks, 2, stores, mine, theirs):
        for other in others(of, rules) if others is not None else (None,):
            running: list[Process] = [
                (
                    f"W{n}",
                    writer(schema, n, actions[name], at, rules, **{**options, **(first or {} if n == 1 else {})}),
                    at,
                )
                for n, (name, at) in enumerate(zip((one, two), readings, strict=True), 1)
            ]
            running += [] if other is None else [other]
            beside = None if other is None else other[0]
            label = f"{model}, {kind}, {one} at {readings[0]}, {two} at {readings[1]}, {beside}, {first}, {options}"
            yield label, MapModel(watch, STORES[model][kind], running, crashes, compaction)
