"""Makes all calls of programs and operators on a store, one after the other, for stores with damaged contents."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from click.testing import CliRunner

import hbmodel as hb
from hbmodel.tools.cli import main

TIMES = hb.indexes.IndexTimes(lease=0.005, longest_call=0.005, clock_bound=0.1, grace=1)


@hb.model(table="damaged", family="d")
class Item:
    number: hb.Key[int] = hb.key()
    text: hb.Column[str] = hb.column("t")
    other: hb.Column[int | None] = hb.column("o", default=None)
    notes: hb.Map[str, str] = hb.map_column("n")

    by_text = hb.index("text")
    by_other = hb.index("other", covers=("text",))


@hb.model(table="damaged_old", family="d", immutable=True)
class OldItem:
    number: hb.Key[int] = hb.key()
    text: hb.Column[str] = hb.column("t")


@hb.model(table="damaged_new", family="d", salt=hb.HashSalt(4), immutable=True, replaces=OldItem)
class NewItem:
    number: hb.Key[int] = hb.key()
    text: hb.Column[str] = hb.column("t")


def fill(store: hb.Store) -> None:
    """Fills a store with tables, rows, indexes, one of which is only partly built, and a migration that has begun."""
    hb.create_tables(store, Item, OldItem)
    hb.indexes.drop_index(store, Item, "by_other", times=TIMES)
    session = hb.Session(store, lease=TIMES.lease)
    session.add_all(Item(number=n, text=f"v{n % 5}" + "z" * 20, notes={"a": "b"}) for n in range(100))
    session.add_all(OldItem(number=n, text="") for n in range(10))
    session.commit()
    hb.migration.migrate(store, NewItem, times=TIMES).start()
    with suppress(_Killed):
        hb.indexes.build_index(store, Item, "by_other", times=TIMES, progress=_killed)


class _Killed(BaseException):
    """Raised when the program is killed."""


def _killed(progress: hb.indexes.IndexProgress) -> None:
    if progress.phase == "building":
        raise _Killed


def add(store: hb.Store) -> None:
    with hb.Session(store, lease=TIMES.lease) as session:
        session.add(Item(number=1000, text="new"))


def update(store: hb.Store) -> None:
    with hb.Session(store, lease=TIMES.lease) as session:
        session.update_key(Item, number=1, text="changed")


def migration(store: hb.Store) -> None:
    moving = hb.migration.migrate(store, NewItem, times=TIMES)
    moving.status()
    hb.Session(store).query(NewItem).allow_full_scan().all()
    moving.roll_back()


CALLS: Mapping[str, Callable[[hb.Store], object]] = {
    "tables": lambda store: store.tables(),
    "create": lambda store: hb.create_tables(store, Item),
    "diff": lambda store: hb.diff(store, Item),
    "alter": lambda store: hb.alter(store, Item, times=TIMES),
    "get": lambda store: hb.Session(store).get(Item, number=1),
    "query": lambda store: hb.Session(store).query(Item).allow_full_scan().all(),
    "by index": lambda store: hb.Session(store).query(Item).where(Item.text == "v1").all(),
    "add": add,
    "update": update,
    "status": lambda store: hb.indexes.index_status(store, Item, times=TIMES),
    "build": lambda store: hb.indexes.build_index(store, Item, "by_other", times=TIMES),
    "verify": lambda store: hb.indexes.verify_index(store, Item, "by_text", times=TIMES),
    "repair": lambda store: hb.indexes.repair_index(store, Item, "by_text", times=TIMES),
    "drop index": lambda store: hb.indexes.drop_index(store, Item, "by_other", times=TIMES),
    "migration": migration,
    "drop": lambda store: hb.drop_tables(store, Item),
}

COMMANDS = (
    ("index", "status", "damaged"),
    ("scan", "damaged", "--limit", "2"),
    ("describe", "damaged"),
    ("writers", "damaged"),
    ("migrate", "status", "tests.support.everything:NewItem"),
    ("diff", "tests.support.everything:Item"),
    ("create", "tests.support.everything:Item"),
    ("alter", "tests.support.everything:Item", "--yes"),
)


def unexpected(store: hb.Store) -> dict[str, Any]:
    """Returns the calls that raise an error that hbmodel does not define."""
    found: dict[str, Any] = {}
    for name, call in CALLS.items():
        try:
            call(store)
        except hb.HbmodelError:
            continue
        except Exception as error:
            found[name] = error
    return found


def unexpected_commands(url: str) -> dict[str, Any]:
    """Returns the commands of the command line that raise an error that hbmodel does not define."""
    found: dict[str, Any] = {}
    for command in COMMANDS:
        result = CliRunner().invoke(main, [*command, "--store", url])
        if result.exception is not None and not isinstance(result.exception, SystemExit | hb.HbmodelError):
            found[" ".join(command)] = result.exception
    return found
