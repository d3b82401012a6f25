"""Objects whose keys change: each can be found at any time under its old or its new key, with all its data.

    python examples/rekey.py                                      # in one temporary file
    python examples/rekey.py --store hbase                        # on a real HBase that is started for it
    python examples/rekey.py --store hbase+thrift2://host:9091    # in a cluster of your own

While the objects move, a second thread looks for them continuously. Every answer is checked.
"""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from stores import opened

import hbmodel as hb

POSTS = 40

# --- the models -------------------------------------------------------------------------------------------------------


@hb.model(table="posts", family="d")
class Post:
    """A post on a board; the last write wins."""

    board: hb.Key[str] = hb.key()
    number: hb.Key[int] = hb.key(hb.UInt32)
    author: hb.Column[str] = hb.column("a")
    views: hb.Column[int] = hb.counter("v")
    marks: hb.Map[str, int] = hb.map_column("m")

    by_author = hb.index("author")


@hb.model(table="members", family="d")
class Member:
    """A member with an address that no other member has; the model is versioned."""

    name: hb.Key[str] = hb.key()
    email: hb.Column[str] = hb.column("e")
    version: hb.Column[int] = hb.version()

    by_email = hb.index("email", unique=True)


@hb.model(table="seats", family="d")
class Seat:
    """A seat of a room; all seats of a room are in one row."""

    room: hb.Key[str] = hb.key()
    place: hb.Key[int] = hb.key(hb.codecs.UInt16, in_qualifier=True)
    taken_by: hb.Column[str] = hb.column("t")

    by_name = hb.index("taken_by")


@hb.model(table="notes", family="d")
class Note:
    """A note; the model has no index."""

    name: hb.Key[str] = hb.key()
    size: hb.Column[int] = hb.column("s")


# --- what is done -----------------------------------------------------------------------------------------------------


def check(what: str, found: object, expected: object) -> None:
    """Ends the program if an answer is wrong."""
    if found != expected:
        raise click.ClickException(f"{what}: {found!r} was found where {expected!r} was expected")


class Looking(threading.Thread):
    """Looks for each post under the old key and then under the new one, until it is stopped."""

    def __init__(self, store: hb.Store) -> None:
        super().__init__(daemon=True)
        self._session, self._ended = hb.Session(store), threading.Event()
        self.found: Counter[str] = Counter()

    def run(self) -> None:
        """Looks for each post in turn, again and again."""
        while not self._ended.is_set():
            for number in range(POSTS):
                old = self._session.get(Post, board="news", number=number)
                new = self._session.get(Post, board="archive", number=number)
                self.found["one key" if (old is None) != (new is None) else "both keys" if old else "neither key"] += 1

    def stop(self) -> Counter[str]:
        """Stops looking, and returns how often a post was found under one key, both keys or neither key."""
        self._ended.set()
        self.join()
        return self.found


def move_posts(console: Console, store: hb.Store, session: hb.Session) -> None:
    """Moves posts to the archive, each with its counter and its map column."""
    for number in range(POSTS):
        post = Post(board="news", number=number, author=f"author {number % 4}", marks={"ann": number % 5, "bob": 1})
        session.add(post)
        session.commit()
        session.increment(post, Post.views, number + 1)
    looking = Looking(store)
    looking.start()
    for post in session.query(Post).where(Post.board == "news").all():
        moved = session.rekey(post, board="archive")
        check("views", moved.views, moved.number + 1)
    found = looking.stop()
    check("posts under neither key", found["neither key"], 0)
    console.print(f"{POSTS} posts moved; a reader that looked for them meanwhile always found them")
    check("posts on the old board", session.query(Post).where(Post.board == "news").count(), 0)
    by_author = [post.board for post in session.query(Post).where(Post.author == "author 1")]
    check("posts of an author", by_author, ["archive"] * (POSTS // 4))
    check("marks", dict(session.entries(Post.marks, board="archive", number=7)), {"ann": 2, "bob": 1})


def rename_member(console: Console, session: hb.Session) -> None:
    """Changes the name of a member, who keeps the address. A name that is already taken is refused."""
    ann = session.insert(Member(name="ann", email="ann@example.com"))
    session.insert(Member(name="bob", email="bob@example.com"))
    try:
        session.rekey(ann, name="bob")
    except hb.RowExists:
        console.print("the name bob is taken")
    anna = session.rekey(ann, name="anna")
    check(
        "by address",
        [member.name for member in session.query(Member).where(Member.email == "ann@example.com")],
        ["anna"],
    )
    session.update(anna, email="anna@example.com")
    session.commit()
    try:
        session.rekey(ann, name="joan")
    except hb.RowNotFound:
        console.print("there is no ann any more")


def change_seats(session: hb.Session) -> None:
    """Moves an object within its row, and to another row."""
    session.add_all(Seat(room="red", place=place, taken_by=name) for place, name in enumerate(("ann", "bob"), 1))
    session.commit()
    seat = session.get(Seat, room="red", place=1)
    check("within the row", session.rekey(seat, place=7), Seat(room="red", place=7, taken_by="ann"))
    check("the room", [seat.place for seat in session.query(Seat).where(Seat.room == "red")], [2, 7])
    check(
        "to another row",
        session.rekey(Seat(room="red", place=7, taken_by=""), room="blue"),
        Seat(room="blue", place=7, taken_by="ann"),
    )


def cost(store: hb.Store) -> Table:
    """Counts the calls of one move of each kind."""
    calls: list[hb.store.Call] = []
    session = hb.Session(store, on_call=calls.append)
    table = Table("model", "reads", "writes", title="Calls of a move")
    for kind, obj, change in (
        ("without an index", Note(name="a", size=1), {"name": "b"}),
        ("with an index", Post(board="cost", number=1, author="ann", marks={}), {"board": "spent"}),
        ("versioned, with a unique index", Member(name="eve", email="eve@example.com"), {"name": "eva"}),
        ("both keys in one row", Seat(room="green", place=1, taken_by="eve"), {"place": 2}),
        ("wide, moved to another row", Seat(room="green", place=3, taken_by="eva"), {"room": "grey"}),
    ):
        made: Any = session.insert(obj)
        calls.clear()
        session.rekey(made, **change)
        own = [call for call in calls if call.table != "hbmodel"]  # calls for the registry are not counted
        reads = sum(call.operation.startswith("get") for call in own)
        table.add_row(kind, str(reads), str(len(own) - reads))
    return table


@click.command()
@click.option("--store", default="embedded", show_default=True, help="embedded, hbase, or the URL of a store.")
def main(store: str) -> None:
    """Move objects to other keys while they are read."""
    console = Console(highlight=False)
    try:
        with opened(console, store) as opened_store:
            hb.create_tables(opened_store, Post, Member, Seat, Note)
            if not opened_store.capabilities.check_and_mutate:
                try:
                    hb.Session(opened_store).rekey(Note(name="a", size=1), name="b")
                except hb.CapabilityError as error:
                    console.print(error.message)
                return
            with hb.Session(opened_store) as session:
                move_posts(console, opened_store, session)
                rename_member(console, session)
                change_seats(session)
            console.print(cost(opened_store))
    except hb.HbmodelError as error:
        raise click.ClickException(str(error)) from error


if __name__ == "__main__":
    main()
