"""Shows for which programs a command waits."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import click

from hbmodel.tables.indexes.index_sweeps import IndexProgress
from hbmodel.tables.migration.migration_report import MigrationProgress
from hbmodel.tables.roll.wait_text import EVERY, SHORT, SHORTEN, wait_text

_UNLISTED = (
    "the table is older than its entry in the registry, or than the writers' roll: a program that is not on the roll "
    "may write it, so the first change waits until no such program can still write"
)


def waiting_text(progress: IndexProgress | MigrationProgress) -> str:
    """Returns a text that says for which programs a command waits or, if they cannot be named, how long it waits at
    most.
    """
    assert progress.waits_for is not None, "the command is waiting"
    return wait_text(progress.seconds_left or 0, progress.waits_for, progress.writers)


_NUMBERS = re.compile(r"\d+ s\b")


def _advice(progress: IndexProgress | MigrationProgress, again: bool) -> str:
    """Returns advice about a wait, which is printed once."""
    if progress.writers:
        return SHORTEN if again else ""
    return _UNLISTED if progress.waits_for == "writers" else ""


def told_at_times(
    now: Callable[[], float] = time.monotonic,
) -> Callable[[IndexProgress | MigrationProgress], None]:
    """Returns a function that prints to standard error for which programs a command waits.

    Each program is printed when the wait for it begins, when the reason changes, and once a minute. The function also
    prints once why programs cannot be named and, if the wait for a program lasts a minute, what to do if the program
    was killed.
    """
    printed_at: dict[str, float] = {}

    def report(progress: IndexProgress | MigrationProgress) -> None:
        if progress.phase != "waiting" or not (progress.writers or (progress.seconds_left or 0) > SHORT):
            return
        for line in [f"waiting for {writer}" for writer in progress.writers] or [waiting_text(progress)]:
            reason = _NUMBERS.sub("", line)
            if now() - printed_at.get(reason, -EVERY) >= EVERY:
                again, printed_at[reason] = reason in printed_at, now()
                click.echo(line, err=True)
                advice = _advice(progress, again)
                if advice and advice not in printed_at:
                    printed_at[advice] = now()
                    click.echo(advice, err=True)

    return report
