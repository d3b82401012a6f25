"""Objects read as of a time, and the versions of their columns: every kind of model against a history that is kept
in a list.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from attrs import define, field
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.errors import (
    CapabilityError,
    IncompleteKey,
    IncompleteRow,
    QueryError,
    RowNotFound,
    TokenError,
    UnknownField,
)
from hbmodel.store import Delete, Put
from tests.support.beds import Bed, fresh, rows_of
from tests.support.examples import examples

KEPT = 50
"""More versions than any test writes."""


class Fields:
    name: hb.Column[str] = hb.column("n", versions=KEPT)
    amount: hb.Column[int | None] = hb.column("a", default=None)
    note: hb.Column[str] = hb.column("o", default="none")


@hb.model(table="kept_plain", family="d")
class Plain(Fields):
    group: hb.Key[int] = hb.key(hb.codecs.UInt8)
    number: hb.Key[int] = hb.key(hb.codecs.UInt8)


@hb.model(table="kept_salted", family="d", salt=hb.HashSalt(3))
class Salted(Fields):
    group: hb.Key[int] = hb.key(hb.codecs.UInt8)
    number: hb.Key[int] = hb.key(hb.codecs.UInt8)


@hb.model(table="kept_indexed", family="d")
class Indexed(Fields):
    group: hb.Key[int] = hb.key(hb.codecs.UInt8)
    number: hb.Key[int] = hb.key(hb.codecs.UInt8)
    by_amount = hb.index("amount")


@hb.model(table="kept_versioned", family="d")
class Versioned(Fields):
    group: hb.Key[int] = hb.key(hb.codecs.UInt8)
    number: hb.Key[int] = hb.key(hb.codecs.UInt8)
    version: hb.Column[int] = hb.version()
    by_name = hb.index("name")


@hb.model(table="kept_flagged", family="d", exists=hb.flag("e"))
class Flagged:
    group: hb.Key[int] = hb.key(hb.codecs.UInt8)
    number: hb.Key[int] = hb.key(hb.codecs.UInt8)
    name: hb.Column[str] = hb.column("n", default="")
    amount: hb.Column[int | None] = hb.column("a", default=None, versions=KEPT)
    note: hb.Column[str] = hb.column("o", default="none")


@hb.model(table="kept_wide", family="d")
class Wide(Fields):
    group: hb.Key[int] = hb.key(hb.codecs.UInt8)
    number: hb.Key[int] = hb.key(hb.codecs.UInt8, in_qualifier=True)


@hb.model(table="kept_two", family="d")
class Two:
    """In two families."""

    group: hb.Key[int] = hb.key(hb.codecs.UInt8)
    number: hb.Key[int] = hb.key(hb.codecs.UInt8)
    name: hb.Column[str] = hb.column("n", versions=KEPT)
    amount: hb.Column[int | None] = hb.column("a", default=None, versions=KEPT, family="e")
    note: hb.Column[str] = hb.column("o", default="none")


MODELS: tuple[Any, ...] = (Plain, Salted, Indexed, Flagged, Wide, Two)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Key = tuple[int, int]
Values = Mapping[str, Any]


def moment() -> datetime:
    """A time between what was written before and what is written after it, by the clock of this machine."""
    time.sleep(0.003)
    found = datetime.now(UTC)
    time.sleep(0.003)
    return found


@define
class History:
    """The contents at each moment, and the objects deleted since then."""

    model: Any
    session: hb.Session
    now: dict[Key, Values] = field(factory=dict)
    moments: list[tuple[datetime, dict[Key, Values]]] = field(factory=list)

    def note(self) -> None:
        """The time of the newest cell, because the store's clock may differ a little from this one."""
        newest = max(rows_of(self.session.store, hb.schema.schema_of(self.model).table).values(), default=1)
        self.moments.append((EPOCH + timedelta(milliseconds=newest), dict(self.now)))
        time.sleep(0.003)  # what comes next has a later time

    def add(self, key: Key, values: Values) -> None:
        self.now[key] = {"amount": None, "note": "none", **values}
        self.session.add(self.model(group=key[0], number=key[1], **values))
        self._commit()

    def update(self, key: Key, values: Values) -> None:
        if key in self.now:
            self.now[key] = {**self.now[key], **values}
            self.session.update(self.model(group=key[0], number=key[1], name="stale"), **values)
            self._commit()

    def delete(self, key: Key) -> None:
        self.now.pop(key, None)
        for _, state in self.moments:  # it does not come back as of any time
            state.pop(key, None)
        self.session.delete_key(self.model, group=key[0], number=key[1])
        self._commit()

    def _commit(self) -> None:
        self.session.commit()
        self.note()

    # --- checks -------------------------------------------------------------------------------------------------------

    def check(self) -> None:
        model = self.model
        everything = self.session.query(model).allow_full_scan()
        for time_, state in self.moments:
            query = everything.order_by(model.group, model.number).as_of(time_)
            expected = sorted(state)
            assert [found(each) for each in query] == [(key, dict(state[key])) for key in expected]
            assert query.count() == len(expected)
            assert [each.number for each in query.reversed()] == [key[1] for key in expected[::-1]]
            assert query.select(model.note).all() == [(state[key]["note"],) for key in expected]
            for value in (None, 0, 1):
                same = [key for key in expected if state[key]["amount"] == value]
                where = model.amount.is_(None) if value is None else model.amount == value
                assert [found(each)[0] for each in query.where(where)] == same
                assert query.where(where).count() == len(same)
                assert query.where(where).exists() == bool(same)
            assert list(self._paged(query)) == expected
            for group in (0, 1):
                of_group = query.where(model.group == group)
                assert [found(each)[0] for each in of_group] == [key for key in expected if key[0] == group]
            first = query.first_of_each(model.group, [1, 0])
            assert [each and found(each)[0] for each in first] == [
                min((k for k in expected if k[0] == g), default=None) for g in (1, 0)
            ]
        self.check_one()

    def _paged(self, query: hb.Query[Any]) -> Iterator[Key]:
        token = None
        while True:
            page = query.page(1, after=token)
            yield from (found(each)[0] for each in page.items)
            token = page.next_token
            if token is None:
                return

    def check_one(self) -> None:
        """Gets, and the versions of columns."""
        model, session = self.model, self.session
        for key in {(0, 0), (0, 1), (1, 0), (1, 1)}:
            names = {"group": key[0], "number": key[1]}
            for time_, state in self.moments:
                got = session.get(model, as_of=time_, **names)
                assert (got and found(got)) == ((key, dict(state[key])) if key in state else None)
            for column, default in ((model.name, None), (model.amount, None), (model.note, "none")):
                versions = session.versions(model, column, **names)
                times = [version.time for version in versions]
                assert times == sorted(set(times), reverse=True)
                if key not in self.now:
                    assert versions == []
                for time_, state in self.moments:
                    if key in state:
                        shown = next((value for at, value in versions if at <= time_), default)
                        assert shown == state[key][column.of.name]
                assert session.versions(model, column, limit=1, **names) == versions[:1]


