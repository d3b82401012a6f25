"""Cells that a model does not declare move with their rows to another table."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import hbmodel as hb
from hbmodel.store import Put
from tests.support.beds import HBASE, cells_of, drop_left

TIMES = hb.indexes.IndexTimes(lease=0.2)
KINDS = ["immutable", "versioned", "offline"]
PREFIXES = itertools.count()
"""The same tables have other layouts in each test."""


def declare(
    table: str, kind: str, *, family: str = "d", alias: str = "a", newer: bool = False, more: str = "", **options: Any
) -> Any:
    """A model of one column, or of a later version with another one."""
    types: dict[str, Any] = {"k": hb.Key[int], "a": hb.Column[str]}
    body: dict[str, Any] = {"k": hb.key(hb.UInt32, desc="new" in table), "a": hb.column(alias)}
    if newer:
        types["c"], body["c"] = hb.Column[str], hb.column("c", default="the default")
    if more:
        types["e"], body["e"] = hb.Column[str], hb.column("e", default="", family=more)
    if kind == "versioned":
        types["v"], body["v"] = hb.Column[int], hb.version()
    options["immutable"] = kind == "immutable"
    return hb.model(table=table, family=family, **options)(type("Thing", (), {**body, "__annotations__": types}))


@pytest.fixture(params=["memory", "file", *HBASE])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[hb.Store]:
    kind = request.param
    if kind.startswith("thrift"):
        local = request.getfixturevalue("hbmodel_hbase")
        url = f"{local.url if kind == 'thrift1' else local.thrift2_url}?table_prefix=und{next(PREFIXES)}"
    else:
        url = "memory:" if kind == "memory" else f"embedded:{tmp_path / 'store.db'}"
    with hb.connect(url) as made:
        yield made
        drop_left(made)


@pytest.mark.lengthy
@pytest.mark.parametrize("kind", KINDS)
def test_what_a_newer_program_and_another_one_have_written_moves_to_and_fro(store: hb.Store, kind: str) -> None:
    if kind == "versioned" and not store.capabilities.check_and_mutate:
        kind = "immutable"
    old, newer = declare("old", kind), declare("old", kind, newer=True)
    new, later = declare("new", kind, replaces=old), declare("new", kind, newer=True)
    hb.create_tables(store, old)
    hb.create_tables(store, newer)
    with hb.Session(store, lease=0.2) as session:
        session.add_all([newer(k=1, a="one", c="precious"), newer(k=2, a="two")])
        session.commit()
    row = b"\x00\x00\x00\x02"
    store.put("old", [Put(row, {b"d:alien": b"\x00\xff", b"d:empty": b""})])
    moving = partial(hb.migration.migrate, store, new, times=TIMES, offline=kind == "offline")
    assert moving().start().copied
    if kind == "versioned":
        with hb.Session(store, lease=0.2) as session:
            session.update_key(new, k=1, a="uno")
    checked = moving().verify()
    assert (checked.sound, checked.differing) == (True, 0)
    moving().roll_back()
    assert {b"\x00\xff", b""} <= set(cells_of(store, "old")[row].values())
    assert moving().start().copied
    assert moving().cut_over().phase == "done"
    hb.drop_tables(store, old)
    hb.create_tables(store, later)
    session = hb.Session(store)
    assert [(one.k, one.c) for one in session.query(later).allow_full_scan()] == [(2, "the default"), (1, "precious")]
    one: Any = session.get(later, k=1)
    assert one.a == ("uno" if kind == "versioned" else "one")
    (moved,) = (cells for cells in cells_of(store, "new").values() if cells[b"d:a"] == b"two")
    assert (moved[b"d:alien"], moved[b"d:empty"]) == (b"\x00\xff", b"")


def test_a_check_compares_them(store: hb.Store) -> None:
    old = declare("old", "immutable")
    new = declare("new", "immutable", replaces=old)
    hb.create_tables(store, old)
    with hb.Session(store, lease=0.2) as session:
        session.add(old(k=1, a="one"))
    store.put("old", [Put(b"\x00\x00\x00\x01", {b"d:alien": b"as it was"})])
    moving = hb.migration.migrate(store, new, times=TIMES)
    assert moving.start().copied
    assert moving.verify().sound
    store.put("new", [Put(b"\xff\xff\xff\xfe", {b"d:alien": b"another"})])
    assert moving.verify().differing == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cell", [b"d:c", b"e:c"], ids=["the place of a column", "a family that is gone"])
def test_a_cell_without_a_place_is_listed_and_prevents_the_cutover(kind: str, cell: bytes) -> None:
    old = declare("old", kind, more="e")
    new = (
        declare("new", kind, more="e", alias="c", replaces=old)
        if cell == b"d:c"
        else declare("new", kind, more="d", replaces=old)
    )
    with hb.connect("memory:") as store:
        hb.create_tables(store, old)
        with hb.Session(store, lease=0.2) as session:
            session.add_all([old(k=1, a="one"), old(k=2, a="two")])
        store.put("old", [Put(b"\x00\x00\x00\x01", {cell: b"alien"})])
        moving = hb.migration.migrate(store, new, times=TIMES, offline=kind == "offline")
        report = moving.start()
        assert report.refused == 1
        assert "no place for it" in report.samples[0][1]
        assert cell.decode() in report.samples[0][1]
        with pytest.raises(hb.errors.MigrationError, match="Some rows could not be copied"):
            moving.cut_over()
        assert cells_of(store, "old")[b"\x00\x00\x00\x01"][cell] == b"alien"


def test_cells_of_the_family_follow_it_to_its_new_name() -> None:
    old = declare("old", "immutable")
    new = declare("new", "immutable", family="f", replaces=old)
    with hb.connect("memory:") as store:
        hb.create_tables(store, old)
        with hb.Session(store, lease=0.2) as session:
            session.add(old(k=1, a="one"))
        store.put("old", [Put(b"\x00\x00\x00\x01", {b"d:alien": b"x"})])
        assert hb.migration.migrate(store, new, times=TIMES).start().copied
        assert cells_of(store, "new")[b"\xff\xff\xff\xfe"] == {b"f:a": b"one", b"f:alien": b"x"}


@pytest.mark.parametrize("kind", KINDS)
def test_two_cells_of_one_place_are_listed_and_prevent_the_cutover(kind: str) -> None:
    """The family `d` moves to `e`, which has a cell of that qualifier already."""
    old = declare("old", kind, more="e")
    new = declare("new", kind, family="e", more="e", replaces=old)
    row = b"\x00\x00\x00\x01"
    with hb.connect("memory:") as store:
        hb.create_tables(store, old)
        with hb.Session(store, lease=0.2) as session:
            session.add_all([old(k=1, a="one"), old(k=2, a="two")])
        store.put("old", [Put(row, {b"d:q": b"first", b"e:q": b"second"})])
        moving = hb.migration.migrate(store, new, times=TIMES, offline=kind == "offline")
        report = moving.start()
        assert report.refused == 1
        assert "no place for it" in report.samples[0][1]
        with pytest.raises(hb.errors.MigrationError, match="Some rows could not be copied"):
            moving.cut_over()
        found = cells_of(store, "old")[row]
        assert (found[b"d:q"], found[b"e:q"]) == (b"first", b"second")
