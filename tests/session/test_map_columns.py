"""Map columns: whatever a session does with them, they are dictionaries whose slices are sorted, in separate rows or a
shared row.
"""

from __future__ import annotations

import random
import time
import tracemalloc
from collections.abc import Iterator
from datetime import timedelta
from itertools import islice
from typing import Any

import pytest

import hbmodel as hb
from hbmodel.session.commit.session_sizes import SessionSizes
from hbmodel.store.clock_tick import let_tick_pass
from hbmodel.store.wide.page_sizes import PageSizes
from tests.support.beds import HBASE, Bed, cells_of, fresh, paired
from tests.support.examples import examples
from tests.support.faulty import Crash, FaultyStore, RecordingStore, failures_of, is_repetition
from tests.support.page_walks import check_walk
from tests.support.sizes import SMALL_SIZES

OWNERS = ("a", "b\x00")
NAMES = ("x", "x\x00y", "y")
NOTES = ("a", "ab", "a\x00", "b", "bc", "\x00", "é", "zz", "\U0001f600")
VALUES = ("", "\x00", "v", "\x00v", "long" * 50)
TIMES = hb.indexes.IndexTimes(lease=0.15, longest_call=0.1, clock_bound=0.25, grace=1.3)
SHORT = hb.indexes.IndexTimes(lease=0, longest_call=0.001, clock_bound=0.02, grace=0.09)
SCORES = (-(2**31), -1, 0, 1, 7, 2**31 - 1)


def opened(store: hb.Store, **options: Any) -> hb.Session:
    """A session for which maps of few entries have many seams."""
    return hb.Session(store, **{"sizes": SMALL_SIZES, **options})


def declare(table: str, **options: Any) -> Any:
    """A model with two map columns."""
    wide, indexed, versioned, second = (options.pop(name, False) for name in ("wide", "indexed", "versioned", "second"))
    fields: dict[str, Any] = {
        "owner": hb.key(),
        "name": hb.key(in_qualifier=True) if wide else hb.key(),
        "colour": hb.column("c"),
        "age": hb.column("a", default=None),
        "notes": hb.map_column("n"),
        "scores": hb.map_column("s", hb.Int32, hb.codecs.Int8, family="e" if second else None),
    }
    types: dict[str, Any] = {
        "owner": hb.Key[str],
        "name": hb.Key[str],
        "colour": hb.Column[str],
        "age": hb.Column[int | None],
        "notes": dict[str, str],
        "scores": hb.Map[int, int],
    }
    if versioned:
        fields["version"], types["version"] = hb.version(), hb.Column[int]
    if indexed:
        fields["by_colour"] = hb.index("colour", covers=("age",))
    made = type("Pet", (), {**fields, "__annotations__": types, "__module__": __name__})
    return hb.model(table=table, family="d", **options)(made)


SHAPES: dict[str, dict[str, Any]] = {
    "tall": {},
    "two families": {"second": True, "salt": hb.HashSalt(3)},
    "flagged": {"exists": hb.flag("e")},
    "indexed": {"indexed": True, "second": True},
    "versioned": {"versioned": True, "indexed": True},
    "wide": {"wide": True},
    "wide, salted": {"wide": True, "salt": hb.HashSalt(2), "kind": b"p"},
    "wide, indexed": {"wide": True, "indexed": True},
    "wide, versioned": {"wide": True, "indexed": True, "versioned": True},
}


