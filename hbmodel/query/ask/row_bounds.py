"""The objects given to `Query.before` and `Query.after`, which keep only the items before or after an object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from hbmodel.errors import QueryError
from hbmodel.mapping.field_expressions import FieldExpression
from hbmodel.mapping.schema import TableSchema


@frozen(eq=False)
class RowBound:
    """An object with which a query's items are compared.

    Attributes:
        values: field values by name: all stored fields of an object, or the given values.
        above: True to keep the items after the object, False to keep the items before it, in the order that the query
            has without `reversed()`.
    """

    values: Mapping[str, Any]
    above: bool


def row_bound(schema: TableSchema, item: object, above: bool) -> RowBound:
    """Makes the bound from an object, a mapping of fields or the values of a key.

    Raises:
        QueryError: the item is none of these.
    """
    if isinstance(item, schema.model):
        return RowBound(
            {name: getattr(item, name) for name, field in schema.by_name.items() if field.reads == {name}}, above
        )
    if isinstance(item, Mapping):
        given = dict(item)
    elif isinstance(item, Sequence) and not isinstance(item, str | bytes):
        given = dict(zip(schema.layout.names, item, strict=False))
        if len(given) < len(schema.layout.names) or len(item) != len(given):
            raise QueryError(
                "Give a value for every field of the key.",
                table=schema.table,
                fields=schema.layout.names,
                found=len(item),
            )
    else:
        raise QueryError(
            "before() and after() take an object of the model, a mapping of its fields, or the values of its key.",
            table=schema.table,
            found=type(item).__name__,
        )
    return RowBound(
        {name: FieldExpression[Any](of=schema.field(name)).checked(value) for name, value in given.items()}, above
    )