def found(obj: Any) -> tuple[Key, dict[str, Any]]:
    return (obj.group, obj.number), {"name": obj.name, "amount": obj.amount, "note": obj.note}


KEYS = st.tuples(st.integers(0, 1), st.integers(0, 1))
WHOLE = st.fixed_dictionaries(
    {"name": st.sampled_from(["", "a", "b"])},
    optional={"amount": st.none() | st.integers(0, 2), "note": st.sampled_from(["", "x"])},
)
PARTS = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(["", "c"]),
        "amount": st.none() | st.integers(0, 2),
        "note": st.sampled_from(["", "y"]),
    },
).filter(bool)
STEPS = st.one_of(
    st.tuples(st.just("add"), KEYS, WHOLE),
    st.tuples(st.just("update"), KEYS, PARTS),
    st.tuples(st.just("update"), KEYS, PARTS),
    st.tuples(st.just("delete"), KEYS),
)


@pytest.mark.lengthy
@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from((*MODELS, Versioned)), st.lists(STEPS, max_size=8))
def test_any_history(model: Any, steps: list[Any]) -> None:
    history = History(model, hb.Session(fresh(model)))
    history.note()
    for name, *arguments in steps:
        getattr(history, name)(*arguments)
    history.check()


def one_of_each(history: History) -> None:
    history.note()
    history.add((0, 0), {"name": "a", "amount": 1})
    history.update((0, 0), {"amount": 0})
    history.add((1, 0), {"name": "b", "note": "x"})
    history.update((0, 0), {"amount": None, "note": ""})
    history.add((0, 1), {"name": "c", "amount": 1})
    history.delete((1, 0))
    history.add((1, 0), {"name": "again", "amount": 0})
    history.delete((0, 1))
    history.check()


