"""What the registry says of a model: its layout, the states of its indexes, and the binding that follows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

from attrs import field, frozen

from hbmodel.errors import IndexUnavailable
from hbmodel.mapping.mapper import RowDecoder
from hbmodel.mapping.schema import Index, TableSchema

ABSENT, READABLE = "absent", "readable"
STATES = (ABSENT, "write-only", "building", "verifying", READABLE)
"""The life of an index; writes keep it from the second state on, reads use it in the last. One that this version does not know is
none of the ends: writes keep it, reads do not use it."""

RowState = Literal["unindexed", "adopting", "indexed"]
"""Which rows of a table are live: those with any cell of an object; those whose liveness cell says so, and older ones without such a
cell; only those whose liveness cell says so."""

ROW_STATES: Sequence[RowState] = ("unindexed", "adopting", "indexed")


@frozen
class IndexState:
    """One index as the registry knows it."""

    state: str
    table: str
    spec: Mapping[str, Any]


@frozen
class Registration:
    """One table as the registry knows it, with the bytes that a change must be checked against."""

    layout: Mapping[str, Any]
    indexes: Mapping[str, IndexState]
    rows: RowState
    cells: Mapping[bytes, bytes] = field(repr=False)


@frozen(eq=False)
class Binding:
    """A model as it may be used right now.

    Attributes:
        schema: of the model.
        written: indexes that writes must keep, with their live tables.
        readable: indexes that queries may use.
        unknown: names of live indexes that the model does not declare; it may then read but not write.
        rows: which rows of the table are live.
    """

    schema: TableSchema
    written: Sequence[Index]
    readable: Sequence[Index]
    unknown: Sequence[str]
    rows: RowState = "unindexed"

    @property
    def indexed(self) -> bool:
        """Whether rows are written with system cells."""
        return self.rows != "unindexed"

    @property
    def adopting(self) -> bool:
        """Whether rows without system cells are live too."""
        return self.rows == "adopting"

    @cached_property
    def reader(self) -> RowDecoder:
        """Decodes whole objects."""
        return RowDecoder.of(self.schema, self.indexed, None, self.adopting)

    def check_writable(self) -> None:
        """Raises `IndexUnavailable` where writing would leave a live index behind."""
        if self.unknown:
            raise IndexUnavailable(
                "The table has a live index that the model does not declare: it may read, but a write would leave the index behind.",
                table=self.schema.table, index=self.unknown[0],
            )  # fmt: skip
