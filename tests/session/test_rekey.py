"""`Session.rekey`: an object is found under its new key with all that is stored of it, wherever a program dies that
moves it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from attrs import define, field
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.errors import HbmodelError
from hbmodel.mapping.rows.mapper import KeyMapper
from hbmodel.store import Put
from hbmodel.store.gate import gated
from tests.support.beds import Bed, cells_of, fresh
from tests.support.examples import examples
from tests.support.faulty import Call, Crash, FaultyStore, RecordingStore, failures_of, is_repetition
from tests.support.slow_machines import lives_for
from tests.support.waiting import wait_until

QUICK = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def initial(text: str) -> str | None:
    """The first letter of a text."""
    return text[:1] or None


def declare(
    table: str,
    *,
    in_qualifier: bool = False,
    version: bool = False,
    indexed: bool = True,
    few: bool = False,
    entries: bool = True,
    token: bool = False,
    **options: Any,
) -> Any:
    """A model with columns of every kind, and an index of every kind that it can have."""
    body: dict[str, Any] = {
        "user": hb.key(hb.codecs.UInt8),
        "app": hb.key(hb.codecs.UInt8, in_qualifier=in_qualifier),
        "title": hb.column("x"),
        "tags": hb.column("t", hb.Json(list[str])),
        "rank": hb.column("r", hb.codecs.Int8, nullable=True, default=None),
    }
    types: dict[str, Any] = {
        "user": hb.Key[int],
        "app": hb.Key[int],
        "title": hb.Column[str],
        "tags": hb.Column[list[str]],
    }
    types["rank"] = hb.Column[int | None]
    if not options.get("immutable"):
        body["views"], types["views"] = hb.counter("v"), hb.Column[int]
    if entries:
        body["notes"], types["notes"] = hb.map_column("n"), hb.Map[str, str]
    if token:
        body["token"], types["token"] = hb.column("k", factory=uuid4), hb.Column[UUID]
    if version:
        body["version"], types["version"] = hb.version(), hb.Column[int]
    if indexed:
        body["initial"] = hb.computed(initial, of="title")
        body["by_title"] = hb.index("title", covers=("rank", "tags"))
    if indexed and not few:
        body["by_tag"] = hb.index(hb.each("tags"), salt=hb.HashSalt(2))
        body["by_rank"] = hb.index("rank", skip_none=True)
        body["by_open"] = hb.index(hb.desc("rank"), where=lambda made: made.title != "b")
        body["by_initial"] = hb.index("initial", "app")
    if version and indexed:
        body["by_unique"] = hb.index("title", "rank", unique=True)
    made = type("Document", (), {**body, "__annotations__": types, "__module__": __name__})
    return hb.model(table=table, family="d", **options)(made)


KINDS: Mapping[str, Any] = {
    "unindexed": declare("rekeyed_bare", indexed=False, exists=hb.flag("e")),
    "the last write wins": declare("rekeyed", salt=hb.HashSalt(3)),
    "immutable": declare("rekeyed_facts", immutable=True, entries=False),
    "versioned": declare("rekeyed_versions", version=True),
    "versioned without an index": declare("rekeyed_counted", version=True, indexed=False),
    "wide, unindexed": declare("rekeyed_wide_bare", in_qualifier=True, indexed=False, exists=hb.flag("e")),
    "wide": declare("rekeyed_wide", in_qualifier=True),
    "wide, versioned": declare("rekeyed_wide_versions", in_qualifier=True, version=True),
}
NUMBERS = st.integers(0, 2)


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """The values of an object, with those of its counter and of its map column."""
    return {
        "user": draw(NUMBERS),
        "app": draw(NUMBERS),
        "title": draw(st.sampled_from(["", "a", "b", "ab"])),
        "tags": draw(st.lists(st.sampled_from(["x", "y"]), max_size=3)),
        "rank": draw(st.none() | NUMBERS),
        "views": draw(st.integers(0, 3)),
        "notes": draw(st.dictionaries(st.sampled_from(["p", "q"]), st.sampled_from(["", "n"]))),
    }


MOVES = st.tuples(NUMBERS, NUMBERS, st.fixed_dictionaries({}, optional={"user": NUMBERS, "app": NUMBERS}).filter(bool))
CALLS = st.lists(st.one_of(documents(), MOVES, MOVES, MOVES), min_size=2, max_size=14)

Key = tuple[int, int]


@define
class Expected:
    """The contents of a store, by key: a simple model without rows."""

    model: Any
    rows: dict[Key, dict[str, Any]] = field(factory=dict)

    @property
    def names(self) -> Sequence[str]:
        """The fields that objects have."""
        schema = hb.schema.schema_of(self.model)
        return [f.name for f in schema.fields if f.kind != "version"] + ["notes"] * bool(schema.maps)

    def unique(self, values: Mapping[str, Any], key: Key) -> bool:
        """Whether no other object holds the value that may stand once only."""
        if "by_unique" not in hb.schema.schema_of(self.model).indexes or values["rank"] is None:
            return True
        return all(
            (r["title"], r["rank"]) != (values["title"], values["rank"]) for k, r in self.rows.items() if k != key
        )

    def add(self, store: hb.Store, values: Mapping[str, Any]) -> None:
        """An object whose key is free, with its counter."""
        key = values["user"], values["app"]
        if key in self.rows or not self.unique(values, key):
            return
        given = {name: values[name] for name in self.names if name != "views"}
        with hb.Session(store) as session:
            session.add(self.model(**given))
            session.commit()
            if "views" in self.names and values["views"]:
                session.increment(self.model(**given), self.model.views, values["views"])
        self.rows[key] = {name: values[name] for name in self.names}

    def outcome(self, old: Key, new: Key) -> type[HbmodelError] | None:
        """The error that a move raises."""
        if new == old:
            return hb.SessionError
        if old not in self.rows:
            return hb.RowNotFound
        return hb.RowExists if new in self.rows else None

    def moved(self, old: Key, new: Key) -> None:
        """Carries a move out."""
        self.rows[new] = {**self.rows.pop(old), "user": new[0], "app": new[1]}

    def move(self, store: hb.Store, old: Key, new: Key, changes: Mapping[str, int]) -> None:
        """Moves an object, or does not."""
        session, error = hb.Session(store), self.outcome(old, new)
        event("moved" if error is None else error.__name__)
        found = session.get(self.model, user=old[0], app=old[1]) or self.model(
            user=old[0], app=old[1], title="no row", tags=[]
        )
        if error is not None:
            with pytest.raises(error):
                session.rekey(found, **changes)
            return
        moved = session.rekey(found, **changes)
        self.moved(old, new)
        assert {name: getattr(moved, name) for name in self.names if name != "notes"} == self._without_notes(new)
        if hb.schema.schema_of(self.model).versioned:
            session.update(moved, tags=moved.tags)  # it has the version of its row
            session.commit()

    def _without_notes(self, key: Key) -> dict[str, Any]:
        return {name: value for name, value in self.rows[key].items() if name != "notes"}

    def check(self, store: hb.Store) -> None:
        """Every path returns the current objects, and nothing is left of objects that are gone."""
        session, schema = hb.Session(store), hb.schema.schema_of(self.model)
        for key, values in self.rows.items():
            found = session.get(self.model, user=key[0], app=key[1])
            assert found is not None
            assert {name: getattr(found, name) for name in values if name != "notes"} == self._without_notes(key)
            if "notes" in values:
                assert dict(session.entries(self.model.notes, user=key[0], app=key[1]).all()) == values["notes"]
        assert {(found.user, found.app) for found in session.query(self.model).allow_full_scan()} == self.rows.keys()
        for value in ("", "a", "b", "ab"):
            expected = {key for key, values in self.rows.items() if values["title"] == value}
            query = session.query(self.model).where(self.model.title == value).allow_full_scan()
            assert {(found.user, found.app) for found in query} == expected
        for index in schema.indexes.values():
            expected_entries = {entry for values in self.rows.values() for entry in self._entries(index, values)}
            cells = cells_of(store, index.table)
            live = {entry for entry, of in cells.items() if schema.version_column in of}
            assert expected_entries <= live, index.name
            assert live <= expected_entries or schema.covering, index.name  # a mark may stand over what is gone

    def _entries(self, index: Any, values: Mapping[str, Any]) -> Sequence[bytes]:
        return KeyMapper(hb.schema.schema_of(self.model)).entries(
            index, values, hb.row_key(self.model, user=values["user"], app=values["app"])
        )


def run(bed: Bed, kind: str, calls: Sequence[Any]) -> None:
    """Carries calls out, and compares."""
    model = KINDS[kind]
    bed.use(model)
    expected = Expected(model)
    for call in calls:
        if isinstance(call, dict):
            expected.add(bed.store, call)
        else:
            old, changes = call[:2], call[2]
            expected.move(bed.store, old, (changes.get("user", old[0]), changes.get("app", old[1])), changes)
    expected.check(bed.store)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("store", ["memory", "embedded"])
def test_an_object_moves_with_all_that_is_stored_of_it(fast_beds: Callable[[str], Bed], store: str, kind: str) -> None:
    @settings(QUICK, max_examples=examples(12 if store == "memory" else 4))
    @given(CALLS)
    def example(calls: Any) -> None:
        run(fast_beds(store), kind, calls)

    example()


ON_HBASE = [
    pytest.param(
        kind, marks=() if kind in {"the last write wins", "unindexed", "wide, versioned"} else pytest.mark.slow
    )
    for kind in KINDS
]


@pytest.mark.hbase
@pytest.mark.parametrize("kind", ON_HBASE)
def test_an_object_moves_on_hbase(real_beds: Callable[[str], Bed], kind: str) -> None:
    @settings(QUICK, max_examples=1)
    @given(st.lists(st.one_of(documents(), MOVES), min_size=10, max_size=10))
    def example(calls: Any) -> None:
        run(real_beds("thrift2"), kind, calls)

    example()


# --- crashes ----------------------------------------------------------------------------------------------------------

OBJECT = {"user": 1, "app": 1, "title": "ab", "tags": ["x"], "rank": 2, "views": 5, "notes": {"p": "n"}}


FEWER: Mapping[str, Any] = {
    **{name: made for name, made in KINDS.items() if not hb.schema.schema_of(made).indexes},
    "the last write wins": declare("crashed", few=True, salt=hb.HashSalt(3)),
    "immutable": declare("crashed_facts", few=True, immutable=True, entries=False),
    "versioned": declare("crashed_versions", few=True, version=True),
    "wide": declare("crashed_wide", few=True, in_qualifier=True),
    "wide, versioned": declare("crashed_wide_versions", few=True, in_qualifier=True, version=True),
}
"""The same models with few indexes."""


@pytest.mark.lengthy
@pytest.mark.parametrize("changes", [{"user": 2}, {"app": 2}], ids=["another user", "another app"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_program_dies_at_every_call_and_the_same_call_ends_the_move(kind: str, changes: dict[str, int]) -> None:
    model, old, new = FEWER[kind], (1, 1), (changes.get("user", 1), changes.get("app", 1))
    one_row = hb.schema.schema_of(model).wide is not None and "user" not in changes and kind != "wide, versioned"
    found_under = set()
    for at, mode in [(-1, "before"), *failures_of(_calls(model, changes))]:
        if is_repetition(at, mode):
            continue
        store = fresh(model)
        expected = Expected(model)
        expected.add(store, OBJECT)
        session = hb.Session(store)
        obj = session.get(model, user=1, app=1)
        with suppress(Crash):
            hb.Session(FaultyStore(store, at, mode, crash=True)).rekey(obj, **changes)
        here = [key for key in (old, new) if session.get(model, user=key[0], app=key[1]) is not None]
        assert here, (at, mode)
        assert not one_row or len(here) == 1
        found_under.add(tuple(here))
        try:
            hb.Session(store).rekey(obj, **changes)
        except hb.RowNotFound:  # it was moved, and nothing says by whom
            assert here == [new]
        expected.moved(old, new)
        _settled(expected, store)
    assert found_under == {(old,), (new,)} | (set() if one_row else {(old, new)})


GROWN: Mapping[str, tuple[Any, Any]] = {
    name: tuple(declare(table, token=token, **options) for token in (False, True))
    for name, (table, options) in {
        "unindexed": ("grown_bare", {"indexed": False, "exists": hb.flag("e")}),
        "the last write wins": ("grown", {"few": True, "salt": hb.HashSalt(3)}),
        "immutable": ("grown_facts", {"few": True, "immutable": True, "entries": False}),
        "versioned": ("grown_versions", {"few": True, "version": True}),
        "wide, unindexed": ("grown_wide_bare", {"in_qualifier": True, "indexed": False, "exists": hb.flag("e")}),
        "wide": ("grown_wide", {"few": True, "in_qualifier": True}),
        "wide, versioned": ("grown_wide_versions", {"few": True, "in_qualifier": True, "version": True}),
    }.items()
}
"""A model, and the same model with one more column, whose default is another value at each call."""


@pytest.mark.lengthy
@pytest.mark.parametrize("changes", [{"user": 2}, {"app": 2}], ids=["another user", "another app"])
@pytest.mark.parametrize("kind", GROWN)
def test_a_new_default_of_each_read_is_copied_once(kind: str, changes: dict[str, int]) -> None:
    """The old row lacks the cell, so each read of it makes another value. The value of the copy stays."""
    earlier, model = GROWN[kind]
    new = {"user": 1, "app": 1, **changes}

    def grown() -> Any:
        store = fresh(earlier)
        Expected(earlier).add(store, OBJECT)
        hb.create_tables(store, model)
        store.calls.clear()
        return store

    undisturbed = grown()
    hb.Session(undisturbed).rekey(hb.Session(undisturbed).get(model, user=1, app=1), **changes)
    seen = 0
    for at, mode in [(-1, "before"), *failures_of(undisturbed.calls)]:
        if is_repetition(at, mode):
            continue
        store = grown()
        session = hb.Session(store)
        obj = session.get(model, user=1, app=1)
        with suppress(Crash):
            hb.Session(FaultyStore(store, at, mode, crash=True)).rekey(obj, **changes)
        copied = [session.get(model, **new) for _ in range(2)]
        with suppress(hb.RowNotFound):  # it was moved, and nothing says by whom
            assert hb.Session(FaultyStore(store, 100, "before", crash=True)).rekey(obj, **changes).app == new["app"]
        assert session.get(model, user=1, app=1) is None
        moved = [session.get(model, **new) for _ in range(2)]
        assert moved[0] == moved[1]
        assert moved[0].title == "ab"
        if copied[0] is not None:
            seen += 1
            assert copied == moved
        assert [(one.user, one.app) for one in session.query(model).allow_full_scan()] == [tuple(new.values())]
    assert seen


def _calls(model: Any, changes: Mapping[str, int]) -> Sequence[Call]:
    """Of a move that nothing disturbs."""
    store = fresh(model)
    Expected(model).add(store, OBJECT)
    obj = hb.Session(store).get(model, user=1, app=1)
    store.calls.clear()
    hb.Session(store).rekey(obj, **changes)
    return store.calls


def _settled(expected: Expected, store: hb.Store) -> None:
    """As `Expected.check`, but index entries that a program has left are repair's."""
    session, (key,) = hb.Session(store), expected.rows
    found = session.query(expected.model).allow_full_scan().all()
    assert [(one.user, one.app) for one in found] == [key]
    assert {name: getattr(found[0], name) for name in expected.names if name != "notes"} == expected._without_notes(key)
    for name in hb.schema.schema_of(expected.model).indexes:
        query = session.query(expected.model).where(expected.model.title == "ab").use_index(name)
        if name in {"by_title", "by_unique"}:
            assert [(one.user, one.app) for one in query] == [key]
    row = hb.row_key(expected.model, user=key[0], app=key[1])
    if hb.schema.schema_of(expected.model).wide is None:
        assert b"d:_pm" not in cells_of(store, hb.schema.schema_of(expected.model).table)[row]