@pytest.mark.lengthy
@pytest.mark.parametrize("model", [Indexed, Wide])
def test_one_history_everywhere(bed: Bed, model: Any) -> None:
    one_of_each(History(model, bed.use(model)))


@pytest.mark.slow
@pytest.mark.parametrize("model", [Plain, Salted, Flagged, Two])
def test_one_history_of_every_model_everywhere(bed: Bed, model: Any) -> None:
    one_of_each(History(model, bed.use(model)))


@pytest.mark.lengthy
def test_a_versioned_model(atomic_bed: Bed) -> None:
    session = atomic_bed.use(Versioned)
    history = History(Versioned, session)
    one_of_each(history)
    earlier = session.get(Versioned, group=0, number=0, as_of=history.moments[1][0])
    assert earlier is not None
    newest = session.get(Versioned, group=0, number=0)
    assert newest is not None
    assert 0 < earlier.version < newest.version
    assert earlier.amount == 1
    session.update(earlier, amount=7)
    with pytest.raises(hb.ConflictError):  # it has the version of then
        session.commit()


# --- what is refused --------------------------------------------------------------------------------------------------


@hb.model(table="kept_refused", family="d")
class Refused:
    as_of: hb.Key[int] = hb.key(hb.codecs.UInt8)
    limit: hb.Key[int] = hb.key(hb.codecs.UInt8)
    kept: hb.Column[str] = hb.column("k", versions=3)
    other: hb.Column[str] = hb.column("o", default="", family="e")
    visits: hb.Column[int] = hb.counter("v")
    by_kept = hb.index("kept")


NOW = datetime(2030, 1, 1, tzinfo=UTC)


class Apart:
    """Its column is in another family than the cells of hbmodel."""

    name: hb.Key[str] = hb.key()
    kept: hb.Column[str | None] = hb.column("k", family="x", versions=3)
    by_kept = hb.index("kept")


class VersionedApart(Apart):
    version: hb.Column[int] = hb.version()


@pytest.mark.parametrize("exists", [None, hb.flag("e")])
@pytest.mark.parametrize("base", [Apart, VersionedApart])
def test_a_family_that_holds_only_the_cells_of_hbmodel(base: type[Any], exists: Any) -> None:
    def declared(family: Any) -> Any:
        return hb.model(table="apart", family=family, exists=exists)(type("Apart", (base,), {"__module__": __name__}))

    with fresh() as store:
        once, often = declared("d"), declared(hb.family("d", max_versions=3))
        hb.create_tables(store, once)
        session = hb.Session(store)
        session.add(once(name="a", kept="old"))
        session.commit()
        with pytest.raises(QueryError, match=r'declare family=hb.family\("name", max_versions=n\)') as error:
            session.get(once, name="a", as_of=NOW)
        assert (error.value.details["family"], error.value.details["fields"]) == ("d", [])
        hb.alter(store, often)
        time.sleep(0.005)
        old = datetime.now(UTC)
        time.sleep(0.005)
        session.update_key(often, name="a", kept=None)
        session.commit()
        assert session.get(often, name="a", as_of=old) == often(name="a", kept="old")


