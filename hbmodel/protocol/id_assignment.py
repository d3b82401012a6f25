"""Assigns one id to a name of a dictionary, even under concurrent requests, as a sans-IO generator.

A new id is taken from the counter, then claimed for the name in the table of ids, and then put under the name in the
table of names. Cells of both tables are put only if absent and never change. So a reader that finds an id by its name
also finds the name by the id. A name has one id, and an id one name, even if the counter was reset. If a program
crashes, or another program is faster to assign an id to the same name, an unused id remains: a gap.
"""

from __future__ import annotations

from collections.abc import Sequence

from hbmodel.mapping.declare.dictionary_tables import DictionaryTables
from hbmodel.protocol.operations import CheckAndPut, GetRows, Increment, Protocol
from hbmodel.store.values import Put, Row


def claim_name(tables: DictionaryTables, name: str) -> Protocol[int]:
    """Returns the id of a name, and assigns one if the name has none. Raises `IdsExhausted`."""
    row = name.encode()
    while True:
        stored = yield from _cell(tables.name_table, row, tables.id_column)
        if stored is not None:
            return tables.ids.decode(stored)
        claimed = yield from _claim_id(tables, row)
        if (yield CheckAndPut(tables.name_table, row, tables.id_column, b"", Put(row, {tables.id_column: claimed}))):
            return tables.ids.decode(claimed)


def _claim_id(tables: DictionaryTables, name: bytes) -> Protocol[bytes]:
    """Claims an id for the name, and returns it. From now on, the id belongs only to this name."""
    while True:
        claimed = tables.packed((yield Increment(tables.counter.table, tables.counter.row, tables.counter.column, 1)))
        if (
            yield CheckAndPut(
                tables.id_table, claimed, tables.name_column, b"", Put(claimed, {tables.name_column: name})
            )
        ):
            return claimed
        # The put was refused. Either another name has the id, because the counter was set back, or an earlier attempt
        # of this put was carried out.
        if (yield from _cell(tables.id_table, claimed, tables.name_column)) == name:
            return claimed


def _cell(table: str, row: bytes, column: bytes) -> Protocol[bytes | None]:
    rows: Sequence[Row | None] = yield GetRows(table, [row], [column])
    current = rows[0]
    return None if current is None or column not in current.columns else current.columns[column].value