class Pets:
    """A model in a store, and what must be found there: objects, each with its maps, by key."""

    def __init__(self, bed: Bed, shape: str, seed: int) -> None:
        self.model = declare(f"maps_{list(SHAPES).index(shape)}", **dict(SHAPES[shape]))
        self.wide, self.alone = bool(SHAPES[shape].get("wide")), shape == "wide, versioned"
        self.bed, self.random, self.indexed = bed, random.Random(seed), bool(SHAPES[shape].get("indexed"))
        self.session = bed.use(self.model, sizes=SMALL_SIZES)
        self.expected: dict[tuple[str, str], tuple[str, int | None, dict[str, str], dict[int, int]]] = {}

    def key(self) -> tuple[str, str]:
        return self.random.choice(OWNERS), self.random.choice(NAMES)

    def notes(self) -> dict[str, str]:
        chosen = self.random.sample(NOTES, self.random.randrange(len(NOTES)))
        return {note: self.random.choice(VALUES) for note in chosen}

    def scores(self) -> dict[int, int]:
        return {score: self.random.randrange(-9, 9) for score in self.random.sample(SCORES, self.random.randrange(4))}

    def object(self, key: tuple[str, str], **values: Any) -> Any:
        return self.model(owner=key[0], name=key[1], **values)

    def write(self) -> None:
        """One commit of one to three random calls, each as its own if it may fail."""
        for _ in range(self.random.randrange(1, 4)):
            key = self.key()
            call = self.random.choice(("add", "add", "add again", "update", "put", "put", "remove", "delete"))
            if call.startswith("add"):
                self.add(key, twice=call == "add again")
            elif key not in self.expected:
                self.refused(key)
            else:
                self.change(key, call)
            if self.alone:  # of an object of a versioned row a commit takes one call
                self.session.commit()
        self.session.commit()
        if self.bed.real:
            time.sleep(0.003)  # HBase hides what is put within the millisecond of a delete

    def add(self, key: tuple[str, str], twice: bool) -> None:
        for _ in range(1 + (twice and not self.alone)):
            colour, age, notes, scores = (
                self.random.choice("rgb"),
                self.random.choice((None, 3)),
                self.notes(),
                self.scores(),
            )
            _, _, old_notes, old_scores = self.expected.get(key, ("", None, {}, {}))
            self.session.add(self.object(key, colour=colour, age=age, notes=notes, scores=scores))
            self.expected[key] = colour, age, {**old_notes, **notes}, {**old_scores, **scores}

    def refused(self, key: tuple[str, str]) -> None:
        """A write of entries needs a row."""
        self.session.commit()
        self.session.put_entries(self.object(key, colour="r"), self.model.notes, {"a": "b"})
        with pytest.raises(hb.RowNotFound):
            self.session.commit()
        self.session.discard()

    def change(self, key: tuple[str, str], call: str) -> None:
        pet, (colour, age, notes, scores) = self.object(key, colour=""), self.expected[key]
        if call == "delete":
            self.session.delete(pet)
            del self.expected[key]
            # what follows a delete of an object with map columns is not one write with it
            if self.bed.real or self.wide:
                self.session.commit()
                time.sleep(0.003)
            return
        if call == "put":
            more = self.notes() or {"a": "once"}
            self.session.put_entries(pet, self.model.notes, more)
            notes = {**notes, **more}
        elif call == "remove":
            gone = self.random.sample(SCORES, 2)
            self.session.remove_entries(pet, self.model.scores, gone)
            scores = {key: value for key, value in scores.items() if key not in gone}
        else:
            colour, more = self.random.choice("rgb"), self.notes()
            self.session.update(pet, colour=colour, notes=more)
            notes = {**notes, **more}
        self.expected[key] = colour, age, notes, scores

    def check(self) -> None:
        """Everything that can be asked is answered as by dictionaries."""
        pets = self.session.query(self.model).allow_full_scan()
        found = {(pet.owner, pet.name): (pet.colour, pet.age) for pet in pets}
        assert found == {key: value[:2] for key, value in self.expected.items()}
        assert pets.count() == len(self.expected)
        loaded = {
            (pet.owner, pet.name): (pet.colour, pet.age, pet.notes, pet.scores)
            for pet in pets.load(self.model.notes, self.model.scores)
        }
        assert loaded == self.expected
        if self.indexed:
            green = pets.where(self.model.colour == "g").use_index("by_colour").load(self.model.notes)
            assert {(pet.owner, pet.name): pet.notes for pet in green} == {
                k: v[2] for k, v in self.expected.items() if v[0] == "g"
            }
        for key in [(owner, name) for owner in OWNERS for name in NAMES]:
            place = dict(zip(("owner", "name"), key, strict=True))
            pet = self.session.get(self.model, **place)
            assert (pet is None) == (key not in self.expected)
            assert pet is None or (pet.notes is hb.types.NotLoaded and pet.scores is hb.types.NotLoaded)
            _, _, notes, scores = self.expected.get(key, ("", None, {}, {}))
            self.check_slice(
                self.session.entries(self.model.notes, **place),
                sorted(notes.items(), key=lambda item: item[0].encode()),
            )
            self.check_slice(self.session.entries(self.model.scores, **place), sorted(scores.items()))
            low, high = sorted(self.random.sample(SCORES, 2))
            within = [item for item in sorted(scores.items()) if low <= item[0] <= high]
            self.check_slice(self.session.entries(self.model.scores, **place).between(low, high), within)
            above = [item for item in sorted(scores.items()) if item[0] >= low]
            self.check_slice(self.session.entries(self.model.scores, **place).between(low, None), above)
            prefix = self.random.choice(("a", "b", "\x00", "é", ""))
            starting = [item for item in sorted(notes.items()) if item[0].startswith(prefix)]
            self.check_slice(self.session.entries(self.model.notes, **place).startswith(prefix), starting)

    def check_slice(self, found: Any, expected: list[Any]) -> None:
        assert list(found) == expected
        assert found.all() == dict(expected)
        assert found.count() == len(expected)
        assert found.first() == (expected[0] if expected else None)
        assert found.last() == (expected[-1] if expected else None)
        assert list(found.limit(2)) == expected[:2]
        assert list(pages(found.limit(3), 2)) == expected[:3]
        assert list(pages(found, self.random.choice((1, 3)))) == expected
        walk = [(self.random.random() < 0.5, self.random.choice((1, 2, 4))) for _ in range(4)]
        check_walk(found, expected, walk)
        check_walk(found.limit(3), expected[:3], walk)
        assert all(found.get(key) == value for key, value in expected[:2])


