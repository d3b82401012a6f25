"""Deletes of one object of a wide row: its neighbours' cells stay as they were, and late puts at its own times stay
hidden.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import hbmodel as hb
from hbmodel.store import Put, Scan, Store
from tests.support.beds import HBASE, Bed

STORES = ("memory", "limited", "embedded", *HBASE)


@hb.model(table="deletes_plain", family="d", kind=b"p")
class Plain:
    owner: hb.Key[str] = hb.key()
    name: hb.Key[str] = hb.key(in_qualifier=True)
    size: hb.Column[int] = hb.column("s", hb.codecs.UInt8)
    note: hb.Column[str | None] = hb.column("n", default=None)


@hb.model(table="deletes_indexed", family="d", kind=b"p")
class Indexed:
    owner: hb.Key[str] = hb.key()
    name: hb.Key[str] = hb.key(in_qualifier=True)
    size: hb.Column[int] = hb.column("s", hb.codecs.UInt8)
    note: hb.Column[str | None] = hb.column("n", default=None)

    by_size = hb.index("size")


NAMES = ("x", "x\x00", "xy", "", "x\x01", "w\xff")
"""Of objects that lie close together: the first is deleted."""

Cells = dict[tuple[bytes, bytes], tuple[int, bytes]]


def raw(store: Store, table: str) -> Cells:
    """Every cell of a table, with its time."""
    (batches,) = store.scan(table, [Scan()])
    return {
        (row.row, column): (cell.timestamp, cell.value)
        for batch in batches
        for row in batch
        for column, cell in row.columns.items()
    }


def own(cells: Cells, row: bytes = b"ann") -> Cells:
    """The cells of the object that is deleted."""
    return {
        (of, column): cell for (of, column), cell in cells.items() if of == row and column.startswith(b"d:px\x00\x01")
    }


def without(cells: Cells, gone: Cells) -> Cells:
    return {place: cell for place, cell in cells.items() if place not in gone}


@pytest.mark.every_store
@pytest.mark.parametrize("model", [Plain, Indexed])
@pytest.mark.parametrize("bed", STORES, indirect=True)
def test_a_delete_leaves_its_neighbours_and_hides_what_comes_late(bed: Bed, model: Any) -> None:
    session = bed.use(model)
    table = hb.schema.schema_of(model).table
    session.add_all(
        model(owner=owner, name=name, size=3, note="old") for owner in ("ann", "an", "ann\x00") for name in NAMES
    )
    session.commit()
    # An older version of the model put a column that is no more; other programs have cells in the row.
    strangers = {b"d:px\x00\x01gone": b"1", b"d:qx\x00\x01s": b"2", b"d:": b"3", b"d:p": b"4", b"d:px": b"5"}
    bed.store.put(table, [Put(b"ann", strangers, 1_000)])
    before = raw(bed.store, table)
    gone = own(before)
    assert {column.removeprefix(b"d:px\x00\x01") for _, column in gone} >= {b"s", b"n", b"gone"}

    session.delete_key(model, owner="ann", name="x")
    session.commit()
    after = raw(bed.store, table)
    assert without(after, own(after)) == without(before, gone)
    left = {column.removeprefix(b"d:px\x00\x01") for _, column in own(after)}
    assert left <= {b"_v", b"_l", b"s"}  # the dead marker of an indexed object
    assert bool(left) == (model is Indexed)

    bed.store.put(table, [Put(row, {column: cell[1]}, cell[0]) for (row, column), cell in gone.items()])
    assert raw(bed.store, table) == after
    assert session.get(model, owner="ann", name="x") is None
    found = session.query(model).where(model.owner == "ann").all()
    assert sorted(obj.name for obj in found) == sorted(NAMES[1:])


@pytest.mark.parametrize("model", [Plain, Indexed])
@pytest.mark.parametrize("bed", STORES, indirect=True)
def test_an_object_that_expires_deletes_what_is_under_it_alone(bed: Bed, model: Any) -> None:
    session = bed.use(model)
    table = hb.schema.schema_of(model).table
    session.add_all(model(owner="ann", name=name, size=3, note="old") for name in NAMES)
    session.commit()
    before = raw(bed.store, table)
    session.add(model(owner="ann", name="x", size=4), ttl=timedelta(hours=1))
    session.commit()
    after = raw(bed.store, table)
    assert without(after, own(after)) == without(before, own(before))
    late = own(before)
    bed.store.put(table, [Put(row, {column: cell[1]}, cell[0]) for (row, column), cell in late.items()])
    assert raw(bed.store, table) == after
    found = session.get(model, owner="ann", name="x")
    assert (found.size, found.note) == (4, None)
