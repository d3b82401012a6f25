"""What writes return equals what is read afterwards, although codecs round and times may have any zone; the caller's
objects do not change.
"""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.errors import KeyTooLong, RowKeyError
from tests.support.beds import HBASE, Bed, fresh
from tests.support.examples import examples
from tests.support.random_queries import COLUMN_CODECS, ROUNDING_CODECS, STRUCTURED, RandomModel, models
from tests.support.strategies import given_as

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECONDS = hb.Datetime("s", round=True)
QUICK = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]
RUNS = itertools.count()
"""Rows of different examples have different keys."""

KEYS = (*ROUNDING_CODECS, *ROUNDING_CODECS, hb.codecs.Timestamp, hb.codecs.Int8)
COLUMNS = (*ROUNDING_CODECS, *ROUNDING_CODECS, hb.codecs.Timestamp, hb.Text, STRUCTURED)


class FineTime(datetime):
    """As pandas has it: finer than a microsecond."""

    nanosecond = 5


class FineDuration(timedelta):
    nanoseconds = 5


def values_of(obj: Any) -> dict[str, Any]:
    """All that the constructor takes, and the version."""
    of = hb.schema.schema_of(type(obj)).version_field
    return {**hb.asdict(obj), **({} if of is None else {of.name: getattr(obj, of.name)})}


def check_read(session: hb.Session, obj: Any) -> None:
    """An object that a write returned equals the one that is read."""
    model = type(obj)
    schema = hb.schema.schema_of(model)
    read = session.get(model, **{name: getattr(obj, name) for name in schema.layout.names})
    found, expected = values_of(obj), values_of(read)
    for name in schema.maps_by_name:
        expected[name] = dict(
            session.entries(getattr(model, name), **{key: getattr(obj, key) for key in schema.layout.names})
        )
    assert found == expected


class Writes:
    """Writes of random objects, each looked at.

    Args:
        session: writes.
        draw: of the test.
        of: the model, and the values that are stored of its fields.
    """

    def __init__(self, session: hb.Session, draw: Any, of: RandomModel) -> None:
        self.session, self.draw, self.of, self.schema = session, draw, of, of.schema
        self.columns = [f.name for f in self.schema.columns if f.kind == "column"]
        self.held: dict[bytes, Any] = {}

    def values(self, *names: str) -> dict[str, Any]:
        """Values to write; what is stored of them may be less."""
        fields = [self.schema.by_name[name] for name in names]
        return {f.name: given_as(self.draw, f.codec, self.draw(st.sampled_from(self.of.pools[f.name]))) for f in fields}

    def made(self) -> Any:
        return self.of.model(**self.values(*self.schema.layout.names, *self.columns))

    def key(self, obj: Any) -> dict[str, Any]:
        return {name: getattr(obj, name) for name in self.schema.layout.names}

    def row(self, obj: Any) -> bytes:
        return hb.schema.schema_of(self.of.model).layout.pack(tuple(self.key(obj).values()))

    def some(self) -> Any:
        """An object of a row that is there, as a write returned it or as it was given."""
        return self.held[self.draw(st.sampled_from(sorted(self.held)))]

    def hold(self, obj: Any, *, read: bool = True) -> None:
        if read:
            check_read(self.session, obj)
        self.held[self.row(obj)] = obj

    def add(self) -> None:
        obj = self.made()
        before = hb.asdict(obj)
        self.session.add(obj)
        self.session.commit()
        assert hb.asdict(obj) == before
        self.hold(obj, read=False)

    def insert(self) -> None:
        obj = self.made()
        before = hb.asdict(obj)
        try:
            found = self.session.insert(obj)
        except hb.RowExists:
            return
        finally:
            assert hb.asdict(obj) == before
        self.hold(found)

    def update(self) -> None:
        obj = self.some()
        before = hb.asdict(obj)
        names = self.draw(st.lists(st.sampled_from(self.columns), min_size=1, unique=True))
        found = self.session.update(obj, **self.values(*names))
        self.session.commit()
        assert hb.asdict(obj) == before
        self.hold(found)

    def update_key(self) -> None:
        obj = self.some()
        name = self.draw(st.sampled_from(self.columns))
        self.session.update_key(self.of.model, **self.key(obj), **self.values(name))
        self.session.commit()
        self.hold(self.session.get(self.of.model, **self.key(obj)))

    def evolve(self) -> None:
        obj = self.some()
        name = self.draw(st.sampled_from(self.columns))
        again = {
            key: given_as(self.draw, self.schema.by_name[key].codec, value)
            for key, value in values_of(self.read(obj)).items()
        }
        again = {key: value for key, value in again.items() if key in self.key(obj)}
        changed = hb.evolve(obj, **{**again, **self.values(name)})
        if self.schema.version_field is not None:
            assert changed.version == obj.version, "the key is stored as before"
        self.session.add(changed)
        self.session.commit()
        self.hold(changed, read=False)

    def read(self, obj: Any) -> Any:
        found = self.session.get(self.of.model, **self.key(obj))
        assert found is not None
        return found

    def rekey(self) -> None:
        obj = self.some()
        key = self.values(*self.schema.layout.names)
        try:
            found = self.session.rekey(obj, **key)
        except (hb.RowExists, hb.SessionError):  # another row, or the same key
            return
        del self.held[self.row(obj)]
        self.hold(found)

    def delete(self) -> None:
        obj = self.some()
        self.session.delete(obj)
        self.session.commit()
        assert self.session.get(self.of.model, **self.key(obj)) is None
        del self.held[self.row(obj)]

    def step(self) -> None:
        kinds = [self.add, self.insert]
        if self.held:
            kinds += [self.update, self.update, self.update_key, self.evolve, self.rekey, self.delete]
        kind = self.draw(st.sampled_from(kinds))
        event(kind.__name__)
        try:
            kind()
        except (KeyTooLong, RowKeyError, hb.errors.ComputedFieldError):
            self.session.discard()
        except hb.CapabilityError as error:
            if "that every row has" not in str(error) and "one cell" not in str(error):
                raise