# --- what else must hold ----------------------------------------------------------------------------------------------


@hb.model(table="rekeyed_short", family="d")
class Short:
    """Rows that expire."""

    name: hb.Key[str] = hb.key()
    size: hb.Column[int] = hb.column("s")


@hb.model(table="rekeyed_short_indexed", family="d")
class ShortIndexed:
    """Rows that expire, with an index."""

    name: hb.Key[str] = hb.key()
    size: hb.Column[int] = hb.column("s")

    by_size = hb.index("size")


@pytest.mark.lengthy
@pytest.mark.parametrize("model", [Short, ShortIndexed])
@lives_for(1)
def test_a_row_ends_when_it_would_have(model: Any) -> None:
    store = fresh(model)
    session, table = hb.Session(store), hb.schema.schema_of(model).table
    session.add(model(name="a", size=1), ttl=timedelta(seconds=1))
    session.commit()
    (before,) = cells_of(store, table).values()
    moved = session.rekey(model(name="a", size=0), name="b")
    assert moved == session.get(model, name="b") == model(name="b", size=1)
    after = cells_of(store, table)[b"b"]
    end = b"d:_l" if model is ShortIndexed else b"d:_t"
    assert after[end][:8] == before[end][:8]
    session.update(moved, size=2)
    session.commit()
    assert cells_of(store, table)[b"b"][end][:8] == before[end][:8]

    def has_ended() -> bool:
        rows = _without_stamps(store, table).values()
        return all(not cells or cells.get(b"d:_l", b"")[:1] == b"\0" for cells in rows)

    wait_until(has_ended)
    with pytest.raises(hb.RowNotFound, match="There is no row with this key to move"):
        session.rekey(moved, name="c")


