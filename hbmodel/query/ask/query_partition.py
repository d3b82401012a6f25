"""Partitions of a query, which another process can read because they consist of bytes, names and a reference to the
class.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Generic, TypeVar

from attrs import field, fields, frozen

from hbmodel.errors import DecodingError, QueryError
from hbmodel.mapping.collection_elements import element_of
from hbmodel.mapping.declare.with_table import with_table
from hbmodel.mapping.predicates import And, Comparison, Contains, In, Not, Or, Predicate, StartsWith
from hbmodel.mapping.schema import PRIMARY, TableSchema, schema_of
from hbmodel.query.ask.continuation_tokens import digest_of
from hbmodel.store.ranges import KeyRange

R_co = TypeVar("R_co", covariant=True)

COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")


@frozen
class QueryPartition(Generic[R_co]):
    """A part of a query, as returned by `Query.partitions`. `Session.read_partition` makes a query from it, in any
    process.

    A partition can be pickled. In the pickled form, the model is a reference to the class, fields are names, and values
    are bytes.

    Attributes:
        model: the class of the model.
        layout: digest of the layouts of the table and the index. It must be the same in the process that reads the
            partition.
        path: the path to read, `primary` or the name of an index.
        table: the table of the path.
        predicate: the query's predicate, see `described`; None for no predicate.
        selection: names of the selected fields, or None for whole objects.
        backwards: whether the partition is read from its last key to its first.
        full_scan: whether the query may read a whole table.
        ranges: start and stop (None: unbounded) of the partition's keys, salt included, sorted and disjoint.
        loading: names of the map columns that are read with the objects.
        moment: the time as of which the objects are read, or None.
    """

    model: type[Any]
    layout: bytes = field(repr=False)
    path: str
    table: str
    predicate: tuple[Any, ...] | None = field(repr=False)
    selection: tuple[str, ...] | None
    backwards: bool
    full_scan: bool
    ranges: tuple[tuple[bytes, bytes | None], ...] = field(repr=lambda ranges: f"<{len(ranges)}>")
    loading: tuple[str, ...] = ()
    moment: datetime | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        schema = schema_of(self.model)
        rest = tuple(getattr(self, attribute.name) for attribute in fields(type(self)) if attribute.name != "model")
        of = (self.model, None) if schema.declared is None else (schema.declared, schema.table)
        return _unpickled, (*of, *rest)

    @property
    def key_ranges(self) -> list[KeyRange]:
        """The keys of the partition."""
        return [KeyRange(start, stop) for start, stop in self.ranges]


def _unpickled(model: type[Any], table: str | None, *rest: Any) -> QueryPartition[Any]:
    """Makes the partition from its pickled values. A model from `with_table` is made again, because pickle cannot find
    its class by name.
    """
    return QueryPartition(model if table is None else with_table(model, table), *rest)


def layout_digest(schema: TableSchema, path: str) -> bytes:
    """Returns a digest of the layout of rows and entries. It is the same in every process with the same
    declarations.
    """
    specs = [schema.layout_spec, None if path == PRIMARY else schema.index(path).spec]
    return digest_of(schema.table, schema.family, json.dumps(specs, sort_keys=True))


def described(predicate: Predicate) -> tuple[Any, ...]:
    """Returns a predicate as nested tuples of text and bytes: operator, name of the field, bytes of the values."""
    match predicate:
        case Comparison(field, operator, value):
            return (operator, field.name, field.codec.encode(value))
        case In(field, values):
            return ("in", field.name, tuple(None if value is None else field.codec.encode(value) for value in values))
        case StartsWith(field, prefix):
            return ("prefix", field.name, prefix)
        case Contains(field, element, values):
            return (
                "contains",
                field.name,
                tuple(None if value is None else element.codec.encode(value) for value in values),
            )
        case And(parts):
            return ("and", *(described(part) for part in parts))
        case Or(parts):
            return ("or", *(described(part) for part in parts))
        case Not((part,)):
            return ("not", described(part))
    raise AssertionError(predicate)


def rebuilt(schema: TableSchema, description: object) -> Predicate:
    """Returns the predicate of a description.

    Raises:
        QueryError: this is not the description of a predicate of this model.
    """
    try:
        return _rebuilt(schema, description)
    except (TypeError, ValueError, DecodingError):
        raise QueryError(
            "The predicate in the partition does not fit this model: deploy the same model to all processes.",
            table=schema.table,
        ) from None


_COMBINED: Mapping[str, Callable[[tuple[Predicate, ...]], Predicate]] = {"and": And, "or": Or}


def _rebuilt(schema: TableSchema, description: Any) -> Predicate:
    kind, *rest = description
    if kind in _COMBINED:
        return _COMBINED[kind](tuple(_rebuilt(schema, part) for part in rest))
    if kind == "not":
        (part,) = rest
        return Not((_rebuilt(schema, part),))
    name, value = rest
    field = schema.field(name)
    if kind in COMPARISONS:
        return Comparison(field, kind, field.codec.decode(value))
    if kind == "in":
        return In(field, tuple(None if one is None else field.codec.decode(one) for one in value))
    if kind == "contains" and (element := element_of(field)) is not None:
        return Contains(field, element, tuple(None if one is None else element.codec.decode(one) for one in value))
    if kind == "prefix" and isinstance(value, str | bytes) and field.codec.python_type is type(value):
        return StartsWith(field, value)
    raise ValueError(kind)