@pytest.mark.lengthy
@settings(max_examples=examples(120), deadline=None, suppress_health_check=QUICK)
@given(st.data())
def test_any_write_returns_what_is_read(data: st.DataObject) -> None:
    of = data.draw(
        models(codecs=KEYS, columns=COLUMNS if data.draw(st.booleans()) else COLUMN_CODECS, versions=True, wide=True)
    )
    assume(not of.schema.immutable)
    with fresh(of.model) as store:
        writes = Writes(hb.Session(store), data.draw, of)
        for _ in range(data.draw(st.integers(1, 8))):
            writes.step()


# --- declared models, on every store ----------------------------------------------------------------------------------


@hb.model(table="written_plain", exists=hb.flag("e"))
class Plain:
    """Without indexes; the last key field is prepended."""

    run: hb.Key[int] = hb.key(hb.UInt32)
    at: hb.Key[datetime] = hb.key(SECONDS)
    serial: hb.Key[int] = hb.key(hb.UInt32)
    seen: hb.Column[datetime | None] = hb.column("s", SECONDS, default=None)
    views: hb.Column[int] = hb.counter("v")


@hb.model(table="written_indexed")
class Indexed:
    """With an index that covers, a partial one, a version and a map column."""

    run: hb.Key[int] = hb.key(hb.UInt32)
    at: hb.Key[datetime] = hb.key(SECONDS, desc=True)
    seen: hb.Column[datetime | None] = hb.column("s", SECONDS, default=NOON + timedelta(microseconds=5))
    lasted: hb.Column[timedelta] = hb.column("l", hb.codecs.Duration(round=True), default=timedelta(0))
    notes: hb.Map[datetime, datetime] = hb.map_column("n", SECONDS, SECONDS)
    version: hb.Column[int] = hb.version()

    by_seen = hb.index("seen", covers=("lasted",))
    late = hb.index("seen", "at", where=lambda m: m.seen >= NOON + timedelta(seconds=3, microseconds=1))


@hb.model(table="written_wide")
class Wide:
    """In the qualifier, split, and a map column."""

    run: hb.Key[int] = hb.key(hb.UInt32)
    at: hb.Key[datetime] = hb.key(SECONDS, row_span=timedelta(seconds=4))
    seen: hb.Column[datetime | None] = hb.column("s", hb.codecs.ReverseStamp("s", round=True), default=None)
    size: hb.Column[int] = hb.column("z", hb.Int32)


def moments() -> st.SearchStrategy[datetime]:
    """Times of a few seconds, most of them finer."""
    return st.builds(
        lambda seconds, rest: NOON + timedelta(seconds=seconds, microseconds=rest),
        st.integers(0, 7),
        st.sampled_from([0, 1, 400_000, 999_999]),
    )


