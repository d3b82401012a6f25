"""Draws how an object gets another key, and a table another layout: `python docs/drawings/moves.py` writes the SVG
files.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE)]

from canvas import LETTER, LINE, PAD, STYLE, Drawing, line_of_boxes, rows_of, write  # noqa: E402

import hbmodel as hb  # noqa: E402
from hbmodel.protocol.relocation.migration_phases import BEFORE, CUT, DONE, MOVING, PHASES, PREPARED  # noqa: E402
from hbmodel.store import Store  # noqa: E402

__all__ = ["STYLE", "drawings"]

BOARDS = ("news", "archive")

Snapshot = Sequence[Sequence[tuple[str, str]]]
"""For each board, the style and the text of the row and of its index entry."""


@hb.model(table="posts", family="d")
class Post:
    """A post on a board."""

    board: hb.Key[str] = hb.key()
    number: hb.Key[int] = hb.key(hb.UInt32)
    author: hb.Column[str] = hb.column("a")

    by_author = hb.index("author")


def snapshot(store: Store) -> Snapshot:
    """Returns the contents of the two tables about the post, for each key."""
    schema = hb.schema.schema_of(Post)
    rows = dict(rows_of(store, "posts"))
    entries = {schema.indexes["by_author"].layout.unpack(entry)[1] for entry, _ in rows_of(store, "posts.by_author")}
    found = []
    for board in BOARDS:
        cells = rows.get(hb.row_key(Post, board=board, number=7), {})
        live = cells.get(schema.liveness_column, b"").startswith(b"\1")
        marked = any(column.endswith(b":_pm") for column in cells)
        row = ("key", "row, marked" if marked else "row") if live else ("around", "deleted" if cells else "no row")
        found.append((row, ("alias", "entry") if board in entries else ("around", "no entry")))
    return found


def rekeyed() -> Drawing:
    """Draws the stored rows after each write of a move."""
    drawing = Drawing("The row and the entry of an object under its old and its new key, after each write of rekey")
    taken: list[Snapshot] = []
    with tempfile.TemporaryDirectory() as folder:
        url = f"embedded:{folder}/posts.db"
        with hb.connect(url) as reader, hb.connect(url) as store:
            hb.create_tables(store, Post)
            with hb.Session(store) as session:
                session.add(Post(board="news", number=7, author="ann"))

            def look(_: hb.store.Call) -> None:
                if (now := snapshot(reader)) not in taken:
                    taken.append(now)

            session = hb.Session(store, on_call=look)
            session.rekey(Post(board="news", number=7, author="ann"), board="archive")
    width = 12 * LETTER + 2 * PAD
    x = 12 + 4 * LETTER
    for board in BOARDS:
        drawing.text(x, 24, f"under {board!r}", "strong")
        x += 2 * width + 4 + 3 * PAD
    y = 34.0
    for number, of_boards in enumerate(taken):
        drawing.text(12, y + 18, f"{number}", "faint")
        x = 12 + 4 * LETTER
        for boxes in of_boards:
            x = line_of_boxes(drawing, x, y, boxes, width) + 3 * PAD
        y += LINE + 8
    return drawing


def phases() -> Drawing:
    """Draws which tables are read, and which table is written, in each phase of a migration."""
    drawing = Drawing("The old and the new table in each phase of a migration: read, written or not used")
    width = 14 * LETTER + 2 * PAD
    x = 12 + 12 * LETTER
    for number, side in enumerate(("old", "new")):
        drawing.text(x + number * (width + 4), 24, f"the {side} table", "strong")
    y = 34.0
    for name in (BEFORE, PREPARED, MOVING, CUT, DONE):
        phase = PHASES[name]
        boxes = []
        for side in ("old", "new"):
            uses = [use for use, used in (("read", side in phase.reads), ("written", side == phase.writes)) if used]
            style = "kind" if "written" in uses else "row" if uses else "around"
            boxes.append((style, ", ".join(uses) or "not used"))
        drawing.text(12, y + 18, name)
        right = line_of_boxes(drawing, x, y, boxes, width)
        drawing.text(right + 2 * PAD, y + 18, "deletes, too" if phase.changes else "no deletes", "faint")
        y += LINE + 8
    return drawing


def drawings() -> dict[str, str]:
    """Returns all drawings, by file name."""
    return {"rekeyed.svg": rekeyed().svg(), "phases-of-a-migration.svg": phases().svg()}


if __name__ == "__main__":
    write(HERE, drawings())
