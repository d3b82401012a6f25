"""The commands `hbmodel create`, `hbmodel alter` and `hbmodel drop`, for the tables of models."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import click

from hbmodel.session.connect import connect
from hbmodel.tables.alter import alter as alter_tables
from hbmodel.tables.alter import planned_alteration
from hbmodel.tables.creation.comparison.compare_tables import diff
from hbmodel.tables.creation.comparison.differences_as_text import Diff, Difference
from hbmodel.tables.creation.create import TableOutcome, create_tables
from hbmodel.tables.creation.drop import drop_tables, tables_to_drop
from hbmodel.tools.cli.arguments.existing_store import connect_existing
from hbmodel.tools.cli.arguments.named_model import find_declared, find_splits
from hbmodel.tools.cli.arguments.questions import confirm, dry_run_option, yes_option
from hbmodel.tools.cli.arguments.store_options import splits_option, store_options
from hbmodel.tools.cli.arguments.work_options import common_options, times_of
from hbmodel.tools.cli.output.waits import told_at_times

_models = click.argument("models", nargs=-1, required=True, metavar="MODULE[:CLASS]...")


@contextmanager
def _printing_differences() -> Iterator[None]:
    """Keeps differences out of the log while its block runs, because the command prints them."""
    logger = logging.getLogger("hbmodel")
    logger.addFilter(_is_no_difference)
    try:
        yield
    finally:
        logger.removeFilter(_is_no_difference)


def _is_no_difference(record: logging.LogRecord) -> bool:
    return not any(isinstance(each, Difference) for each in record.args or ())


@click.command()
@_models
@splits_option
@click.option("--create-external", is_flag=True, help="Also create tables of external models.")
@store_options
def create(
    models: tuple[str, ...], splits: str | None, create_external: bool, url: str, registry: str, as_json: bool
) -> None:
    """Create the tables of models that do not exist, and register the models.

    Name single models, or a module to create the tables of all its models. Existing tables are not changed: differences
    are printed as by `hbmodel diff`. The command can be repeated.
    """
    declared, strategy = find_declared(models), find_splits(splits)
    with _printing_differences(), connect(url) as store:
        creation = create_tables(store, *declared, splits=strategy, registry=registry, create_external=create_external)
    if not as_json:
        click.echo(str(creation))
        return
    for table in creation:
        click.echo(json.dumps(_outcome_as_json(table)))


def _outcome_as_json(outcome: TableOutcome) -> dict[str, Any]:
    return {
        "table": outcome.table,
        "created": outcome.created,
        "differences": [each.as_json for each in outcome.differences],
        "unreachable_regions": len(outcome.unreachable),
        "registered": list(outcome.registered),
    }


@click.command()
@_models
@splits_option
@click.option("--lossy", is_flag=True, help="Also apply changes that lose data: a shorter TTL, fewer versions.")
@click.option(
    "--drop",
    is_flag=True,
    help="Also drop the indexes, and forget the members of enumerations, that the models do not declare.",
)
@dry_run_option
@yes_option
@common_options
def alter(
    models: tuple[str, ...],
    splits: str | None,
    lossy: bool,
    drop: bool,
    dry_run: bool,
    yes: bool,
    url: str,
    registry: str,
    as_json: bool,
    **options: Any,
) -> None:
    """Change the live tables to what the models declare, if the changes are safe.

    Name single models, or a module for all its models. The command shows the differences, as `hbmodel diff` does, and
    asks for confirmation; with --dry-run it only shows them. New indexes on existing rows are built by `hbmodel index
    build`.
    """
    declared, strategy = find_declared(models), find_splits(splits)
    with _printing_differences(), connect_existing(url) as store:
        asked = dry_run or not yes
        differences = diff(store, *declared, splits=strategy, registry=registry) if asked else Diff(())
        changes = [each for each in differences if each.effect != "left" or (drop and each.undeclared)]
        check = partial(planned_alteration, store, declared, splits=strategy, lossy=lossy, drop=drop, registry=registry)
        if dry_run:
            _print_plan(differences, changes, check, as_json)
            return
        if changes:
            for each in differences:
                click.echo(str(each), err=True)
            check()
            confirm("Apply these changes?")
        alteration = alter_tables(
            store,
            *declared,
            splits=strategy,
            lossy=lossy,
            drop=drop,
            times=times_of(options),
            progress=None if as_json else told_at_times(),
            registry=registry,
        )
    if as_json:
        done: dict[str, Any] = {
            "applied": [each.as_json for each in alteration.applied],
            "left": [each.as_json for each in alteration.left],
            "dropped": list(alteration.dropped),
        }
        click.echo(json.dumps(done))
    else:
        click.echo(str(alteration) or "nothing to change")


def _print_plan(differences: Diff, changes: Collection[Difference], check: Callable[[], object], as_json: bool) -> None:
    """Prints what `alter` would do. `check` raises an error if `alter` would be refused."""
    if not as_json:
        lines = [*map(str, differences), *(f"would drop {one.table}: {one.what}" for one in changes if one.undeclared)]
        click.echo("\n".join(lines) or "nothing to change")
    check()
    if as_json:
        left = [each.as_json for each in differences if each not in changes]
        plan = {"dry_run": True, "would_apply": [each.as_json for each in changes], "left": left}
        click.echo(json.dumps(plan))


@click.command()
@_models
@dry_run_option
@yes_option
@store_options
def drop(models: tuple[str, ...], dry_run: bool, yes: bool, url: str, registry: str, as_json: bool) -> None:
    """Drop the tables of models with all their rows and index tables, and forget the models.

    Name single models, or a module for all its models. The command shows which tables would be dropped, and asks for
    confirmation; with --dry-run it only shows them. The tables of external models remain, and so do the tables of
    dictionaries that are not named.
    """
    declared = find_declared(models, sequences=False)
    with connect_existing(url) as store:
        if dry_run or not yes:
            planned = tables_to_drop(store, *declared, registry=registry)
            lines = [f"would drop {table}" for table in planned]
            if dry_run:
                plan = json.dumps({"dry_run": True, "would_drop": planned})
                click.echo(plan if as_json else "\n".join(lines) or "no table is left")
                return
            for line in lines:
                click.echo(line, err=True)
            confirm("Drop these tables, with all their rows?")
        dropped = drop_tables(store, *declared, registry=registry)
    lines = [f"dropped {each}" for each in dropped] or ["no table was left"]
    click.echo(json.dumps({"dropped": dropped}) if as_json else "\n".join(lines))
