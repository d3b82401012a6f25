"""The commands `hbmodel key`, which decode pasted row keys to fields, and encode fields to row keys."""

from __future__ import annotations

import json
from typing import Any

import click

from hbmodel.errors import HbmodelError, InvalidRequest, QueryError
from hbmodel.mapping.value_text import json_of_value, text_of_value
from hbmodel.store.key_text import readings, shell_text
from hbmodel.tables.registry.table_from_registry import StoredKey, TableFromRegistry
from hbmodel.tools.cli.arguments.conditions import key_fields
from hbmodel.tools.cli.arguments.table_options import opened, table_options

FORMS = ("auto", "hex", "shell")


@click.group()
def key() -> None:
    """Decode row keys to fields and encode them, with the registry's description of their table."""


form_option = click.option(
    "--as",
    "form",
    type=click.Choice(FORMS),
    default="auto",
    show_default=True,
    help="Notation of the key; auto chooses the one that fits.",
)


def decoded(table: TableFromRegistry, text: str, form: str, qualifier: str | None = None) -> StoredKey:
    """Returns the decoded fields of a pasted key.

    Raises:
        QueryError: the text is a valid key of the table both in hex and in the shell's format.
        HbmodelError: the text is not a key of the table.
    """
    as_read: list[StoredKey] = []
    mistake: HbmodelError | None = None
    for name, row in readings(text).items():
        if form not in ("auto", name):
            continue
        try:
            for behind in [None] if qualifier is None else readings(qualifier).values():
                as_read.append(table.decode(row, behind))
        except HbmodelError as error:
            mistake = mistake or error
    if len(as_read) > 1:
        raise QueryError(
            "The key is valid both as hex and in the shell's notation: add --as hex or --as shell.", found=text
        )
    if as_read:
        return as_read[0]
    raise mistake or InvalidRequest("The key cannot be read in this notation: see --as.", found=text, form=form)


@key.command()
@click.argument("table")
@click.argument("text", metavar="KEY")
@click.argument("qualifier", required=False)
@form_option
@table_options
def decode(
    table: str,
    text: str,
    qualifier: str | None,
    form: str,
    url: str,
    registry: str,
    family: str | None,
    kind: str | None,
    as_json: bool,
) -> None:
    r"""Show the fields of a row key that is given in hex or as HBase's shell prints it (\x00\x01abc).

    In a wide table, a key contains only the fields of the row. Give a QUALIFIER to show all key fields of an object.
    """
    with opened(table, url, registry, family, kind) as (_, registered_table):
        stored = decoded(registered_table, text, form, qualifier)
    parts: dict[str, Any] = {} if stored.bucket is None else {"bucket": stored.bucket}
    behind = {} if stored.primary_bucket is None else {"primary bucket": stored.primary_bucket}
    alias = {"alias": shell_text(stored.rest)} if qualifier is not None else {}
    if as_json:
        fields = {name: json_of_value(value) for name, value in stored.fields.items()}
        click.echo(json.dumps({**parts, "fields": fields, **behind, **alias}))
        return
    shown = {**parts, **stored.fields, **behind, **alias}
    width = max(map(len, shown), default=0)
    for name, value in shown.items():
        click.echo(f"{name.ljust(width)}  {text_of_value(value)}")


@key.command()
@click.argument("table")
@click.argument("fields", metavar="FIELD=VALUE...", nargs=-1, required=True)
@table_options
def encode(
    table: str, fields: tuple[str, ...], url: str, registry: str, family: str | None, kind: str | None, as_json: bool
) -> None:
    """Write the row key of an object, in hex and in the format of HBase's shell.

    With a random salt, there is a key for each bucket. For a wide table, the fields of the row key are enough.
    """
    with opened(table, url, registry, family, kind) as (_, registered_table):
        keys = registered_table.encode(key_fields(registered_table, fields))
    for row, qualifier in keys:
        forms = {"hex": row.hex(), "shell": shell_text(row)}
        if qualifier is not None:
            forms |= {"qualifier hex": qualifier.hex(), "qualifier shell": shell_text(qualifier)}
        click.echo(
            json.dumps(forms)
            if as_json
            else "\n".join(f"{name:<{max(map(len, forms))}}  {text}" for name, text in forms.items())
        )
