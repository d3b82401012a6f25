"""Actions by user, newest first, in the layout of a Java program: LIMIT, OFFSET and pages, and how to find an action by
its id.

    python examples/limit_and_offset.py                              # in one temporary file
    python examples/limit_and_offset.py --store hbase                # on a real HBase that is started for it
    python examples/limit_and_offset.py --store hbase://host:9090    # in a cluster of your own

Row keys are `<user id, 4 bytes><Long.MAX_VALUE - ms, 8><action id, 4>`, joined by `Bytes.add` and `Bytes.toBytes`. The
only column is `content:name`. The example counts calls and rows, and does not measure time.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import click
from rich.console import Console
from rich.table import Table
from stores import opened

import hbmodel as hb

USERS = (17, 42, 4_711)
ACTIONS = 1_000
FIRST = datetime(2026, 3, 1, tzinfo=UTC)
NAMES = ("login", "search", "buy", "logout")
LIMIT = 20
ASKED = 42
"""The user whose actions are read."""


# --- the models -------------------------------------------------------------------------------------------------------


@hb.model(table="user_actions", family="content", external=True)
class JavaAction:
    """An action in the table of the Java program, which continues to write this table. So the model has no index, and
    hbmodel adds no cells.
    """

    user_id: hb.Key[int] = hb.key(hb.UInt32)  # as Bytes.toBytes(int), for ids that are not negative
    at: hb.Key[datetime] = hb.key(hb.codecs.ReverseStamp)  # Long.MAX_VALUE - ms: the newest first
    action_id: hb.Key[int] = hb.key(hb.UInt32)
    name: hb.Column[str] = hb.column("name")


@hb.model(table="actions", family="content")
class Action:
    """The same key in a separate table, with an index that finds an action by its id."""

    user_id: hb.Key[int] = hb.key(hb.UInt32)
    at: hb.Key[datetime] = hb.key(hb.codecs.ReverseStamp)
    action_id: hb.Key[int] = hb.key(hb.UInt32)
    name: hb.Column[str] = hb.column("name")

    by_id = hb.index("action_id")


def actions() -> Iterator[JavaAction]:
    """Yields the actions that the Java program has written."""
    for number in range(ACTIONS):
        for at, user in enumerate(USERS):
            moment = FIRST + timedelta(minutes=number, milliseconds=user)
            yield JavaAction(
                user_id=user, at=moment, action_id=number * len(USERS) + at, name=NAMES[number % len(NAMES)]
            )


def copied(session: hb.Session) -> Iterator[Action]:
    """Copies the actions of the Java program into objects for the other table."""
    for each in session.query(JavaAction).allow_full_scan():
        yield Action(user_id=each.user_id, at=each.at, action_id=each.action_id, name=each.name)


# --- the program ------------------------------------------------------------------------------------------------------


class Counted:
    """Counts the calls and rows that a session reads."""

    def __init__(self) -> None:
        self.calls = self.rows = 0

    def __call__(self, call: hb.store.Call) -> None:
        if call.table.startswith((hb.schema.schema_of(JavaAction).table, hb.schema.schema_of(Action).table)):
            self.calls, self.rows = self.calls + 1, self.rows + call.rows


def show_pages(store: hb.Store, table: Table) -> None:
    """Reads the same twenty actions with OFFSET and with the token of a page."""
    counted = Counted()
    session = hb.Session(store, on_call=counted)
    newest = session.query(JavaAction).where(JavaAction.user_id == ASKED)
    token: str | None = None
    for offset in range(0, ACTIONS, LIMIT):
        counted.calls = counted.rows = 0
        page = newest.page(LIMIT, after=token)
        by_token, token = f"{counted.calls} / {counted.rows:,}", page.next_token
        if offset in {0, 100, 500, ACTIONS - 2 * LIMIT}:
            counted.calls = counted.rows = 0
            assert newest.limit(LIMIT).offset(offset).all() == page.items
            table.add_row(f"LIMIT {LIMIT} OFFSET {offset}", f"{counted.calls} / {counted.rows:,}", by_token)


def show_ids(store: hb.Store, table: Table) -> None:
    """Finds one action by its id, without its user or its time."""
    wanted = 1_501
    counted = Counted()
    session = hb.Session(store, on_call=counted)
    (found,) = session.query(JavaAction).where(JavaAction.action_id == wanted).allow_full_scan().all()
    table.add_row("user_actions, every row", f"{counted.calls} / {counted.rows:,}")
    counted.calls = counted.rows = 0
    (indexed,) = session.query(Action).where(Action.action_id == wanted).all()
    table.add_row("actions, by_id", f"{counted.calls} / {counted.rows:,}")
    assert (indexed.user_id, indexed.at, indexed.name) == (found.user_id, found.at, found.name)


@click.command()
@click.option("--store", default="embedded", show_default=True, help="embedded, hbase, or the URL of a store.")
def main(store: str) -> None:
    """Load the actions into both tables, and read them page by page and by id."""
    console = Console(highlight=False)
    try:
        with opened(console, store) as found, hb.Session(found) as session:
            hb.create_tables(found, JavaAction, Action, create_external=True)
            session.bulk_add(actions())
            session.bulk_add(copied(session))
            newest = session.query(JavaAction).where(JavaAction.user_id == ASKED).limit(3)
            for each in newest:
                key = hb.row_key(JavaAction, user_id=each.user_id, at=each.at, action_id=each.action_id)
                console.print(f"{each.at:%d %b %H:%M}  {each.name:<6}  {key.hex()}")
            pages = Table("calls / rows", "by offset", "by token")
            show_pages(found, pages)
            console.print(pages)
            ids = Table("an action by its id", "calls / rows")
            show_ids(found, ids)
            console.print(ids)
    except hb.HbmodelError as error:
        raise click.ClickException(str(error)) from error


if __name__ == "__main__":
    main()