@hb.model(table="rekeyed_versioned", family="d")
class Account:
    """A versioned model with a unique index."""

    name: hb.Key[str] = hb.key()
    email: hb.Column[str | None] = hb.column("e", default=None)
    version: hb.Column[int] = hb.version()

    by_email = hb.index("email", unique=True)


def test_an_object_that_moves_is_not_written(atomic_bed: Bed) -> None:
    session = atomic_bed.use(Account)
    account = session.insert(Account(name="a", email="x"))
    stale = session.get(Account, name="a")
    assert stale is not None
    at = 0
    while True:  # until the copy stands
        with pytest.raises(Crash):
            hb.Session(FaultyStore(atomic_bed.store, at, "after", crash=True)).rekey(account, name="b")
        if session.get(Account, name="b") is not None:
            break
        at += 1
    for name in ("a", "b"):
        found = session.get(Account, name=name)
        assert found is not None
        for call in (functools.partial(session.update, email="y"), session.delete, session.add):
            call(found)
            with pytest.raises(hb.ConflictError, match="The object is being moved to another key; if the program"):
                session.commit()
            session.discard()
    with pytest.raises(hb.UniqueViolation, match="Another row holds the value of a unique index"):
        session.insert(Account(name="c", email="x"))
    with pytest.raises(
        hb.ConflictError,
        match=r"The object is being moved to another key: call "
        r"rekey\(\) with",
    ) as caught:
        session.rekey(stale, name="z")
    assert caught.value.other == b"b"
    with pytest.raises(hb.ConflictError, match="The move that brought the object to this key is not finished"):
        session.rekey(session.get(Account, name="b"), name="z")
    moved = session.rekey(stale, name="b")
    assert moved == session.get(Account, name="b")
    assert session.query(Account).where(Account.email == "x").all() == [moved]
    session.update(moved, email="y")
    session.commit()
    assert session.insert(Account(name="a", email="x")).email == "x"


