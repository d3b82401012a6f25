"""Queries of many scans need no more connections than a store has, however many of them are read at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest

import hbmodel as hb

pytestmark = pytest.mark.hbase

SUFFIX = uuid4().hex[:8]  # the workers of pytest-xdist share an HBase
SHOPS = [f"s{n:02}" for n in range(40)]


@hb.model(table=f"scans_salted_{SUFFIX}", family="d", salt=hb.HashSalt(8))
class Sale:
    """Short ranges of shops in each of eight buckets."""

    shop: hb.Key[str] = hb.key()
    number: hb.Key[int] = hb.key()
    text: hb.Column[str] = hb.column("t")


@hb.model(table=f"scans_wide_{SUFFIX}", family="d")
class Visit:
    """Short rows, and then rows that are longer than a page."""

    shop: hb.Key[str] = hb.key()
    number: hb.Key[int] = hb.key(in_qualifier=True)
    text: hb.Column[str] = hb.column("t")


@hb.model(table=f"scans_buckets_{SUFFIX}", family="d", salt=hb.HashSalt(8))
class Tagged:
    """More buckets than a store has connections, and more rows in each than one batch has."""

    number: hb.Key[int] = hb.key()
    tags: hb.Column[list[int]] = hb.column("t", hb.Json(list[int]))


@hb.model(table=f"scans_days_{SUFFIX}", family="d", salt=hb.HashSalt(8))
class Noted:
    """Wide rows in more buckets than a store has connections, and more rows in each than one batch has."""

    day: hb.Key[int] = hb.key(hb.UInt32)
    number: hb.Key[int] = hb.key(hb.UInt32, in_qualifier=True)
    tags: hb.Column[list[int]] = hb.column("t", hb.Json(list[int]))


@pytest.fixture(scope="module", params=["thrift1", "thrift2"])
def url(request: pytest.FixtureRequest) -> str:
    hbase = request.getfixturevalue("hbmodel_hbase")
    return str(hbase.url if request.param == "thrift1" else hbase.thrift2_url) + f"?table_prefix={request.param}"


@pytest.fixture(scope="module")
def filled(url: str) -> Iterator[str]:
    with hb.connect(url) as store:
        splits = {model: hb.tables.AtKeys([]) for model in (Sale, Tagged, Noted)}
        hb.create_tables(store, Sale, Visit, Tagged, Noted, splits=splits)
        session = hb.Session(store)
        session.bulk_add(Sale(shop=shop, number=n, text="x") for shop in SHOPS for n in range(20))
        session.bulk_add(
            Visit(shop=shop, number=n, text="x") for at, shop in enumerate(SHOPS) for n in range(1 if at < 31 else 700)
        )
        session.bulk_add(Tagged(number=n, tags=[n // 19_000]) for n in range(20_000))
        session.bulk_add(Noted(day=n, number=at, tags=[n // 6_300]) for n in range(6_400) for at in range(2))
        yield url
        hb.drop_tables(store, Sale, Visit, Tagged, Noted)


@pytest.fixture
def store(filled: str) -> Iterator[hb.Store]:
    """A store with one connection for calls, and four for scans."""
    with hb.connect(f"{filled}&pool=1&timeout=20&retry_for=20") as store:
        yield store


def in_threads(count: int, work: Callable[[], object]) -> list[object]:
    """What each of several threads returns or raises."""
    done: list[object] = []

    def run() -> None:
        try:
            done.append(work())
        except hb.HbmodelError as error:
            done.append(error)

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return done


def sales(store: hb.Store) -> Any:
    return hb.Session(store).query(Sale).where(Sale.shop.in_(SHOPS))


def test_ranges_in_many_buckets(store: hb.Store) -> None:
    expected = [(shop, n) for shop in SHOPS for n in range(20)]
    assert [(sale.shop, sale.number) for sale in sales(store)] == expected
    assert [(sale.shop, sale.number) for sale in sales(store).reversed()] == expected[::-1]
    assert len(sales(store).page(500)) == 500
    assert sales(store).count() == 800
    assert sales(store).where(Sale.text == "y").first() is None


@pytest.mark.lengthy
def test_many_threads_read_many_buckets(store: hb.Store) -> None:
    assert in_threads(6, lambda: len(sales(store).all())) == [800] * 6
    assert in_threads(6, lambda: len(sales(store).page(300))) == [300] * 6


def test_streams_that_nobody_reads_hold_no_connection(store: hb.Store) -> None:
    streams = []
    for taken in (1, 30, 60, 100, 150, 300):
        stream = iter(sales(store))
        for _ in range(taken):
            next(stream)
        streams.append(stream)
    assert len(sales(store).all()) == 800
    for stream, taken in zip(streams, (1, 30, 60, 100, 150, 300), strict=True):
        assert len(list(stream)) == 800 - taken


@pytest.mark.lengthy
def test_rows_longer_than_a_page_among_short_ones(store: hb.Store) -> None:
    visits = hb.Session(store).query(Visit).where(Visit.shop.in_(SHOPS))
    expected = [(shop, n) for at, shop in enumerate(SHOPS) for n in range(1 if at < 31 else 700)]
    assert [(visit.shop, visit.number) for visit in visits] == expected
    assert [(visit.shop, visit.number) for visit in visits.reversed()] == expected[::-1]
    several = in_threads(4, lambda: hb.Session(store).query(Visit).where(Visit.shop.in_(SHOPS)).count())
    assert several == [len(expected)] * 4


@pytest.mark.lengthy
def test_a_limit_over_more_buckets_than_connections(store: hb.Store) -> None:
    tagged = hb.Session(store).query(Tagged).where(Tagged.tags.contains(1)).allow_full_scan()
    for limit in (1, 5, 60):
        assert [each.number for each in tagged.limit(limit)] == list(range(19_000, 19_000 + limit))
    assert tagged.count() == 1_000


@pytest.mark.lengthy
def test_a_limit_over_wide_rows_in_many_buckets(store: hb.Store) -> None:
    noted = hb.Session(store).query(Noted).where(Noted.tags.contains(1)).allow_full_scan()
    for limit in (1, 5, 60):
        expected = [(6_300 + at // 2, at % 2) for at in range(limit)]
        assert [(each.day, each.number) for each in noted.limit(limit)] == expected
