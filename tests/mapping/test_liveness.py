"""Which rows are objects of a model, case by case."""

from __future__ import annotations

from typing import Any

import pytest

import hbmodel as hb
from hbmodel.mapping.rows.liveness import existence
from hbmodel.mapping.schema import LIVE
from hbmodel.store.embedded.cells import StoredCell, StoredRow

DEAD = b""
CASES = {
    "a required column": ({}, {"d:s": b"1"}, True, False, True),
    "another required column": ({}, {"d:t": b"1"}, True, False, True),
    "an optional column only": ({}, {"d:o": b"1"}, False, False, False),
    "no cell": ({}, {}, False, False, False),
    "a live cell only": ({}, {"d:_l": LIVE}, False, True, True),
    "a live cell with a time of expiry": ({}, {"d:_l": LIVE + b"12345678"}, False, True, True),
    "a live cell beside columns": ({}, {"d:_l": LIVE, "d:s": b"1"}, True, True, True),
    "a deleted row that an update has written to": ({}, {"d:_l": DEAD, "d:s": b"1"}, True, False, False),
    "a flag": ({"exists": hb.flag("e")}, {"d:e": b"\x01"}, True, False, True),
    "a flag of an insert that has only claimed the row": ({"exists": hb.flag("e")}, {"d:e": b""}, False, False, False),
    "columns without the flag": ({"exists": hb.flag("e")}, {"d:s": b"1"}, False, False, False),
    "any cell of an external table": ({"external": True}, {"d:other": b"1"}, True, False, True),
    "only cells of hbmodel in an external table": ({"external": True}, {"d:_l": LIVE}, False, True, True),
    "the cell that a model of an external table names": (
        {"external": True, "exists": "size"}, {"d:s": b"1"}, True, False, True
    ),
    "another cell of such a table": ({"external": True, "exists": "size"}, {"d:t": b"1"}, False, False, False),
}  # fmt: skip


@pytest.mark.parametrize(("options", "cells", "plain", "indexed", "adopting"), CASES.values(), ids=CASES)
def test_a_row_is_an_object(
    options: dict[str, Any], cells: dict[str, bytes], plain: bool, indexed: bool, adopting: bool
) -> None:
    """Of a table without indexes, of one in which each object has a liveness cell, and of one in which it may."""

    @hb.model(table="liveness_cases", family="d", **options)
    class Item:
        key: hb.Key[int] = hb.key()
        size: hb.Column[int] = hb.column("s")
        title: hb.Column[str] = hb.column("t")
        note: hb.Column[str | None] = hb.column("o", default=None)

    schema = hb.schema.schema_of(Item)
    assert schema.liveness_column == b"d:_l"
    row = StoredRow(b"k", {column.encode(): StoredCell(value, 1) for column, value in cells.items()})
    found = [existence(schema, *state)(row) for state in ((False, False), (True, False), (False, True))]
    assert found == [plain, indexed, adopting]
