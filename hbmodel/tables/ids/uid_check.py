"""Compares OpenTSDB's table of ids with the declaration of a dictionary."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from difflib import get_close_matches
from typing import Any

from attrs import frozen

from hbmodel.encoding.codecs.opentsdb_uids import COUNTER_ROW, UidDictionary
from hbmodel.errors import SchemaMismatch, TableNotFound
from hbmodel.mapping.declare.uid_tables import IDS, NAMES, uid_tables_of
from hbmodel.store.port import Store
from hbmodel.store.values import Family, Scan

SAMPLE = 100
"""The maximum number of names whose ids are read, and of ids whose names are read."""

TABLES_SHOWN = 10
"""The maximum number of existing tables that an error names."""

FAMILIES = (Family(IDS.encode()), Family(NAMES.encode()))


@frozen
class UidDifference:
    """A difference between a table and the declaration of an OpenTSDB dictionary; `live` is None if something is
    missing.
    """

    what: str
    declared: Any
    live: Any

    def __str__(self) -> str:
        return f"{self.what}: {self.declared}, not {'missing' if self.live is None else self.live}"


def uid_differences(store: Store, dictionary: UidDictionary) -> Iterator[UidDifference]:
    """Yields the differences between an existing table and the declaration. Only a sample of the table's rows is
    read.
    """
    live = {family.name for family in store.families(dictionary.table)}
    missing = [family.name for family in FAMILIES if family.name not in live]
    for family in missing:
        yield UidDifference(f"family {family.decode()}", family.decode(), None)
    if missing:
        return
    tables = uid_tables_of(dictionary)
    kind, width = dictionary.kind, dictionary.width
    (row,) = store.get(dictionary.table, [COUNTER_ROW], [tables.counter.column])
    if row is not None and (length := len(row.columns[tables.counter.column].value)) != 8:
        yield UidDifference(f"counter of {kind}", "8 bytes", f"{length} bytes")
    scans = [Scan(columns=[column], limit=SAMPLE + 1) for column in (tables.id_column, tables.name_column)]
    by_name, by_id = ([row for batch in batches for row in batch] for batches in store.scan(dictionary.table, scans))
    lengths = {len(row.columns[tables.id_column].value) for row in by_name if row.row != COUNTER_ROW}
    lengths |= {len(row.row) for row in by_id}
    for length in sorted(lengths - {width}):
        yield UidDifference(f"ids of {kind}", f"{width} bytes", f"{length} bytes")


def check_uids(store: Store, dictionary: UidDictionary) -> None:
    """Raises `SchemaMismatch` if the table differs from the declaration of the dictionary, and `TableNotFound` if it
    does not exist.
    """
    differences = list(uid_differences(store, dictionary))
    if differences:
        raise SchemaMismatch(
            "The table has no such ids of OpenTSDB: correct the name of the table, or the width of the ids.",
            table=dictionary.table,
            kind=dictionary.kind,
            differences=list(map(str, differences)),
        )


def check_uid_table_exists(dictionary: UidDictionary, existing: Collection[str]) -> None:
    """Raises `TableNotFound` if OpenTSDB has not created the table."""
    if dictionary.table not in existing:
        raise TableNotFound(
            "OpenTSDB's table of ids does not exist: correct the name of the table. If OpenTSDB will not create it, "
            "call hb.create_tables(..., create_external=True).",
            table=dictionary.table,
            known=get_close_matches(dictionary.table, existing) or sorted(existing)[:TABLES_SHOWN],
        )
