"""Conditions and key fields that are given on the command line, such as `age>=18`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from operator import eq, ge, gt, le, lt, ne
from typing import Any

from hbmodel.errors import QueryError
from hbmodel.mapping.expressions import FieldExpression
from hbmodel.mapping.predicates import Predicate
from hbmodel.mapping.schema import TableSchema
from hbmodel.mapping.value_text import value_of_text

CONDITION = re.compile(r"([^\s=!<>^]+) ?(<=|>=|!=|\^=|=|<|>) ?(.*)", re.DOTALL)
_COMPARE: Mapping[str, Callable[[Any, Any], Any]] = {"=": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}
NULL_CONDITION = re.compile(r"([^\s=!<>^]+) is (not )?null")


def value_of(schema: TableSchema, name: str, text: str) -> Any:
    """Parses the text of a field's value."""
    return value_of_text(schema.field(name).codec, text, name)


def condition(schema: TableSchema, text: str) -> Predicate:
    """The predicate of a condition such as `field>=value`. Values are parsed by the field's codec; no text is evaluated
    as code.

    Raises:
        QueryError: the text is not a condition.
        UnknownField: the model has no such field.
        EncodingError: the value is not valid for the field.
    """
    if (null := NULL_CONDITION.fullmatch(text)) is not None:
        missing = _expression(schema, null[1]).is_(None)
        return ~missing if null[2] else missing
    matched = CONDITION.fullmatch(text)
    if matched is None:
        raise QueryError(
            "A condition is field=value, with =, !=, <, <=, >, >= or ^= (begins with), or: field is null.", found=text
        )
    name, operator, written = matched.groups()
    field, value = _expression(schema, name), value_of(schema, name, written)
    if operator == "^=":
        return field.startswith(value)
    predicate: Predicate = _COMPARE[operator](field, value)
    return predicate


def _expression(schema: TableSchema, name: str) -> FieldExpression[Any]:
    return FieldExpression(of=schema.field(name), model=schema.table)


def key_fields(schema: TableSchema, pairs: Sequence[str]) -> dict[str, Any]:
    """The key fields given as `field=value` and `field is null`.

    Raises:
        QueryError: an argument has another form, does not name a key field, or repeats a field.
    """
    values: dict[str, Any] = {}
    for text in pairs:
        null = NULL_CONDITION.fullmatch(text)
        name, equals, written = (null[1], "=", None) if null is not None and not null[2] else text.partition("=")
        if not equals or name not in schema.layout.names or name in values:
            raise QueryError("Give key fields as field=value, each once.", found=text, fields=list(schema.layout.names))
        values[name] = None if written is None else value_of(schema, name, written)
    return values


def are_fields(schema: TableSchema, given: Sequence[str]) -> bool:
    """Whether arguments are key fields, and not a pasted key."""
    return all(_field_named(text) in schema.layout.names for text in given)


def _field_named(text: str) -> str | None:
    """The name in `field=value`, `field is null` or `field is not null`; None for any other text."""
    name, equals, _ = text.partition("=")
    null = NULL_CONDITION.fullmatch(text)
    return name if equals else None if null is None else null[1]
