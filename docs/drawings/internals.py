"""Draws the inside of the package, a write and a query: `python docs/drawings/internals.py` writes the SVG files."""

from __future__ import annotations

import ast
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from graphlib import TopologicalSorter
from pathlib import Path

HERE = Path(__file__).parent
PACKAGE = HERE.parents[1] / "hbmodel"
sys.path[:0] = [str(HERE)]

from canvas import LETTER, LINE, PAD, STYLE, Drawing, line_of_boxes, rows_of, write  # noqa: E402

import hbmodel as hb  # noqa: E402
from hbmodel.store import Store  # noqa: E402

__all__ = ["STYLE", "drawings"]

ROOMS: dict[str, str] = {
    "tools": "the command line, the pytest plugin",
    "localhbase": "HBase's servers and gateways on this machine",
    "session": "sessions, commits, groups, bulk loads",
    "query": "queries, their plans, pages",
    "tables": "the registry; create, alter, build, migrate",
    "protocol": "writes as generators without I/O, and their driver",
    "mapping": "models as schemas, objects to cells",
    "encoding": "codecs, keys, salts",
    "store": "the port, its values, and four stores",
    "errors": "one tree of errors",
}
"""The rooms of the package (its top-level folders), each with its contents. A room comes before the rooms that it
imports.
"""


def known() -> dict[str, set[str]]:
    """Returns the rooms that each room imports from, read from the code."""
    found: dict[str, set[str]] = {room: set() for room in ROOMS}
    for room in ROOMS:
        for path in [PACKAGE / f"{room}.py"] if room == "errors" else (PACKAGE / room).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.startswith("hbmodel."):
                    found[room].add(node.module.split(".")[1])
    return {room: others & ROOMS.keys() - {room} for room, others in found.items()}


def house() -> Drawing:
    """Draws the rooms below each other, each with the rooms that it imports."""
    drawing = Drawing(
        "The rooms of the package: what is in each, and the rooms that it imports from, all of which stand below it"
    )
    imports = known()
    assert set(TopologicalSorter(imports).static_order()) == ROOMS.keys(), "no rooms import each other"
    names = list(ROOMS)
    assert all(names.index(room) < names.index(other) for room, others in imports.items() for other in others), (
        "imports go downwards"
    )
    first, second = (max(map(len, texts)) * LETTER + 2 * PAD for texts in (ROOMS, ROOMS.values()))
    left = 12 + first + second + 3 * PAD
    drawing.text(12 + PAD, 24, "room", "strong")
    drawing.text(12 + first + 2 * PAD, 24, "what is in it", "strong")
    drawing.text(left, 24, "imports from", "strong")
    y = 34.0
    for room, text in ROOMS.items():
        drawing.box(12, y, first, LINE + 4, "row" if room in ("session", "query", "tables") else "key")
        drawing.text(12 + PAD, y + 18, room)
        drawing.text(12 + first + 2 * PAD, y + 18, text)
        drawing.text(left, y + 18, " ".join(other for other in names if other in imports[room]) or "nothing", "faint")
        y += LINE + 8
    return drawing


def folders_of(room: str) -> dict[str, set[str]]:
    """Returns the folders of a room, each with the folders that it imports. A folder comes before the folders that it
    imports.
    """
    found: dict[str, set[str]] = {path.parent.name: set() for path in sorted((PACKAGE / room).glob("*/__init__.py"))}
    for folder, others in found.items():
        for path in (PACKAGE / room / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ImportFrom) and node.module is not None:
                    parts = node.module.split(".")
                    if parts[:2] == ["hbmodel", room] and len(parts) > 2 and parts[2] in found.keys() - {folder}:
                        others.add(parts[2])
    return {folder: found[folder] for folder in reversed(list(TopologicalSorter(found).static_order()))}


def purpose(module: Path) -> str:
    """Returns the beginning of a module's docstring, up to a comma, colon or semicolon."""
    docstring = ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or ""
    return re.split(r"[,:;.](?:\s|$)", docstring)[0].replace("\n", " ")


def folders() -> Drawing:
    """Draws the folders of each room that has several, with their contents and the folders that they import."""
    drawing = Drawing("The folders of the rooms: what is in each, and the folders of its room that it imports from")
    found = {room: known for room in ROOMS if len(known := folders_of(room)) > 1}
    texts = {
        (room, folder): purpose(PACKAGE / room / folder / "__init__.py")
        for room, known in found.items()
        for folder in known
    }
    first = max(len(folder) for _, folder in texts) * LETTER + 2 * PAD
    second = max(map(len, texts.values())) * LETTER + 2 * PAD
    left = 12 + first + second + 3 * PAD
    y = 24.0
    for room, known in found.items():
        drawing.text(12 + PAD, y, room, "strong")
        y += 10
        for folder, others in known.items():
            drawing.box(12, y, first, LINE + 4, "key")
            drawing.text(12 + PAD, y + 18, folder)
            drawing.text(12 + first + 2 * PAD, y + 18, texts[room, folder])
            drawing.text(left, y + 18, " ".join(name for name in known if name in others) or "nothing", "faint")
            y += LINE + 8
        y += LINE
    return drawing


