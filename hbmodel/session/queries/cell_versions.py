"""Reads an object as of a time, and the versions of one of its columns."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, NamedTuple, TypeVar

from hbmodel.errors import DecodingError, QueryError, UnknownField
from hbmodel.mapping.field_expressions import FieldExpression
from hbmodel.mapping.predicates import And
from hbmodel.mapping.rows.mapper import KeyMapper, RowDecoder
from hbmodel.mapping.schema import LIVE, Field, TableSchema
from hbmodel.query.ask.argument_checks import whole
from hbmodel.query.ask.query import Query, Source
from hbmodel.query.ask.terms import QueryTerms
from hbmodel.session.get_many import known_rows
from hbmodel.store.port import Store, read_versions
from hbmodel.store.values import Cell
from hbmodel.tables.registry.registration import Binding

V = TypeVar("V")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class CellVersion(NamedTuple, Generic[V]):
    """One version of a column of an object.

    Attributes:
        time: the time of the write, in UTC, in whole milliseconds.
        value: the value that was written.
    """

    time: datetime
    value: V


def get_as_of(source: Source, schema: TableSchema, key: dict[str, Any]) -> Any:
    """Returns the object with a key, as of the time that is given together with the fields of the key, or None."""
    time = key.pop("as_of")
    if not known_rows(schema, key):
        return None
    values = zip(schema.layout.names, KeyMapper(schema).complete(key), strict=True)
    predicate = And(tuple(FieldExpression[Any](of=schema.field(name)) == value for name, value in values))
    return Query[Any](QueryTerms(schema, predicate), source).as_of(time).first()


def versions_of(
    store: Store,
    bind: Callable[[TableSchema], Binding],
    schema: TableSchema,
    expression: object,
    key: dict[str, Any],
    limit: Any,
) -> list[CellVersion[Any]]:
    """Returns the versions of a column of the object with a key, newest first; see `Session.versions`."""
    count = _most(schema, expression, limit)
    rows = known_rows(schema, key)
    if schema.salt.random or schema.replaces is not None:
        raise QueryError(
            "Objects whose row may be in several buckets or tables have no ordered versions: read the cells from "
            "the store.",
            table=schema.table,
        )
    if not rows:
        return []
    assert isinstance(expression, FieldExpression)
    return _versions(store, bind(schema), schema, expression.of, rows[0], count)


def asks_as_of(schema: TableSchema) -> bool:
    """Whether the argument `as_of` of a get is a time. If the model has a key field with this name, the argument is the
    value of that field.
    """
    return "as_of" not in schema.layout.names


def _most(schema: TableSchema, expression: object, limit: Any) -> int:
    """Returns the maximum number of versions of a field to read."""
    if not isinstance(expression, FieldExpression) or schema.by_name.get(expression.of.name) is not expression.of:
        raise UnknownField(
            "versions() takes a column as an attribute of the model class: Model.field.", table=schema.table
        )
    field: Field = expression.of
    family = next((family for family in schema.families if family.name == field.family), None)
    kept_versions = field.versions or (None if family is None else family.max_versions)
    if field.kind != "column" or kept_versions is None:
        raise QueryError(
            "The column keeps only its newest version: declare hb.column(versions=n).",
            table=schema.table,
            field=field.name,
        )
    return kept_versions if limit is None else min(kept_versions, whole(limit, "limit", 1))


def _versions(
    store: Store, binding: Binding, schema: TableSchema, field: Field, row: bytes, count: int
) -> list[CellVersion[Any]]:
    reader = RowDecoder.of(schema, binding.indexed, frozenset(), binding.adopting)
    # The liveness cell is read after the column. So if the object is deleted between the two reads, the versions that
    # were read are not returned.
    read = [] if binding.indexed else read_versions(store, schema.table, row, [field.column], count)
    (current,) = store.get(schema.table, [row], reader.columns)
    if current is None or not reader.exists(current):
        return []
    if binding.indexed or schema.liveness_column in current.columns:
        read = read_versions(store, schema.table, row, [field.column, schema.liveness_column], count)
    cells, *marks = read
    died = max((mark.timestamp for mark in (marks[0] if marks else ()) if mark.value[:1] != LIVE), default=-1)
    return [
        _version(schema, field, row, cell)
        for cell in cells
        if cell.timestamp > died and (cell.value or not field.empty_is_missing)
    ]


def _version(schema: TableSchema, field: Field, row: bytes, cell: Cell) -> CellVersion[Any]:
    try:
        time = _EPOCH + timedelta(milliseconds=cell.timestamp)
    except OverflowError:
        raise DecodingError(
            "The cell's timestamp is later than the year 9999.", table=schema.table, key=row, field=field.name
        ) from None
    try:
        return CellVersion(time, field.decode_cell(cell.value))
    except DecodingError as error:
        raise DecodingError(
            error.message, **{**error.details, "table": schema.table, "key": row, "field": field.name}
        ) from None