def pages(found: Any, size: int) -> Iterator[Any]:
    """All entries, page by page."""
    page = found.page(size)
    yield from page.items
    while page.next_token is not None:
        assert len(page.items) == size
        page = found.page(size, after=page.next_token)
        yield from page.items


@pytest.mark.lengthy
@pytest.mark.parametrize(
    ("bed", "shape"),
    paired(
        *((("memory", "embedded"), shape) for shape in SHAPES),
        *((("limited",), shape) for shape in SHAPES if "versioned" not in shape),
        *((HBASE, shape) for shape in ("two families", "indexed", "wide, salted", "wide, indexed")),
        (HBASE[1:], "versioned"),
        (HBASE[1:], "wide, versioned"),
    ),
    indirect=["bed"],
)
def test_maps_are_sorted_dictionaries(bed: Bed, shape: str) -> None:
    for seed in range(1 if bed.real else examples(1)):
        pets = Pets(bed, shape, seed)
        for _ in range(2):
            for _ in range(6):
                pets.write()
            pets.check()
        if pets.indexed:
            report = hb.indexes.verify_index(bed.store, pets.model, "by_colour")
            assert (report.missing, report.refused, report.rows) == (0, 0, len(pets.expected))


# --- writing ----------------------------------------------------------------------------------------------------------

WRITTEN = ("tall", "flagged", "two families", "indexed", "versioned", "wide", "wide, indexed", "wide, versioned")


def model_of(shape: str) -> Any:
    return declare("maps_one", **dict(SHAPES[shape]))


@pytest.mark.parametrize("shape", WRITTEN)
def test_a_delete_takes_its_own_cells(shape: str) -> None:
    model = model_of(shape)
    with fresh(model) as store:
        session = opened(store)
        neighbours = [model(owner="a", name=name, colour="r", notes={"n": "1"}, scores={1: 2}) for name in ("t", "v")]
        session.add_all(neighbours)
        session.commit()
        before = cells_of(store, "maps_one")
        gone = model(owner="a", name="u", colour="r", notes=dict.fromkeys(NOTES, "x"), scores={7: 1})
        session.add(gone)
        session.commit()
        assert cells_of(store, "maps_one") != before
        session.delete_key(model, owner="a", name="u")
        session.commit()
        after = cells_of(store, "maps_one")
        for cells in (*before.values(), *after.values()):
            cells.pop(b"d:\x00", None)  # the version of a row that objects share
        left = {row: {c: v for c, v in cells.items() if c not in before.get(row, {})} for row, cells in after.items()}
        assert {row: {c: after[row][c] for c in cells} for row, cells in before.items()} == before
        kept = {b"d:u\x00\x01n", b"d:u\x00\x01s"} if "wide" in shape and shape != "wide" else set()
        assert {
            column for cells in left.values() for column, value in cells.items() if value and b"_" not in column
        } == kept
        assert session.entries(model.notes, owner="a", name="u").all() == {}


