"""The writes that a session requests, and their outcomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any, Literal

from attrs import evolve, frozen

from hbmodel.encoding.codecs.dictionary import claiming
from hbmodel.errors import HbmodelError, RowNotFound
from hbmodel.mapping.model_field import NO_CELL
from hbmodel.mapping.predicates import Predicate
from hbmodel.mapping.rows.mapper import LARGE, check_size, entries_of, take, version_of
from hbmodel.mapping.schema import TableSchema
from hbmodel.mapping.version_cell import UNKNOWN


@frozen(eq=False)
class PutObject:
    """Puts a whole object (insert or overwrite).

    Attributes:
        row: the row key of the object; with a random salt, the drawn bucket is part of it.
        entries: row keys of the entries in each declared index, by the index's name.
        ttl: the TTL of the row and its entries in ms, or None.
        version: the version that the row must have, or 0 for any.
        end: the time at which the row expires, in ms since 1970, if this time is fixed before the row's timestamp. In
            this case, `ttl` only shows that the row expires.
    """

    subject: Any
    row: bytes
    cells: Mapping[bytes, bytes]
    entries: Mapping[str, Sequence[bytes]]
    ttl: int | None = None
    version: int = UNKNOWN
    end: int | None = None

    def at(self, timestamp: int) -> PutObject:
        """Returns the put at a timestamp. Its TTL is the time left until `end`; it is zero or negative if `end` has
        passed.
        """
        return self if self.end is None else evolve(self, ttl=self.end - timestamp)

    def over(self, earlier: PutObject) -> PutObject:
        """Returns this put combined with the map entries of an earlier put of the same row."""
        return evolve(self, cells={**earlier.cells, **self.cells})

    def moved_to(self, row: bytes) -> PutObject:
        """Returns the put in another bucket of a random salt. The byte of the bucket is the first byte of the row key
        and the last byte of each entry's key.
        """
        return evolve(
            self,
            row=row,
            entries={name: tuple(e[:-1] + row[:1] for e in entries) for name, entries in self.entries.items()},
        )


@frozen(eq=False)
class UpdateFields:
    """Writes some columns of a row that must exist. With a TTL (in ms), the whole row gets this TTL.

    The values in `changes` are encoded only after the row has been read. So no other code may keep references to them,
    through which they could be changed before that. The row of a versioned model must have the version `version`, where
    0 stands for any version, and must satisfy `condition`, if there is one.
    """

    subject: Any
    row: bytes
    key: Mapping[str, Any]
    changes: Mapping[str, Any]
    ttl: int | None = None
    version: int = UNKNOWN
    condition: Predicate | None = None


def under_condition(schema: TableSchema, write: UpdateFields) -> bool:
    """Returns whether an update of a model without indexes may put its cells only if its row was not deleted since the
    read.

    Cells that do not make a row exist usually need no condition: readers do not see them without a row, and a put of a
    whole object overwrites them. But a put does not overwrite the entries of map columns, and in a table that other
    programs fill, their puts may leave cells out. So updates of map entries, and all updates in such a table, have a
    condition.
    """
    if schema.external or not schema.maps_by_name.keys().isdisjoint(write.changes):
        return True
    if schema.exists_column is not None:
        return False
    return not schema.required_columns or any(schema.by_name[name].required for name in write.changes)


@frozen(eq=False)
class DeleteRow:
    """Deletes a row if it exists. The version and the condition are used as in an update."""

    subject: Any
    row: bytes
    version: int = UNKNOWN
    condition: Predicate | None = None


RowWrite = PutObject | UpdateFields | DeleteRow


def put_object(schema: TableSchema, obj: Any, ttl: int | None = None) -> PutObject:
    """Encodes the row key, the cells and the index entries of a whole object, so that every mistake is detected before
    any call.
    """
    if schema.dictionaries:
        with claiming():
            values, row, cells = take(schema, obj)
    else:
        values, row, cells = take(schema, obj)
    entries = entries_of(schema, values, row) if schema.indexes else {}
    if sum(map(len, cells.values())) > LARGE:
        for field in schema.columns:
            if field.kind == "column":
                covering = [
                    entry
                    for index in schema.indexes.values()
                    if field.name in index.covers
                    for entry in entries[index.name]
                ]
                check_size(schema, field, cells[field.column], row, *covering)
    return PutObject(
        obj, row, cells, entries, ttl, UNKNOWN if schema.version_field is None else version_of(schema, obj)
    )


@frozen
class Outcome:
    """The outcome of one write.

    Attributes:
        action: `put`, `deleted`, `absent` (there was nothing to delete), `superseded` (a later write of the same commit
            has put the same key) or `failed`.
        key: the row key.
        timestamp: the timestamp of the cells, in ms; None if the server set it.
        error: the error of a failed write.
        version: the version of the row that was put, for a versioned model.
    """

    action: Literal["put", "deleted", "absent", "superseded", "failed"]
    key: bytes
    timestamp: int | None = None
    error: HbmodelError | None = None
    version: int | None = None


def without_nulls(cells: Mapping[bytes, bytes], optional: Set[bytes]) -> dict[bytes, bytes]:
    """Returns the cells without the empty cells of `optional` columns. In all other columns, `NO_CELL` becomes an empty
    cell: a row with system cells stores None as an empty cell, even if the model otherwise stores None as a missing
    cell.
    """
    return {
        column: b"" if value is NO_CELL else value for column, value in cells.items() if value or column not in optional
    }


def not_found(schema: TableSchema, row: bytes) -> RowNotFound:
    """Returns the error of an update of a row that does not exist."""
    return RowNotFound(
        "There is no row with this key to update: add() or insert() creates one.", table=schema.table, key=row
    )
