"""Applications that users installed, queried by user and by application: with one table and an index, and with two
tables that are written together.

python examples/composite_keys.py                              # in one temporary file
python examples/composite_keys.py --store hbase                # on a real HBase that is started for it
python examples/composite_keys.py --store hbase://host:9090    # in a cluster of your own
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from stores import opened

import hbmodel as hb

LARGEST = 2**31 - 1
APPS = ("", "calendar", "chat", "mail")


@hb.model(table="installs", family="d")
class Install:
    """One table with the key (user, application), and an index with the key (application, user)."""

    user_id: hb.Key[int] = hb.key(hb.Int32)
    app: hb.Key[str] = hb.key()
    version: hb.Column[int] = hb.column("v", hb.codecs.UInt16)
    by_app = hb.index("app", "user_id")


@hb.model(table="apps_of_user", family="d")
class AppOfUser:
    """The first of two tables, sorted by user and then by application."""

    user_id: hb.Key[int] = hb.key(hb.Int32)
    app: hb.Key[str] = hb.key()
    version: hb.Column[int] = hb.column("v", hb.codecs.UInt16)


@hb.model(table="users_of_app", family="d")
class UserOfApp:
    """The second table, sorted by application and then by user. The program writes it together with the first one."""

    app: hb.Key[str] = hb.key()
    user_id: hb.Key[int] = hb.key(hb.Int32)
    version: hb.Column[int] = hb.column("v", hb.codecs.UInt16)


def installs() -> Iterator[dict[str, Any]]:
    """Yields installations. Some users have negative ids, one user has the largest possible id, and one application has
    an empty name.
    """
    for number, user in enumerate((-LARGEST - 1, -7, -1, 0, 1, 42, LARGEST)):
        for at, app in enumerate(APPS):
            if (number + at) % 3:
                yield {"user_id": user, "app": app, "version": 10 * at + number}


def load(session: hb.Session) -> None:
    """Writes every installation to each of the three tables."""
    for values in installs():
        session.add_all(model(**values) for model in (Install, AppOfUser, UserOfApp))
    session.commit()


def shown(values: Any) -> str:
    """Returns values as one line of text."""
    return ", ".join(str(value) if value != "" else "''" for value in values)


def ask(session: hb.Session, console: Console) -> None:
    """Runs the same queries on the table with an index and on the two tables."""
    questions: list[tuple[str, Any, Any]] = [
        (
            "applications of user -7",
            [each.app for each in session.query(Install).where(Install.user_id == -7)],
            [each.app for each in session.query(AppOfUser).where(AppOfUser.user_id == -7)],
        ),
        (
            f"applications of user {LARGEST}",
            [each.app for each in session.query(Install).where(Install.user_id == LARGEST)],
            [each.app for each in session.query(AppOfUser).where(AppOfUser.user_id == LARGEST)],
        ),
        (
            "users of chat",
            [each.user_id for each in session.query(Install).where(Install.app == "chat")],
            [each.user_id for each in session.query(UserOfApp).where(UserOfApp.app == "chat")],
        ),
        (
            "users of '' below 0",
            [each.user_id for each in session.query(Install).where(Install.app == "", Install.user_id < 0)],
            [each.user_id for each in session.query(UserOfApp).where(UserOfApp.app == "", UserOfApp.user_id < 0)],
        ),
        (
            "first and last user of all",
            [getattr(session.query(Install).allow_full_scan().first(), "user_id", None), _last(session, Install)],
            [getattr(session.query(AppOfUser).allow_full_scan().first(), "user_id", None), _last(session, AppOfUser)],
        ),
    ]
    found = Table("", "answer")
    for question, by_index, by_tables in questions:
        if by_index != by_tables:
            raise click.ClickException(f"{question}: {by_index} and {by_tables}")
        found.add_row(question, shown(by_index))
    console.print(found)
    console.print("One table with an index and two tables give equal answers.")


def _last(session: hb.Session, model: Any) -> Any:
    return getattr(session.query(model).allow_full_scan().last(), "user_id", None)


def change(session: hb.Session, console: Console) -> None:
    """Upgrades one installation and deletes another. With an index, each change is one call of the session; with two
    tables, it is two calls.
    """
    session.update(Install(user_id=42, app="chat", version=0), version=99)
    models: tuple[Any, ...] = (Install, AppOfUser, UserOfApp)
    for model in models[1:]:
        session.update(model(user_id=42, app="chat", version=0), version=99)
    for model in models:
        session.delete_key(model, user_id=LARGEST, app="mail")
    session.commit()
    versions = [getattr(session.get(model, user_id=42, app="chat"), "version", None) for model in models]
    gone = [session.get(model, user_id=LARGEST, app="mail") for model in models]
    console.print(f"versions after the upgrade: {shown(versions)}; deleted: {all(each is None for each in gone)}")


@click.command()
@click.option("--store", default="embedded", show_default=True, help="embedded, hbase, or the URL of a store.")
def main(store: str) -> None:
    """Query installations by user and by application."""
    console = Console(highlight=False, soft_wrap=True)
    try:
        with opened(console, store) as opened_store, hb.Session(opened_store) as session:
            hb.create_tables(opened_store, Install, AppOfUser, UserOfApp)
            load(session)
            ask(session, console)
            change(session, console)
    except hb.HbmodelError as error:
        raise click.ClickException(str(error)) from error


if __name__ == "__main__":
    main()
