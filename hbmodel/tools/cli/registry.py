"""The `hbmodel registry` commands: list the registered tables, or forget a table that no longer exists."""

from __future__ import annotations

import json

import click

from hbmodel.tables.forget_table import forget as forget_table
from hbmodel.tables.forget_table import known
from hbmodel.tables.registry.registry_table import Registry
from hbmodel.tools.cli.arguments.existing_store import connect_existing
from hbmodel.tools.cli.arguments.questions import confirm, dry_run_option, yes_option
from hbmodel.tools.cli.arguments.store_options import store_options
from hbmodel.tools.cli.output.printing import print_table


@click.group()
def registry() -> None:
    """List the registered tables, and remove the entry of a table that no longer exists."""


@registry.command(name="list")
@store_options
def list_(url: str, registry: str, as_json: bool) -> None:
    """List the registered tables, with their models, and whether each table exists.

    A model is shown as its default family, followed by its kind if it has one, and by "(damaged)" if its entry cannot
    be read.
    """
    with connect_existing(url) as store:
        catalog = Registry(store, registry)
        listed, existing = catalog.tables(), set(store.tables())
        if registry not in existing:
            click.echo(f"there is no registry table {registry}: `hbmodel create` creates one", err=True)
        damaged = {key for keys in listed.values() for key in keys if catalog.is_damaged(key)}
    if as_json:
        for table, keys in listed.items():
            models = [key.shown for key in keys]
            unreadable = [key.shown for key in keys if key in damaged]
            click.echo(
                json.dumps({"table": table, "exists": table in existing, "models": models, "damaged": unreadable})
            )
        return
    rows = [
        [
            table,
            "yes" if table in existing else "no",
            ", ".join(f"{key.shown} (damaged)" if key in damaged else key.shown for key in keys),
        ]
        for table, keys in listed.items()
    ]
    print_table(["table", "exists", "models"], rows)


@registry.command()
@click.argument("table")
@click.option("--existing", is_flag=True, help="Forget the table even if it or an index table exists; tables remain.")
@dry_run_option
@yes_option
@store_options
def forget(table: str, existing: bool, dry_run: bool, yes: bool, url: str, registry: str, as_json: bool) -> None:
    """Remove everything that the registry records about a table that another program has dropped.

    Shows what would be removed, and asks for confirmation; with --dry-run it only shows it.
    """
    with connect_existing(url) as store:
        if dry_run or not yes:
            found, _ = known(store, table, existing=existing, registry=registry)
            if dry_run:
                plan = json.dumps({**found.as_json, "dry_run": True})
                click.echo(plan if as_json else "\n".join([f"would forget {found.contents}", *found.notes]))
                return
            for line in (found.contents, *found.notes):
                click.echo(line, err=True)
            confirm("Remove this from the registry?")
        forgotten = forget_table(store, table, existing=existing, registry=registry)
    click.echo(json.dumps(forgotten.as_json) if as_json else str(forgotten))