@pytest.mark.lengthy
@pytest.mark.parametrize("limited", [False, True])
@pytest.mark.parametrize("shape", WRITTEN)
def test_a_crash_at_any_call(shape: str, limited: bool) -> None:
    """After any crash, an object that is added again begins without the entries of the previous one."""
    if limited and "versioned" in shape:
        return
    model, old, new = model_of(shape), {"a": "old", "b": "old"}, {"b": "new"}
    names = ("t", "u")

    def prepared() -> RecordingStore:
        store = fresh(model)
        with opened(store) as session:
            session.add_all(model(owner="a", name=name, colour="r", notes=old) for name in names)
        let_tick_pass()
        return store

    def run(session: hb.Session) -> None:
        for name in names:
            session.delete_key(model, owner="a", name=name)
        session.commit()
        let_tick_pass()
        session.add_all(model(owner="a", name=name, colour="g", notes=new) for name in names)
        session.commit()

    def state(session: hb.Session, name: str) -> tuple[bool, dict[str, str]]:
        return session.get(model, owner="a", name=name) is not None, session.entries(
            model.notes, owner="a", name=name
        ).all()

    with prepared() as store:
        watched = RecordingStore(store, limited=limited)
        run(opened(watched, atomic_rows=not limited))
        calls = watched.calls
        assert {state(opened(store), name)[1]["b"] for name in names} == {"new"}
    for at, mode in failures_of(calls):
        if is_repetition(at, mode):
            continue
        with prepared() as store:
            with pytest.raises(Crash):
                run(opened(FaultyStore(store, at, mode, crash=True, limited=limited), atomic_rows=not limited))
            let_tick_pass()
            session = opened(store)
            found = {name: state(session, name) for name in names}
            assert all(each in [(True, old), (False, {}), (True, new)] for each in found.values())
            session.add_all(model(owner="a", name=name, colour="g", notes={"c": "again"}) for name in names)
            session.commit()
            for name in names:
                assert state(session, name) == (True, {**found[name][1], "c": "again"})


class Losing(RecordingStore):
    """Keeps a put of objects to itself, and its writer dies."""

    late: Any = None

    def put(self, table: str, puts: Any) -> None:
        if table == "maps_one":
            self.late = table, puts
            raise Crash
        super().put(table, puts)


class LandingLate(RecordingStore):
    """Carries out puts of somebody else right before it deletes, or changes a row."""

    late: Any = None

    def land(self) -> None:
        if self.late is not None:
            self.inner.put(*self.late)
            self.late = None

    def delete(self, table: str, deletes: Any) -> None:
        self.land()
        super().delete(table, deletes)

    def mutate_row(self, table: str, mutations: Any) -> None:
        self.land()
        super().mutate_row(table, mutations)


@pytest.mark.parametrize("limited", [False, True])
@pytest.mark.parametrize("landing", ["before the delete", "after the delete"])
@pytest.mark.parametrize("shape", ["indexed", "wide, indexed"])
def test_entries_that_land_late(shape: str, landing: str, limited: bool) -> None:
    """Entries that are put during a delete do not appear in the next object, even if the put takes effect very late."""
    model = model_of(shape)
    for old in ({}, {"a": "old"}):
        with fresh(model) as store:
            session = opened(store)
            pet = model(owner="a", name="t", colour="r", notes=old)
            session.add(pet)
            session.commit()
            let_tick_pass()
            losing = Losing(store)
            other = opened(losing)
            other.put_entries(pet, model.notes, {"b": "late"})
            with pytest.raises(Crash):
                other.commit()
            let_tick_pass()
            deleting = LandingLate(store, limited=limited)
            deleting.late = losing.late if landing == "before the delete" else None
            session = opened(deleting)
            session.delete(pet)
            session.commit()
            assert deleting.late is None
            if landing == "after the delete":
                store.put(*losing.late)
            assert session.entries(model.notes, owner="a", name="t").all() == {}
            session.add(model(owner="a", name="t", colour="r", notes={"c": "new"}))
            session.commit()
            assert session.entries(model.notes, owner="a", name="t").all() == {"c": "new"}
            session.delete(pet)
            session.commit()
            end = time.monotonic() + 60
            # the session's clock may be ahead by what it took to measure it
            while cells_of(store, "maps_one") and time.monotonic() < end:
                time.sleep(SHORT.grace + 0.01)
                hb.indexes.purge_rows(store, model, times=SHORT)
            assert cells_of(store, "maps_one") == {}


