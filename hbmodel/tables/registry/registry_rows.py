"""The row keys of the registry table, and the columns of its rows.

Row key: `<table>` 00 `<family>`, followed by 00 `<kind>` if the model has a kind. Family `m`: `m:layout` is the layout
as canonical JSON, `m:rows` says which rows of the table are live, and `m:i.<index>` has the state, the table and the
layout of one index. Row 00 holds `m:clock`, which sessions put to learn the server's time.
"""

from __future__ import annotations

from attrs import frozen

from hbmodel.mapping.schema import TableSchema
from hbmodel.store.key_text import shell_text

FAMILY = b"m"
LAYOUT = b"m:layout"
INDEX_PREFIX = b"m:i."
ROWS = b"m:rows"
MODEL_ROWS = b"\x03"  # rows with smaller keys hold the clock, work in progress, and the writers' roll
CLOCK_ROW = b"\x00"
CLOCK = b"m:clock"


@frozen
class RegistryKey:
    """The identity of a model in the registry, which consists of its table, its default column family, and its kind if
    it has one.
    """

    table: str
    family: bytes
    kind: bytes = b""

    @classmethod
    def of_row(cls, table: str, row: bytes) -> RegistryKey:
        """Returns the key of the model to which a row of the registry belongs."""
        family, _, kind = row[len(table.encode()) + 1 :].partition(b"\x00")
        return cls(table, family, kind)

    @property
    def shown(self) -> str:
        """The family as text for people. If the model has a kind, it follows as HBase's shell prints it."""
        return " ".join([self.family.decode(errors="replace"), *([shell_text(self.kind)] if self.kind else [])])


def registry_row(schema: TableSchema | RegistryKey) -> bytes:
    """Returns the registry's row of a model."""
    return schema.table.encode() + b"\x00" + schema.family + (b"\x00" + schema.kind if schema.kind else b"")


def index_cell(name: str) -> bytes:
    """Returns the cell of an index. `name` is the name with which the index was first registered."""
    return INDEX_PREFIX + name.encode()