@hb.model(table="rekeyed_unique", family="d")
class Member:
    """A model with a unique index on a key field and a column."""

    club: hb.Key[str] = hb.key()
    number: hb.Key[int] = hb.key()
    email: hb.Column[str | None] = hb.column("e", default=None)
    version: hb.Column[int] = hb.version()

    by_email = hb.index("club", "email", unique=True)


def test_an_object_does_not_move_to_a_key_under_which_its_unique_value_is_taken(atomic_bed: Bed) -> None:
    session = atomic_bed.use(Member)
    member = session.insert(Member(club="a", number=1, email="x"))
    owner = session.insert(Member(club="b", number=1, email="x"))
    session.insert(Member(club="b", number=2, email=None))
    for key in ({"club": "b", "number": 3}, {"club": "b"}):
        error = hb.UniqueViolation if "number" in key else hb.RowExists
        with pytest.raises(error) as caught:
            session.rekey(member, **key)
        assert caught.value.details.get("value", ("b", "x")) == ("b", "x")
        assert sorted((found.club, found.number) for found in session.query(Member).allow_full_scan()) == [
            ("a", 1),
            ("b", 1),
            ("b", 2),
        ]
    member = session.update(member, email="y")  # the object can be written, and can move to another key
    session.commit()
    member = session.rekey(member, club="b", number=3)
    member = session.rekey(member, number=4)  # the unique value does not change
    session.update(owner, email=None)
    session.update(member, email="x")
    session.commit()
    member = session.rekey(session.get_one(Member, club="b", number=4), club="a")
    assert session.rekey(member, club="b").email == "x"  # the row that had the value gave it up
    report = hb.indexes.verify_index(atomic_bed.store, Member, "by_email")
    assert (report.unclaimed, report.missing, report.rows) == (0, 0, 3)


