"""The command `hbmodel writers`, which lists the programs that write a table, and forgets a program that was killed."""

from __future__ import annotations

import json
from typing import Any

import click
from click.core import ParameterSource

from hbmodel.tables.registry.registry_table import Registry
from hbmodel.tables.writers import forget_writer, table_writers
from hbmodel.tools.cli.arguments.existing_store import connect_existing
from hbmodel.tools.cli.arguments.table_options import known_keys
from hbmodel.tools.cli.arguments.work_options import common_options, seconds_of, times_of

_NONE = "No program is on the writers' roll of this table."
_UNLISTED = "This store keeps no list of programs, because changes of its indexes do not wait for other programs."


@click.command()
@click.argument("table")
@click.option(
    "--forget",
    "forgotten",
    metavar="LINE|HOST:PID",
    help="Forget this program, which was killed, so that no change waits for it.",
)
@click.option(
    "--dead-for",
    type=click.UNPROCESSED,
    callback=seconds_of,
    metavar="TIME",
    help="With --forget: the program has certainly been dead for this long.",
)
@common_options
@click.pass_context
def writers(
    context: click.Context,
    /,
    table: str,
    forgotten: str | None,
    dead_for: float | None,
    url: str,
    registry: str,
    as_json: bool,
    **options: Any,
) -> None:
    """List the programs on the writers' roll of a table: the programs that a change of an index waits for, and programs
    that have not written for a while.

    With --forget, mark the line of a program that was killed as gone. This is refused while the program may be alive,
    and while a request that it sent may still be carried out: by default for 20 minutes after its last request. Two
    options shorten this time, and if one of them is wrong, a row may be missing in an index later. --dead-for: the
    program ended at least this long ago. --longest-call: the gateway of the program gives up a call after this time,
    even if the program's line has a longer time.
    """
    if forgotten is None and dead_for is not None:
        raise click.UsageError("--dead-for needs --forget.")
    if forgotten is not None:
        given = context.get_parameter_source("longest_call") is not ParameterSource.DEFAULT
        with connect_existing(url) as store:
            writer = forget_writer(
                store,
                table,
                forgotten,
                dead_for=dead_for,
                longest_call=options["longest_call"] if given else None,
                times=times_of(options),
                registry=registry,
            )
        click.echo(json.dumps(writer.as_json) if as_json else f"no change waits for it any more: {writer}")
        return
    with connect_existing(url) as store:
        listed = table_writers(store, table, times=times_of(options), registry=registry)
        if not listed:
            known_keys(Registry(store, registry), table)
        gated = store.capabilities.gated_writes
    if not listed and not as_json:
        click.echo(_UNLISTED if gated else _NONE)
    for writer in listed:
        click.echo(json.dumps(writer.as_json) if as_json else str(writer))
