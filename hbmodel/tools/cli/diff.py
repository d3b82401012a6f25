"""The command `hbmodel diff`: compares models with the tables that they describe."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from hbmodel.tables.creation.comparison.diff import diff as diff_tables
from hbmodel.tables.creation.comparison.difference import Difference
from hbmodel.tables.creation.sampling import SAMPLE
from hbmodel.tables.registry.registry_table import REGISTRY_TABLE
from hbmodel.tools.cli.arguments.existing_store import connect_existing
from hbmodel.tools.cli.arguments.named_model import find_model


@click.command()
@click.argument("models", nargs=-1, required=True, metavar="MODULE:CLASS...")
@click.option("--store", "url", required=True, metavar="URL", envvar="HBMODEL_URL", help="Store, as for hb.connect().")
@click.option(
    "--sample", type=click.IntRange(0), default=SAMPLE, show_default=True, help="Rows to search in each table."
)
@click.option("--registry", default=REGISTRY_TABLE, show_default=True, help="Name of the registry table.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one line per difference.")
def diff(models: tuple[str, ...], url: str, sample: int, registry: str, as_json: bool) -> None:
    """Compare models with the live tables, and change nothing.

    Each line begins with what hb.alter() would do: + create, ~ change, - change only with lossy=True, = leave, !
    refuse everything. The exit status is 0 if there is no difference, 1 if there are some, and 2 if one of them is
    refused: then programs with these models cannot use the tables.
    """
    classes = [find_model(named) for named in models]
    with connect_existing(url) as store:
        differences = diff_tables(store, *classes, registry=registry, sample=sample)
    for each in differences:
        click.echo(json.dumps(_as_json(each)) if as_json else str(each))
    if differences:
        sys.exit(2 if any(each.effect == "refused" for each in differences) else 1)


def _as_json(difference: Difference) -> dict[str, Any]:
    """A difference; the declared and the live value are in its text."""
    return {
        "table": difference.table,
        "kind": difference.kind,
        "what": difference.what,
        "effect": difference.effect,
        "why": difference.why,
        "family": difference.family,
        "option": difference.option,
        "text": str(difference),
    }
