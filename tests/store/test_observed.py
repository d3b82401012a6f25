"""The reports of calls to a store: each call, with its size, its time, its retries and its error, but never a value."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
from cryptography.fernet import Fernet

import hbmodel as hb
from hbmodel.store import ConditionalChange, ConditionalPut, Delete, Family, PipelinedStore, Put, Row, Scan, Store
from hbmodel.store.observed import ObservedStore
from tests.protocol.test_driver import Beginning
from tests.support.beds import HBASE, Bed
from tests.support.faulty import FaultyStore
from tests.support.proxy import Proxy


@hb.model(table="watched")
class Watched:
    group: hb.Key[str] = hb.key()
    number: hb.Key[int] = hb.key()
    text: hb.Column[str] = hb.column("t")
    views: hb.Column[int] = hb.counter("v")


@hb.model(table="indexed")
class Indexed:
    number: hb.Key[int] = hb.key()
    text: hb.Column[str] = hb.column("t")
    place: hb.Column[str] = hb.column("p", default="")

    by_text = hb.index("text")
    by_place = hb.index("place")


def told_of(calls: list[hb.store.Call], *tables: str) -> list[tuple[str, str, int]]:
    """Operation, table and rows of the calls about some tables."""
    return [(call.operation, call.table, call.rows) for call in calls if call.table in tables]


def watched(number: int, text: str = "secret text") -> Watched:
    return Watched(group="secret group", number=number, text=text)


def test_each_call_of_a_session_is_told(bed: Bed) -> None:
    bed.use(Watched).close()
    calls: list[hb.store.Call] = []
    with hb.Session(bed.store, on_call=calls.append) as session:
        session.add_all(watched(number) for number in range(5))
    assert told_of(calls, "watched") == [("put", "watched", 5)]
    calls.clear()
    assert session.closed
    session = hb.Session(bed.store, on_call=calls.append)
    assert session.get(Watched, group="secret group", number=3) == watched(3)
    assert session.get(Watched, group="secret group", number=9) is None
    assert told_of(calls, "watched") == [("get", "watched", 1), ("get", "watched", 0)]
    calls.clear()
    assert session.increment(watched(1), Watched.views, 2) == 2
    session.delete(watched(1))
    session.commit()
    assert told_of(calls, "watched")[-4:] in (
        [("increment", "watched", 1), ("get", "watched", 1), ("delete", "watched", 1), ("get", "watched", 0)],
        # the gateway's first version
        [("get", "watched", 1), ("delete", "watched", 1), ("delete", "watched", 1), ("get", "watched", 0)],
    )
    for call in calls:
        assert 0 <= call.duration < 30
        assert (call.retries, call.error) == (0, None)
        assert "secret" not in repr(call)


def test_a_scan_is_told_by_its_batches(bed: Bed) -> None:
    session = bed.use(Watched)
    session.add_all(watched(number) for number in range(7))
    session.commit()
    calls: list[hb.store.Call] = []
    store = ObservedStore(bed.store, calls.append)
    [batches] = store.scan("watched", [Scan(batch_size=3)])
    assert calls == []
    sizes = []
    for batch in batches:
        sizes.append(len(batch))
        assert told_of(calls, "watched") == [("scan", "watched", size) for size in sizes]
    assert sizes == [3, 3, 1]
    assert len(calls) == 3
    calls.clear()
    [nothing] = store.scan("watched", [Scan(columns=[b"d:none"])])
    assert list(nothing) == []
    assert told_of(calls, "watched") == [("scan", "watched", 0)]
    calls.clear()
    [early, other] = store.scan("watched", [Scan(batch_size=2), Scan(limit=1)])
    assert len(next(early)) == 2
    early.close()  # type: ignore[attr-defined]
    assert [len(batch) for batch in other] == [1]
    assert told_of(calls, "watched") == [("scan", "watched", 2), ("scan", "watched", 1)]


def test_a_commit_with_indexes_is_told_phase_by_phase(bed: Bed) -> None:
    bed.use(Indexed).close()
    calls: list[hb.store.Call] = []
    session = hb.Session(bed.store, on_call=calls.append)
    session.add_all(Indexed(number=number, text=f"t{number}") for number in range(3))
    session.commit()
    tables = ("indexed", "indexed.by_text", "indexed.by_place")
    phases = told_of(calls, *tables)
    assert sorted(phases[1:3]) == [("put", "indexed.by_place", 3), ("put", "indexed.by_text", 3)]
    assert (phases[0], phases[3:]) == (("get", "indexed", 0), [("put", "indexed", 3)])


def test_a_put_that_is_abandoned_is_told_with_an_unknown_outcome() -> None:
    calls: list[hb.store.Call] = []
    with hb.connect("memory:") as store:
        ObservedStore(Beginning(store), calls.append).begin_put("t", [Put(b"one", {b"d:a": b"123"}, 5)]).abandon()
    [call] = calls
    assert (call.operation, call.table, call.rows) == ("put", "t", 1)
    assert isinstance(call.error, hb.UnknownOutcome)
    assert call.error.message == "The put was abandoned because another one failed."


@pytest.mark.hbase
def test_puts_that_overlap_are_each_told_once(hbmodel_hbase: Any) -> None:
    table = f"overlapping_{uuid4().hex[:8]}"
    calls: list[hb.store.Call] = []
    with hb.connect(hbmodel_hbase.thrift2_url) as direct, Proxy(hbmodel_hbase.thrift2_url) as proxy:
        direct.create_table(table, [Family(b"d")])
        with hb.connect(proxy.url, on_call=calls.append) as store:
            assert isinstance(store, PipelinedStore)
            proxy.on_call("put", "cut")
            begun = store.begin_put(table, [Put(b"one", {b"d:a": b"123"}, 5)])
            assert calls == []
            begun.end()
            with pytest.raises(hb.errors.FamilyNotFound):
                store.begin_put(table, [Put(b"one", {b"e:a": b""}, 5)]).end()
            with pytest.raises(hb.errors.InvalidRequest):
                store.begin_put(table, [Put(b"", {b"d:a": b""}, 5)])
            store.begin_put(table, [Put(b"two", {b"d:a": b""}, 5)]).abandon()
        direct.delete_table(table)
    assert [(call.operation, call.rows, call.bytes, call.retries) for call in calls] == [
        ("put", 1, 9, 1), ("put", 1, 6, 0), ("put", 1, 3, 0), ("put", 1, 6, 0),
    ]  # fmt: skip
    assert [type(call.error) for call in calls] == [
        type(None),
        hb.errors.FamilyNotFound,
        hb.errors.InvalidRequest,
        hb.UnknownOutcome,
    ]


@pytest.mark.hbase
@pytest.mark.parametrize("gateway", ["url", "thrift2_url"])
def test_a_get_behind_a_conditional_put_is_reported_by_itself(hbmodel_hbase: Any, gateway: str) -> None:
    table = f"behind_{uuid4().hex[:8]}"
    calls: list[hb.store.Call] = []
    cell = b"d:a"
    with hb.connect(getattr(hbmodel_hbase, gateway)) as direct:
        direct.create_table(table, [Family(b"d")])
        store = ObservedStore(direct, calls.append)
        put = ConditionalPut(cell, None, Put(b"one", {cell: b"12"}))
        for applied in (True, False):
            found, rows = store.change_and_get(table, put, [cell])
            assert found == applied
            assert rows is not None
            assert [row and row.columns[cell].value for row in rows] == [b"12"]
        direct.delete_table(table)
    assert told_of(calls, table) == [("check_and_put", table, 1), ("get", table, 1)] * 2
    assert [call.duration > 0 for call in calls] == [True, False] * 2


def test_a_store_without_gets_behind_changes_makes_the_change_alone(
    data: tuple[ObservedStore, list[hb.store.Call]],
) -> None:
    store, calls = data
    put = ConditionalPut(b"d:a", None, Put(b"alone", {b"d:a": b"1"}))
    assert store.change_and_get("t", put, [b"d:a"]) == (True, None)
    assert told_of(calls, "t") == [("check_and_put", "t", 1)]


def test_a_store_that_cannot_begin_a_put_makes_it_when_it_ends(data: tuple[ObservedStore, list[hb.store.Call]]) -> None:
    store, calls = data
    store.begin_put("t", [Put(b"none", {b"d:a": b"1"}, 5)]).abandon()
    begun = store.begin_put("t", [Put(b"one", {b"d:a": b"1"}, 5)])
    assert calls == []
    begun.end()
    assert told_of(calls, "t") == [("put", "t", 1)]
    assert [row is not None for row in store.get("t", [b"none", b"one"])] == [False, True]


@pytest.fixture
def data() -> Iterator[tuple[ObservedStore, list[hb.store.Call]]]:
    calls: list[hb.store.Call] = []
    with hb.connect("memory:", on_call=calls.append) as store:
        store.create_table("t", [Family(b"d")])
        assert isinstance(store, ObservedStore)
        yield store, calls


def test_bytes_are_those_of_keys_and_values_on_their_way(data: tuple[ObservedStore, list[hb.store.Call]]) -> None:
    store, calls = data
    put = Put(b"row", {b"d:a": b"12345", b"d:b": b""}, 1)
    steps: list[tuple[str, int, int, Callable[[], object]]] = [
        ("put", 1, 3 + 3 + 5 + 3, lambda: store.put("t", [put])),
        ("get", 1, 3 + 3 + 5 + 3, lambda: store.get("t", [b"row", b"none"])),
        ("scan", 1, 3 + 3 + 5, lambda: list(store.scan("t", [Scan(columns=[b"d:a"])])[0])),
        (
            "mutate_row",
            1,
            3 + 3 + 5 + 3 + 3 + 3,
            lambda: store.mutate_row("t", [put, Delete(b"row", columns=[b"d:b"])]),
        ),
        (
            "check_and_put",
            1,
            3 + 1 + 3 + 3 + 2,
            lambda: store.check_and_put("t", b"row", b"d:b", b"x", Put(b"row", {b"d:b": b"yy"})),
        ),
        (
            "check_and_put_each",
            2,
            2 * (3 + 1 + 3 + 3 + 2),
            lambda: store.check_and_put_each(
                "t", [ConditionalPut(b"d:b", b"x", Put(row, {b"d:b": b"yy"})) for row in (b"row", b"raw")]
            ),
        ),
        (
            "check_and_mutate",
            1,
            3 + 3 + 1,
            lambda: store.check_and_mutate("t", b"row", b"d:z", None, [Delete(b"row", families=[b"d"])]),
        ),
        (
            "check_and_mutate_many",
            2,
            3 + 3 + 1 + 3 + 3 + 1,
            lambda: store.check_and_mutate_many(
                "t", [ConditionalChange(row, b"d:z", None, [Delete(row, families=[b"d"])]) for row in (b"row", b"raw")]
            ),
        ),
        ("increment", 1, 3 + 3 + 8, lambda: store.increment("t", b"row", b"d:n", 1)),
        ("delete", 2, 3 + 3, lambda: store.delete("t", [Delete(b"row"), Delete(b"raw")])),
    ]
    for operation, rows, size, step in steps:
        step()
        [call] = calls
        assert (call.table, call.operation, call.rows, call.bytes) == ("t", operation, rows, size)
        calls.clear()


def test_what_is_beside_rows_is_handed_on_untold(data: tuple[ObservedStore, list[hb.store.Call]]) -> None:
    store, calls = data
    assert store.tables() == ["t"]
    assert [family.name for family in store.families("t")] == [b"d"]
    assert len(store.regions("t")) == 1
    assert store.capabilities.mutate_row
    store.compact()
    store.delete_table("t")
    assert not hasattr(store, "no_such_thing")
    assert calls == []
    store.close()
    with pytest.raises(hb.errors.StoreClosed):
        store.tables()


def test_errors_are_told_and_raised(data: tuple[ObservedStore, list[hb.store.Call]]) -> None:
    store, calls = data
    steps: list[Callable[[], object]] = [
        lambda: store.get("none", [b"k"]),
        lambda: list(store.scan("none", [Scan()])[0]),
        lambda: store.put("none", [Put(b"k", {b"d:a": b""})]),
        lambda: store.increment("none", b"k", b"d:a", 1),
    ]
    for step in steps:
        with pytest.raises(hb.errors.TableNotFound) as caught:
            step()
        [call] = calls
        assert call.error is caught.value
        calls.clear()


@pytest.mark.parametrize("error", [RuntimeError("mine"), hb.errors.StoreClosed("mine")])
def test_an_exception_of_the_function_is_logged_and_goes_no_further(
    caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    def fail(call: hb.store.Call) -> None:
        raise error

    with hb.connect("memory:") as store:
        hb.create_tables(store, Watched)
        with hb.Session(store, on_call=fail) as session, caplog.at_level(logging.WARNING, "hbmodel"):
            session.add_all(watched(number) for number in range(3))
            session.commit()
            assert len(session.query(Watched).where(Watched.group == "secret group").all()) == 3
    assert {record.message for record in caplog.records} == {
        "on_call raised an exception; the call that it received is not affected."
    }
    assert "mine" in caplog.text
    assert "secret" not in caplog.text


def test_the_function_is_told_in_the_thread_of_the_call() -> None:
    threads: list[str] = []
    with hb.connect("memory:", on_call=lambda call: threads.append(threading.current_thread().name)) as store:
        hb.create_tables(store, Watched)
        threads.clear()
        thread = threading.Thread(target=lambda: store.get("watched", [b"k"]), name="other")
        thread.start()
        thread.join()
    assert threads == ["other"]


def test_a_call_lasts_until_the_answer() -> None:
    class Slow(FaultyStore):
        def get(self, *arguments: Any) -> Any:
            time.sleep(0.05)
            return super().get(*arguments)

    calls: list[hb.store.Call] = []
    with hb.connect("memory:") as store:
        store.create_table("t", [Family(b"d")])
        ObservedStore(Slow(store), calls.append).get("t", [b"k"])
    assert 0.05 <= calls[0].duration < 5


def test_the_token_key_is_carried_on() -> None:
    key = Fernet.generate_key()
    with hb.connect("memory:", token_key=key, on_call=lambda call: None) as store:
        assert store.token_key == key


def test_without_a_function_the_store_is_the_one_given() -> None:
    with hb.connect("memory:") as store:
        assert hb.Session(store).store is store


# --- retries ----------------------------------------------------------------------------------------------------------


class Retried:
    """A store behind a proxy whose calls are reported twice: by the store, and by a session's wrapper."""

    def __init__(self, store: Store, proxy: Proxy, table: str, get: str) -> None:
        self.store, self.proxy, self.table, self.get = store, proxy, table, get


