"""The commands `hbmodel row`, `hbmodel scan` and `hbmodel regions`, which decode a table with its registry entry."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import click

from hbmodel.errors import (
    DecodingError,
    FullScanRefused,
    IncompleteKey,
    IncompleteRow,
    InvalidRequest,
    QueryError,
    RowNotFound,
)
from hbmodel.mapping.declare.map_declaration import MapExpression
from hbmodel.mapping.field_expressions import FieldExpression
from hbmodel.mapping.map_columns import NotLoaded
from hbmodel.mapping.predicates import Predicate
from hbmodel.mapping.schema import TableSchema
from hbmodel.mapping.value_text import text_of_value
from hbmodel.query.ask.query import Query
from hbmodel.session.session import Session
from hbmodel.store.key_text import shell_text
from hbmodel.tables.registry.table_from_registry import StoredKey, TableFromRegistry
from hbmodel.tools.cli.arguments.conditions import are_fields, condition, key_fields, looks_like_field
from hbmodel.tools.cli.arguments.table_options import opened, table_options
from hbmodel.tools.cli.key import decoded, form_option
from hbmodel.tools.cli.output.one_line import bare_line
from hbmodel.tools.cli.output.printing import print_objects, print_table

BOUNDS = ("start", "stop", "start key", "stop key")


_NO_SUCH_FIELD = (
    "This is neither the key of an object nor the value of a key field: `hbmodel scan TABLE --where` finds objects by "
    "other fields."
)
_NO_KEY = (
    "This is not a row key of the table: give each key field as field=value, or a whole row key in hex or as HBase's "
    "shell prints it."
)
_SKIP = "Another program, or another model, wrote this row: use --skip-unreadable to show the rows after it."


def _names(schema: TableSchema) -> list[str]:
    """Returns the names of the fields in display order, key fields first."""
    return [*schema.layout.names, *(f.name for f in schema.columns)]


def _objects(query: Query[Any], schema: TableSchema) -> list[Mapping[str, Any]]:
    names = (*_names(schema), *(map_field.name for map_field in schema.maps))
    read = [{name: getattr(item, name, NotLoaded) for name in names} for item in query]
    return [{name: value for name, value in each.items() if value is not NotLoaded} for each in read]


@click.group()
def row() -> None:
    """Read single rows, decoded with the registry's description of their table."""


@row.command()
@click.argument("table")
@click.argument("key", nargs=-1, required=True, metavar="KEY | FIELD=VALUE...")
@form_option
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=100,
    show_default=True,
    help="Largest number of objects of a wide row to show.",
)
@table_options
def get(
    table: str,
    key: tuple[str, ...],
    form: str,
    limit: int,
    url: str,
    registry: str,
    family: str | None,
    kind: str | None,
    as_json: bool,
) -> None:
    """Show the object under a row key, or the objects of a wide row, with counters and map columns.

    The key is pasted in hex or as HBase's shell prints it, or given by its fields. If --as is given, KEY is read as a
    pasted key even if it looks like FIELD=VALUE. Exit status 1 if there is no object.
    """
    with opened(table, url, registry, family, kind) as (store, registered_table):
        schema = registered_table.schema
        if form == "auto" and are_fields(schema, key):
            fields = key_fields(registered_table, key)
            _check_whole(schema, fields)
            wanted = _under(schema, fields)
        elif len(key) == 1:
            wanted = _stored(registered_table, _pasted(registered_table, key[0], form))
        else:
            raise QueryError(
                "Give one pasted key, or each key field as field=value: `hbmodel scan TABLE --where` finds objects by "
                "other fields.",
                table=table,
                fields=list(schema.layout.names),
            )
        query = Session(store, registry=registry).query(registered_table.model).where(*wanted).limit(limit)
        if schema.row is not None and not wanted:
            query = query.allow_full_scan()
        objects = _objects(
            query.load(*(MapExpression(map_field, registered_table.model) for map_field in schema.maps)), schema
        )
    if not objects:
        if form == "auto" and not are_fields(schema, key) and looks_like_field(key[0]):
            raise RowNotFound(_NO_SUCH_FIELD, found=key[0], table=table, fields=list(schema.layout.names))
        raise RowNotFound("There is no object with this key.", table=table)
    print_objects([*_names(schema), *(map_field.name for map_field in schema.maps)], objects, as_json)


def _pasted(table: TableFromRegistry, text: str, form: str) -> StoredKey:
    """Returns the decoded fields of a pasted key.

    Raises:
        QueryError: the text can be read in two notations, or is not a key of the table.
        HbmodelError: the text cannot be read in the given notation.
    """
    try:
        return decoded(table, text, form)
    except (DecodingError, InvalidRequest) as error:
        if form == "auto" and looks_like_field(text):
            raise QueryError(
                _NO_SUCH_FIELD, found=text, table=table.schema.table, fields=list(table.schema.layout.names)
            ) from error
        if isinstance(error, DecodingError):
            raise QueryError(
                _NO_KEY,
                found=text,
                table=table.schema.table,
                fields=list(table.schema.layout.names),
                reason=bare_line(error),
            ) from error
        raise


def _expression(schema: TableSchema, name: str) -> FieldExpression[Any]:
    return FieldExpression(of=schema.field(name), model=schema.table)


