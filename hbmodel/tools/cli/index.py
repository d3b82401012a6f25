"""The commands `hbmodel index`, which build, check, repair and drop indexes of tables in use."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click
from attrs import evolve
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from hbmodel.errors import FamilyNotFound, HbmodelError, StoreError, TableNotFound, UnknownIndex
from hbmodel.mapping.schema import TableSchema, schema_of
from hbmodel.store.port import Store
from hbmodel.tables.creation.existing_tables import is_dropping, is_live
from hbmodel.tables.creation.index_tables import check_readable
from hbmodel.tables.indexes.index_calls import build_index, index_status, purge_rows, repair_index, verify_index
from hbmodel.tables.indexes.index_report import IndexBuild, IndexReport
from hbmodel.tables.indexes.index_states import IndexStates
from hbmodel.tables.indexes.index_sweeps import IndexProgress, Report
from hbmodel.tables.indexes.index_work import waiting
from hbmodel.tables.registry.entry_shape import ENTRY
from hbmodel.tables.registry.registration import ABSENT, READABLE
from hbmodel.tables.registry.registry_rows import RegistryKey
from hbmodel.tables.registry.registry_table import Registry
from hbmodel.tools.cli.arguments.existing_store import connect_existing
from hbmodel.tools.cli.arguments.finite import FiniteRange
from hbmodel.tools.cli.arguments.named_model import find_declared, load_model
from hbmodel.tools.cli.arguments.questions import confirm, dry_run_option, yes_option
from hbmodel.tools.cli.arguments.table_options import known_keys
from hbmodel.tools.cli.arguments.work_options import Command, common_options, seconds_of, speed_options, times_of
from hbmodel.tools.cli.output.one_line import one_line
from hbmodel.tools.cli.output.waits import told_at_times, waiting_text


@click.group()
def index() -> None:
    """Add, check, repair and drop indexes of tables while programs read and write them."""


def _model(required: bool = True) -> Callable[[Command], Command]:
    return click.option(
        "--model", "named", required=required, metavar="MODULE:CLASS", help="The model that declares the index."
    )


def _interval(ctx: click.Context, parameter: click.Parameter, value: str | float | None) -> float | None:
    """Returns a time in seconds, and refuses zero, because work that is repeated without a pause would load the store
    all the time.
    """
    seconds = seconds_of(ctx, parameter, value)
    if seconds == 0:
        raise click.BadParameter("must be longer than 0", param=parameter)
    return seconds


_every = click.option(
    "--every",
    type=click.UNPROCESSED,
    callback=_interval,
    metavar="TIME",
    help="Repeat, with this pause, until interrupted.",
)


@contextmanager
def _shown(as_json: bool) -> Iterator[Report | None]:
    """Shows the progress on standard error while its block runs. On a terminal it is a bar. Otherwise it is one line
    for each program for which the command waits, repeated every minute.
    """
    console = Console(stderr=True)
    if as_json or not console.is_terminal:
        yield None if as_json else told_at_times()
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[rows]} rows"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None, rows=0)

        def report(progress: IndexProgress) -> None:
            text: str = progress.phase
            if progress.phase == "waiting":
                text = waiting_text(progress)
            bar.update(task, description=text, completed=progress.done, total=progress.total, rows=progress.rows)

        yield report


def _print(report: Any, as_json: bool) -> None:
    click.echo(json.dumps(report.as_json) if as_json else str(report))


def _repeatedly(every: float | None, work: Callable[[], int]) -> int:
    """Does the work once or repeatedly, and returns the exit status of the last run."""
    while True:
        try:
            status = work()
        except HbmodelError as error:
            if every is None:
                raise
            click.echo(one_line(error), err=True)
            status = 2
        if every is None:
            return status
        time.sleep(every)


@index.command()
@click.argument("table", metavar="TABLE|MODULE[:CLASS]")
@click.argument("name", metavar="[INDEX]", required=False)
@_model(required=False)
@speed_options
@dry_run_option
@common_options
@click.pass_context
def build(
    ctx: click.Context, /, table: str, name: str | None, named: str | None, url: str, registry: str, as_json: bool,
    dry_run: bool, rows_per_second: float | None, bytes_per_second: float | None, **options: Any,
) -> None:  # fmt: skip
    """Build an index on a table with rows and make it readable; several processes can run this together and share the
    work.

    Name the table, the index and its --model. Without an INDEX, all indexes of the model that are not readable yet are
    built, one after another. A model or a module may be named instead of the table: `hbmodel index build app.models`
    builds these indexes of all models of the module. Exit status 1 if rows were refused or share a value, so that an
    index is still unreadable.
    """
    if named is None and name is not None:
        raise click.UsageError("An INDEX needs the --model that declares it.")
    found: list[IndexBuild] = []
    with connect_existing(url) as store:
        models = find_declared([table], sequences=False) if named is None else [load_model(named, table)]
        wanted = [
            (model, each)
            for model in models
            if isinstance(model, type)
            for each in _to_build(store, model, name, registry)
        ]
        for model, each in wanted:
            with _shown(as_json) as progress:
                built = build_index(
                    store,
                    model,
                    each,
                    rows_per_second=rows_per_second,
                    bytes_per_second=bytes_per_second,
                    dry_run=dry_run,
                    progress=progress,
                    times=times_of(options),
                    registry=registry,
                )
            _print(built, as_json)
            found.append(built)
    if not found and not as_json:
        click.echo("nothing to build")
    ctx.exit(1 if any(built.refused or built.duplicates for built in found) else 0)


def _to_build(store: Store, model: type[Any], name: str | None, registry: str) -> list[str]:
    """Returns the indexes to build for a model: the named one, or all declared ones that are not readable yet."""
    if name is not None:
        return [name]
    declared = schema_of(model).indexes
    reports = index_status(store, model, sample=0, registry=registry) if declared else []
    return [report.index for report in reports if report.index in declared and report.state != READABLE]


def _checked(
    ctx: click.Context,
    every: float | None,
    url: str,
    as_json: bool,
    check: Callable[[Store, Report | None], IndexReport],
) -> None:
    def once() -> int:
        with connect_existing(url) as store, _shown(as_json) as progress:
            report = check(store, progress)
        _print(report, as_json)
        return 0 if report.mended else 1

    ctx.exit(_repeatedly(every, once))


@index.command()
@click.argument("table")
@click.argument("name", metavar="INDEX")
@_model()
@speed_options
@click.option("--sample", type=click.IntRange(min=1), help="Check only about this many rows.")
@_every
@common_options
@click.pass_context
def verify(
    ctx: click.Context,
    /,
    table: str,
    name: str,
    named: str,
    url: str,
    registry: str,
    as_json: bool,
    sample: int | None,
    every: float | None,
    rows_per_second: float | None,
    bytes_per_second: float | None,
    **options: Any,
) -> None:
    """Compare rows with entries and entries with rows; exit status 1 if an entry or a claim is missing, or a row cannot
    be indexed.
    """
    model = load_model(named, table)
    _checked(
        ctx,
        every,
        url,
        as_json,
        lambda store, progress: verify_index(
            store,
            model,
            name,
            sample=sample,
            rows_per_second=rows_per_second,
            bytes_per_second=bytes_per_second,
            progress=progress,
            times=times_of(options),
            registry=registry,
        ),
    )


@index.command()
@click.argument("table")
@click.argument("name", metavar="INDEX")
@_model()
@speed_options
@dry_run_option
@_every
@common_options
@click.pass_context
def repair(
    ctx: click.Context,
    /,
    table: str,
    name: str,
    named: str,
    url: str,
    registry: str,
    as_json: bool,
    dry_run: bool,
    every: float | None,
    rows_per_second: float | None,
    bytes_per_second: float | None,
    **options: Any,
) -> None:
    """Put missing entries, and delete entries that have no row and are older than the grace time; exit status 1 if an
    entry or a claim is still missing, or a row cannot be indexed.
    """
    model = load_model(named, table)
    _checked(
        ctx,
        every,
        url,
        as_json,
        lambda store, progress: repair_index(
            store,
            model,
            name,
            dry_run=dry_run,
            rows_per_second=rows_per_second,
            bytes_per_second=bytes_per_second,
            progress=progress,
            times=times_of(options),
            registry=registry,
        ),
    )


@index.command()
@click.argument("table")
@_model()
@click.option(
    "--rows-per-second", type=FiniteRange(min=0, min_open=True), help="Largest number of rows to read per second."
)
@dry_run_option
@_every
@common_options
@click.pass_context
def purge(
    ctx: click.Context,
    /,
    table: str,
    named: str,
    url: str,
    registry: str,
    as_json: bool,
    dry_run: bool,
    every: float | None,
    rows_per_second: float | None,
    **options: Any,
) -> None:
    """Delete the markers of deleted rows that are older than the grace time."""
    model = load_model(named, table)

    def once() -> int:
        with connect_existing(url) as store:
            purged = purge_rows(
                store,
                model,
                dry_run=dry_run,
                rows_per_second=rows_per_second,
                times=times_of(options),
                registry=registry,
            )
        click.echo(
            json.dumps({"table": table, "purged": purged, "dry_run": dry_run})
            if as_json
            else f"{table}: {purged} markers"
        )
        return 0

    ctx.exit(_repeatedly(every, once))


@index.command()
@click.argument("table")
@_model(required=False)
@click.option(
    "--sample",
    type=click.IntRange(min=0),
    default=1000,
    show_default=True,
    help="Number of rows and entries to check for each index.",
)
@click.option(
    "--threshold",
    type=FiniteRange(0, 1),
    default=0.05,
    show_default=True,
    help="Largest share of entries that may be stale.",
)
@_every
@common_options
@click.pass_context
def status(
    ctx: click.Context,
    /,
    table: str,
    named: str | None,
    url: str,
    registry: str,
    as_json: bool,
    sample: int,
    threshold: float,
    every: float | None,
    **options: Any,
) -> None:
    """Show the state of every index; with a model, also check a sample of rows and entries for differences.

    Exit status 1 if an entry or a claim is missing, a row cannot be indexed, or the share of stale entries exceeds the
    threshold.
    """

    def once() -> int:
        lost: list[HbmodelError] = []
        with connect_existing(url) as store:
            if named is None:
                reports, lost = _registered(store, table, registry)
            else:
                reports = index_status(
                    store, load_model(named, table), sample=sample, times=times_of(options), registry=registry
                )
        for report in reports:
            text = str(report) if report.sampled else f"{report.table}.{report.index}: {report.shown_state}"
            click.echo(json.dumps(report.as_json) if as_json else text)
        for error in lost:
            click.echo(one_line(error), err=True)
        if lost:
            return 2
        return 0 if all(report.sound and report.drift <= threshold for report in reports) else 1

    ctx.exit(_repeatedly(every, once))


def _registered(store: Store, table: str, registry: str) -> tuple[list[IndexReport], list[HbmodelError]]:
    """Returns the registered states of a table's indexes, and an error for each live index whose table does not
    exist.
    """
    catalog = Registry(store, registry)
    reports: list[IndexReport] = []
    lost: list[HbmodelError] = []
    for place in known_keys(catalog, table):
        registration = catalog.read(place)
        if registration is None:
            lost.append(StoreError(ENTRY, table=table, registry=registry))
        states = () if registration is None else sorted(registration.indexes.values(), key=lambda state: state.name)
        reports += [IndexReport(table, state.name, state.state, dropping=is_dropping(state)) for state in states]
        for state in filter(is_live, states):
            try:
                check_readable(store, table, state.name, state.table, place.family)
            except (TableNotFound, FamilyNotFound) as error:
                lost.append(error)
    return reports, lost


@index.command()
@click.argument("table")
@click.argument("name", metavar="INDEX")
@_model(required=False)
@dry_run_option
@yes_option
@common_options
def drop(
    table: str, name: str, named: str | None, url: str, registry: str, as_json: bool, dry_run: bool, yes: bool,
    **options: Any,
) -> None:  # fmt: skip
    """Drop an index and its table, even if the model no longer declares it; waits until no session uses it.

    Shows the state of the index and the tables that would be dropped, and asks for confirmation; with --dry-run it
    only shows them.
    """
    times = times_of(options)
    with connect_existing(url) as store:
        catalog = Registry(store, registry)
        place = _place_of(catalog, table, name) if named is None else schema_of(load_model(named, table))
        states = IndexStates(store, catalog, place, name, times.drain, waiting(None))
        state, tables = states.to_drop()
        lines = [f"{table}.{name}: {state}", *(f"would drop {one}" for one in tables)]
        if dry_run:
            result: dict[str, Any] = {"index": name, "dry_run": True, "state": state, "would_drop": tables}
        else:
            if not yes and (tables or state != ABSENT):
                click.echo("\n".join(lines), err=True)
                confirm("Drop this index, and its entries?")
            with _shown(as_json) as progress:
                dropped = evolve(states, wait=waiting(progress)).drop()
            result, lines = {"index": name, "dry_run": False, "dropped": dropped}, [f"dropped {one}" for one in dropped]
    click.echo(json.dumps(result) if as_json else "\n".join(lines) or "nothing was left")


def _place_of(catalog: Registry, table: str, name: str) -> RegistryKey | TableSchema:
    known: set[str] = set()
    for place in known_keys(catalog, table):
        registration = catalog.read(place)
        if registration is not None and registration.named(name) is not None:
            return place
        known |= set() if registration is None else {state.name for state in registration.indexes.values()}
    raise UnknownIndex(
        "The registry does not know the index: `hbmodel index status` lists them.",
        table=table,
        index=name,
        known=sorted(known),
    )
