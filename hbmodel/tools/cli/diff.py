"""The command `hbmodel diff`: compares models with the tables that they describe."""

from __future__ import annotations

import json
import sys

import click

from hbmodel.tables.creation.comparison.compare_tables import diff as diff_tables
from hbmodel.tables.creation.row_samples import SAMPLE
from hbmodel.tools.cli.arguments.existing_store import connect_existing
from hbmodel.tools.cli.arguments.named_model import find_declared, find_splits
from hbmodel.tools.cli.arguments.store_options import registry_option, store_option


@click.command()
@click.argument("models", nargs=-1, required=True, metavar="MODULE[:CLASS]...")
@store_option
@click.option(
    "--sample", type=click.IntRange(0), default=SAMPLE, show_default=True, help="Rows to search in each table."
)
@click.option(
    "--splits",
    metavar="MODULE:NAME",
    help="Compare the regions too: a strategy, or a dictionary of strategies, as for hb.create_tables().",
)
@registry_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one line per difference.")
def diff(models: tuple[str, ...], url: str, sample: int, splits: str | None, registry: str, as_json: bool) -> None:
    """Compare models with the live tables, and change nothing.

    Name single models, or a module to compare all of its models. Each line begins with what `hbmodel alter` would do: +
    create, ~ change, - change only with --lossy, = leave, ! refuse everything. The exit status is 0 if there is no
    difference, 1 if there are differences, and 3 if one of them is refused, so that programs with these models cannot
    use the tables. It is 2 if the command failed.
    """
    declared, strategy = find_declared(models), find_splits(splits)
    with connect_existing(url) as store:
        differences = diff_tables(store, *declared, splits=strategy, registry=registry, sample=sample)
    for each in differences:
        click.echo(json.dumps(each.as_json) if as_json else str(each))
    if differences:
        sys.exit(3 if any(each.effect == "refused" for each in differences) else 1)