def _is(schema: TableSchema, name: str, value: Any) -> Predicate:
    return _expression(schema, name).is_(None) if value is None else _expression(schema, name) == value


def _check_whole(schema: TableSchema, key: Mapping[str, Any]) -> None:
    """Raises `IncompleteKey` if a field of the row key is missing."""
    layout = schema.row_layout
    missing = [] if layout is None else [name for name in layout.names if name not in key]
    if missing:
        raise IncompleteKey(
            "Give every field of the row key: `hbmodel scan TABLE --where` finds objects by some of the fields.",
            table=schema.table,
            missing=missing,
        )


def _under(schema: TableSchema, key: Mapping[str, Any]) -> list[Predicate]:
    return [_is(schema, name, value) for name, value in key.items()]


def _stored(table: TableFromRegistry, stored: StoredKey) -> list[Predicate]:
    """Returns the conditions that select the objects of a stored row. For a split field, the conditions allow all times
    in its bucket.
    """
    schema, every = table.schema, table.bucket_length
    if every is None:
        return _under(schema, stored.fields)
    *others, last = stored.fields
    start, split = stored.fields[last], _expression(schema, last)
    return [*_under(schema, {name: stored.fields[name] for name in others}), split >= start, split < start + every]


@click.command()
@click.argument("table")
@click.option(
    "--where",
    "conditions",
    multiple=True,
    metavar="CONDITION",
    help="field=value, also != < <= > >= and ^= (begins with).",
)
@click.option(
    "--limit", type=click.IntRange(1), default=20, show_default=True, help="Largest number of objects to show."
)
@click.option("--reversed", "backwards", is_flag=True, help="Show objects from the last to the first.")
@click.option("--index", metavar="NAME", help="Read through this index.")
@click.option("--full-scan", is_flag=True, help="Read the whole table if that is needed to find the objects.")
@click.option(
    "--skip-unreadable", is_flag=True, help="Leave out rows that cannot be read, and list them on standard error."
)
@click.option("--explain", is_flag=True, help="Show how the table would be read, without reading it.")
@table_options
@click.pass_context
def scan(
    ctx: click.Context,
    /,
    table: str,
    conditions: tuple[str, ...],
    limit: int,
    backwards: bool,
    index: str | None,
    full_scan: bool,
    skip_unreadable: bool,
    explain: bool,
    url: str,
    registry: str,
    family: str | None,
    kind: str | None,
    as_json: bool,
) -> None:
    """Show objects of a table, or entries of an index table, in key order; map columns are omitted.

    Each --where is one condition, and all must hold; `field is null` and `field is not null` are conditions too. Exit
    status 1 if a row cannot be read.
    """
    unreadable: list[DecodingError | IncompleteRow] = []
    with opened(table, url, registry, family, kind) as (store, registered_table):
        schema = registered_table.schema
        query = (
            Session(store, registry=registry)
            .query(registered_table.model)
            .where(*(condition(registered_table, each) for each in conditions))
            .limit(limit)
        )
        query = query.reversed() if backwards else query
        query = query if index is None else query.use_index(index)
        query = query.allow_full_scan() if full_scan or not conditions else query
        query = query.on_unreadable(unreadable.append) if skip_unreadable else query
        try:
            if explain:
                explained = query.explain()
                click.echo(json.dumps(explained.as_json) if as_json else str(explained))
                return
            objects = _objects(query, schema)
        except FullScanRefused as error:
            raise FullScanRefused(
                "No condition bounds a leading key field of the table or an index, so the whole table would be read: "
                "add one, or use --full-scan.",
                **error.details,
            ) from None
        except (DecodingError, IncompleteRow) as error:
            raise click.ClickException(f"{bare_line(error)} {_SKIP} ({error.code})") from error
    print_objects(_names(schema), objects, as_json)
    for each in unreadable:
        click.echo(f"left out: {bare_line(each)}", err=True)
    ctx.exit(1 if unreadable else 0)


@click.command()
@click.argument("table")
@table_options
def regions(table: str, url: str, registry: str, family: str | None, kind: str | None, as_json: bool) -> None:
    """Show the regions of a table. The bounds are decoded into key fields, if they contain complete fields."""
    with opened(table, url, registry, family, kind) as (store, registered_table):
        live = store.regions(table)
    bounds = [(region.range.start, region.range.stop) for region in live]
    cells = [
        [_bound(registered_table, start), _bound(registered_table, stop), shell_text(start), shell_text(stop or b"")]
        for start, stop in bounds
    ]
    if as_json:
        for texts in cells:
            click.echo(json.dumps(dict(zip(BOUNDS, texts, strict=True))))
    else:
        print_table(BOUNDS, cells)


def _bound(table: TableFromRegistry, bound: bytes | None) -> str:
    if not bound:
        return "(end)" if bound is None else "(start)"
    stored = table.decode_bound(bound)
    parts: Sequence[str] = [
        *([] if stored.bucket is None else [f"bucket {stored.bucket}"]),
        *(f"{name}={text_of_value(value)}" for name, value in stored.fields.items()),
        *([f"+ {shell_text(stored.rest)}"] if stored.rest else []),
    ]
    return ", ".join(parts)
