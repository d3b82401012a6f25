"""Entries of the registry whose JSON has another shape: each command that shows a table ends well or with one line."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.tables.registry.layout_differences import canonical_json
from hbmodel.tools.cli import main
from tests.support.examples import examples
from tests.support.models import DAY
from tests.tables.test_damaged_registry import OTHERS, cells, changed, damage, paths


class Color(enum.Enum):
    RED = "r"
    BLUE = "b"


@hb.model(table="tall", family="d", salt=hb.salts.TextSalt(("a-", "b-"), by=("color",)))
class Tall:
    color: hb.Key[Color] = hb.key(hb.EnumOf(Color, hb.Text))
    at: hb.Key[datetime] = hb.key(desc=True)
    price: hb.Column[int | None] = hb.column("p", default=None)
    views: hb.Column[int] = hb.counter("v")
    tags: hb.Map[str, int] = hb.map_column("t")

    by_price = hb.index("price", salt=hb.salts.DigestSalt(1))


@hb.model(table="wide", family="d", salt=hb.HashSalt(2), kind=b"k")
class Wide:
    sensor: hb.Key[int] = hb.key(hb.UInt32)
    at: hb.Key[datetime] = hb.key(hb.Datetime("s"), row_span=timedelta(hours=1))
    part: hb.Key[str] = hb.key(in_qualifier=True)
    value: hb.Column[float] = hb.column("v")


@hb.model(table="hits", family="d", salt=hb.RandomSalt(2), immutable=True)
class Hit:
    name: hb.Key[str] = hb.key(hb.ids.dictionary("names", hb.codecs.UInt16))
    page: hb.Column[str] = hb.column("p")

    by_page = hb.index("page")


PLACES: Mapping[str, tuple[tuple[bytes, bytes], ...]] = {
    "tall": ((b"tall\0d", b"m:layout"), (b"tall\0d", b"m:i.by_price"), (b"tall\0d", b"m:rows")),
    "wide": ((b"wide\0d\0k", b"m:layout"),),
    "hits": ((b"hits\0d", b"m:layout"), (b"hits\0d", b"m:i.by_page")),
}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    found = f"embedded:{tmp_path_factory.mktemp('entries') / 'x.db'}"
    with hb.connect(found) as store:
        hb.create_tables(store, Tall, Wide, Hit)
        with hb.Session(store) as session:
            session.add(Tall(color=Color.RED, at=DAY, price=3, tags={"a": 1}))
            session.add(Wide(sensor=1, at=DAY, part="x", value=1.5))
            session.add(Hit(name="ann", page="home"))
    return found


def commands(table: str) -> list[tuple[str, ...]]:
    key = {"tall": "a-r", "wide": "00", "hits": "000000"}[table]
    index = {"tall": "tall.by_price", "wide": "wide", "hits": "hits.by_page"}[table]
    fields = {"tall": ("color=r", "at=2026-03-01T00:00:00Z"), "wide": ("sensor=1",), "hits": ("name=ann",)}[table]
    return [
        ("index", "status", table),
        ("index", "drop", table, "by_price", "--dry-run"),
        ("scan", table),
        ("scan", index, "--json"),
        ("scan", table, "--where", fields[0]),
        ("describe", table, "--sample", "2"),
        ("writers", table),
        ("regions", table),
        ("regions", index),
        ("row", "get", table, *fields),
        ("row", "get", table, key, "--as", "shell"),
        ("key", "decode", table, key, "--as", "shell"),
        ("key", "decode", index, key, "--as", "shell"),
        ("key", "encode", table, *fields),
        ("registry", "list"),
        ("registry", "forget", table, "--existing"),
    ]


def unexpected(url: str, table: str) -> dict[str, BaseException]:
    """The commands that end with anything but a line of output that says what is wrong."""
    found: dict[str, BaseException] = {}
    for command in commands(table):
        result = CliRunner().invoke(main, [*command, "--store", url])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            found[" ".join(command)] = result.exception
    return found


@st.composite
def changes(draw: st.DrawFn) -> tuple[str, tuple[bytes, bytes], int, Any]:
    """A table, a cell of its entry, the number of a place in the cell's JSON, and what stands there instead."""
    table = draw(st.sampled_from(sorted(PLACES)))
    place = draw(st.sampled_from(PLACES[table]))
    return table, place, draw(st.integers(0, 200)), draw(st.sampled_from([..., *OTHERS, 2**70]))


def damaged(held: bytes, number: int, other: Any) -> bytes:
    found = json.loads(held)
    places = list(paths(found))
    return canonical_json(changed(found, places[number % len(places)], other))


def check(url: str, table: str, place: tuple[bytes, bytes], value: bytes, held: bytes) -> None:
    with hb.connect(url) as store:
        damage(store, place, value)
    try:
        assert unexpected(url, table) == {}, value
    finally:
        with hb.connect(url) as store:
            damage(store, place, held)


@pytest.mark.lengthy
@settings(max_examples=examples(120), suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(change=changes())
@example(change=("tall", (b"tall\0d", b"m:layout"), 0, {}))
@example(change=("tall", (b"tall\0d", b"m:i.by_price"), 0, {}))
def test_an_entry_of_any_shape_is_one_line(url: str, change: tuple[str, tuple[bytes, bytes], int, Any]) -> None:
    table, place, number, other = change
    with hb.connect(url) as store:
        held = cells(store)[place]
    check(url, table, place, damaged(held, number, other), held)


@pytest.mark.parametrize(
    ("table", "place", "at", "other"),
    [
        ("hits", PLACES["hits"][1], ("spec", "fields", 1, "name"), 1.5),
        ("hits", PLACES["hits"][1], ("spec", "fields", 1, "codec", "ids", "signed"), {"x": 1}),
        ("hits", PLACES["hits"][1], ("spec", "tail"), ["x"]),
        ("tall", PLACES["tall"][0], ("columns", "d:t", "codec", "codec"), "of another program"),
        ("tall", PLACES["tall"][0], ("columns", "d:t", "codec", "signed"), {"x": 1}),
    ],
)
def test_a_value_of_another_shape_is_one_line(
    url: str, table: str, place: tuple[bytes, bytes], at: tuple[Any, ...], other: Any
) -> None:
    with hb.connect(url) as store:
        held = cells(store)[place]
    check(url, table, place, canonical_json(changed(json.loads(held), at, other)), held)


def test_an_entry_that_cannot_be_read_is_named(url: str) -> None:
    place = (b"tall\0d", b"m:layout")
    with hb.connect(url) as store:
        held = cells(store)[place]
        damage(store, place, b"{}")
    result = CliRunner().invoke(main, ["scan", "tall", "--store", url])
    with hb.connect(url) as store:
        damage(store, place, held)
    assert result.exit_code == 2
    assert "The registry entry of the table cannot be read" in result.output
    assert "table='tall'" in result.output
    assert result.output.count("\n") == 1


@pytest.mark.lengthy
def test_the_commands_go_through_if_nothing_is_damaged(url: str) -> None:
    assert [unexpected(url, table) for table in PLACES] == [{}, {}, {}]
