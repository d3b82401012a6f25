"""Damaged files of an embedded store: every call ends well, or with an error that says so."""

from __future__ import annotations

import itertools
import random
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.store.embedded.damage import check_undamaged
from tests.support.everything import Item, fill, unexpected, unexpected_commands
from tests.support.examples import examples


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that is not damaged."""
    path = tmp_path_factory.mktemp("good") / "good.db"
    with hb.connect(f"embedded:{path}") as store:
        fill(store)
        session = hb.Session(store)
        session.add_all(
            Item(number=n, text=f"v{n % 5}" + "z" * 50, notes={str(k): "n" * 100 for k in range(n % 50)})
            for n in range(300)
        )
        session.commit()
    return path


def tell(path: Path) -> dict[str, Any]:
    """The calls that end with an error other than those of this library."""
    url = f"embedded:{path}"
    found = unexpected_commands(url)
    try:
        with hb.connect(url) as store:
            found |= unexpected(store)
    except hb.HbmodelError:
        pass
    return found


def overwritten(data: bytes, seed: int, times: int, length: int) -> bytes:
    drawn, damaged = random.Random(seed), bytearray(data)
    for _ in range(times):
        at = drawn.randrange(len(damaged))
        damaged[at : at + length] = drawn.randbytes(len(damaged[at : at + length]))
    return bytes(damaged)


@pytest.mark.lengthy
@settings(
    max_examples=examples(60),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    deadline=None,
)
@given(seed=st.integers(0, 2**32), times=st.sampled_from([1, 5, 30, 200]), length=st.sampled_from([1, 4, 100, 5000]))
@example(seed=8704, times=200, length=1)  # keys out of order
def test_bytes_that_are_overwritten(
    good: Path, tmp_path_factory: pytest.TempPathFactory, seed: int, times: int, length: int
) -> None:
    path = tmp_path_factory.mktemp("overwritten") / "x.db"
    path.write_bytes(overwritten(good.read_bytes(), seed, times, length))
    assert tell(path) == {}


@pytest.mark.lengthy
@settings(
    max_examples=examples(30),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    deadline=None,
)
@given(share=st.floats(0, 1))
def test_a_file_that_was_cut(good: Path, tmp_path_factory: pytest.TempPathFactory, share: float) -> None:
    path = tmp_path_factory.mktemp("cut") / "x.db"
    data = good.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    assert tell(path) == {}


def write_database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("CREATE TABLE tables (x); CREATE TABLE segments (y)")


OTHER_FILES: Mapping[str, Callable[[Path], object]] = {
    "a directory": lambda path: path.mkdir(),
    "a text": lambda path: path.write_text("A text.\n" * 100),
    "zeros": lambda path: path.write_bytes(bytes(8192)),
    "the head of a database": lambda path: path.write_bytes(b"SQLite format 3\x00"),
    "a database of another program": write_database,
    "a file in a directory that is none": lambda path: path.parent.joinpath("file").write_text("") and None,
}


@pytest.mark.parametrize("kind", OTHER_FILES)
def test_a_file_that_is_something_else(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x.db"
    OTHER_FILES[kind](path)
    with pytest.raises(hb.StoreError), hb.connect(f"embedded:{path / 'y' if 'none' in kind else path}"):
        pass
    assert tell(path) == {}


COLUMNS: Mapping[str, tuple[str, ...]] = {
    "segments": ("row", "first", "ends", "cells", "table_id"),
    "tombstones": ("row", "target", "timestamp"),
    "tables": ("name", "layout"),
}


VALUES = (7, 1.5, "text", b"", b"\xc1", b"\x80", b"\x81\xc4\x01a\x90")


def wrong_values() -> Iterator[Any]:
    """Each value in each column, in one row or in all rows; by default every second value, in one of these ways, by
    turns.
    """
    places = [(table, column) for table, columns in COLUMNS.items() for column in columns]
    for (at, (table, column)), (number, value) in itertools.product(enumerate(places), enumerate(VALUES)):
        if column == "first" and isinstance(value, bytes):
            continue  # such a bound is a value of the right type
        for only in (False, True):
            marks = () if (at + number) % 4 == 2 * only else pytest.mark.slow
            yield pytest.param(table, column, value, only, marks=marks)


@pytest.mark.lengthy
@pytest.mark.parametrize(("table", "column", "value", "only"), list(wrong_values()))
def test_values_of_another_type(good: Path, tmp_path: Path, table: str, column: str, value: Any, only: bool) -> None:
    """SQLite stores values of any type in any column, and does not notice a changed type."""
    path = tmp_path / "x.db"
    path.write_bytes(good.read_bytes())
    with closing(sqlite3.connect(path)) as connection, connection:
        (count,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
        which = f"WHERE {column} IN (SELECT {column} FROM {table} LIMIT 1 OFFSET {count // 2})" if only else ""
        connection.execute(f"UPDATE OR REPLACE {table} SET {column} = ? {which}", (value,))
    assert tell(path) == {}


@pytest.mark.lengthy
def test_damage_is_told_with_the_path(good: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    path.write_bytes(good.read_bytes())
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE segments SET cells = 7")
    with hb.connect(f"embedded:{path}") as store, pytest.raises(hb.StoreError, match="file is damaged") as caught:
        hb.Session(store).get(Item, number=1)
    assert caught.value.path == str(path)


def test_an_error_of_an_undamaged_file_is_left_alone() -> None:
    """A mistake in the library must not be treated as damage."""
    with hb.connect("memory:") as store:
        fill(store)
        database = store._database  # type: ignore[attr-defined]
        for opened in (database.read, database.write):
            with pytest.raises(ZeroDivisionError), opened():
                raise ZeroDivisionError
        check_undamaged(None, None, hb.errors.InvalidRequest("A request."))
