"""The names of many objects are looked up together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import hbmodel as hb
from hbmodel.store import Family, Put
from tests.support.faulty import RecordingStore

METRICS = hb.ids.dictionary("ahead_metrics", hb.UInt32)
HOSTS = hb.ids.opentsdb_uids("tagv", table="ahead-uid")


@hb.model(table="ahead_points", family="d")
class Point:
    metric: hb.Key[str] = hb.key(METRICS)
    second: hb.Key[int] = hb.key(hb.UInt32)
    host: hb.Column[str | None] = hb.column("h", HOSTS, default=None)
    unit: hb.Column[str | None] = hb.column("u", METRICS, default=None)


@hb.model(table="ahead_notes", family="d", exists=hb.flag("e"))
class Note:
    number: hb.Key[int] = hb.key(hb.UInt32)


@hb.model(table="ahead_cells", family="d", external=True)
class Cell:
    metric: hb.Key[str] = hb.key(METRICS)
    host: hb.Column[str] = hb.column("h", HOSTS)


KNOWN = [f"metric {number}" for number in range(40)]
TABLES = ("ahead_metrics.ids", "ahead-uid")


@pytest.fixture
def store() -> Iterator[RecordingStore]:
    with hb.connect("memory:") as inner:
        inner.create_table("ahead-uid", [Family(b"id"), Family(b"name")])
        inner.put("ahead-uid", [Put(b"\0", {b"id:tagv": bytes(8)})])
        inner.create_table("ahead_cells", [Family(b"d")])
        hb.create_tables(inner, Point, Note, Cell)
        with hb.Session(inner) as session:
            session.add_all(points(0))
        yield RecordingStore(inner)


def points(second: int = 1) -> list[Point]:
    return [Point(metric=name, second=second, host=name.upper(), unit="metric 0") for name in KNOWN]


def looked_up(store: RecordingStore) -> list[tuple[str, int]]:
    """The gets of names: the table, and the number of names."""
    gets = [call for call in store.calls if call.name == "get" and call.table in TABLES]
    return [(call.table, len(call.items)) for call in gets if list(call.items) != [b"\0"]]


CALLS: dict[str, Callable[[hb.Session], object]] = {
    "add_all": lambda session: session.add_all(iter(points())),
    "bulk_add": lambda session: session.bulk_add(iter(points())),
    "put_all": lambda session: session.put_all(Cell, [{"metric": name, "host": name.upper()} for name in KNOWN]),
}


@pytest.mark.parametrize("call", CALLS)
def test_known_names_of_many_objects_take_one_get_for_each_dictionary(store: RecordingStore, call: str) -> None:
    with hb.Session(store) as session:
        CALLS[call](session)
    assert looked_up(store) == [(table, len(KNOWN)) for table in TABLES]
    session = hb.Session(store)
    assert (
        session.get(Cell, metric="metric 7") == Cell(metric="metric 7", host="METRIC 7")
        if call == "put_all"
        else (session.query(Point).where(Point.metric.in_(KNOWN), Point.second == 1).count() == len(KNOWN))
    )


def test_keys_of_many_objects(store: RecordingStore) -> None:
    by_place, by_name = [(name, 0) for name in KNOWN], [{"second": 0, "metric": name} for name in KNOWN]
    for keys in (iter(by_place), by_name, [*by_place[:20], *by_name[20:]]):
        session = hb.Session(store)
        store.calls.clear()
        assert session.get_many(Point, keys) == points(0)
        assert looked_up(store)[0] == ("ahead_metrics.ids", len(KNOWN))
        assert [table for table, _ in looked_up(store)].count("ahead_metrics.ids") == 1
    assert hb.Session(store).get_many(Point, [("never seen", 0), *by_place]) == [None, *points(0)]


def test_new_names_get_an_id_when_their_object_is_encoded(store: RecordingStore) -> None:
    new = [Point(metric=name, second=2, host=f"new {name}", unit=None) for name in ("new 1", "metric 3", "new 2")]
    with hb.Session(store) as session:
        session.add_all(new)
    assert looked_up(store)[:2] == [("ahead_metrics.ids", 3), ("ahead-uid", 3)]
    session = hb.Session(store)
    assert session.get_many(Point, [(point.metric, 2) for point in new]) == new


def test_objects_of_other_models_are_among_them(store: RecordingStore) -> None:
    mixed: list[Any] = [Note(number=1), *points()[:3], Note(number=2), *points(2)[:3]]
    with hb.Session(store) as session:
        session.add_all(mixed)
    assert looked_up(store) == [(TABLES[0], 3), (TABLES[1], 3)]
    session = hb.Session(store)
    assert session.query(Note).allow_full_scan().count() == 2
    assert session.get_many(Point, [("metric 1", 1), ("metric 2", 2)]) == [points(1)[1], points(2)[2]]


def test_what_an_iterator_yields_before_its_error_is_added(store: RecordingStore) -> None:
    def objects() -> Iterator[Point]:
        yield from points()[:3]
        raise RuntimeError("no more")

    session = hb.Session(store)
    with pytest.raises(RuntimeError, match="no more"):
        session.add_all(objects())
    session.commit()
    assert session.query(Point).where(Point.metric.in_(KNOWN), Point.second == 1).count() == 3


@pytest.mark.parametrize("call", ["add_all", "bulk_add"])
def test_an_object_that_cannot_be_stored_fails_at_its_place(store: RecordingStore, call: str) -> None:
    wrong = [*points()[:2], Point(metric="metric 2", second=1, host="\N{SNOWMAN}"), *points()[3:]]
    session = hb.Session(store)
    with pytest.raises(hb.EncodingError) as caught:
        getattr(session, call)(wrong)
    assert caught.value.field == "host"
    if call == "bulk_add":
        assert caught.value.position == 2
    else:
        session.commit()
        assert session.query(Point).where(Point.metric.in_(KNOWN), Point.second == 1).count() == 2


def test_no_more_objects_are_taken_from_an_iterator_than_fill_a_batch(store: RecordingStore) -> None:
    """An iterator may wait for its next object, and the batches before must not wait with it."""
    taken: list[str] = []
    written: list[tuple[int, int]] = []

    def objects() -> Iterator[Point]:
        for point in points():
            taken.append(point.metric)
            yield point

    hb.Session(store).bulk_add(
        objects(), batch_size=10, progress=lambda position: written.append((position, len(taken)))
    )
    assert written == [(10, 10), (20, 20), (30, 30), (40, 40)]


def test_an_object_of_no_model_is_refused_at_its_place(store: RecordingStore) -> None:
    session = hb.Session(store)
    with pytest.raises(TypeError):
        session.add_all([points()[0], "metric 1", points()[1]])
    session.commit()
    assert session.query(Point).where(Point.metric.in_(KNOWN), Point.second == 1).count() == 1


def test_what_is_neither_a_row_nor_a_key_is_refused_as_without_names(store: RecordingStore) -> None:
    session = hb.Session(store)
    cells: list[Any] = [Cell(metric="a", host="b"), Cell(metric="c", host="d")]
    with pytest.raises(hb.SessionError, match=r"put_all\(\) takes mappings of fields"):
        session.put_all(Cell, cells)
    keys: list[Any] = [7, 8]
    with pytest.raises(hb.QueryError, match="A key must be a mapping of key fields"):
        session.get_many(Point, keys)
