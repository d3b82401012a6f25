"""Draws the tables of the design pages from the contents of a store: `python docs/drawings/designs.py` writes the SVG
files.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE)]

from canvas import (  # noqa: E402
    LETTER,
    LINE,
    PAD,
    STYLE,
    Drawing,
    hexed,
    keys_of_rows,
    line_of_boxes,
    row_segments,
    rows_of,
    strip,
    write,
)

import hbmodel as hb  # noqa: E402

__all__ = ["STYLE", "drawings"]

SIDE = 9
"""The distance from one small box to the next, in pixels."""


@hb.model(table="comments", family="d", exists=hb.flag("e"))
class Comment:
    """A comment, the latest first."""

    post: hb.Key[int] = hb.key(hb.UInt32)
    number: hb.Key[int] = hb.key(hb.UInt32, desc=True)
    author: hb.Column[str] = hb.column("a")


@hb.model(table="user_actions", family="content", external=True)
class JavaAction:
    """An action as a Java program stores it."""

    user_id: hb.Key[int] = hb.key(hb.UInt32)
    at: hb.Key[datetime] = hb.key(hb.codecs.ReverseStamp)
    action_id: hb.Key[int] = hb.key(hb.UInt32)
    name: hb.Column[str] = hb.column("name")


@hb.model(table="installs", family="d")
class Install:
    """An application of a user."""

    user_id: hb.Key[int] = hb.key(hb.Int32)
    app: hb.Key[str] = hb.key()
    version: hb.Column[int] = hb.column("v", hb.codecs.UInt16)
    by_app = hb.index("app", "user_id")


@hb.model(table="people", family="p")
class Person:
    """A person."""

    name: hb.Key[str] = hb.key()
    town: hb.Column[str] = hb.column("t")


@hb.model(table="people", family="i")
class Picture:
    """The picture of a person, in the same row."""

    name: hb.Key[str] = hb.key()
    kind: hb.Column[str] = hb.column("k")
    image: hb.Column[bytes] = hb.column("i")


@hb.model(table="readings", family="d")
class Reading:
    """A value of a metric, the latest first."""

    metric: hb.Key[str] = hb.key()
    at: hb.Key[datetime] = hb.key(hb.Datetime("s"), desc=True)
    value: hb.Column[int] = hb.column("v", hb.codecs.UInt8)


def key_of(row: bytes, *ends: int) -> str:
    """Returns a key in hex, with spaces between its fields."""
    starts = (0, *ends)
    return " | ".join(hexed(row[start:end]) for start, end in zip(starts, (*ends, len(row)), strict=True))


def prepended() -> Drawing:
    """Draws the rows of a post, and the new row that is put before them."""
    drawing = Drawing(
        "The comments of a post, whose numbers count up and whose keys count down; a new one is put before them"
    )
    with hb.connect("memory:") as store, hb.Session(store) as session:
        hb.create_tables(store, Comment)
        for author in ("ann", "bob", "cid", "dora"):
            session.prepend(Comment, post=7, author=author)
        rows = rows_of(store, "comments")
        lines = []
        for row, cells in rows:
            found = session.get(Comment, post=7, number=2**32 - 1 - int.from_bytes(row[4:], "big"))
            assert found is not None
            assert found.author.encode() == cells[b"d:a"]
            newest = row == rows[0][0]
            said = f"7, {found.number}: {found.author}{', prepended last' if newest else ''}"
            lines.append(("kind" if newest else "row", key_of(row, 4), said))
    drawing.text(12, 24, "table comments: post | number, descending", "strong")
    keys_of_rows(drawing, 12, 34, lines)
    return drawing


def java_key() -> Drawing:
    """Draws the parts of the classic key."""
    drawing = Drawing("A row key of a Java program: user id, Long.MAX_VALUE - time, action id")
    with hb.connect("memory:") as store:
        hb.create_tables(store, JavaAction, create_external=True)
        with hb.Session(store) as session:
            session.add(
                JavaAction(user_id=42, at=datetime(2026, 3, 1, 16, 39, tzinfo=UTC), action_id=2998, name="logout")
            )
        ((key, _),) = rows_of(store, "user_actions")
    strip(drawing, 12, 24, list(row_segments(hb.schema.schema_of(JavaAction), key)))
    return drawing


def offset_and_token() -> Drawing:
    """Draws the rows that are read for a page, by offset and by token."""
    drawing = Drawing("Rows read for the third page of 20: by an offset the 60 rows from the beginning, by a token 21")
    calls: list[hb.store.Call] = []
    start = datetime(2026, 3, 1, tzinfo=UTC)
    with hb.connect("memory:") as store:
        hb.create_tables(store, JavaAction, create_external=True)
        with hb.Session(store) as session:
            session.add_all(
                JavaAction(user_id=42, at=start + timedelta(hours=n), action_id=n, name="x") for n in range(70)
            )
        session = hb.Session(store, on_call=calls.append)
        actions = session.query(JavaAction).where(JavaAction.user_id == 42)
        second = actions.page(20, after=actions.page(20).next_token)
        calls.clear()
        by_offset = actions.offset(40).limit(20).all()
        of_offset = sum(call.rows for call in calls)
        calls.clear()
        by_token = actions.page(20, after=second.next_token).items
        of_token = sum(call.rows for call in calls)
    assert by_offset == by_token
    y = 24.0
    for name, first, read in (("LIMIT 20 OFFSET 40", 0, of_offset), ("page(20, after=token)", 40, of_token)):
        drawing.text(12, y, f"{name}: {read} rows read", "strong")
        for row in range(70):
            style = "around" if not first <= row < first + read else "key" if 40 <= row < 60 else "kind"
            drawing.box(12 + row * SIDE, y + PAD, SIDE - 2, LINE, style)
        y += 2 * LINE + 2 * PAD
    legend = (("key", "shown"), ("kind", "read and not shown"), ("around", "not read"))
    x = 12.0
    for style, text in legend:
        drawing.box(x, y - 12, SIDE + 3, SIDE + 3, style)
        x = drawing.text(x + 2 * SIDE, y - 2, text, "faint") + 3 * PAD
    return drawing


def both_ways() -> Drawing:
    """Draws a table and its index, which have the same fields in two orders."""
    drawing = Drawing("The table installs in the order of users, and its index in the order of applications")
    with hb.connect("memory:") as store:
        hb.create_tables(store, Install)
        with hb.Session(store) as session:
            session.add_all(
                Install(user_id=user, app=app, version=1) for user in (-7, 0, 42) for app in ("chat", "mail")
            )
        found = [(row, hb.schema.schema_of(Install).layout.unpack(row)) for row, _ in rows_of(store, "installs")]
        layout = hb.schema.schema_of(Install).indexes["by_app"].layout
        entries = [(row, layout.unpack(row)) for row, _ in rows_of(store, "installs.by_app")]
    tables: Sequence[tuple[str, int, list[tuple[bytes, tuple[Any, ...]]]]] = (
        ("installs: user_id | app", 4, found),
        ("installs.by_app: app | user_id", 6, entries),
    )
    y = 24.0
    for title, first, rows in tables:
        drawing.text(12, y, title, "strong")
        lines = [
            ("key" if "chat" in values else "row", key_of(row, first), ", ".join(map(str, values)))
            for row, values in rows
        ]
        y = keys_of_rows(drawing, 12, y + PAD, lines) + 2 * LINE
    return drawing


def two_families() -> Drawing:
    """Draws the rows of a table with two families."""
    drawing = Drawing("Rows of the table people: each family holds the cells of one model")
    with hb.connect("memory:") as store:
        hb.create_tables(store, Person, Picture)
        with hb.Session(store) as session:
            session.add_all([Person(name="ann", town="Rome"), Person(name="bob", town="Bonn")])
            session.add_all(Picture(name=name, kind="png", image=bytes(1000)) for name in ("bob", "eve"))
        rows = rows_of(store, "people")
    width = 24 * LETTER + 2 * PAD
    places = ((b"p", 80.0, "row", "family p: Person"), (b"i", 80.0 + width + 8, "key", "family i: Picture"))
    for _, x, _, title in places:
        drawing.text(x, 24, title, "strong")
    y = 34.0
    for row, cells in rows:
        drawing.text(12, y + 18, row.decode())
        for family, x, style, _ in places:
            own = [(column, value) for column, value in cells.items() if column.startswith(family + b":")]
            shown = (
                f"{column.decode()} {value.decode() if len(value) < 9 else f'{len(value)} bytes'}"
                for column, value in own
            )
            line_of_boxes(drawing, x, y, [(style if own else "around", ", ".join(shown) or "no cells")], width)
        y += LINE + 8
    return drawing


def newest_first() -> Drawing:
    """Draws the rows of two series, and the first row of each."""
    drawing = Drawing("The rows of two metrics, newest first; the first row of each is its latest value")
    start = datetime(2026, 3, 1, tzinfo=UTC)
    with hb.connect("memory:") as store:
        hb.create_tables(store, Reading)
        with hb.Session(store) as session:
            session.add_all(
                Reading(metric=metric, at=start + timedelta(minutes=10 * n), value=n)
                for metric in ("cpu", "ram")
                for n in range(4)
            )
        session = hb.Session(store)
        latest = session.query(Reading).order_by(Reading.at.desc()).first_of_each(Reading.metric, ["cpu", "ram"])
        layout = hb.schema.schema_of(Reading).layout
        rows = [(row, layout.unpack(row), cells[b"d:v"][0]) for row, cells in rows_of(store, "readings")]
    firsts = {(reading.metric, reading.at) for reading in latest if reading is not None}
    drawing.text(12, 24, "table readings: metric | at, descending", "strong")
    lines = []
    for row, values, value in rows:
        latest_one = values in firsts
        said = f"{values[0]}, {values[1]:%H:%M}: {value}{', the latest' if latest_one else ''}"
        lines.append(("key" if latest_one else "row", key_of(row, 5), said))
    keys_of_rows(drawing, 12, 34, lines)
    return drawing


def drawings() -> dict[str, str]:
    """Returns all drawings, by file name."""
    drawn = {
        "prepended-rows": prepended(),
        "java-key-bytes": java_key(),
        "offset-and-token": offset_and_token(),
        "both-ways": both_ways(),
        "two-families": two_families(),
        "newest-first": newest_first(),
    }
    return {f"{name}.svg": drawing.svg() for name, drawing in drawn.items()}


if __name__ == "__main__":
    write(HERE, drawings())
