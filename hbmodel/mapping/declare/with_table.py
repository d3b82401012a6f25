"""Models with the declarations of another model and a different table, whose name is known only at run time."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock
from typing import Any, TypeVar

import attrs

from hbmodel.errors import DeclarationError
from hbmodel.mapping.declare.allowed_names import check_table
from hbmodel.mapping.declare.map_declaration import Map, MapExpression
from hbmodel.mapping.schema import schema_of

C = TypeVar("C")

_MAKING = Lock()


def with_table(model: type[C], table: str) -> type[C]:
    """Returns a model with the same fields, indexes and options, whose objects are in another table.

    Use it if programs learn the names of tables at run time, such as one table for each crawl or each customer. Declare
    the model once, for any of the tables. The result is a subclass of the model with the same name, so type checkers
    know its fields. Its index tables are `<table>.<index>`; the dictionaries of its fields keep their tables. Its
    tables are created, verified and dropped like those of any model.

    While the result is in use, further calls for the same table return the same class. Objects, and partitions of its
    queries, can be pickled if those of the original model can.

    Args:
        model: the declared model, or a result of this function.
        table: name of the primary table, `namespace:name` or `name`.

    Raises:
        DeclarationError: the class is not a model; the name is not a valid table name; or the model replaces another
            model, whose rows can be moved into only one table.
    """
    schema = schema_of(model)
    if schema.declared is not None:
        return with_table(schema.declared, table)
    check_table(model.__name__, table)
    if table == schema.table:
        return model
    if schema.replaces is not None:
        raise DeclarationError(
            "The model replaces another one, whose objects can move only into the declared table: for other tables, "
            "declare a model without replaces=.",
            model=model.__name__,
            table=table,
        )
    with _MAKING:
        found: type[C] | None = schema.of_tables.get(table)
        if found is None:
            found = schema.of_tables[table] = _made(model, table)
    return found


def _made(model: type[C], table: str) -> type[C]:
    schema = schema_of(model)
    indexes = {name: attrs.evolve(index, table=f"{table}.{name}") for name, index in schema.indexes.items()}
    same = {name: getattr(model, name) for name in ("__module__", "__qualname__", "__doc__")}
    made: Any = type(model.__name__, (model,), {**same, **indexes, "__reduce__": _reduced})
    for entries in schema.maps:
        setattr(made, entries.name, Map(MapExpression[Any, Any](entries, made)))
    made.__hbmodel__ = attrs.evolve(schema, model=made, table=table, indexes=indexes, declared=model)
    return made  # type: ignore[no-any-return]


def _reduced(obj: Any) -> tuple[Any, ...]:
    """Pickles an object. Its class is made again, because pickle cannot find it by name."""
    schema = schema_of(type(obj))
    return _restored, (schema.declared, schema.table, vars(obj))


def _restored(model: type[C], table: str, state: Mapping[str, Any]) -> C:
    made = with_table(model, table)
    obj = made.__new__(made)
    vars(obj).update(state)
    return obj
