"""Checks of the arguments of query methods."""

from __future__ import annotations

from typing import Final, SupportsIndex

from hbmodel.errors import QueryError, UnknownField
from hbmodel.mapping.declare.map_declaration import MapExpression
from hbmodel.mapping.field_expressions import FieldExpression
from hbmodel.mapping.predicates import Predicate
from hbmodel.mapping.schema import Field, TableSchema
from hbmodel.store.checks.numbers import whole_number

MOST: Final = 2**60
"""The maximum limit, offset and page size, which is far above the number of rows of any table."""

NO_FORMER_ENTRIES = (
    "An index holds no earlier values, so a query with as_of() reads the primary table: leave out use_index()."
)
NO_FORMER_MAPS = "Map columns cannot be read as of a time: leave out load()."


def whole(count: SupportsIndex, argument: str, least: int = 0) -> int:
    """Returns the argument as an int. Raises `QueryError` if it is not a whole number between `least` and `MOST`."""
    number = whole_number(count)
    if number is None or number < least:
        raise QueryError(
            f"Give a whole number of at least {'one' if least else 'zero'}.", argument=argument, found=repr(count)
        )
    if number > MOST:
        raise QueryError("Give a whole number of at most 2**60.", argument=argument, found=repr(count))
    return number


def given_token(after: str | None, before: str | None) -> tuple[str | None, bool]:
    """Returns the token that was given, or None, and whether it is for the previous page; raises `QueryError` if both
    were given.
    """
    if after is not None and before is not None:
        raise QueryError("Give after= for the next page or before= for the previous page, not both.")
    return (after, False) if before is None else (before, True)


def field_of(part: object) -> Field:
    """Returns the field of an expression; raises `QueryError` for anything else."""
    if isinstance(part, MapExpression):
        raise QueryError("A map column cannot be given here: load() or session.entries() reads it.", field=part.of.name)
    if not isinstance(part, FieldExpression):
        raise QueryError(
            "Give fields as attributes of the model class: Model.field, or Model.field.desc() in an order.",
            found=type(part).__name__,
        )
    return part.of


def check_field(schema: TableSchema, field: Field) -> None:
    """Raises `UnknownField` for a field of another model."""
    if schema.by_name.get(field.name) is not field:
        raise UnknownField(
            "The field belongs to another model: use fields of the model that is queried.",
            table=schema.table,
            field=field.name,
        )


def check_own(schema: TableSchema, predicate: Predicate) -> None:
    """Raises `UnknownField` for a predicate on a field of another model."""
    parts = getattr(predicate, "parts", None)
    if parts is not None:
        for part in parts:
            check_own(schema, part)
    else:
        field: Field = predicate.field  # type: ignore[attr-defined]
        check_field(schema, field)