@pytest.mark.parametrize("shape", ["tall", "two families", "wide"])
def test_entries_are_put_only_where_their_object_is(shape: str) -> None:
    """If the store can check it, entries are not put for an object that was deleted since it was read."""
    model = model_of(shape)
    with fresh(model) as store:
        session = opened(store)
        pet = model(owner="a", name="t", colour="r")
        session.add(pet)
        session.commit()

        class Deleting(RecordingStore):
            done = False

            def check_and_mutate(self, table: str, row: bytes, column: bytes, expected: Any, mutations: Any) -> bool:
                if not self.done:
                    self.done = True
                    session.delete(pet)
                    session.commit()
                return super().check_and_mutate(table, row, column, expected, mutations)

        other = opened(Deleting(store))
        other.put_entries(pet, model.notes, {"a": "late"})
        with pytest.raises(hb.RowNotFound):
            other.commit()
        assert cells_of(store, "maps_one") == {}


def test_puts_of_one_commit_are_merged() -> None:
    for shape in WRITTEN:
        model = model_of(shape)
        with fresh(model) as store:
            session = opened(store)
            for note in ("a", "b"):
                session.add(model(owner="a", name="t", colour=note, notes={note: "1", "c": note}))
            session.commit()
            assert session.entries(model.notes, owner="a", name="t").all() == {"a": "1", "b": "1", "c": "b"}


def test_an_update_returns_what_the_object_has_then() -> None:
    model = model_of("tall")
    with fresh(model) as store:
        session = opened(store)
        pet = model(owner="a", name="t", colour="r", notes={"a": "1"})
        session.add(pet)
        given = {"b": "2"}
        changed = session.update(pet, notes=given)
        assert (changed.notes, pet.notes) == ({"a": "1", "b": "2"}, {"a": "1"})
        given["b"] = "changed before the commit"
        session.commit()
        read = session.get(model, owner="a", name="t")
        assert session.update(read, notes={"c": "3"}).notes is hb.types.NotLoaded
        session.commit()
        assert session.entries(model.notes, owner="a", name="t").all() == {"a": "1", "b": "2", "c": "3"}
        session.add(read)  # was read without its map, so it changes nothing there
        session.commit()
        assert session.entries(model.notes, owner="a", name="t").count() == 3


def test_writes_of_entries_count_the_version() -> None:
    model = model_of("versioned")
    with fresh(model) as store:
        session = opened(store)
        session.add(model(owner="a", name="t", colour="r"))
        session.commit()
        first, second = (session.get(model, owner="a", name="t") for _ in range(2))
        session.put_entries(first, model.notes, {"a": "1"})
        session.commit()
        session.remove_entries(second, model.notes, ["a"])
        with pytest.raises(hb.ConflictError):
            session.commit()
        found = session.get(model, owner="a", name="t")
        assert found.version == first.version > second.version
        session.remove_entries(first, model.notes, ["a"])
        session.commit()
        assert session.entries(model.notes, owner="a", name="t").all() == {}


def test_entries_are_inserted_with_their_object() -> None:
    for shape in ("flagged", "indexed", "versioned", "wide, indexed"):
        model = model_of(shape)
        with fresh(model) as store:
            session = opened(store)
            session.insert(model(owner="a", name="t", colour="r", notes={"a": "1"}))
            with pytest.raises(hb.RowExists):
                session.insert(model(owner="a", name="t", colour="r", notes={"b": "1"}))
            assert session.entries(model.notes, owner="a", name="t").all() == {"a": "1"}