def test_an_object_that_shares_a_unique_value_does_not_move_before_the_index_is_built() -> None:
    types = {"name": hb.Key[str], "email": hb.Column[str], "version": hb.Column[int]}
    body = {"name": hb.key(), "email": hb.column("e"), "version": hb.version(), "__annotations__": types}
    plain = hb.model(table="rekeyed_doubles", family="d")(type("Plain", (), body))
    unique = hb.index("email", unique=True)
    model = hb.model(table="rekeyed_doubles", family="d")(type("Unique", (), {**body, "by_email": unique}))
    with hb.connect("memory:") as store:
        hb.create_tables(store, plain)
        with hb.Session(store) as session:
            session.add_all(plain(name=name, email="x") for name in "ab")
        assert hb.indexes.build_index(store, model, "by_email").duplicates == 1
        session = hb.Session(store)
        session.rekey(session.get_one(model, name="a"), name="aa")  # this row has claimed the value
        double = session.get_one(model, name="b")
        with pytest.raises(hb.UniqueViolation, match="The object was not moved") as caught:
            session.rekey(double, name="bb")
        assert caught.value.owner == b"aa"
        assert [found.name for found in session.query(model).allow_full_scan()] == ["aa", "b"]
        session.update_key(model, name="b", email="y")
        session.commit()
        assert hb.indexes.build_index(store, model, "by_email").readable
        assert session.rekey(session.get_one(model, name="b"), name="c").email == "y"


