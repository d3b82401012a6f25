"""Shared parts of the commands that read a table by its description in the registry: options, conditions, and
output.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import eq, ge, gt, le, lt, ne
from typing import Any

import click

from hbmodel.errors import QueryError, TableNotFound
from hbmodel.mapping.expressions import FieldExpression
from hbmodel.mapping.predicates import Predicate
from hbmodel.mapping.schema import TableSchema
from hbmodel.mapping.value_text import json_of_value, text_of_value, value_of_text
from hbmodel.session.connect import connect
from hbmodel.store.port import Store
from hbmodel.tables.names import Names
from hbmodel.tables.registry import REGISTRY_TABLE, Registry, RegistryKey
from hbmodel.tables.table_from_registry import UNKNOWN_TABLE, TableFromRegistry

Command = Callable[..., Any]

CONDITION = re.compile(r"([^\s=!<>^]+) ?(<=|>=|!=|\^=|=|<|>) ?(.*)", re.DOTALL)
_COMPARE: Mapping[str, Callable[[Any, Any], Any]] = {"=": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}
NULL_CONDITION = re.compile(r"([^\s=!<>^]+) is (not )?null")


def table_options(command: Command) -> Command:
    """Adds the options of every command on a registered table."""
    options: list[Callable[[Command], Command]] = [
        click.option(
            "--store", "url", required=True, metavar="URL", envvar="HBMODEL_URL", help="Store, as for hb.connect()."
        ),
        click.option("--registry", default=REGISTRY_TABLE, show_default=True, help="Name of the registry table."),
        click.option("--family", metavar="NAME", help="Family of the model, if the table has several."),
        click.option("--kind", metavar="BYTE", help="Kind of the model, if the family has several."),
        click.option("--json", "as_json", is_flag=True, help="Print JSON, one line per object."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@contextmanager
def opened(
    table: str, url: str, registry: str, family: str | None, kind: str | None
) -> Iterator[tuple[Store, TableFromRegistry]]:
    """Opens the store, and the table as described in the registry; the names of dictionaries are looked up."""
    with connect(url) as store, Names(store, registry=registry).bound():
        yield store, TableFromRegistry.find(Registry(store, registry), table, family, kind)


def known_keys(catalog: Registry, table: str) -> list[RegistryKey]:
    """Every model of a primary table.

    Raises:
        TableNotFound: the registry knows no model of the table.
    """
    places = catalog.keys_of_table(table)
    if not places:
        raise TableNotFound(UNKNOWN_TABLE, table=table, registry=catalog.table)
    return places


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
    found = CONDITION.fullmatch(text)
    if found is None:
        raise QueryError(
            "A condition is field=value, with =, !=, <, <=, >, >= or ^= (begins with), or: field is null.", found=text
        )
    name, operator, written = found.groups()
    field, value = _expression(schema, name), value_of(schema, name, written)
    if operator == "^=":
        return field.startswith(value)
    made: Predicate = _COMPARE[operator](field, value)
    return made


def _expression(schema: TableSchema, name: str) -> FieldExpression[Any]:
    return FieldExpression(of=schema.field(name), model=schema.table)


def key_fields(schema: TableSchema, pairs: Sequence[str]) -> dict[str, Any]:
    """The key fields given as `field=value` and `field is null`.

    Raises:
        QueryError: an argument has another form, does not name a key field, or repeats a field.
    """
    found: dict[str, Any] = {}
    for text in pairs:
        null = NULL_CONDITION.fullmatch(text)
        name, equals, written = (null[1], "=", None) if null is not None and not null[2] else text.partition("=")
        if not equals or name not in schema.layout.names or name in found:
            raise QueryError("Give key fields as field=value, each once.", found=text, fields=list(schema.layout.names))
        found[name] = None if written is None else value_of(schema, name, written)
    return found


def are_fields(schema: TableSchema, given: Sequence[str]) -> bool:
    """Whether arguments are key fields, and not a pasted key."""
    return all(
        (text.partition("=")[0] if "=" in text else text.partition(" is ")[0]) in schema.layout.names for text in given
    )


def print_objects(names: Sequence[str], objects: Sequence[Mapping[str, Any]], as_json: bool) -> None:
    """Prints objects as lines of JSON, or as a table with a column for each name."""
    if as_json:
        for each in objects:
            click.echo(json.dumps({name: json_of_value(value) for name, value in each.items()}))
        return
    print_table(names, [[text_of_value(each[name]) if name in each else "" for name in names] for each in objects])


def print_table(names: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    """Prints rows of texts under column headings."""
    widths = [max(map(len, column)) for column in zip(names, *cells, strict=True)]
    for line in (names, *cells):
        click.echo("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())
