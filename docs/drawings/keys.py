"""Draws a row key, an index entry and a salted scan: `python docs/drawings/keys.py` writes the SVG files."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE)]

from canvas import (  # noqa: E402
    LETTER,
    LINE,
    PAD,
    STYLE,
    Drawing,
    entry_segments,
    hexed,
    line_of_boxes,
    row_segments,
    rows_of,
    stack,
    strip,
    write,
)

import hbmodel as hb  # noqa: E402
from hbmodel.store import Store  # noqa: E402

__all__ = ["STYLE", "drawings"]

BUCKETS = ("row", "kind", "key", "alias")
"""The style of each bucket."""


@hb.model(table="actions", family="d", salt=hb.HashSalt(16, by=("user_id",)))
class Action:
    """An action of a user, the latest first."""

    user_id: hb.Key[int] = hb.key(hb.UInt32)
    at: hb.Key[datetime] = hb.key(hb.Datetime("s"), desc=True)
    action_id: hb.Key[int] = hb.key(hb.UInt32)
    name: hb.Column[str] = hb.column("n")

    by_name = hb.index("name", "at")


@hb.model(table="numbers", family="d", salt=hb.HashSalt(len(BUCKETS)))
class Number:
    """A number, in a table that is salted by the whole key."""

    number: hb.Key[int] = hb.key(hb.codecs.UInt16)
    name: hb.Column[str] = hb.column("n")


def stored() -> Store:
    """Returns a store with an action and some numbers."""
    store = hb.connect("memory:")
    hb.create_tables(store, Action, Number)
    with hb.Session(store) as session:
        session.add(Action(user_id=1, at=datetime(2026, 3, 1, 11, tzinfo=UTC), action_id=7, name="login"))
        session.add_all(Number(number=number, name="x") for number in range(1, 13))
    return store


def row_key(store: Store) -> Drawing:
    """Draws the parts of a row key."""
    drawing = Drawing("A row key of the table actions: the salt, user_id, at and action_id")
    ((key, _),) = rows_of(store, "actions")
    strip(drawing, 12, 24, list(row_segments(hb.schema.schema_of(Action), key)))
    return drawing


def entry_and_row(store: Store) -> Drawing:
    """Draws an entry, and below it the row to which it leads."""
    drawing = Drawing("An entry of the index by_name, and the row of the table actions that it leads to")
    schema = hb.schema.schema_of(Action)
    ((entry, _),) = rows_of(store, "actions.by_name")
    ((key, cells),) = rows_of(store, "actions")
    drawing.text(12, 24, "table actions.by_name: an entry", "strong")
    y = strip(drawing, 12, 24 + LINE + PAD, list(entry_segments(schema.indexes["by_name"], entry)))
    drawing.arrow(12 + 3 * PAD, y - LINE - 4, y + LINE)
    drawing.text(
        12 + 5 * PAD, y + 4, "get: user_id, at and action_id are the key, the salt follows from user_id", "faint"
    )
    y += 2 * LINE + PAD
    drawing.text(12, y, "table actions: the row", "strong")
    y = strip(drawing, 12, y + LINE + PAD, list(row_segments(schema, key)))
    drawing.text(12, y, f"d:n = {cells[b'd:n'].decode()}")
    return drawing


def salted_scan(store: Store) -> Drawing:
    """Draws the rows of each bucket, and the rows of the merged scan."""
    drawing = Drawing("Rows of four buckets, each in the order of its keys, and the order in which a query gives them")
    bucket_of: dict[int, int] = {}
    columns: list[list[tuple[str, str]]] = [[] for _ in BUCKETS]
    for key, _ in rows_of(store, "numbers"):
        number = int.from_bytes(key[1:], "big")
        bucket_of[number] = key[0]
        columns[key[0]].append((BUCKETS[key[0]], f"{hexed(key)}: {number}"))
    x, below, ends = 12.0, 0.0, []
    for bucket, lines in enumerate(columns):
        drawing.text(x, 24, f"bucket {bucket}", "strong")
        right, bottom = stack(drawing, x, 34, lines)
        ends.append((x + (right - x) / 2, bottom))
        x, below = right + 14, max(below, bottom)
    for middle, bottom in ends:
        drawing.arrow(middle, bottom + 6, below + 2 * LINE)
    y = below + 3 * LINE
    drawing.text(12, y, "merged, in the order of the key", "strong")
    with hb.Session(store) as session:
        merged = [found.number for found in session.query(Number).order_by(Number.number).allow_full_scan()]
    boxes = [(BUCKETS[bucket_of[number]], f"{number}") for number in merged]
    line_of_boxes(drawing, 12, y + PAD, boxes, 2 * LETTER + 2 * PAD)
    return drawing


def drawings() -> dict[str, str]:
    """Returns all drawings, by file name."""
    with stored() as store:
        drawn = {
            "row-key-bytes": row_key(store),
            "entry-and-row": entry_and_row(store),
            "salted-scan": salted_scan(store),
        }
    return {f"{name}.svg": drawing.svg() for name, drawing in drawn.items()}


if __name__ == "__main__":
    write(HERE, drawings())