def test_an_object_does_not_leave_a_row_that_it_has_not_wholly_come_to() -> None:
    model = FEWER["wide, versioned"]
    store = fresh(model)
    Expected(model).add(store, OBJECT)
    session = hb.Session(store)
    here = session.get(model, user=1, app=1)
    at = 0
    while session.get(model, user=2, app=1) is None:
        with pytest.raises(Crash):
            hb.Session(FaultyStore(store, at, "after", crash=True)).rekey(here, user=2)
        at += 1
    there = session.get(model, user=2, app=1)
    with pytest.raises(hb.ConflictError):
        session.rekey(there, app=2)
    session.rekey(here, user=2)
    assert session.rekey(session.get(model, user=2, app=1), app=2).app == 2
    assert session.query(model).allow_full_scan().count() == 1


def test_a_stale_object_does_not_move(atomic_bed: Bed) -> None:
    session = atomic_bed.use(Account)
    stale = session.insert(Account(name="a", email="x"))
    session.update(stale, email="y")
    session.commit()
    with pytest.raises(hb.ConflictError):
        session.rekey(stale, name="b")
    assert session.rekey(Account(name="a"), name="b").email == "y"


def test_a_new_key_that_is_taken_leaves_both_objects_as_they_are(atomic_bed: Bed) -> None:
    session = atomic_bed.use(Account, Short, ShortIndexed)
    for model, field_name in ((Account, "email"), (Short, "size"), (ShortIndexed, "size")):
        values = ("x", "y") if model is Account else (1, 2)
        one, two = (
            session.insert(model(name="a", **{field_name: values[0]})),
            session.insert(model(name="b", **{field_name: values[1]})),
        )
        with pytest.raises(hb.RowExists, match="A row with the new key exists already"):
            session.rekey(one, name="b")
        assert [session.get(model, name="a"), session.get(model, name="b")] == [one, two]


