"""The names of the ids in many rows are looked up together, before the rows are decoded."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import hbmodel as hb
from hbmodel.mapping.declare.uid_tables import all_tables_of
from hbmodel.store import Delete, Put
from tests.support.faulty import RecordingStore

METRICS = hb.ids.dictionary("rows_metrics", hb.UInt32)
HOSTS = hb.ids.dictionary("rows_hosts", hb.UInt32)


@hb.model(table="rows_points", family="d")
class Tall:
    metric: hb.Key[str] = hb.key(METRICS)
    second: hb.Key[int] = hb.key(hb.UInt32)
    host: hb.Column[str | None] = hb.column("h", HOSTS, default=None)
    number: hb.Column[int] = hb.column("n")
    by_number = hb.index("number")
    by_host = hb.index("host")


@hb.model(table="rows_salted", family="d", salt=hb.salts.HashSalt(4))
class Salted:
    metric: hb.Key[str] = hb.key(METRICS)
    second: hb.Key[int] = hb.key(hb.UInt32)
    host: hb.Column[str] = hb.column("h", HOSTS)
    number: hb.Column[int] = hb.column("n")


@hb.model(table="rows_wide", family="d")
class Wide:
    number: hb.Key[int] = hb.key(hb.UInt32)
    metric: hb.Key[str] = hb.key(METRICS, in_qualifier=True)
    second: hb.Key[int] = hb.key(hb.UInt32, in_qualifier=True)
    host: hb.Column[str] = hb.column("h", HOSTS)


MODELS = (Tall, Salted, Wide)
COUNT = 40


def points(model: Any) -> list[Any]:
    return [model(metric=f"metric {n}", second=n, host=f"host {n}", number=n % 3) for n in range(COUNT)]


@pytest.fixture(params=MODELS, ids=lambda model: model.__name__)
def model(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def store() -> Iterator[RecordingStore]:
    with hb.connect("memory:") as inner:
        hb.create_tables(inner, *MODELS)
        with hb.Session(inner) as session:
            for model in MODELS:
                session.add_all(points(model))
        yield RecordingStore(inner)


def looked_up(store: RecordingStore) -> list[tuple[str, str, int]]:
    """The calls that read names by their ids: the call, the table and the number of ids."""
    tables = ("rows_metrics.names", "rows_hosts.names")
    return sorted((call.name, call.table, len(call.items)) for call in store.calls if call.table in tables)


def kept(session: hb.Session) -> int:
    """The number of batches whose rows the session keeps."""
    names = session._names
    return len(names._batches) + len(names.kept)


def in_order(found: Any) -> list[Any]:
    return sorted(found, key=lambda point: point.second)


TOGETHER = [("get", "rows_hosts.names", COUNT), ("get", "rows_metrics.names", COUNT)]

READS: dict[str, Callable[[hb.Session, Any], Any]] = {
    "iteration": lambda session, model: list(session.query(model).allow_full_scan()),
    "page": lambda session, model: session.query(model).allow_full_scan().page(COUNT).items,
    "get_many": lambda session, model: session.get_many(model, [key(each) for each in points(model)]),
    "number": lambda session, model: [
        point for number in (0, 1, 2) for point in session.query(model).where(model.number == number).allow_full_scan()
    ],
}


def key(point: Any) -> dict[str, Any]:
    names = hb.schema.schema_of(type(point)).layout.names
    return {name: getattr(point, name) for name in names}


@pytest.mark.parametrize("read", ["iteration", "page"])
def test_the_names_of_a_scan_are_read_by_one_get_of_each_dictionary(
    store: RecordingStore, model: Any, read: str
) -> None:
    with hb.Session(store) as session:
        assert in_order(READS[read](session, model)) == points(model)
        assert looked_up(store) == TOGETHER
        assert kept(session) == 0
        store.calls.clear()
        assert in_order(READS[read](session, model)) == points(model)
        assert looked_up(store) == []


def test_the_names_of_many_objects_are_read_by_one_get_of_each_dictionary(store: RecordingStore, model: Any) -> None:
    with hb.Session(store) as session:
        for each in points(model):
            session._names.id_of(METRICS, each.metric)  # so that the keys can be encoded
        store.calls.clear()
        assert in_order(READS["get_many"](session, model)) == points(model)
        names = [call for call in looked_up(store) if call[1] == "rows_hosts.names"]
        assert names == TOGETHER[:1]


@pytest.mark.parametrize(
    "call",
    [
        lambda session: session.get(Tall, metric="no metric", second=1),
        lambda session: session.get_one(Tall, metric="no metric", second=1),
        lambda session: session.get_many(Tall, [("no metric", 1), ("no metric", 2)]),
        lambda session: session.query(Tall).where(Tall.metric == "no metric").all(),
        lambda session: session.update_key(Tall, metric="no metric", second=1, number=2),
        lambda session: session.delete_key(Tall, metric="no metric", second=1),
    ],
    ids=["get", "get_one", "get_many", "query", "update_key", "delete_key"],
)
def test_a_name_without_an_id_is_looked_up_once_in_a_call(
    store: RecordingStore, call: Callable[[hb.Session], object]
) -> None:
    with hb.Session(store) as session:
        for _ in range(2):
            store.calls.clear()
            with contextlib.suppress(hb.errors.UnknownName, hb.RowNotFound):
                call(session)
            assert [each.name for each in store.calls if each.table == "rows_metrics.ids"] == ["get"]
        hb.ids.Names(store.inner).claim(METRICS, "no metric")  # another program
        assert session.get(Tall, metric="no metric", second=1) is None
        assert "rows_points" in [each.table for each in store.calls]
        session.add(Tall(metric="new metric", second=1, number=1))
        session.commit()
        assert session.get_one(Tall, metric="new metric", second=1).number == 1


def test_a_call_in_a_retry_sees_an_id_that_was_assigned_since_the_last_call(store: RecordingStore) -> None:
    def find_and_assign(session: hb.Session) -> list[object]:
        before = session.get(Tall, metric="late metric", second=1)
        with hb.Session(store.inner) as other:
            other.add(Tall(metric="late metric", second=1, number=1))
        return [before, session.get(Tall, metric="late metric", second=1)]

    with hb.Session(store) as session:
        before, after = session.retry(find_and_assign)
    assert before is None
    assert after == Tall(metric="late metric", second=1, number=1)


def test_the_names_behind_an_index_are_read_together(store: RecordingStore) -> None:
    with hb.Session(store) as session:
        assert in_order(READS["number"](session, Tall)) == points(Tall)
        sizes = [size for name, table, size in looked_up(store) if table == "rows_hosts.names"]
        assert sizes == [13, 13, 14]
        assert {name for name, _, _ in looked_up(store)} == {"get"}


def test_an_update_of_many_objects_reads_the_names_of_their_old_rows_together(store: RecordingStore) -> None:
    with hb.Session(store) as session:
        for each in points(Tall):
            session.update_key(Tall, **key(each), number=7)
        store.calls.clear()
        session.commit()
        assert all(name == "get" for name, _, _ in looked_up(store))
        assert len(looked_up(store)) <= 2
        assert session.query(Tall).where(Tall.number == 7).count() == COUNT


def test_a_query_that_is_not_read_to_its_end_keeps_no_rows(store: RecordingStore, model: Any) -> None:
    with hb.Session(store) as session:
        found = iter(session.query(model).allow_full_scan())
        next(found)
        assert kept(session) <= 4
        found.close()  # type: ignore[attr-defined]
        assert kept(session) == 0


def test_an_id_without_a_name_is_an_error_of_its_row_only(store: RecordingStore) -> None:
    lost = hb.ids.Names(store).id_of(HOSTS, "host 7")
    store.delete("rows_hosts.names", [Delete(HOSTS.ids.encode(lost))])
    store.calls.clear()
    with hb.Session(store) as session:
        query = session.query(Salted).allow_full_scan().on_unreadable("skip")
        assert in_order(query) == [point for point in points(Salted) if point.second != 7]
        with pytest.raises(hb.DecodingError, match="no name"):
            list(session.query(Salted).allow_full_scan())


def test_a_name_that_is_not_text_is_an_error_of_its_rows_only(store: RecordingStore) -> None:
    bad = hb.ids.Names(store).id_of(HOSTS, "host 7")
    store.put("rows_hosts.names", [Put(HOSTS.ids.encode(bad), {all_tables_of(HOSTS).name_column: b"\xff"})])
    with hb.Session(store) as session:
        query = session.query(Salted).allow_full_scan().on_unreadable("skip")
        assert in_order(query) == [point for point in points(Salted) if point.second != 7]
        with pytest.raises(hb.DecodingError, match="not valid UTF-8"):
            list(session.query(Salted).allow_full_scan())
    assert hb.ids.Names(store).name_of(HOSTS, bad - 1)  # the next names are read with it


@pytest.mark.parametrize(
    "delete",
    [
        lambda session, obj: session.delete(obj),
        lambda session, obj: session.delete_key(type(obj), **key(obj)),
    ],
    ids=["delete", "delete_key"],
)
class TestADeleteOfANameWithoutAnId:
    def test_deletes_a_row_that_is_written_before_the_commit(
        self, store: RecordingStore, model: Any, delete: Callable[[hb.Session, Any], None]
    ) -> None:
        late = model(metric="late metric", second=1, host="host 1", number=1)
        with hb.Session(store) as session:
            delete(session, late)
            with hb.Session(store.inner) as other:
                other.add(late)
            (outcome,) = session.commit()
        assert outcome.action == "deleted"
        with hb.Session(store) as session:
            assert session.get(model, **key(late)) is None
            assert len(session.query(model).allow_full_scan().all()) == COUNT

    def test_finds_nothing_if_the_name_still_has_no_id(
        self, store: RecordingStore, model: Any, delete: Callable[[hb.Session, Any], None]
    ) -> None:
        first, last = points(model)[0], points(model)[-1]
        with hb.Session(store) as session:
            session.delete(first)
            delete(session, model(metric="no metric", second=1, host="host 1", number=1))
            session.delete(last)
            found, missing, other = session.commit()
            assert session.commit() == []
        assert (found.action, missing.action, other.action) == ("deleted", "absent", "deleted")
        assert (missing.key, missing.error) == (b"", None)

    def test_is_carried_out_before_a_later_add(
        self, store: RecordingStore, model: Any, delete: Callable[[hb.Session, Any], None]
    ) -> None:
        late = model(metric="late metric", second=1, host="host 1", number=1)
        with hb.Session(store) as session:
            delete(session, late)
            session.add(late)
            assert session.commit()[-1].action == "put"
            assert session.get(model, **key(late)) == late

    def test_must_be_committed_before_an_insert_of_the_object(
        self, store: RecordingStore, model: Any, delete: Callable[[hb.Session, Any], None]
    ) -> None:
        late = model(metric="late metric", second=1, host="host 1", number=1)
        with hb.Session(store) as session:
            delete(session, late)
            with pytest.raises(hb.SessionError, match="call commit") as raised:
                session.insert(late)
            assert raised.value.pending == "delete()"
            session.discard()
            session.insert(late)
            assert session.commit() == []
            assert session.get(model, **key(late)) == late


def test_a_delete_of_many_objects_looks_up_no_names(store: RecordingStore) -> None:
    with hb.Session(store) as session:
        for each in points(Salted):
            session.delete_key(Salted, **key(each))
        store.calls.clear()
        session.commit()
        assert looked_up(store) == []
        assert kept(session) == 0


def test_two_queries_that_run_at_the_same_time(store: RecordingStore) -> None:
    with hb.Session(store) as session:
        tall, wide = (iter(session.query(model).allow_full_scan()) for model in (Tall, Wide))
        found = [(one, two) for one, two in zip(tall, wide, strict=True)]
        assert in_order(one for one, _ in found) == points(Tall)
        assert in_order(two for _, two in found) == points(Wide)
        assert looked_up(store) == TOGETHER


def test_names_are_found_together_outside_of_sessions(store: RecordingStore) -> None:
    names = hb.ids.Names(store)
    ids = names.find(HOSTS, [f"host {n}" for n in range(3)])
    other = hb.ids.Names(store)
    store.calls.clear()
    assert other.find_names(HOSTS, [*ids.values(), 10_000]) == {number: name for name, number in ids.items()}
    assert other.find_names(HOSTS, ids.values()) == {number: name for name, number in ids.items()}
    assert looked_up(store) == [("get", "rows_hosts.names", 4)]
