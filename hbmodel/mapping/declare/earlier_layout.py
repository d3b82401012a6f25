"""The earlier layout of a model whose key changes, and the checks that objects can be moved to the new layout."""

from __future__ import annotations

from collections.abc import Collection
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from attrs import evolve

from hbmodel.encoding.codecs.base import Codec
from hbmodel.errors import DeclarationError
from hbmodel.mapping.schema import TableSchema

_EXACT = frozenset({bool, int, float, str, bytes, Decimal, date, datetime, timedelta, UUID})
"""Types whose codecs return no values of subclasses."""

_NOT_STORED = frozenset({(bool, int), (datetime, date)})
"""Pairs of a subclass and its base class, such that codecs of the base class do not store values of the subclass."""


def earlier_layout(schema: TableSchema, earlier: TableSchema) -> TableSchema:
    """Returns the schema of the table that a model replaces. With this schema, the rows of that table are decoded to
    objects of the new model.

    Raises:
        DeclarationError: objects cannot be moved from one layout to the other; the error says why.
    """
    check_movable(schema, schema)
    check_movable(schema, earlier)
    if schema.table == earlier.table:
        raise _mistake(
            schema, "The new layout needs its own table: its name must differ from that of the table that it replaces."
        )
    if earlier.replaces is not None:
        raise _mistake(
            schema, "The replaced model still replaces another one: finish that migration, then remove its replaces=."
        )
    if sorted(schema.layout.names) != sorted(earlier.layout.names):
        raise _mistake(
            schema,
            "Both layouts must have the same key fields, in any order: otherwise several objects of one layout could "
            "have the same key in the other.",
            fields=sorted({*schema.layout.names} ^ {*earlier.layout.names}),
        )
    mine, theirs = ({field.name: field.kind for field in each.columns} for each in (schema, earlier))
    if mine != theirs:
        raise _mistake(
            schema,
            "Both layouts must have the same columns.",
            fields=sorted({name for name, _ in mine.items() ^ theirs.items()}),
        )
    for field in schema.fields:
        new_types, types = _types(field.codec), _types(earlier.by_name[field.name].codec)
        if not _may_store(new_types, types):
            raise _mistake(
                schema,
                "The codec of the new layout cannot store the values of this field, which have another type in the "
                "earlier layout: declare a codec of that type. To change the type of a column, replace the column "
                "before or after the move.",
                field=field.name,
                expected=_named(types, new_types),
                found=_named(new_types, types),
            )
    rounded = [
        field.name
        for field in schema.fields
        if field.codec.exact != field.codec and field.codec.spec != earlier.by_name[field.name].codec.spec
    ]
    if rounded:
        raise _mistake(
            schema,
            "A field of the new layout rounds, so a move would change objects or merge them: move them with a codec "
            "without round=True, and declare round=True afterwards.",
            fields=rounded,
        )
    if schema.immutable != earlier.immutable:
        raise _mistake(schema, "Both layouts must be immutable, or neither.")
    return evolve(earlier, model=schema.model, successor=schema.table)


def _types(codec: Codec[Any]) -> tuple[type, ...]:
    """Returns the types of a codec's values, or only `object` if one of the types is not a class."""
    types = codec.python_type if isinstance(codec.python_type, tuple) else (codec.python_type,)
    return types if all(isinstance(each, type) for each in types) else (object,)


def _may_store(new: Collection[type], earlier: Collection[type]) -> bool:
    """Whether a codec for the types `new` may store values that a codec for the types `earlier` returns."""
    return any(_stores(mine, theirs) for mine in new for theirs in earlier)


def _stores(new: type, earlier: type) -> bool:
    if new is float and issubclass(earlier, int):
        return earlier is not bool
    if (earlier, new) in _NOT_STORED:
        return False
    return issubclass(earlier, new) or (earlier not in _EXACT and issubclass(new, earlier))


def _named(types: Collection[type], others: Collection[type]) -> str:
    """Returns the names of types, with their modules if another type has the same name."""
    same = {each.__name__ for each in types} & {each.__name__ for each in others}
    return " or ".join(f"{each.__module__}.{each.__qualname__}" if same else each.__name__ for each in types)


def check_movable(schema: TableSchema, earlier: TableSchema) -> None:
    """Raises `DeclarationError` if objects cannot be moved from or to the layout `earlier`."""
    if earlier.versioned:
        _check_versioned(schema, earlier)
    if earlier.wide is not None or earlier.maps:
        raise _mistake(schema, "Objects that share rows or have map columns cannot be moved this way: " + _OFFLINE)
    if earlier.salt.random:
        raise _mistake(
            schema,
            "A table with a random salt cannot be moved this way, because a repeated copy would be in "
            "another bucket: " + _OFFLINE,
        )
    if earlier.dictionaries:
        raise _mistake(schema, "A table with fields of a dictionary cannot be moved this way: " + _OFFLINE)
    if not earlier.immutable and any((family.max_versions or 1) > 1 for family in earlier.families):
        raise _mistake(
            schema,
            "A table whose cells keep several versions cannot be moved: only the newest versions would be copied.",
        )
    if earlier.external:
        raise _mistake(
            schema, "A table that other programs write cannot be moved: they would continue to write the old one."
        )


def _check_versioned(schema: TableSchema, earlier: TableSchema) -> None:
    """Raises `DeclarationError` for a versioned layout whose rows cannot be sealed and moved one by one."""
    if any(index.unique for index in earlier.indexes.values()):
        raise _mistake(
            schema,
            "The key of a versioned model with a unique index cannot be changed this way: drop the index with "
            "hb.indexes.drop_index(), move the objects with models that do not declare it, and build it again with "
            "hb.indexes.build_index(). Until then no value is checked, and the build lists rows that share one. "
            "Or " + _OFFLINE,
        )
    if any(column.kind == "counter" for column in earlier.columns):
        raise _mistake(schema, "The key of a versioned model with counters cannot be changed this way: " + _OFFLINE)


_OFFLINE = (
    "stop the programs that write the table, read every object, with .load(Model.field) for each map column, add each "
    "object with the new model to an empty table, and increment its counters there with session.increment() after the "
    "commit. If that fails, empty the new table and begin again. Then start the programs with the new model."
)


def _mistake(schema: TableSchema, message: str, **details: Any) -> DeclarationError:
    return DeclarationError(message, model=schema.model.__name__, table=schema.table, **details)
