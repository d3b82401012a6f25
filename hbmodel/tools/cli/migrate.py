"""The commands `hbmodel migrate`, which change the key of a table in use."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from hbmodel.tables.migration.migrate import Migration
from hbmodel.tables.migration.migrate import migrate as migration_of
from hbmodel.tables.migration.migration_report import MigrationProgress, MigrationProgressReport, MigrationReport
from hbmodel.tools.cli.arguments.existing_store import connect_existing
from hbmodel.tools.cli.arguments.named_model import find_splits, load_model
from hbmodel.tools.cli.arguments.questions import confirm, yes_option
from hbmodel.tools.cli.arguments.store_options import splits_option
from hbmodel.tools.cli.arguments.work_options import Command, common_options, speed_options, times_of
from hbmodel.tools.cli.output.waits import told_at_times, waiting_text


@click.group()
def migrate() -> None:
    """Change the key of a table, or its salt, while programs read and write."""


def _options(command: Command) -> Command:
    for option in (
        common_options,
        speed_options,
        click.option("--offline", is_flag=True, help="In a maintenance window: programs are refused until cutover."),
        click.option(
            "--model",
            "named",
            required=True,
            metavar="MODULE:CLASS",
            help="The model of the new table, with replaces=.",
        ),
        click.argument("table"),
    ):
        command = option(command)
    return command


@contextmanager
def _shown(as_json: bool) -> Iterator[MigrationProgressReport | None]:
    """Shows the progress on standard error while its block runs. On a terminal it is a bar. Otherwise it is one line
    for each program for which the command waits, repeated every minute.
    """
    console = Console(stderr=True)
    if as_json or not console.is_terminal:
        yield None if as_json else told_at_times()
        return
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[rows]} rows"),
        console=console,
        transient=True,
    ) as bar:
        task = bar.add_task("", total=None, rows=0)

        def report(progress: MigrationProgress) -> None:
            text = waiting_text(progress) if progress.phase == "waiting" else progress.phase
            bar.update(task, description=text, completed=progress.done, total=progress.total, rows=progress.rows)

        yield report


class _Question(NamedTuple):
    """The question before a step that cannot be undone.

    Attributes:
        text: the question.
        phases: the phases of a `MigrationReport` in which the step would begin. In all other phases, the step has
            already begun, or is refused.
    """

    text: str
    phases: Collection[str]


_CUT_OVER = _Question(
    "Make all programs use only the new table? The migration cannot be rolled back after that.", ("moving", "closed")
)
_ROLL_BACK = _Question(
    "Make all programs use only the old table, and drop the new one?", ("prepared", "moving", "closed")
)


def _step(
    step: Callable[[Migration], MigrationReport],
    table: str,
    named: str,
    url: str,
    registry: str,
    as_json: bool,
    offline: bool,
    rows_per_second: float | None,
    bytes_per_second: float | None,
    options: dict[str, Any],
    question: _Question | None = None,
) -> MigrationReport:
    with connect_existing(url) as store:
        migration = partial(
            migration_of,
            store,
            load_model(named, table),
            offline=offline,
            rows_per_second=rows_per_second,
            bytes_per_second=bytes_per_second,
            times=times_of(options),
            registry=registry,
        )
        if question is not None:
            _ask(migration().status(), question)
        with _shown(as_json) as progress:
            report = step(migration(progress=progress))
    if as_json:
        click.echo(json.dumps(report.as_json))
    return report


def _ask(report: MigrationReport, question: _Question) -> None:
    if report.phase in question.phases:
        click.echo(str(report), err=True)
        confirm(question.text)


def _arguments(given: dict[str, Any]) -> dict[str, Any]:
    own = ("table", "named", "url", "registry", "as_json", "offline", "rows_per_second", "bytes_per_second")
    return {
        **{name: given[name] for name in own},
        "options": {name: value for name, value in given.items() if name not in own},
    }


@migrate.command()
@splits_option
@_options
@click.pass_context
def start(ctx: click.Context, /, splits: str | None, **given: Any) -> None:
    """Start copying every row of the old table into TABLE; several processes can run this together and share the work.

    Exit status 1 if rows cannot be copied.
    """
    strategy = find_splits(splits)
    report = _step(lambda migration: migration.start(strategy), **_arguments(given))
    if not given["as_json"]:
        click.echo(str(report))
    ctx.exit(1 if report.refused else 0)


@migrate.command()
@_options
def status(**given: Any) -> None:
    """Show the progress of the migration into TABLE."""
    report = _step(Migration.status, **_arguments(given))
    if not given["as_json"]:
        click.echo(str(report))


@migrate.command()
@_options
@click.pass_context
def verify(ctx: click.Context, /, **given: Any) -> None:
    """Compare all rows of both tables; exit status 1 if something is wrong."""
    report = _step(Migration.verify, **_arguments(given))
    if not given["as_json"]:
        click.echo(report.as_check())
    ctx.exit(0 if report.sound else 1)


@migrate.command()
@yes_option
@_options
def cutover(yes: bool, **given: Any) -> None:
    """Check every row once more, and make programs use TABLE only.

    Shows the progress of the migration, and asks for confirmation.
    """
    report = _step(Migration.cut_over, **_arguments(given), question=None if yes else _CUT_OVER)
    if not given["as_json"]:
        click.echo(str(report))


@migrate.command()
@yes_option
@_options
def rollback(yes: bool, **given: Any) -> None:
    """Make programs use the old table only, and drop TABLE; possible before the cutover.

    Rows that only TABLE contains are copied back first. Shows the progress of the migration, and asks for confirmation.
    """
    report = _step(Migration.roll_back, **_arguments(given), question=None if yes else _ROLL_BACK)
    if not given["as_json"]:
        click.echo(str(report))
