"""Column ranges of wide rows: queries by column fields, over many rows, read the slices that they ask for and
nothing else.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import Any

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.query.match.column_ranges import MAX_COLUMN_RANGES
from hbmodel.session.commit.session_sizes import SessionSizes
from hbmodel.store import Family, Put, Scan
from hbmodel.store.wide.column_scans import scan_columns
from hbmodel.store.wide.page_sizes import PageSizes
from tests.support.beds import HBASE, Bed
from tests.support.examples import examples
from tests.support.faulty import RecordingStore
from tests.support.random_queries import COMPARISONS, RandomModel, leaves
from tests.support.sizes import SMALL_SIZES
from tests.support.strategies import KEY_CODECS, SPLITS, values_of

NAMES = ("mia", "max", "m", "tom", "n", "m\x00", "")
OWNERS = tuple(f"o{number}" for number in range(12))
AGES = (1, 2, 3)


@hb.model(table="slice_pets", family="d", kind=b"p")
class Pet:
    owner: hb.Key[str] = hb.key()
    name: hb.Key[str] = hb.key(in_qualifier=True)
    age: hb.Key[int] = hb.key(hb.codecs.UInt8, in_qualifier=True)
    kind: hb.Column[str] = hb.column("k")
    weight: hb.Column[int] = hb.column("w")


PETS = [
    Pet(owner=owner, name=name, age=age, kind="cat", weight=age) for owner in OWNERS for name in NAMES for age in AGES
]
CELLS = 2


@pytest.fixture
def session(bed: Bed) -> hb.Session:
    found = bed.use(Pet)
    found.add_all(PETS)
    found.commit()
    return found


def key(pet: Pet) -> Any:
    return pet.owner, pet.name, pet.age


def cells_read(store: RecordingStore, table: str) -> Iterator[int]:
    """Repeats the scans of a table, and counts the cells of each; the roll of its writers is in another table."""
    for call in store.calls[:]:
        if call.table != table:
            continue
        assert call.name == "scan"
        for scan in call.items:
            (batches,) = store.inner.scan(call.table, [scan])
            yield sum(len(row.columns) for batch in batches for row in batch)


QUERIES: dict[str, tuple[Any, Any]] = {
    "prefix": (lambda: Pet.name.startswith("m"), lambda pet: pet.name.startswith("m")),
    "inclusive": (lambda: Pet.name.between("m", "mia"), lambda pet: "m" <= pet.name <= "mia"),
    "exclusive": (lambda: (Pet.name > "m") & (Pet.name < "mia"), lambda pet: "m" < pet.name < "mia"),
    "unbounded above": (lambda: Pet.name > "mia", lambda pet: pet.name > "mia"),
    "unbounded below": (lambda: Pet.name <= "m", lambda pet: pet.name <= "m"),
    "in": (lambda: Pet.name.in_(["max", "tom", "none"]), lambda pet: pet.name in {"max", "tom"}),
    "in, then a range": (
        lambda: Pet.name.in_(["max", "tom"]) & (Pet.age >= 2),
        lambda pet: pet.name in {"max", "tom"} and pet.age >= 2,
    ),
    "fixed": (lambda: (Pet.name == "m") & Pet.age.in_([1, 3]), lambda pet: pet.name == "m" and pet.age != 2),
    "the empty name": (lambda: Pet.name == "", lambda pet: not pet.name),
}


@pytest.mark.lengthy
@pytest.mark.parametrize("bed", ["memory", "embedded", *HBASE], indirect=True)
def test_a_slice_of_every_row_is_read_and_nothing_else(session: hb.Session, bed: Bed) -> None:
    for rows, owners in ((None, OWNERS), (Pet.owner.between("o1", "o3"), ("o1", "o10", "o11", "o2", "o3"))):
        for predicate, holds in QUERIES.values():
            expected = [pet for pet in sorted(PETS, key=key) if pet.owner in owners and holds(pet)]
            query = session.query(Pet).where(predicate())
            query = query.allow_full_scan() if rows is None else query.where(rows)
            bed.store.calls.clear()
            assert query.all() == expected
            assert sum(cells_read(bed.store, "slice_pets")) == CELLS * len(expected)
            assert query.count() == len(expected)
            assert (query.first(), query.last()) == (expected[0], expected[-1])
            assert query.reversed().all() == expected[::-1]
            page = query.page(7)
            found = list(page.items)
            while page.next_token is not None:
                bed.store.calls.clear()
                page = query.page(7, after=page.next_token)
                found += page.items
                assert sum(cells_read(bed.store, "slice_pets")) <= CELLS * len(expected)
            assert found == expected


def test_a_full_scan_of_rows_must_be_allowed(session: hb.Session) -> None:
    with pytest.raises(hb.FullScanRefused, match="The query would read the whole table"):
        session.query(Pet).where(Pet.name.startswith("m")).all()


@pytest.mark.parametrize("bed", ["memory"], indirect=True)
def test_several_ranges_of_one_row_are_one_scan(session: hb.Session, bed: Bed) -> None:
    query = session.query(Pet).where(Pet.owner == "o1", Pet.name.in_(["max", "tom", "m"]), Pet.age > 1)
    bed.store.calls.clear()
    assert [key(pet) for pet in query.all()] == [("o1", name, age) for name in ("m", "max", "tom") for age in (2, 3)]
    (call,) = bed.store.calls
    assert len(call.items) == 1
    assert list(cells_read(bed.store, "slice_pets")) == [6 * CELLS]


@pytest.mark.parametrize("bed", ["memory"], indirect=True)
def test_more_values_than_a_filter_takes_are_checked_by_the_client(session: hb.Session) -> None:
    names = ["tom", *map(str, range(MAX_COLUMN_RANGES))]
    for rows in (Pet.owner >= "o", Pet.owner == "o1"):
        found = session.query(Pet).where(rows, Pet.name.in_(names)).all()
        assert {pet.name for pet in found} == {"tom"}


@pytest.mark.lengthy
@pytest.mark.parametrize("bed", ["memory", *HBASE], indirect=True)
def test_a_row_that_overflows_its_page_is_continued_before_the_next_one(session: hb.Session) -> None:
    session = hb.Session(session.store, sizes=SMALL_SIZES)
    query = session.query(Pet).where(Pet.name.startswith("m"), Pet.owner >= "o2")
    expected = [pet for pet in sorted(PETS, key=key) if pet.name.startswith("m") and pet.owner >= "o2"]
    assert query.all() == expected
    assert query.reversed().all() == expected[::-1]
    assert [pet for part in query.partitions(3) for pet in session.read_partition(part).all()] == expected


@hb.model(table="slice_readings", family="d", salt=hb.HashSalt(4, by=("sensor",)))
class Reading:
    sensor: hb.Key[str] = hb.key()
    at: hb.Key[datetime] = hb.key(hb.Datetime("s"), desc=True, row_span=timedelta(hours=1))
    name: hb.Key[str] = hb.key(in_qualifier=True)
    value: hb.Column[int] = hb.column("")


@pytest.mark.parametrize("bed", ["memory", *HBASE], indirect=True)
def test_a_split_time_bounds_the_columns_within_its_bucket(bed: Bed) -> None:
    session = bed.use(Reading)
    start = datetime(2026, 1, 1, tzinfo=UTC)
    times = [start + timedelta(minutes=10 * step) for step in range(12)]
    session.add_all(
        Reading(sensor=sensor, at=at, name=name, value=1) for sensor in "abc" for at in times for name in ("x", "y")
    )
    session.commit()
    for condition, found, read in (
        (Reading.at == times[1], 3 * 2, 3 * 2 * 2),  # that offset, in the buckets of both hours
        ((Reading.at == times[1]) & (Reading.name == "x"), 3, 3 * 2),
        (Reading.at.in_([times[1], times[8]]) & (Reading.name >= "x"), 3 * 4, 3 * 2 * 2 * 2),
        (Reading.at.between(times[1], times[3]), 3 * 3 * 2, 3 * 2 * 3 * 2),
        ((Reading.at > times[1]) & (Reading.at < times[3]), 3 * 2, 3 * 2 * 3 * 2),
        (Reading.at.between(times[1], times[7]), 3 * 7 * 2, 3 * 12 * 2),  # of two buckets
    ):
        query = session.query(Reading).where(condition).allow_full_scan()
        bed.store.calls.clear()
        assert len(query.all()) == found
        assert sum(cells_read(bed.store, "slice_readings")) == read
        assert query.count() == found


@st.composite
def wide_models(draw: st.DrawFn) -> RandomModel:
    """A model with one or two fields in the row and some in the qualifier, of any codec, direction, salt and kind."""
    rows, columns, booleans = draw(st.integers(1, 2)), draw(st.integers(1, 2)), st.booleans()
    split = draw(st.sampled_from(SPLITS)) if draw(st.integers(0, 3)) == 0 else None
    body: dict[str, Any] = {}
    hints: dict[str, Any] = {}
    pools: dict[str, Sequence[Any]] = {}
    for at in range(rows + columns):
        name = f"k{at}"
        codec, nullable = draw(st.sampled_from(KEY_CODECS)), draw(booleans)
        where: dict[str, Any] = {} if at < rows else {"in_qualifier": True}
        if split is not None and at == rows - 1:
            codec, nullable, where = split[0], False, {"row_span": draw(st.sampled_from(split[1]))}
        body[name] = hb.key(codec, desc=draw(booleans), **where)
        hints[name] = hb.Key[Any | None] if nullable else hb.Key[Any]
        values = draw(st.lists(values_of(codec), min_size=1, max_size=4))
        pools[name] = [*values, None] if nullable else values
    raw = draw(st.integers(0, 3)) == 0
    body["value"] = hb.column("" if raw else "v", hb.codecs.Int8)
    if not raw:
        body["size"] = hb.column("s", hb.codecs.Int8)
    hints |= {name: hb.Column[int] for name in ("value", "size") if name in body}
    salt = hb.HashSalt(3, by=("k0",)) if draw(booleans) else None
    kind = draw(st.sampled_from([None, b"p", b"\xff"]))
    made = type("Made", (), {**body, "__annotations__": hints, "__module__": __name__})
    return RandomModel(hb.model(table="t", salt=salt, kind=kind)(made), {**pools, "value": [1, 2]})


@pytest.mark.lengthy
@settings(max_examples=examples(120), deadline=None)
@given(st.data(), st.sampled_from([(3, 4), (100, 1000)]))
def test_what_a_slice_gives_is_what_matches(data: st.DataObject, pages: tuple[int, ...]) -> None:
    of = data.draw(wide_models())
    layout = of.schema.layout
    keys = [
        tuple(data.draw(st.sampled_from(of.pools[name])) for name in layout.names)
        for _ in range(data.draw(st.integers(1, 12)))
    ]
    names = [name for name in layout.names if data.draw(st.integers(0, 4))]
    wanted = [
        data.draw(leaves(of, name, ("=", "in", "none", *COMPARISONS, "prefix", "not none"))) for name in names[::-1]
    ]
    with hb.connect("memory:") as opened:
        store = RecordingStore(opened)
        hb.create_tables(store, of.model)
        session = hb.Session(store, sizes=SessionSizes(pages=PageSizes(cells=pages)))
        cells = {name: 1 for name in ("value", "size") if name in of.schema.by_name}
        try:
            session.add_all(of.model(**dict(zip(layout.names, key, strict=True)), **cells) for key in keys)
            session.commit()
        except hb.errors.KeyTooLong:
            assume(False)
        every = session.query(of.model).allow_full_scan()
        objects = every.all()
        values = [{name: getattr(obj, name) for name in (*layout.names, "value")} for obj in objects]
        expected = [obj for obj, found in zip(objects, values, strict=True) if all(holds(found) for _, holds in wanted)]
        query = every.where(*(predicate for predicate, _ in wanted))
        made = query.explain()
        event(made.access)
        store.calls.clear()
        assert query.all() == expected
        assert query.count() == len(expected)
        assert query.reversed().all() == expected[::-1]
        assert [query.first(), query.last()] == [*(expected[:1] or [None]), *(expected[-1:] or [None])]
        page = query.page(2)
        found = list(page.items)
        while page.next_token is not None:
            page = query.page(2, after=page.next_token)
            found += page.items
        assert found == expected
        parts = [session.read_partition(part).all() for part in query.partitions(3)]
        assert sorted(map(repr, reduce(operator.iadd, parts, []))) == sorted(map(repr, expected))


def test_only_objects_have_column_ranges() -> None:

    with hb.connect("memory:") as store:
        store.create_table("t", [Family(b"d")])
        store.put("t", [Put(b"r", {b"d:a": b""})])
        with pytest.raises(hb.HbmodelError, match="ranges of columns"):
            scan_columns(store, "t", [Scan()], [(b"a", None)])