def test_what_was_written_under_both_keys_is_kept() -> None:
    """The last write wins, so nothing keeps programs from writing an object whose move has died."""
    for written in ("a", "b"), ("a",), ("b",):
        store = fresh(ShortIndexed)
        session = hb.Session(store)
        session.add(ShortIndexed(name="a", size=1))
        session.commit()
        at = 0
        while session.get(ShortIndexed, name="b") is None:
            with pytest.raises(Crash):
                hb.Session(FaultyStore(store, at, "after", crash=True)).rekey(ShortIndexed(name="a", size=0), name="b")
            at += 1
        for name in written:
            session.update(ShortIndexed(name=name, size=0), size=5 if name == "a" else 6)
            session.commit()
        if len(written) == 2:
            with pytest.raises(hb.RowExists, match="The object was written under both keys while it moved"):
                session.rekey(ShortIndexed(name="a", size=0), name="b")
            assert [one.size for one in session.query(ShortIndexed).allow_full_scan()] == [5, 6]
            session.delete_key(ShortIndexed, name="b")
            session.commit()
        moved = session.rekey(ShortIndexed(name="a", size=0), name="b")
        assert moved.size == (6 if written == ("b",) else 5)
        assert session.query(ShortIndexed).allow_full_scan().all() == [moved]


def _without_stamps(store: hb.Store, table: str) -> dict[bytes, dict[bytes, bytes]]:
    """Every row with its cells, except the cells of an insert that expire by themselves; marks of moves are shorter."""
    return {
        row: {column: value for column, value in cells.items() if not (column.startswith(b"d:_p") and len(column) > 5)}
        for row, cells in cells_of(store, table).items()
    }


@pytest.mark.every_store
def test_columns_that_the_model_does_not_declare_move_too(atomic_bed: Bed) -> None:
    session = atomic_bed.use(Short)
    session.add(Short(name="a", size=1))
    session.commit()
    atomic_bed.store.put("rekeyed_short", [Put(b"a", {b"d:other": b"!"})])
    session.rekey(Short(name="a", size=1), name="b")
    assert _without_stamps(atomic_bed.store, "rekeyed_short") == {b"b": {b"d:s": hb.Int64.encode(1), b"d:other": b"!"}}


@hb.model(table="rekeyed_external", family="d", external=True)
class External:
    """A table that others write."""

    name: hb.Key[str] = hb.key()
    size: hb.Column[int] = hb.column("s")


def test_of_a_external_table_the_columns_of_the_model_move(atomic_bed: Bed) -> None:
    session = atomic_bed.use(Short)
    atomic_bed.store.create_table("rekeyed_external", [hb.store.Family(b"d")])
    atomic_bed.store.put("rekeyed_external", [Put(b"a", {b"d:s": hb.Int64.encode(1), b"d:other": b"!"})])
    assert session.rekey(External(name="a", size=0), name="b") == External(name="b", size=1)
    assert _without_stamps(atomic_bed.store, "rekeyed_external") == {
        b"a": {b"d:other": b"!"},
        b"b": {b"d:s": hb.Int64.encode(1)},
    }


@hb.model(table="rekeyed_random", family="d", immutable=True, salt=hb.RandomSalt(2))
class Drawn:
    """A random salt."""

    name: hb.Key[str] = hb.key()
    at: hb.Column[datetime | None] = hb.column("a", default=None)


