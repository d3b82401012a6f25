"""Rows that are decoded at once give what they give one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.mapping.rows.mapper import RowDecoder
from hbmodel.mapping.rows.row_batches import decode_objects
from hbmodel.mapping.rows.unreadable import TolerantDecoder, Unreadable
from hbmodel.mapping.schema import LIVE
from hbmodel.store import Row
from hbmodel.store.embedded.cells import StoredCell, StoredRow
from tests.support.examples import examples
from tests.support.random_queries import models, stored_objects
from tests.support.strategies import BYTES


def outcome(work: Callable[[], Any]) -> Any:
    """What a function returns, or what it raises."""
    try:
        return work()
    except hb.HbmodelError as error:
        return type(error), str(error)


def shown(values: Any) -> Any:
    return str(values.error) if isinstance(values, Unreadable) else values


@pytest.mark.lengthy
@settings(max_examples=examples(100), deadline=None)
@given(st.data())
def test_many_rows_mean_what_each_of_them_means(data: st.DataObject) -> None:
    of = data.draw(models(wide=True))
    schema = of.schema
    indexed, adopting = data.draw(st.booleans()), data.draw(st.booleans())
    names = data.draw(st.none() | st.sets(st.sampled_from([f.name for f in schema.fields])).map(frozenset))
    reader = RowDecoder.of(schema, indexed, names, adopting)
    if data.draw(st.booleans()):
        reader = TolerantDecoder.like(reader)
    columns = [*(f.column for f in schema.columns), schema.liveness_column]
    rows: list[Row] = []
    for obj in data.draw(stored_objects(of, indexed)):
        cells = dict(obj.cells)
        for column in data.draw(st.lists(st.sampled_from(columns), max_size=2)):
            change = data.draw(st.sampled_from(["gone", "dead", "live", "damaged"]))
            cells.pop(column, None)
            if change != "gone":
                cells[column] = {"dead": b"", "live": LIVE}.get(change) or data.draw(BYTES)
        key = data.draw(st.sampled_from([obj.row, obj.row, obj.row, obj.row[:-1] or b"\0", obj.row + b"\1"]))
        rows.append(StoredRow(key, {column: StoredCell(value, 1) for column, value in cells.items()}))

    width = schema.salt.width

    def one_by_one() -> list[Any]:
        return [(row.row[width:], shown(reader.values(row))) for row in rows if reader.exists(row)]

    def at_once() -> list[Any]:
        return [(key, shown(values)) for key, values in decode_objects(reader)(rows)]

    assert outcome(at_once) == outcome(one_by_one)


def test_the_objects_before_a_row_that_cannot_be_read_are_returned() -> None:
    @hb.model(table="row_batches_broken")
    class Item:
        number: hb.Key[int] = hb.key()
        size: hb.Column[int] = hb.column("s")

    store = hb.connect("memory:")
    hb.create_tables(store, Item)
    with hb.Session(store) as session:
        session.add_all(Item(number=number, size=number) for number in range(10))
    (batches,) = store.scan("row_batches_broken", [hb.store.Scan()])
    rows = [row for batch in batches for row in batch]
    store.put("row_batches_broken", [hb.store.Put(rows[3].row, {b"d:s": b"x"})])
    items = iter(hb.Session(store).query(Item).allow_full_scan())
    assert [next(items).number for _ in range(3)] == [0, 1, 2]
    with pytest.raises(hb.DecodingError) as caught:
        next(items)
    assert caught.value.key == rows[3].row