@pytest.fixture(params=HBASE)
def retried(request: pytest.FixtureRequest, hbmodel_hbase: Any) -> Iterator[Retried]:
    url, get = {
        "thrift1": (hbmodel_hbase.url, "getRowsWithColumns"),
        "thrift2": (hbmodel_hbase.thrift2_url, "getMultiple"),
    }[request.param]
    table = f"observing_{uuid4().hex[:8]}"  # the workers of pytest-xdist share an HBase
    with hb.connect(url) as direct:
        if table in direct.tables():
            direct.delete_table(table)
        direct.create_table(table, [Family(b"d")])
        direct.put(table, [Put(b"%03d" % number, {b"d:a": b""}, 1) for number in range(100)])
        with Proxy(url) as proxy, hb.connect(proxy.url + "?pool=1") as store:
            yield Retried(store, proxy, table, get)
        direct.delete_table(table)


def test_retries_are_counted_where_they_happen(retried: Retried) -> None:
    calls: list[hb.store.Call] = []
    outer: list[hb.store.Call] = []
    store = ObservedStore(ObservedStore(retried.store, calls.append), outer.append)
    retried.proxy.on_call(retried.get, "pass", "cut", "lose", "pass")
    for _ in range(3):
        store.get(retried.table, [b"000"])
    [scan] = store.scan(retried.table, [Scan(batch_size=10)])
    rows: list[Row] = [*next(scan)]
    retried.proxy.cut_all()
    rows += [row for batch in scan for row in batch]
    assert len(rows) == 100
    store.get(retried.table, [b"000"])
    assert [call.retries for call in calls if call.operation == "get"] == [0, 2, 0, 0]
    assert sum(call.retries for call in calls if call.operation == "scan") in (1, 2)
    assert [call.retries for call in outer] == [call.retries for call in calls]
    assert retried.proxy.connections == 4


def test_a_call_given_up_tells_its_retries(retried: Retried) -> None:
    calls: list[hb.store.Call] = []
    with hb.connect(retried.proxy.url + "?attempts=3", on_call=calls.append) as store:
        retried.proxy.on_call(retried.get, *["lose"] * 3)
        with pytest.raises(hb.StoreUnavailable) as caught:
            store.get(retried.table, [b"000"])
    [call] = calls
    assert (call.retries, call.rows, call.bytes, call.error) == (2, 0, 0, caught.value)


def test_views_share_connections(retried: Retried) -> None:
    store = ObservedStore(retried.store, lambda call: None)
    for _ in range(5):
        store.get(retried.table, [b"000"])
        store.delete(retried.table, [Delete(b"none", timestamp=1)])
    assert retried.proxy.connections == 1
    assert retried.proxy.calls().count("getColumnDescriptors") <= 1  # remembered for all views
