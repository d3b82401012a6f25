"""The command `hbmodel describe`: shows how the bytes of a table are used, and what shorter names and other codecs
would save.
"""

from __future__ import annotations

import json
from typing import Any

import attrs
import click

from hbmodel.encoding.codecs.dictionary import numbers_as_names
from hbmodel.tables.advice.byte_cost import ByteCost, byte_cost
from hbmodel.tables.advice.sampled_objects import SAMPLE, sampled_objects
from hbmodel.tools.cli.arguments.table_options import opened, table_options


@click.command()
@click.argument("table")
@click.option(
    "--sample", type=click.IntRange(1), default=SAMPLE, show_default=True, help="Largest number of objects to read."
)
@table_options
def describe(
    table: str, sample: int, url: str, registry: str, family: str | None, kind: str | None, as_json: bool
) -> None:
    """Show the bytes per object of row key, family, qualifier, timestamp and value, from a sample of the table.

    Also show how many bytes a million objects would save if a name had one byte, or if a field's values were stored in
    another form.
    """
    with opened(table, url, registry, family, kind) as (store, registered_table):
        found = sampled_objects(registered_table.schema, store, sample)
        with numbers_as_names():
            cost = byte_cost(registered_table.schema, found.rows)
    if found.unreadable:
        click.echo(f"{found.unreadable} more objects cannot be read, and are left out", err=True)
    click.echo(json.dumps(_as_json(table, cost)) if as_json else f"{table}: {cost}")


def _as_json(table: str, cost: ByteCost) -> dict[str, Any]:
    costs = attrs.asdict(cost)
    return {"table": table, **costs, "total": cost.total}
