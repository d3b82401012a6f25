"""The cost of reads and writes in calls to the store."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any

import pytest

import hbmodel as hb
from hbmodel.store.gateway.wire.connection import ThriftConnection
from tests.support.beds import ATOMIC, Bed, fresh
from tests.support.faulty import RecordingStore
from tests.support.models import DAY, Fact, Hit, Order, Sample, day, order
from tests.support.orders import filled, numbers

# --- writing ----------------------------------------------------------------------------------------------------------


def begun(bed: Bed, *calls: str) -> list[str]:
    """The calls before the first write: for the registry, the roll, and the server's time, which the put of a line on
    the writers' roll also gives.
    """
    if bed.store.capabilities.gated_writes:
        return ["get hbmodel", *calls]
    return ["check_and_put hbmodel", "get hbmodel", *(call for call in calls if "hbmodel" not in call)]


def test_adds_of_indexed_objects_cost_one_call_per_table_and_phase(bed: Bed) -> None:
    session = bed.use(Order)
    session.add_all(order(n, amount=n) for n in range(50))
    session.commit()
    entries = ["put orders.by_state", "put orders.by_amount"]
    assert bed.store.told() == [*begun(bed, "get orders", "put hbmodel", "get hbmodel"), *entries, "put orders"]
    # The registry and the clock are asked once per session.
    session.add_all(order(n, "paid", amount=n) for n in range(50))
    session.commit()
    assert bed.store.told() == ["get orders", *entries, "put orders", "delete orders.by_state"]


def test_updates_write_indexes_only_when_they_must(bed: Bed) -> None:
    session = bed.use(Order)
    session.add_all(order(n) for n in range(3))
    session.commit()
    bed.store.told()
    for n in range(3):
        session.update(order(n), note="n")
    session.commit()
    assert bed.store.told() == ["get orders", "put orders"]
    for n in range(3):
        session.update(order(n), state="paid")
    session.commit()
    assert bed.store.told() == [
        "get orders", "put orders.by_state", "put orders.by_amount", "put orders", "delete orders.by_state",
    ]  # fmt: skip


def test_deletes_cost_one_call_more_where_rows_cannot_be_changed_atomically(bed: Bed) -> None:
    session = bed.use(Order)
    session.add_all(order(n) for n in range(4))
    session.commit()
    bed.store.told()
    session.delete(order(0))
    session.commit()
    row = ["mutate_row orders"] if bed.atomic else ["put orders", "delete orders"]
    entries = ["delete orders.by_state", "delete orders.by_amount"]
    assert bed.store.told() == ["get orders", *row, *entries]
    for n in (1, 2, 3):
        session.delete(order(n))
    session.commit()
    assert bed.store.told() == ["get orders", "put orders", "delete orders", *entries]


def test_immutable_models_read_nothing_before_they_put(bed: Bed) -> None:
    session = bed.use(Fact, Hit)
    session.add_all(Fact(number=n, topic="t") for n in range(20))
    session.commit()
    # The entries of a covering index are verified once their rows are acknowledged.
    first = begun(bed, "put hbmodel", "get hbmodel")
    assert bed.store.told() == [*first, "put facts.by_topic", "put facts", "put facts.by_topic"]
    session.add_all(Hit(at=DAY, serial=n, page="/") for n in range(20))
    session.commit()
    assert bed.store.told() == [*begun(bed), "put hits.by_page", "put hits"]


def test_unindexed_models_cost_one_put(bed: Bed) -> None:
    session = bed.use(Sample)
    session.add_all(Sample(station="s", label=str(n), level=n) for n in range(20))
    session.commit()
    assert bed.store.told() == [*begun(bed), "put samples"]
    session.update(Sample(station="s", label="1", level=0), level=2)
    session.delete_key(Sample, station="s", label="2")
    session.commit()
    check = "check_and_mutate samples" if bed.atomic else "check_and_put samples"
    # the second one is of the counters to delete
    assert bed.store.told() == ["get samples", "get samples", "delete samples", check]
    session.update(Sample(station="s", label="1", level=0), remark="r")
    session.commit()
    assert bed.store.told() == ["get samples", "put samples"]


@pytest.mark.every_store
def test_calls_that_run_at_once_cost_what_they_must(bed: Bed) -> None:
    session = bed.use(Order, Sample)
    session.add_all([order(1), Sample(station="s", label="l", level=1)])
    session.commit()
    bed.store.told()
    session.increment(order(1), Order.views)
    assert bed.store.told() == ["get orders", "increment orders"]
    if bed.atomic:
        session.insert(order(2))
        assert bed.store.told() == [
            "get orders",
            "put orders.by_state",
            "put orders.by_amount",
            "check_and_mutate orders",
        ]
        session.insert(Sample(station="s", label="m", level=1))
        # the first one is of counters that are left
        assert bed.store.told() == ["get samples", "check_and_mutate samples", "get samples"]


# --- reading ----------------------------------------------------------------------------------------------------------


def test_a_page_of_one_bucket_is_one_scan(bed: Bed) -> None:
    session = filled(bed)
    query = session.query(Order).where(Order.customer == 1)
    page = query.page(5)
    assert numbers(page.items) == [37, 33, 29, 25, 21]
    assert bed.store.told() == ["scan orders"]
    page = query.page(5, after=page.next_token)
    assert numbers(page.items) == [17, 13, 9, 5, 1]
    assert page.at_end
    assert bed.store.told() == ["scan orders"]
    assert numbers(query.reversed().page(2).items) == [1, 5]
    assert bed.store.told() == ["scan orders"]


def test_the_first_page_of_a_salted_query_starts_all_buckets_in_one_call(bed: Bed) -> None:
    session = filled(bed)
    query = session.query(Order).allow_full_scan()
    assert (query.explain().buckets, query.explain().ranges) == (4, 4)
    page = query.page(12)
    assert [(call.name, len(call.items)) for call in bed.store.calls] == [("scan", 4)]
    assert all(scan.limit == 13 for scan in bed.store.calls[0].items)
    assert numbers(page.items) == [36, 32, 28, 24, 20, 16, 12, 8, 4, 0, 37, 33]


def test_a_page_through_an_index_is_a_scan_and_a_multi_get(bed: Bed) -> None:
    session = filled(bed)
    query = session.query(Order).where(Order.state == "odd")
    page = query.page(5)
    assert numbers(page.items) == [39, 37, 35, 33, 31]
    assert bed.store.told() == ["scan orders.by_state", "get orders"]
    assert numbers(query.page(5, after=page.next_token).items) == [29, 27, 25, 23, 21]
    assert bed.store.told() == ["scan orders.by_state", "get orders"]
    assert len(query.all()) == 20
    assert bed.store.told() == ["scan orders.by_state", "get orders"]


@hb.model(table="ranged", family="d")
class Ranged:
    """A row for each object."""

    shop: hb.Key[str] = hb.key()
    number: hb.Key[int] = hb.key()
    text: hb.Column[str] = hb.column("t")


@hb.model(table="ranged_wide", family="d")
class RangedWide:
    """A row for each shop."""

    shop: hb.Key[str] = hb.key()
    number: hb.Key[int] = hb.key(in_qualifier=True)
    text: hb.Column[str] = hb.column("t")


@hb.model(table="ranged_salted", family="d", salt=hb.HashSalt(4, by=("number",)))
class RangedSalted:
    """Rows in four buckets, of which each has a range for each shop."""

    shop: hb.Key[str] = hb.key()
    number: hb.Key[int] = hb.key()
    text: hb.Column[str] = hb.column("t")


def scans_of(bed: Bed) -> list[int]:
    """How many scans each call for scans has begun."""
    counts = [len(call.items) for call in bed.store.calls if call.name == "scan"]
    bed.store.calls.clear()
    return counts


SHOPS = [f"shop {n:02}" for n in range(50)]


@pytest.mark.parametrize("model", [Ranged, RangedWide, RangedSalted])
def test_short_ranges_are_read_together(bed: Bed, model: Any) -> None:
    session = bed.use(model)
    session.add_all(model(shop=shop, number=n, text="x") for shop in SHOPS for n in range(2) if shop != SHOPS[3])
    session.commit()
    query = session.query(model).where(model.shop.in_(SHOPS))
    every = [(shop, n) for shop in SHOPS for n in range(2) if shop != SHOPS[3]]
    bed.store.calls.clear()

    def keys(items: Iterable[Any]) -> list[tuple[str, int]]:
        return [(item.shop, item.number) for item in items]

    if model is RangedSalted:
        assert keys(query.all()) == every
        assert max(scans_of(bed)) == 4  # together with the other buckets, no more than 16 scans
        return
    assert keys(query.all()) == every
    assert scans_of(bed) == [1, 2, 4, 8, 16, 16, 3]
    assert keys(query.reversed().all()) == every[::-1]
    assert scans_of(bed) == [1, 2, 4, 8, 16, 16, 3]
    assert keys(query.limit(5).all()) == every[:5]
    assert scans_of(bed) == [1, 2]
    assert query.first().number == 0
    assert scans_of(bed) == [1]
    token, pages = None, []
    while True:
        page = query.page(7, after=token)
        pages += keys(page.items)
        token = page.next_token
        if token is None:
            break
    assert pages == every


def test_after_a_long_range_the_next_one_is_read_alone(bed: Bed) -> None:
    session = bed.use(Ranged)
    long = {SHOPS[3], SHOPS[9]}
    session.add_all(Ranged(shop=shop, number=n, text="x") for shop in SHOPS for n in range(120 if shop in long else 1))
    session.commit()
    bed.store.calls.clear()
    found = session.query(Ranged).where(Ranged.shop.in_(SHOPS)).all()
    assert [(item.shop, item.number) for item in found] == sorted((item.shop, item.number) for item in found)
    assert len(found) == 288
    # The ranges of shops 3 and 9 are long, and each of them needs another scan.
    assert scans_of(bed) == [1, 2, 4, 1, 1, 2, 1, 1, 2, 4, 8, 16, 9]


def test_no_more_ranges_are_begun_than_hold_what_is_wanted(bed: Bed) -> None:
    session = bed.use(Ranged)
    session.add_all(Ranged(shop=shop, number=n, text="x") for shop in SHOPS[:12] for n in range(30))
    session.commit()
    bed.store.calls.clear()
    query = session.query(Ranged).where(Ranged.shop.in_(SHOPS))
    assert len(query.limit(100).all()) == 100
    assert scans_of(bed) == [1, 2, 1]
    assert len(query.limit(200).all()) == 200
    assert scans_of(bed) == [1, 2, 4]
    assert len(query.limit(300).all()) == 300
    assert scans_of(bed) == [1, 2, 4, 3]
    assert len(query.limit(1000).all()) == 360
    assert scans_of(bed) == [1, 2, 4, 8, 16, 16, 3]


def test_scans_that_were_begun_for_later_ranges_are_closed() -> None:
    opened: list[object] = []
    closed: list[object] = []

    class Watching(RecordingStore):
        def _batches(self, table: str, batches: Any) -> Iterator[Any]:
            return Watched(super()._batches(table, batches))

    class Watched(Iterator[Any]):
        def __init__(self, batches: Iterator[Any]) -> None:
            self._batches = batches
            opened.append(self)

        def __next__(self) -> Any:
            try:
                return next(self._batches)
            except StopIteration:
                closed.append(self)
                raise

        def close(self) -> None:
            closed.append(self)
            self._batches.close()  # type: ignore[attr-defined]

    with fresh(Ranged) as inner:
        with hb.Session(inner) as session:
            session.add_all(Ranged(shop=shop, number=1, text="x") for shop in SHOPS)
        query = hb.Session(Watching(inner)).query(Ranged).where(Ranged.shop.in_(SHOPS))
        for many in (1, 2, 5, 20):
            items = iter(query)
            assert [next(items).shop for _ in range(many)] == SHOPS[:many]
            items.close()  # type: ignore[attr-defined]
            assert len(opened) >= many
            assert set(map(id, closed)) == set(map(id, opened))
            opened.clear()
            closed.clear()


def test_an_index_that_is_salted_is_read_bucket_by_bucket_at_once(bed: Bed) -> None:
    session = filled(bed)
    query = session.query(Order).where(Order.amount.is_(None))
    assert sorted(numbers(query.all())) == [0, 8, 16, 24, 32]
    scan, get = bed.store.calls
    assert (scan.name, len(scan.items), get.name, len(get.items)) == ("scan", 3, "get", 5)


def test_exact_keys_are_gotten_not_scanned(bed: Bed) -> None:
    session = filled(bed)
    query = session.query(Order).where(
        Order.customer == 1, Order.at.in_([day(1), day(5), day(6)]), Order.number.in_([1, 5])
    )
    assert query.explain().access == "get"
    assert numbers(query.all()) == [5, 1]
    assert numbers(query.reversed().all()) == [1, 5]
    assert numbers(query.page(1).items) == [5]
    assert bed.store.told() == ["get orders"] * 3
    assert query.where(Order.state == "even").all() == []


def test_multi_gets_grow_where_many_keys_are_absent(bed: Bed) -> None:
    session = filled(bed)
    query = session.query(Order).where(Order.customer == 1, Order.at == day(1), Order.number.in_([*range(2, 600), 1]))
    assert numbers(query.all()) == [1]
    found = (
        session.query(Order).where(Order.customer == 1, Order.at == day(37), Order.number.in_(range(37, 600))).first()
    )
    assert found is not None
    assert found.number == 37
    bed.store.told()
    last = session.query(Order).where(Order.customer == 1, Order.at == day(37), Order.number.in_(range(38))).first()
    assert last is not None
    assert last.number == 37
    assert [len(call.items) for call in bed.store.calls] == [8, 16, 14]


def test_nothing_is_asked_where_nothing_can_match(bed: Bed) -> None:
    session = filled(bed)
    query = session.query(Order).where(Order.customer.in_([]))
    assert (query.all(), query.count(), query.exists(), query.first()) == ([], 0, False, None)
    assert query.page(3) == hb.Page([], None)
    assert session.query(Order).where(Order.customer == 1).limit(0).all() == []
    assert bed.store.told() == []


def test_counting_reads_keys_and_no_more(bed: Bed) -> None:
    session = filled(bed)
    assert session.query(Order).where(Order.customer == 1).count() == 10
    (call,) = bed.store.calls
    assert set(call.items[0].columns) == {b"d:_l"}
    bed.store.told()
    assert session.query(Order).where(Order.state == "odd").count() == 20
    assert bed.store.told() == ["scan orders.by_state", "get orders"]


def test_a_selection_reads_only_its_cells(bed: Bed) -> None:
    session = filled(bed)
    query = session.query(Order).where(Order.customer == 1).select(Order.number, Order.state).limit(2)
    assert query.all() == [(37, "odd"), (33, "odd")]
    (call,) = bed.store.calls
    assert set(call.items[0].columns) == {b"d:_l", b"d:s"}


def test_long_scans_fetch_as_many_rows_as_are_wanted(bed: Bed) -> None:
    session = filled(bed)
    session.query(Order).where(Order.customer == 1).limit(3).all()
    assert [scan.limit for call in bed.store.calls for scan in call.items] == [3]
    bed.store.told()
    session.query(Order).where(Order.customer == 1, Order.state == "odd").first()
    assert [scan.limit for call in bed.store.calls for scan in call.items] == [1]  # the server drops the others
    bed.store.told()
    session.query(Order).where(Order.customer == 1, Order.state != "even").first()
    assert [scan.limit for call in bed.store.calls for scan in call.items] == [8]  # the client may yet drop rows


def test_explain_tells_the_calls_to_a_gateway_up_to_the_first_item(
    hbase_bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = filled(hbase_bed)
    sent: list[str] = []
    send = ThriftConnection.send

    def noted(self: ThriftConnection, api: str, **arguments: object) -> None:
        # another one keeps the lines of earlier sessions on the writers' roll
        if threading.current_thread() is threading.main_thread():
            sent.append(api)
        send(self, api, **arguments)

    for query in (
        session.query(Order).allow_full_scan(),
        session.query(Order).where(Order.customer == 1),
        session.query(Order).where(Order.customer == 1, Order.at == day(5), Order.number == 5),
        session.query(Order).where(Order.state == "odd"),
        session.query(Order).where(Order.amount == Decimal(3)),
    ):
        told = query.explain()
        with monkeypatch.context() as watching:
            watching.setattr(ThriftConnection, "send", noted)
            sent.clear()
            assert query.first() is not None
        called = [api for api in sent if "lose" not in api]
        assert len(called) == told.calls, f"{told}\n{called}"
        assert bool(told.calls_saved) == (hbase_bed.kind == "thrift1" and told.access != "get")


@pytest.mark.parametrize("bed", ATOMIC, indirect=True)  # where the first batch of a scan is one call
def test_a_query_makes_at_least_the_calls_that_are_explained(bed: Bed) -> None:
    session = bed.use(Sample)
    session.bulk_add(Sample(station="s", label=f"{n:03}", level=7 if n < 199 else 8) for n in range(200))
    session.bulk_add(Sample(station=station, label="a", level=1) for station in ("t", "v"))
    calls: list[hb.store.Call] = []
    query = hb.Session(bed.store, on_call=calls.append).query(Sample)
    for asked, at_least, more in (
        (query.where(Sample.station == "s", Sample.level != 7), True, True),  # the client drops all rows but the last
        (query.where(Sample.station == "s", Sample.level != 8), True, False),
        (query.where(Sample.station.in_(["r", "t"])), True, True),  # the first range is empty
        (query.where(Sample.station.in_(["t", "v"])), True, False),
        (query.where(Sample.station == "s", Sample.level == 8), False, False),  # the server drops the others
    ):
        explained = asked.explain()
        assert explained.at_least == at_least
        calls.clear()
        assert asked.first() is not None
        assert len(calls) > explained.calls if more else len(calls) == explained.calls, f"{explained}\n{calls}"