def test_what_is_refused(bed: Bed) -> None:
    session = bed.use(Account, Short, Drawn)
    if not bed.atomic:
        with pytest.raises(hb.CapabilityError, match="Thrift2"):
            session.rekey(Short(name="a", size=1), name="b")
        return
    with pytest.raises(hb.SessionError, match=r"rekey\(\) takes at least one field of the key"):
        session.rekey(Short(name="a", size=1))
    with pytest.raises(hb.SessionError):
        session.rekey(Short(name="a", size=1), name="a")
    with pytest.raises(hb.errors.UnknownField, match=r"rekey\(\) takes key fields only"):
        session.rekey(Short(name="a", size=1), size=2)
    with pytest.raises(hb.RowNotFound):
        session.rekey(Short(name="a", size=1), name="b")
    with pytest.raises(hb.EncodingError):
        session.rekey(Short(name="a", size=1), name=7)
    with pytest.raises(hb.CapabilityError, match=r"rekey\(\) is not possible under RandomSalt"):
        session.rekey(Drawn(name="a"), name="b")


@hb.model(table="rekeyed_cells", family="d")
class Tag:
    """An object is one cell, with only its key in the qualifier."""

    user: hb.Key[str] = hb.key()
    name: hb.Key[str] = hb.key(in_qualifier=True)
    uses: hb.Column[int] = hb.column("", hb.codecs.UInt8)


NAMES = ["rex", "re", "rex\x01", "tom"]


@pytest.mark.parametrize("old", NAMES)
@pytest.mark.parametrize("new", [*NAMES, "rex_pm"])
def test_an_object_that_is_one_cell_moves_within_its_row(atomic_bed: Bed, old: str, new: str) -> None:
    session = atomic_bed.use(Tag)
    tags = {name: number for number, name in enumerate(NAMES)}
    session.add_all(Tag(user="ann", name=name, uses=number) for name, number in tags.items())
    session.add(Tag(user="bob", name=new, uses=9))
    session.commit()
    if new in tags:
        error = hb.SessionError if new == old else hb.RowExists
        with pytest.raises(error):
            session.rekey(Tag(user="ann", name=old, uses=0), name=new)
    else:
        assert session.rekey(Tag(user="ann", name=old, uses=0), name=new) == Tag(user="ann", name=new, uses=tags[old])
        tags[new] = tags.pop(old)
    assert {tag.name: tag.uses for tag in session.query(Tag).where(Tag.user == "ann")} == tags
    assert [tag.name for tag in session.query(Tag).where(Tag.user == "bob")] == [new]
    with pytest.raises(hb.CapabilityError, match="can be moved only within its row"):
        session.rekey(Tag(user="ann", name=new, uses=0), user="cid")
    with pytest.raises(hb.RowNotFound):
        session.rekey(Tag(user="ann", name="gone", uses=0), name="somewhere")


def test_an_object_that_is_one_cell_is_put_under_a_key_that_is_free_then(atomic_bed: Bed) -> None:
    """Another program inserts the new key just before the mutation."""
    session = atomic_bed.use(Tag)
    session.add(Tag(user="ann", name="rex", uses=1))
    session.commit()

    other = hb.Session(atomic_bed.store)
    mine = hb.Session(_Before(atomic_bed.store, lambda: other.insert(Tag(user="ann", name="tom", uses=2))))
    with pytest.raises(hb.RowExists):
        mine.rekey(Tag(user="ann", name="rex", uses=1), name="tom")
    assert {tag.name: tag.uses for tag in session.query(Tag).where(Tag.user == "ann")} == {"rex": 1, "tom": 2}


class _Before(RecordingStore):
    """Calls a function before its first conditional change."""

    def __init__(self, store: hb.Store, first: Callable[[], object]) -> None:
        super().__init__(store)
        self.first: Callable[[], object] | None = first

    def _do(self, call: Call, apply: Any) -> Any:
        if call.name.startswith("check_and_mutate") and self.first is not None:
            first, self.first = self.first, None
            with gated(None):
                first()
        return super()._do(call, apply)
