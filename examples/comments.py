"""Comments, newest first: the first and the last row, descending keys, and new rows before the first one.

    python examples/comments.py                              # in one temporary file
    python examples/comments.py --store hbase                # on a real HBase that is started for it
    python examples/comments.py --store hbase://host:9090    # in a cluster of your own

Every answer is checked against the data that was written. The calls to the store and the rows read are counted.
"""

from __future__ import annotations

import random
import threading

import click
from rich.console import Console
from rich.text import Text
from stores import opened

import hbmodel as hb

BUCKETS = 16
VISITORS = 2_000
POST = 7


# --- the models -------------------------------------------------------------------------------------------------------
# HBase stores rows in the order of their keys, and reads forwards by default. So the row that is read most often, the
# newest comment, comes first. `desc=True` stores the number so that the largest one sorts first. The last row of a post
# is always the same: number 0.


@hb.model(table="comments", family="d", exists=hb.flag("e"))
class Comment:
    """A comment on a post; the largest number comes first. `prepend` uses the flag to claim a key."""

    post: hb.Key[int] = hb.key(hb.UInt32)
    number: hb.Key[int] = hb.key(hb.UInt32, desc=True)
    author: hb.Column[str] = hb.column("a")
    text: hb.Column[str] = hb.column("t")


# All comments of one post are in one region. If the posts that are written at the same time are adjacent, a salt by the
# post spreads them. If a single post has too many writers, a lane in front of the number spreads its comments. Each
# lane then has its own first row, and the comments are in order only within a lane.


@hb.model(table="busy_comments", family="d", exists=hb.flag("e"), salt=hb.HashSalt(BUCKETS, by=("post", "lane")))
class BusyComment:
    """Comments on a post that many programs write to at once: a hot spot spread over lanes."""

    post: hb.Key[int] = hb.key(hb.UInt32)
    lane: hb.Key[int] = hb.key(hb.codecs.UInt8)
    number: hb.Key[int] = hb.key(hb.UInt32, desc=True)
    author: hb.Column[str] = hb.column("a")
    text: hb.Column[str] = hb.column("t")


@hb.model(table="visitors", family="d", salt=hb.HashSalt(BUCKETS))
class Visitor:
    """Numbered visitors, spread over buckets: the first and the last visitor may be in any bucket."""

    number: hb.Key[int] = hb.key(hb.UInt32)
    name: hb.Column[str] = hb.column("n")


LANES = 4


# --- what is asked ----------------------------------------------------------------------------------------------------


class Counted:
    """Counts the calls to the store and the rows that they return."""

    def __init__(self) -> None:
        self.calls = 0
        self.rows = 0

    def __call__(self, call: hb.store.Call) -> None:
        if call.table != "hbmodel":  # calls for the registry are not counted
            self.calls += 1
            self.rows += call.rows

    def taken(self) -> str:
        """Returns the counts as text, and resets them."""
        text = f"{self.calls} call{'s' * (self.calls != 1)}, {self.rows} row{'s' * (self.rows != 1)}"
        self.calls = self.rows = 0
        return text


def check(console: Console, what: str, found: object, expected: object, cost: str = "") -> None:
    """Prints an answer, and ends the program if it is wrong."""
    if found != expected:
        raise click.ClickException(f"{what}: {found!r} was found where {expected!r} was written")
    console.print(Text.assemble(f"{what}: ", (str(found), "bold"), f"   ({cost})" if cost else ""))


def ask_ends(console: Console, session: hb.Session, counted: Counted) -> None:
    """Reads the first and the last row of a table that is spread over buckets. Each read fetches one row per bucket,
    from all buckets at once.
    """
    visitors = session.query(Visitor)
    visitors.first()  # the session reads the registry's entry of the table once
    counted.taken()
    first = visitors.first()
    check(console, "the first of all", first and first.number, 1, counted.taken())
    last = visitors.last()
    check(console, "the last of all", last and last.number, VISITORS, counted.taken())
    check(console, "the first four", [found.number for found in visitors.limit(4)], [1, 2, 3, 4], counted.taken())
    check(console, "the last one by bisection", search_last(session), VISITORS, counted.taken())