@hb.model(table="notes", family="d")
class Note:
    """A note of an author."""

    number: hb.Key[int] = hb.key(hb.UInt32)
    author: hb.Column[str] = hb.column("a")

    by_author = hb.index("author")


Snapshot = tuple[bool, bool, str]
"""Whether the index table has an entry for ann, whether it has one for bob, and the author in the row."""


def snapshot(store: Store) -> Snapshot:
    """Returns the contents of the two tables about the note."""
    schema = hb.schema.schema_of(Note)
    entries = {schema.indexes["by_author"].layout.unpack(entry)[0] for entry, _ in rows_of(store, "notes.by_author")}
    ((_, cells),) = rows_of(store, "notes")
    return "ann" in entries, "bob" in entries, cells[b"d:a"].decode()


def indexed_write() -> Drawing:
    """Draws the stored cells after each call of an update that changes an indexed column, and the results of queries
    then.
    """
    drawing = Drawing("The entries and the row after each call of an update, and the queries that find the row then")
    taken: list[Snapshot] = []
    with tempfile.TemporaryDirectory() as folder:
        url = f"embedded:{folder}/notes.db"
        with hb.connect(url) as reader, hb.connect(url) as store:
            hb.create_tables(store, Note)
            with hb.Session(store) as session:
                session.add(Note(number=7, author="ann"))

            def look(_: hb.store.Call) -> None:
                if not taken or snapshot(reader) != taken[-1]:
                    taken.append(snapshot(reader))

            with hb.Session(store, on_call=look) as session:
                session.update(Note(number=7, author="ann"), author="bob")
            assert taken[-1] == snapshot(reader), "the last call was seen"
    happened = ("before", "the new entry is put", "the row is put, and acknowledged", "the stale entry is deleted")
    width = 10 * LETTER + 2 * PAD
    x = 12 + max(map(len, happened)) * LETTER + 3 * PAD
    for number, title in enumerate(("entry", "entry", "row")):
        drawing.text(x + number * (width + 4), 24, title, "strong")
    drawing.text(x + 3 * (width + 4) + 2 * PAD, 24, "found by", "strong")
    y = 34.0
    for text, (ann, bob, author) in zip(happened, taken, strict=True):
        boxes = [
            ("alias", "ann") if ann else ("around", "none"),
            ("alias", "bob") if bob else ("around", "none"),
            ("key", author),
        ]
        drawing.text(12, y + 18, text)
        right = line_of_boxes(drawing, x, y, boxes, width)
        drawing.text(right + 2 * PAD, y + 18, f"author == {author!r}", "faint")
        y += LINE + 8
    return drawing


def page_of_a_query() -> Drawing:
    """Draws the calls of a query that uses an index with a stale entry."""
    drawing = Drawing(
        "The calls of a query by an index: a scan of entries, the rows of all of them, and what is returned"
    )
    calls: list[hb.store.Call] = []
    with hb.connect("memory:") as store:
        hb.create_tables(store, Note)
        with hb.Session(store) as session:
            session.add_all(Note(number=number, author="ann") for number in range(3))
        (entry, *_), schema = rows_of(store, "notes.by_author"), hb.schema.schema_of(Note)
        with hb.Session(store) as session:
            session.update(Note(number=0, author="ann"), author="bob")
        later = int(time.time() * 1000) + 60_000  # the delete must not hide it
        store.put("notes.by_author", [hb.store.Put(entry[0], entry[1], later)])  # as after a crash before the delete
        session = hb.Session(store, on_call=calls.append)
        found = session.query(Note).where(Note.author == "ann").all()
        entries = [
            schema.indexes["by_author"].layout.unpack(key)[1]
            for key, _ in rows_of(store, "notes.by_author")
            if key[:3] == b"ann"
        ]
        authors = {number: cells[b"d:a"].decode() for number, (_, cells) in enumerate(rows_of(store, "notes"))}
    reads = [call for call in calls if call.table.startswith("notes")]
    steps: Sequence[tuple[str, Sequence[tuple[str, str]]]] = (
        (f"{reads[0].operation} {reads[0].table}", [("alias", f"ann {number}") for number in entries]),
        (f"{reads[1].operation} {reads[1].table}", [("key", f"{number} {authors[number]}") for number in entries]),
        ("returned", [("row", f"{note.number} {note.author}") for note in found]),
    )
    width = 8 * LETTER + 2 * PAD
    x = 12 + max(len(text) for text, _ in steps) * LETTER + 3 * PAD
    y = 12.0
    for text, boxes in steps:
        drawing.text(12, y + 18, text)
        line_of_boxes(drawing, x, y, boxes, width)
        y += LINE + 8
    drawing.text(
        12,
        y + 18,
        f"the stale entry of {next(n for n in entries if authors[n] != 'ann')} does not match its row",
        "faint",
    )
    return drawing


def drawings() -> dict[str, str]:
    """Returns all drawings, by file name."""
    return {
        "house.svg": house().svg(),
        "folders.svg": folders().svg(),
        "indexed-write.svg": indexed_write().svg(),
        "page-of-a-query.svg": page_of_a_query().svg(),
    }


if __name__ == "__main__":
    write(HERE, drawings())
