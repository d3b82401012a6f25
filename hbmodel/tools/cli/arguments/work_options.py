"""The options of commands that work on tables while programs use the tables: the store, the times, and the speed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

from hbmodel.tables.indexes.index_work import TIMES, IndexTimes
from hbmodel.tools.cli.arguments.finite import FiniteRange
from hbmodel.tools.cli.arguments.store_options import registry_option, store_option

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}

LONGEST = 1e9
"""The largest number of seconds that an option accepts. The system cannot wait for much longer times."""

Command = Callable[..., Any]


def seconds_of(_ctx: click.Context, parameter: click.Parameter, value: str | float | None) -> float | None:
    """Returns a time such as 30s, 10m, 6h or 1d in seconds. A number without a unit is in seconds."""
    if value is None:
        return None
    text = str(value)
    unit = UNITS.get(text[-1:], 0)
    try:
        number = float(text[:-1] if unit else text) * (unit or 1)
    except ValueError:
        number = -1.0
    if not 0 <= number <= LONGEST:
        raise click.BadParameter("must be a time such as 30s, 10m or 6h", param=parameter)
    return number


def _time(name: str, default: float | None, text: str) -> Callable[[Command], Command]:
    return click.option(
        name,
        default=default,
        type=click.UNPROCESSED,
        callback=seconds_of,
        metavar="TIME",
        show_default=default is not None,
        help=text,
    )


def common_options(command: Command) -> Command:
    """Adds the options that all these commands have."""
    options: list[Callable[[Command], Command]] = [
        store_option,
        registry_option,
        _time("--lease", TIMES.lease, "Longest lease of any session."),
        _time("--longest-call", TIMES.longest_call, "Longest time that a call may take."),
        _time("--grace", TIMES.grace, "Age from which an entry without a row is an orphan."),
        _time("--clock-bound", TIMES.clock_bound, "Largest difference between clocks."),
        click.option("--json", "as_json", is_flag=True, help="Print JSON."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def times_of(options: Mapping[str, Any]) -> IndexTimes:
    """Returns the times given as options."""
    return IndexTimes(options["lease"], options["longest_call"], options["grace"], options["clock_bound"])


def speed_options(command: Command) -> Command:
    """Adds the options of commands that read whole tables."""
    rows = click.option(
        "--rows-per-second",
        type=FiniteRange(min=0, min_open=True),
        help="Largest number of rows to read per second.",
    )
    return rows(
        click.option(
            "--bytes-per-second",
            type=FiniteRange(min=0, min_open=True),
            help="Largest number of bytes to read per second.",
        )(command)
    )