def test_refusals() -> None:
    session = hb.Session(fresh(Refused, Indexed))
    query = session.query(Refused).allow_full_scan()
    late, early = (
        datetime.max.replace(tzinfo=timezone(-timedelta(hours=1))),
        datetime.min.replace(tzinfo=timezone(timedelta(hours=1))),
    )
    for time_ in (datetime(2030, 1, 1), "2030-01-01", None, 5, datetime(1969, 12, 31, tzinfo=UTC)):
        with pytest.raises(QueryError):
            query.as_of(time_)  # type: ignore[arg-type]
    for time_ in (late, early):
        with pytest.raises(QueryError, match="The time lies outside the years 1 to 9999 in UTC"):
            query.as_of(time_)
    for refused in (lambda: query.use_index("by_kept").as_of(NOW), lambda: query.as_of(NOW).use_index("by_kept")):
        with pytest.raises(QueryError, match="An index holds no earlier values"):
            refused()
    assert query.as_of(NOW).use_index("primary").select(Refused.kept).all() == []
    with pytest.raises(QueryError, match="too few versions of a counter"):
        query.as_of(NOW).all()
    with pytest.raises(QueryError, match="deletes the current objects"):
        query.as_of(NOW).delete()
    with pytest.raises(QueryError, match="The column family keeps only the newest version of its cells") as error:
        query.as_of(NOW).select(Refused.kept, Refused.other).all()
    assert error.value.details["fields"] == ["other"]
    with pytest.raises(QueryError, match="The column family keeps only the newest version of its cells"):
        query.as_of(NOW).where(Refused.other == "x").count()
    with pytest.raises(hb.FullScanRefused):
        session.query(Indexed).where(Indexed.amount == 1).as_of(NOW).all()
    for column in (Refused.other, Refused.visits, Refused.limit):
        with pytest.raises(QueryError):
            session.versions(Refused, column, as_of=1, limit=1)
    with pytest.raises(UnknownField, match=r"versions\(\) takes a column as an attribute of the model class"):
        session.versions(Refused, Indexed.name, as_of=1, limit=1)
    with pytest.raises(IncompleteKey):
        session.versions(Refused, Refused.kept, as_of=1)
    with pytest.raises(IncompleteKey):
        session.get(Indexed, group=1, as_of=NOW)
    with pytest.raises(QueryError):
        session.versions(Indexed, Indexed.name, group=1, number=1, limit=0)


def test_key_fields_with_the_names_of_options() -> None:
    session = hb.Session(fresh(Refused))
    session.add(Refused(as_of=1, limit=2, kept="x"))
    session.commit()
    assert session.get(Refused, as_of=1, limit=2) is not None
    assert [value for _, value in session.versions(Refused, Refused.kept, as_of=1, limit=2)] == ["x"]


def test_tokens_belong_to_their_time() -> None:
    session = hb.Session(fresh(Plain))
    session.add_all(Plain(group=0, number=number, name="x") for number in range(4))
    session.commit()
    now = moment()
    query = session.query(Plain).where(Plain.group == 0)
    token = query.as_of(now).page(2).next_token
    for other in (query, query.as_of(now + timedelta(milliseconds=1))):
        with pytest.raises(TokenError):
            other.page(2, after=token)
    assert [each.number for each in query.as_of(now).page(2, after=token).items] == [2, 3]


def test_parts_keep_the_time() -> None:
    session = hb.Session(fresh(Salted))
    session.add(Salted(group=0, number=0, name="x", amount=1))
    session.commit()
    now = moment()
    session.add_all(Salted(group=0, number=number, name="y", amount=2) for number in range(4))
    session.commit()
    parts = session.query(Salted).allow_full_scan().as_of(now).partitions(3)
    assert len(parts) == 3
    assert [each.amount for part in parts for each in session.read_partition(part)] == [1]


def test_explain_says_the_time() -> None:
    explained = hb.Session(fresh(Indexed)).query(Indexed).where(Indexed.group == 1).as_of(NOW).explain()
    assert explained.as_of == NOW
    assert "as of:   2030-01-01T00:00:00+00:00" in str(explained)
    assert explained.path == "primary"


def test_a_time_of_another_zone_and_within_a_millisecond() -> None:
    store = fresh(Plain)
    row = hb.row_key(Plain, group=0, number=0)
    start = datetime(2026, 1, 1, tzinfo=UTC)
    stamp = round(start.timestamp() * 1000)
    for at in (stamp, stamp + 1):
        store.put("kept_plain", [Put(row, {b"d:n": b"%d" % (at - stamp)}, at)])
    session = hb.Session(store)
    for late, name in ((-1, None), (0, "0"), (999, "0"), (1000, "1")):
        got = session.get(Plain, group=0, number=0, as_of=start + timedelta(microseconds=late))
        assert (got and got.name) == name
    zone = hb.Session(store).get(Plain, group=0, number=0, as_of=start.astimezone())
    assert zone is not None
    assert zone.name == "0"
    assert session.versions(Plain, Plain.name, group=0, number=0) == [
        (start + timedelta(milliseconds=1), "1"),
        (start, "0"),
    ]


