"""Assigns one id to a name of a dictionary, also under concurrent requests, as a sans-IO generator.

A new id is taken from the counter, then claimed for the name in the table of ids, and then put under the name in the
table of names. Cells of both tables are put only if absent and never change. So a reader that finds an id by its name
also finds the name by the id. A name has one id, and an id one name, even if the counter was set back. A program that
dies, or is slower than another one with the same name, leaves an unused id: a gap.
"""

from __future__ import annotations

from collections.abc import Sequence

from hbmodel.mapping.dictionary_tables import DictionaryTables
from hbmodel.protocol.operations import CheckAndPut, GetRows, Increment, Protocol
from hbmodel.store.values import Put, Row


def claim_name(of: DictionaryTables, name: str) -> Protocol[int]:
    """Returns the id of a name, which gets one if it has none; raises `IdsExhausted`."""
    row = name.encode()
    while True:
        found = yield from _cell(of.name_table, row, of.id_column)
        if found is not None:
            return of.ids.decode(found)
        claimed = yield from _claim_id(of, row)
        if (yield CheckAndPut(of.name_table, row, of.id_column, b"", Put(row, {of.id_column: claimed}))):
            return of.ids.decode(claimed)


def _claim_id(of: DictionaryTables, name: bytes) -> Protocol[bytes]:
    """The id that belongs to the name from now on, and to no other name."""
    while True:
        claimed = of.packed((yield Increment(of.counter.table, of.counter.row, of.counter.column, 1)))
        if (yield CheckAndPut(of.id_table, claimed, of.name_column, b"", Put(claimed, {of.name_column: name}))):
            return claimed
        # Refused: another name has the id, since the counter was set back, or an earlier call for this name has landed.
        if (yield from _cell(of.id_table, claimed, of.name_column)) == name:
            return claimed


def _cell(table: str, row: bytes, column: bytes) -> Protocol[bytes | None]:
    rows: Sequence[Row | None] = yield GetRows(table, [row], [column])
    found = rows[0]
    return None if found is None or column not in found.columns else found.columns[column].value
