"""The same actions with long and with short names, and with ids as text, as numbers and as digests: how many
bytes each part of a stored cell uses.

    python examples/names_and_bytes.py                              # in one temporary file
    python examples/names_and_bytes.py --store hbase                # on a real HBase that is started for it
    python examples/names_and_bytes.py --store hbase://host:9090    # in a cluster of your own

The figures are those of the stored cells, before compression and block encoding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from stores import opened

import hbmodel as hb

FIRST = datetime(2026, 3, 1, tzinfo=UTC)
NAMES = ("login", "search", "add to basket", "pay")


# --- the models -------------------------------------------------------------------------------------------------------


@hb.model(table="bytes_long", family="content")
class Long:
    """Names as a program would use them, and the user's id as text."""

    user_id: hb.Key[str] = hb.key(hb.Text)
    at: hb.Key[datetime] = hb.key(desc=True)
    action_name: hb.Column[str] = hb.column("action_name")
    duration: hb.Column[int] = hb.column("duration_in_milliseconds")


@hb.model(table="bytes_short", family="c")
class Short:
    """Stored names of one letter, which the program never sees, and the user's id as a number."""

    user_id: hb.Key[int] = hb.key(hb.UInt32)
    at: hb.Key[datetime] = hb.key(desc=True)
    action_name: hb.Column[str] = hb.column("n")
    duration: hb.Column[int] = hb.column("d", hb.UInt32)


USER_IDS: Mapping[type[Any], Callable[[int], int | str]] = {Long: str, Short: int}
"""The type of the user's id in each model."""


def actions(model: Any, count: int) -> Iterator[Any]:
    """Yields `count` actions of a few users."""
    for number in range(count):
        yield model(
            user_id=USER_IDS[model](7_000_000 + number % 50),
            at=FIRST + timedelta(seconds=number),
            action_name=NAMES[number % len(NAMES)],
            duration=number * 37 % 5_000,
        )


# --- the program ------------------------------------------------------------------------------------------------------


def show(console: Console, descriptions: dict[str, hb.types.Description]) -> None:
    """Prints the parts of the stored cells and their bytes."""
    costs = {name: found.bytes for name, found in descriptions.items() if found.bytes is not None}
    table = Table("bytes of an action", *costs)
    for part in costs["long names"].parts:
        table.add_row(part, *(f"{cost.parts[part] / cost.objects:.1f}" for cost in costs.values()))
    table.add_row("total", *(f"{cost.total / cost.objects:.1f}" for cost in costs.values()))
    console.print(table)
    table = Table("name", "bytes", "bytes saved per million actions by a one-byte name")
    for name in costs["long names"].names:
        table.add_row(name.name, str(name.bytes), f"{name.saved:,}")
    console.print(table)
    table = Table("user_id as", "bytes", "bytes saved per million actions")
    for form in costs["long names"].codecs:
        if form.field == "user_id":
            table.add_row(f"text, {form.form}", f"{form.bytes:.1f}", f"{form.saved:,}")
    for form in costs["short names"].codecs:
        if form.field == "user_id":
            table.add_row(f"number, {form.form}", f"{form.bytes:.1f}", f"{form.saved:,}")
    console.print(table)


@click.command()
@click.option("--store", default="embedded", show_default=True, help="embedded, hbase, or the URL of a store.")
@click.option("--count", type=click.IntRange(1, 10_000), default=1_000, show_default=True, help="So many actions.")
def main(store: str, count: int) -> None:
    """Load actions into two tables, and show where their bytes go."""
    console = Console(highlight=False)
    try:
        with opened(console, store) as found, hb.Session(found) as session:
            hb.create_tables(found, Long, Short)
            for model in (Long, Short):
                session.bulk_add(actions(model, count))
            show(
                console,
                {"long names": hb.describe(Long, sample=session), "short names": hb.describe(Short, sample=session)},
            )
    except hb.HbmodelError as error:
        raise click.ClickException(str(error)) from error


if __name__ == "__main__":
    main()