def test_what_is_refused() -> None:
    model, other = model_of("tall"), declare("maps_other")
    with fresh(model, other) as store:
        session = opened(store)
        pet = model(owner="a", name="t", colour="r")
        with pytest.raises(hb.CapabilityError, match=r"map columns takes no TTL.*objects of a wide row"):
            session.add(pet, ttl=timedelta(hours=1))
        with pytest.raises(hb.errors.UnknownField, match="The map column belongs to another model"):
            session.put_entries(pet, other.notes, {"a": "b"})
        with pytest.raises(hb.QueryError, match="Give a map column as an attribute of the model class"):
            session.put_entries(pet, {"a": "b"}, {"a": "b"})
        with pytest.raises(hb.QueryError, match="collection of map keys"):
            session.remove_entries(pet, model.notes, "a")
        with pytest.raises(hb.EncodingError, match="Map keys must be hashable") as unhashable:
            session.remove_entries(pet, model.notes, [["a"]])
        assert unhashable.value.field == "notes"
        with pytest.raises(hb.EncodingError, match="remove_entries"):
            session.put_entries(pet, model.notes, {"a": None})
        with pytest.raises(hb.EncodingError, match="A map column must be given a mapping"):
            session.update(pet, notes=["a"])
        for empty in (
            lambda: session.put_entries(pet, model.notes, {}),
            lambda: session.remove_entries(pet, model.notes, []),
        ):
            with pytest.raises(hb.SessionError, match="no entries"):
                empty()
        with pytest.raises(hb.errors.IncompleteKey):
            session.entries(model.notes, owner="a")
        for column in ({"a": "b"}, model.colour, "notes"):
            with pytest.raises(hb.DeclarationError, match="Give a map column as an attribute of the model class"):
                session.entries(column, owner="a", name="t")
        assert not session.commit()


# --- reading ----------------------------------------------------------------------------------------------------------


def filled(model: Any, count: int, store: Any = None) -> Any:
    """A store with one object with a number of entries, and neighbours on both sides."""
    store = fresh(model) if store is None else store
    with opened(store) as session:
        session.add_all(
            model(owner="a", name=name, colour="g", scores=dict.fromkeys(SCORES, 1)) for name in ("s", "t", "u")
        )
        pet = model(owner="a", name="t", colour="g")
        for start in range(0, count, 10_000):
            session.put_entries(pet, model.notes, {f"{n:07}": "x" for n in range(start, min(count, start + 10_000))})
            session.commit()
    return store


