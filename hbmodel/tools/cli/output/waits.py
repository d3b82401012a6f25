"""Shows which programs a command waits for."""

from __future__ import annotations

from collections.abc import Callable

import click

from hbmodel.tables.indexes.index_sweeps import IndexProgress
from hbmodel.tables.migration.migration_report import MigrationProgress


def waiting_text(progress: IndexProgress | MigrationProgress) -> str:
    """Says for which programs a command waits or, if none can be named, how long it waits at most."""
    if not progress.writers:
        return f"waiting {progress.seconds_left:.0f} s for {progress.waits_for} of an earlier state"
    more = len(progress.writers) - 1
    return f"waiting for {progress.writers[0]}" + (f", and {more} more" if more else "")


def told_once() -> Callable[[IndexProgress | MigrationProgress], None]:
    """A function that prints to standard error which programs a command waits for, each program only once."""
    told: set[str] = set()

    def report(progress: IndexProgress | MigrationProgress) -> None:
        for writer in progress.writers:
            who = writer.partition(": ")[0]
            if who not in told:
                told.add(who)
                click.echo(f"waiting for {writer}", err=True)

    return report