def check_plain(session: hb.Session, at: list[datetime], *, atomic: bool) -> None:
    run = next(RUNS)
    inserted = session.insert(Plain(run=run, at=at[0], serial=9, seen=at[1]))
    check_read(session, inserted)
    with pytest.raises(hb.RowExists):
        session.insert(Plain(run=run, at=at[0].replace(microsecond=7), serial=9))
    for obj in (inserted, Plain(run=run, at=at[0], serial=9, seen=at[1])):
        changed = session.update(obj, seen=at[2])
        session.commit()
        check_read(session, changed)
    assert session.increment(Plain(run=run, at=at[0], serial=9), Plain.views, 3) == 3
    for _ in range(2):
        check_read(session, session.prepend(Plain, run=run, at=at[1], seen=at[2]))
    if atomic:
        check_read(session, session.rekey(inserted, at=at[3], serial=1))


def check_indexed(session: hb.Session, at: list[datetime]) -> None:
    run = next(RUNS)
    lasted = FineDuration(0, 0, 7)
    obj = Indexed(run=run, at=at[0], seen=at[1], lasted=lasted, notes={at[1]: at[2], at[2]: at[3]})
    inserted = session.insert(obj)
    assert (obj.at, obj.lasted, obj.version) == (at[0], lasted, inserted.version), "it keeps its values"
    check_read(session, inserted)
    changed = session.update(
        inserted, notes={at[0]: at[1]}, lasted=FineDuration(0, 0, 8), condition=Indexed.seen <= at[1]
    )
    session.commit()
    check_read(session, changed)
    session.put_entries(changed, Indexed.notes, {at[3]: at[0]})
    session.commit()
    read = session.get(Indexed, run=run, at=at[0].replace(microsecond=3))
    assert read is not None
    changed = session.update(
        hb.evolve(read, at=at[0].replace(microsecond=9)), seen=at[3], condition=~(Indexed.seen > at[1])
    )
    session.commit()
    assert changed.version == read.version + 1, "checked, since the key is the same"
    found = (
        session.query(Indexed)
        .where(Indexed.seen == at[3], Indexed.run == run)
        .use_index("by_seen")
        .load(Indexed.notes)
        .one()
    )
    assert values_of(found) == {**values_of(changed), "notes": found.notes}
    session.rekey(found, run=run, at=at[0] + timedelta(seconds=9))


def check_wide(session: hb.Session, at: list[datetime], *, atomic: bool) -> None:
    run = next(RUNS)
    obj = Wide(run=run, at=at[0], seen=at[1], size=1)
    if atomic:
        check_read(session, session.insert(obj))
    else:
        session.add(obj)
        session.commit()
    changed = session.update(obj, seen=at[2])
    session.commit()
    check_read(session, changed)
    if atomic:
        check_read(session, session.rekey(obj, at=at[0] + timedelta(seconds=at[1].second + 1)))


def test_the_object_itself_is_returned_where_nothing_is_rounded() -> None:
    with fresh(Plain, Indexed) as store:
        session = hb.Session(store)
        whole = Plain(run=1, at=NOON, serial=1)
        assert session.insert(whole) is whole
        fine = Plain(run=1, at=NOON, serial=2, seen=FineTime(2026, 3, 1, 12, tzinfo=UTC))
        found = session.insert(fine)
        assert (found.seen, type(found.seen), type(fine.seen)) == (NOON, datetime, FineTime)


def test_what_is_not_written_need_not_be_storable() -> None:
    with fresh(Wide) as store:
        session = hb.Session(store)
        session.add(Wide(run=1, at=NOON, size=1))
        session.commit()
        naive: Any = datetime(2026, 3, 1)
        changed = session.update(Wide(run=1, at=NOON + timedelta(microseconds=1), seen=naive, size=1), size=2)
        session.commit()
        assert (changed.at, changed.seen, changed.size) == (NOON, naive, 2)
        found = session.get(Wide, run=1, at=NOON)
        assert found is not None
        assert (found.seen, found.size) == (None, 2)


@pytest.mark.every_store
@pytest.mark.parametrize("bed", ["memory", "embedded", *HBASE], indirect=True)
def test_every_store_returns_what_it_stores(bed: Bed) -> None:
    session = bed.use(Plain, *([Indexed] if bed.atomic else []), Wide)

    @settings(max_examples=examples(8), deadline=None, suppress_health_check=QUICK)
    @given(st.lists(moments(), min_size=4, max_size=4))
    def check(at: list[datetime]) -> None:
        check_plain(session, at, atomic=bed.atomic)
        check_wide(session, at, atomic=bed.atomic)
        if bed.atomic:
            check_indexed(session, at)

    check()
