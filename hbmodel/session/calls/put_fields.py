"""The fields that a put of a model must contain, and those that it may contain."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

from attrs import frozen

from hbmodel.errors import SessionError
from hbmodel.mapping.schema import TableSchema


@frozen
class PutFields:
    """The names of a model's fields, by their role in a put.

    Attributes:
        key: the fields of the key.
        required: the columns that have no default.
        blind: all fields, if rows of the model are put without a read. This is possible if any cell makes a row an
            object, because then it makes no difference whether the row exists. Empty for all other models.
    """

    table: str
    key: Set[str]
    required: tuple[str, ...]
    blind: Set[str]

    @classmethod
    def of(cls, schema: TableSchema) -> PutFields:
        """Returns the fields of a model, which are determined only once."""
        known: PutFields | None = schema.compiled.get("put")
        if known is not None:
            return known
        blind = schema.any_cell_shows and schema.blind_puts and not schema.immutable
        required = tuple(field.name for field in schema.columns if field.required)
        names = frozenset(schema.by_name) if blind else frozenset()
        return schema.keep("put", cls(schema.table, frozenset(schema.layout.names), required, names))

    def put_blindly(self, fields: Mapping[str, Any]) -> bool:
        """Whether these fields of a row are put without a read. All of them must be fields of the model, and at least
        one must not be in the key.

        Raises:
            SessionError: only the key is given, and no column is required.
        """
        if not self.blind:
            return False
        changes = fields.keys() - self.key
        if not changes and not self.required and len(fields) == len(self.key):
            raise SessionError(
                "put() writes only the cells of the given fields to a table of other programs, and none is given: give "
                "at least one field besides the key, or leave the row out.",
                table=self.table,
            )
        return bool(changes) and changes <= self.blind

    def check_complete(self, fields: Mapping[str, Any]) -> None:
        """Raises `SessionError` if a column without a default is not given."""
        missing = [name for name in self.required if name not in fields]
        if missing:
            raise SessionError(
                "put() creates the row if there is none, so it needs each column that has no default: give them, "
                "declare a default, or write update_key(), which needs a row that exists.",
                table=self.table,
                missing=missing,
            )