def search_last(session: hb.Session) -> int:
    """Finds the last number by bisection, as was necessary before HBase 0.98 had reversed scans. If there is a row at
    or after a key, the last row is at or after this key too.
    """
    low, high = 0, 2**32
    while high - low > 1:
        middle = (low + high) // 2
        if session.query(Visitor).where(Visitor.number >= middle).exists():
            low = middle
        else:
            high = middle
    return low


def prepend_comments(console: Console, session: hb.Session, counted: Counted) -> None:
    """Adds three comments, each in front of the comment that is first at that moment."""
    for author, text in (("ann", "first!"), ("bob", "second"), ("cid", "third")):
        made = session.prepend(Comment, post=POST, author=author, text=text)
        console.print(f"{author} has number {made.number}")
    counted.taken()
    newest = session.query(Comment).where(Comment.post == POST)
    check(console, "newest first", [comment.author for comment in newest], ["cid", "bob", "ann"], counted.taken())
    oldest = newest.last()
    check(console, "the last row is always number", oldest and oldest.number, 0, counted.taken())


def delete_first(console: Console, session: hb.Session) -> None:
    """Shows that the key of a deleted first row is used again, but the key of any other deleted row is not."""
    session.delete_key(Comment, post=POST, number=2)
    session.delete_key(Comment, post=POST, number=0)
    session.commit()
    made = session.prepend(Comment, post=POST, author="dora", text="third again")
    check(
        console, "numbers after deletes", [c.number for c in session.query(Comment).where(Comment.post == POST)], [2, 1]
    )
    check(console, "the key of the deleted first row", made.number, 2)


def prepend_together(console: Console, store: hb.Store) -> None:
    """Several writers add comments to one post at once: no key is used twice, and no number is skipped."""
    writers, each, post = 4, 25, POST + 1

    def write(author: str) -> None:
        session = hb.Session(store)
        for count in range(each):
            session.prepend(Comment, post=post, author=author, text=f"comment {count}")

    together([threading.Thread(target=write, args=(f"writer {number}",)) for number in range(writers)])
    numbers = [comment.number for comment in hb.Session(store).query(Comment).where(Comment.post == post)]
    check(console, "comments of four writers", len(numbers), writers * each)
    check(console, "their numbers follow each other", numbers == list(range(writers * each - 1, -1, -1)), True)


def prepend_in_lanes(console: Console, store: hb.Store) -> None:
    """Spreads a hot post over lanes: each writer chooses a lane at random. A reader merges the lanes by number, but the
    order in which comments were written is known only within a lane.
    """
    writers, each = 4, 25

    def write(author: str) -> None:
        session, draw = hb.Session(store), random.Random(author)
        for count in range(each):
            session.prepend(BusyComment, post=POST, lane=draw.randrange(LANES), author=author, text=f"comment {count}")

    together([threading.Thread(target=write, args=(f"writer {number}",)) for number in range(writers)])
    comments = (
        hb.Session(store)
        .query(BusyComment)
        .where(BusyComment.post == POST, BusyComment.lane.in_(list(range(LANES))))
        .all()
    )
    check(console, "comments in lanes", len(comments), writers * each)
    for lane in range(LANES):
        numbers = [comment.number for comment in comments if comment.lane == lane]
        if numbers != list(range(len(numbers) - 1, -1, -1)):
            raise click.ClickException(f"lane {lane}: {numbers}")


def together(threads: list[threading.Thread]) -> None:
    """Starts all threads, and waits until they have finished."""
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@click.command()
@click.option("--store", default="embedded", show_default=True, help="embedded, hbase, or the URL of a store.")
def main(store: str) -> None:
    """Write comments before the first one, and read both ends of tables."""
    console = Console(highlight=False)
    try:
        with opened(console, store) as comments:
            hb.create_tables(comments, Comment, BusyComment, Visitor)
            counted = Counted()
            with hb.Session(comments, on_call=counted) as session:
                session.bulk_add(Visitor(number=number, name=f"visitor {number}") for number in range(1, VISITORS + 1))
                ask_ends(console, session, counted)
                prepend_comments(console, session, counted)
                delete_first(console, session)
            prepend_together(console, comments)
            prepend_in_lanes(console, comments)
    except hb.HbmodelError as error:
        raise click.ClickException(str(error)) from error


if __name__ == "__main__":
    main()