@pytest.mark.parametrize("shape", ["tall", "indexed", "wide", "wide, indexed"])
def test_objects_are_read_without_their_entries(shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of(shape)
    with filled(model, 3_000) as store:
        read = 0
        scan, get, get_each = store.inner.scan, store.inner.get, store.inner.get_each

        def counted(rows: Any) -> Any:
            nonlocal read
            read += sum(len(row.columns) for row in rows if row is not None)
            return rows

        monkeypatch.setattr(
            store.inner, "scan", lambda *a: [(counted(batch) for batch in batches) for batches in scan(*a)]
        )
        monkeypatch.setattr(store.inner, "get", lambda *a: counted(get(*a)))
        monkeypatch.setattr(store.inner, "get_each", lambda *a: counted(get_each(*a)))
        session = opened(store, sizes=SessionSizes(pages=PageSizes(cells=(50, 70), keys=(6,))))
        pets = session.query(model).where(model.owner == "a")
        assert [pet.name for pet in pets] == ["s", "t", "u"]
        assert [pet.name for pet in pets.reversed()] == ["u", "t", "s"]
        assert pets.count() == 3
        assert session.get(model, owner="a", name="t").colour == "g"
        session.add(model(owner="a", name="t", colour="r"))
        session.commit()
        assert read < 1_500
        before = read
        session.delete_key(model, owner="a", name="t")
        session.commit()
        assert "wide" in shape or read - before < 10


@pytest.mark.parametrize("shape", ["tall", "wide, indexed"])
def test_tokens(shape: str) -> None:
    model = model_of(shape)
    with filled(model, 20) as store:
        session = opened(store)
        place = {"owner": "a", "name": "t"}
        notes = session.entries(model.notes, **place)
        token = notes.page(3).next_token
        assert [key for key, _ in notes.page(2, after=token).items] == ["0000003", "0000004"]
        for another in (
            notes.startswith("0"),
            session.entries(model.notes, owner="a", name="s"),
            session.entries(model.scores, **place),
            notes.limit(8),
        ):
            with pytest.raises(hb.TokenError, match="another query"):
                another.page(3, after=token)
        with pytest.raises(hb.TokenError, match="damaged"):
            notes.page(3, after=token + "A")
        last = notes.limit(4).page(3)
        for another in (notes, notes.limit(5)):
            with pytest.raises(hb.TokenError, match="another query"):
                another.page(3, after=last.next_token)
        assert [key for key, _ in notes.limit(4).page(3, after=last.next_token).items] == ["0000003"]
        assert notes.limit(4).page(3, after=last.next_token).at_end
        assert notes.limit(0).page(3).at_end
        assert (list(notes.limit(0)), notes.limit(0).first(), notes.limit(0).count()) == ([], None, 0)
        for wrong, name in ((lambda: notes.page(0), "size"), (lambda: notes.limit(-1), "limit")):
            with pytest.raises(hb.QueryError, match=f"Give a whole number of at least.*{name}"):
                wrong()
        with pytest.raises(hb.QueryError, match=r"last\(\) cannot be combined with limit\(\): leave it out"):
            notes.limit(3).last()
        assert repr(notes.limit(3)) == "MapSlice(Pet.notes, limit 3)"
        sealed = opened(store, token_key=b"0" * 43 + b"=").entries(model.notes, **place)
        assert [key for key, _ in sealed.page(1, after=sealed.page(2).next_token).items] == ["0000002"]
        with pytest.raises(hb.TokenError):
            sealed.page(3, after=token)


def test_bounds() -> None:
    model = model_of("tall")
    with filled(model, 30) as store:
        session = opened(store)
        notes, scores = (session.entries(of, owner="a", name="t") for of in (model.notes, model.scores))
        assert len(notes.between("0000003", "0000007x").startswith("000000").all()) == 5
        assert scores.between(-0, 8).all() == {0: 1, 1: 1, 7: 1}
        assert scores.between(-(2**40), 2**40).count() == len(SCORES)
        assert scores.between(2**40, None).all() == scores.between(5, 3).all() == {}
        assert scores.between(None, None).count() == len(SCORES)
        assert scores.get(5) is None
        assert scores.get(5, "none") == "none"
        with pytest.raises(hb.QueryError, match="startswith needs text"):
            scores.startswith(1)
        with pytest.raises(hb.QueryError, match="startswith needs text"):
            notes.startswith(b"a")
        with pytest.raises(hb.EncodingError):
            notes.between(1, 2)


@pytest.mark.lengthy
def test_many_removed_entries() -> None:
    model = model_of("wide")
    with filled(model, 60) as store:
        session = opened(store)
        notes = session.entries(model.notes, owner="a", name="t")
        session.remove_entries(
            model(owner="a", name="t", colour=""), model.notes, [f"{n:07}" for n in range(60) if n not in {20, 21}]
        )
        session.commit()
        assert (notes.first(), notes.last(), notes.count()) == (("0000020", "x"), ("0000021", "x"), 2)
        assert list(pages(notes, 1)) == notes.page(5).items == list(notes)
        session.remove_entries(model(owner="a", name="t", colour=""), model.notes, ["0000020", "0000021"])
        session.commit()
        assert (notes.first(), notes.last(), list(notes)) == (None, None, [])


def test_queries_that_load() -> None:
    model = model_of("wide, indexed")
    with filled(model, 3) as store:
        session = opened(store)
        pets = session.query(model).where(model.owner == "a").load(model.notes)
        assert repr(pets).endswith("load notes)")
        expected = [{}, {"0000000": "x", "0000001": "x", "0000002": "x"}, {}]
        assert [pet.notes for pet in pets] == expected
        assert all(pet.scores is hb.types.NotLoaded for pet in pets)
        assert [pet.scores for pet in pets.load(model.scores).limit(1)] == [dict.fromkeys(SCORES, 1)]
        page = pets.page(2)
        assert [pet.notes for pet in (*page.items, *pets.page(2, after=page.next_token).items)] == expected
        assert [pet.notes for part in pets.partitions(2) for pet in session.read_partition(part)] == expected
        assert (pets.count(), pets.exists(), pets.first().notes, pets.last().notes) == (3, True, {}, {})
        with pytest.raises(hb.QueryError, match="leave out select"):
            pets.select(model.name)
        with pytest.raises(hb.QueryError, match="leave out select"):
            session.query(model).select(model.name).load(model.notes)
        with pytest.raises(hb.QueryError, match=r"load\(\) or session\.entries\(\) reads it"):
            session.query(model).select(model.notes)
        with pytest.raises(hb.QueryError, match="Give a map column as an attribute of the model class"):
            pets.load(model.name)


def test_a_slice_ends_with_its_session() -> None:
    model = model_of("tall")
    with filled(model, 30) as store:
        session = opened(store)
        notes = session.entries(model.notes, owner="a", name="t")
        session.close()
        with pytest.raises(hb.errors.SessionClosed):
            notes.first()
        with pytest.raises(hb.errors.SessionClosed):
            session.put_entries(model(owner="a", name="t", colour="g"), model.notes, {"a": "b"})


def test_a_map_of_a_table_in_use() -> None:
    """A model may get map columns, and then an index; entries from before it are deleted too."""
    plain = hb.model(table="maps_late")(
        type(
            "Pet",
            (),
            {
                "owner": hb.key(),
                "name": hb.key(),
                "colour": hb.column("c"),
                "age": hb.column("a", default=None),
                "__annotations__": {
                    "owner": hb.Key[str],
                    "name": hb.Key[str],
                    "colour": hb.Column[str],
                    "age": hb.Column[int | None],
                },
            },
        )
    )
    mapped, indexed = declare("maps_late"), declare("maps_late", indexed=True)
    place = {"owner": "a", "name": "t"}
    with fresh(plain) as store:
        with opened(store) as session:
            session.add(plain(**place, colour="g"))
        hb.create_tables(store, mapped)
        with opened(store) as session:
            session.put_entries(session.get(mapped, **place), mapped.notes, {"a": "1", "b": "1"})
        hb.create_tables(store, indexed)
        hb.indexes.build_index(store, indexed, "by_colour", times=TIMES)
        session = opened(store)
        (pet,) = session.query(indexed).where(indexed.colour == "g").load(indexed.notes)
        assert pet.notes == {"a": "1", "b": "1"}
        session.put_entries(pet, indexed.notes, {"a": "2"})
        session.commit()
        assert session.entries(indexed.notes, **place).all() == {"a": "2", "b": "1"}
        session.delete(pet)
        session.commit()
        session.add(indexed(**place, colour="r"))
        session.commit()
        assert session.entries(indexed.notes, **place).all() == {}


@pytest.mark.lengthy
@pytest.mark.parametrize("shape", ["tall", "wide"])
@pytest.mark.parametrize("count", [12_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_memory_is_bounded(shape: str, count: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.undo()
    model = model_of(shape)
    with hb.connect(f"embedded:{tmp_path / 'store.db'}") as store:
        hb.create_tables(store, model)
        filled(model, count, store)
        session = opened(store)
        notes = session.entries(model.notes, owner="a", name="t")
        assert notes.count() == count
        tracemalloc.start()
        try:
            assert sum(1 for _ in notes) == count
            assert notes.last() == (f"{count - 1:07}", "x")
            assert next(islice(notes.between(f"{count // 2:07}", None), 1))[0] == f"{count // 2:07}"
            assert len(notes.between(f"{count // 2:07}", None).page(100).items) == 100
            assert [pet.name for pet in session.query(model).where(model.owner == "a")] == ["s", "t", "u"]
            # Pages take one megabyte; all entries of the short run at once, two.
            assert tracemalloc.get_traced_memory()[1] < (1.6 if count < 100_000 else 12) * 1024 * 1024
        finally:
            tracemalloc.stop()


def test_in_asks_for_the_key_of_an_entry() -> None:
    store, model = hb.connect("memory:"), declare("pets_in")
    hb.create_tables(store, model)
    session = hb.Session(store)
    session.add(model(owner="a", name="x", colour="r", notes={"b": "", "d": "v"}, scores={1: 0}))
    session.commit()
    notes = session.entries(model.notes, owner="a", name="x")
    assert [key in notes for key in ("b", "d", "c")] == [True, True, False]
    assert "b" not in notes.between("c", None)
    assert 1 in session.entries(model.scores, owner="a", name="x")
    for other in (("b", ""), 1):
        with pytest.raises(hb.EncodingError) as error:
            assert other in notes
        assert error.value.field == "notes"