def test_more_versions_than_the_column_wants_are_cut() -> None:
    @hb.model(table="kept_cut", family="d")
    class Cut:
        number: hb.Key[int] = hb.key(hb.codecs.UInt8)
        two: hb.Column[int] = hb.column("t", versions=2)
        four: hb.Column[int] = hb.column("f", versions=4)
        family: hb.Column[int] = hb.column("x", default=0)

    session = hb.Session(fresh(Cut))
    for value in range(6):
        session.add(Cut(number=0, two=value, four=value, family=value))
        session.commit()
        moment()
    kept = [
        [version.value for version in session.versions(Cut, column, number=0)]
        for column in (Cut.two, Cut.four, Cut.family)
    ]
    assert kept == [[5, 4], [5, 4, 3, 2], [5, 4, 3, 2]]


def test_older_versions_than_kept_are_gone() -> None:
    @hb.model(table="kept_few", family="d")
    class Few:
        number: hb.Key[int] = hb.key(hb.codecs.UInt8)
        name: hb.Column[str] = hb.column("n")
        text: hb.Column[str] = hb.column("t", versions=2)
        note: hb.Column[str] = hb.column("o", default="none")

    session = hb.Session(fresh(Few))
    session.add(Few(number=0, name="n", text="0", note="0"))
    session.commit()
    times = [moment()]
    for number in (1, 2):
        session.update(Few(number=0, name="", text=""), text=str(number), note=str(number))
        session.commit()
        times.append(moment())
    with pytest.raises(IncompleteRow):
        session.get(Few, number=0, as_of=times[0])
    first = session.query(Few).where(Few.number == 0).select(Few.name, Few.note)
    assert [first.as_of(time_).all() for time_ in times] == [[("n", "none")], [("n", "1")], [("n", "2")]]
    session.add(Few(number=0, name="m", text="3"))
    session.commit()
    moment()
    session.add(Few(number=0, name="m", text="4"))
    session.commit()
    assert session.get(Few, number=0, as_of=times[0]) is None, "nothing that is required is left"


def test_a_piece_of_a_row_has_no_versions() -> None:
    store = fresh(Plain)
    store.put("kept_plain", [Put(hb.row_key(Plain, group=0, number=0), {b"d:o": b"x"}, 5)])
    assert hb.Session(store).versions(Plain, Plain.note, group=0, number=0) == []


def test_a_store_that_reads_newest_versions_only() -> None:
    class Newest:
        """A store with nothing but the port."""

        def __init__(self, store: hb.Store) -> None:
            self._inside = store

        def __getattr__(self, name: str) -> Any:
            if name in {"versions", "on_retry", "begin_put", "check_and_put_each"}:
                raise AttributeError(name)
            return getattr(self._inside, name)

    store: Any = Newest(fresh(Plain))
    for session in (hb.Session(store), hb.Session(store, on_call=lambda call: None)):
        session.add(Plain(group=0, number=0, name="x"))
        session.commit()
        with pytest.raises(CapabilityError, match="This store reads only the newest version of a cell"):
            session.versions(Plain, Plain.name, group=0, number=0)


def test_calls_are_reported() -> None:
    calls: list[hb.store.Call] = []
    session = hb.Session(fresh(Plain), on_call=calls.append)
    session.add(Plain(group=0, number=0, name="x"))
    session.commit()
    session.versions(Plain, Plain.name, group=0, number=0)
    assert [(call.operation, call.rows) for call in calls[-2:]] == [("versions", 1), ("get", 1)]


def test_rows_of_other_programs() -> None:
    """Deletes of a single column hide its older versions as of every time."""
    store = fresh(Plain)
    row = hb.row_key(Plain, group=0, number=0)
    for at in (10, 20):
        store.put("kept_plain", [Put(row, {b"d:n": b"%d" % at, b"d:o": b"%d" % at}, at)])
    store.delete("kept_plain", [Delete(row, columns=[b"d:o"], timestamp=30)])
    got = hb.Session(store).get(Plain, group=0, number=0, as_of=EPOCH + timedelta(milliseconds=15))
    assert got is not None
    assert (got.name, got.note) == ("10", "none")


def test_an_update_of_a_deleted_object_is_refused_as_ever(bed: Bed) -> None:
    session = bed.use(Plain)
    session.add(Plain(group=0, number=0, name="x"))
    session.commit()
    now = moment()
    earlier = session.get(Plain, group=0, number=0, as_of=now)
    assert earlier is not None
    session.delete(earlier)
    session.commit()
    session.update(earlier, name="y")
    with pytest.raises(RowNotFound):
        session.commit()
    assert session.get(Plain, group=0, number=0, as_of=now) is None
