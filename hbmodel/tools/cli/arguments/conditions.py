"""Conditions and key fields that are given on the command line, such as `age>=18`."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from operator import eq, ge, gt, le, lt, ne
from typing import Any

from hbmodel.encoding.codecs import Codec
from hbmodel.errors import EncodingError, QueryError
from hbmodel.mapping.field_expressions import FieldExpression
from hbmodel.mapping.predicates import Predicate
from hbmodel.mapping.schema import TableSchema
from hbmodel.mapping.value_text import text_of_value, value_of_text
from hbmodel.tables.registry.table_from_registry import TableFromRegistry

CONDITION = re.compile(r"([^\s=!<>^]+) ?(<=|>=|!=|\^=|=|<|>) ?(.*)", re.DOTALL)
_COMPARE: Mapping[str, Callable[[Any, Any], Any]] = {"=": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}
NULL_CONDITION = re.compile(r"([^\s=!<>^]+) is (not )?null")


def value_of(table: TableFromRegistry, name: str, text: str) -> Any:
    """Parses the text of a value of a field.

    Raises:
        UnknownField: the model has no such field.
        EncodingError: the text is not a value of the field, or not the value of a member of its enumeration.
    """
    codec, members = table.schema.field(name).codec, table.members.get(name, {})
    value = value_of_text(codec, text, name)
    if not members or _stored(codec, value) in members:
        return value
    values = [codec.decode(code) for code in members]
    if not _is_combination(value, values):
        raise EncodingError(
            "The text is not the value of a member of the enumeration.",
            field=name,
            found=text,
            known=[
                f"{text_of_value(known)} ({member})" for known, member in zip(values, members.values(), strict=True)
            ],
        )
    return value


def _stored(codec: Codec[Any], value: Any) -> bytes | None:
    try:
        return codec.encode(value)
    except EncodingError:
        return None


def _is_combination(value: Any, members: Collection[Any]) -> bool:
    """Returns whether a value may be a combination of flags. The registry does not record whether an enumeration has
    flags.
    """
    flags = all(isinstance(each, int) and each >= 0 and each & (each - 1) == 0 for each in members)
    return flags and isinstance(value, int) and value & ~sum(members) == 0


def condition(table: TableFromRegistry, text: str) -> Predicate:
    """Returns the predicate of a condition such as `field>=value`. The field's codec parses the values, and no text is
    evaluated as code.

    Raises:
        QueryError: the text is not a condition.
        UnknownField: the model has no such field.
        EncodingError: the value is not valid for the field.
    """
    schema = table.schema
    if (null := NULL_CONDITION.fullmatch(text)) is not None:
        missing = _expression(schema, null[1]).is_(None)
        return ~missing if null[2] else missing
    matched = CONDITION.fullmatch(text)
    if matched is None:
        raise QueryError(
            "A condition is field=value, with =, !=, <, <=, >, >= or ^= (begins with), or: field is null.", found=text
        )
    name, operator, written = matched.groups()
    field = _expression(schema, name)
    if operator == "^=":
        return field.startswith(value_of_text(field.of.codec, written, name))
    value = value_of(table, name, written)
    predicate: Predicate = _COMPARE[operator](field, value)
    return predicate


def _expression(schema: TableSchema, name: str) -> FieldExpression[Any]:
    return FieldExpression(of=schema.field(name), model=schema.table)


def key_fields(table: TableFromRegistry, pairs: Sequence[str]) -> dict[str, Any]:
    """Returns the key fields given as `field=value` and `field is null`.

    Raises:
        QueryError: an argument has another form, does not name a key field, or repeats a field.
        EncodingError: a value is not valid for its field.
    """
    names = table.schema.layout.names
    values: dict[str, Any] = {}
    for text in pairs:
        null = NULL_CONDITION.fullmatch(text)
        name, equals, written = (null[1], "=", None) if null is not None and not null[2] else text.partition("=")
        if not equals or name not in names or name in values:
            raise QueryError("Give key fields as field=value, each once.", found=text, fields=list(names))
        values[name] = None if written is None else value_of(table, name, written)
    return values


def are_fields(schema: TableSchema, given: Sequence[str]) -> bool:
    """Returns whether arguments are key fields and not a pasted key."""
    return all(_field_named(text) in schema.layout.names for text in given)


def looks_like_field(text: str) -> bool:
    """Returns whether a text has the form of a field with its value, even if there is no such field."""
    name = _field_named(text)
    return name is not None and name.isidentifier()


def _field_named(text: str) -> str | None:
    """Returns the name in `field=value`, `field is null` or `field is not null`, or None for any other text."""
    name, equals, _ = text.partition("=")
    null = NULL_CONDITION.fullmatch(text)
    return name if equals else None if null is None else null[1]
