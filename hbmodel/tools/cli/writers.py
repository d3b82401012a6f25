"""The command `hbmodel writers`: the programs that write a table."""

from __future__ import annotations

import json
from typing import Any

import click

from hbmodel.tables.registry.registry_table import Registry
from hbmodel.tables.writers import table_writers
from hbmodel.tools.cli.arguments.existing_store import connect_existing
from hbmodel.tools.cli.arguments.table_options import known_keys
from hbmodel.tools.cli.index import common_options, times_of

_NONE = "No program is on the writers' roll of this table."
_UNLISTED = "This store lists no programs, because a change of an index does not wait for them."


@click.command()
@click.argument("table")
@common_options
def writers(table: str, url: str, registry: str, as_json: bool, **options: Any) -> None:
    """List the programs on the writers' roll of a table: the programs that a change of an index waits for, and programs
    that have not written for a while.
    """
    with connect_existing(url) as store:
        listed = table_writers(store, table, times=times_of(options), registry=registry)
        if not listed:
            known_keys(Registry(store, registry), table)
        gated = store.capabilities.gated_writes
    if not listed and not as_json:
        click.echo(_UNLISTED if gated else _NONE)
    for writer in listed:
        click.echo(json.dumps(writer.as_json) if as_json else str(writer))
