"""Draws the bytes of wide rows, from models and stored objects: `python docs/drawings/wide_rows.py` writes the SVG
files.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE)]

from canvas import (  # noqa: E402
    LINE,
    PAD,
    STYLE,
    Drawing,
    Segment,
    key_fields,
    row_segments,
    rows_of,
    said,
    splits,
    strip,
    text_of,
    write,
)

import hbmodel as hb  # noqa: E402
from hbmodel.mapping.schema import TableSchema  # noqa: E402

__all__ = ["STYLE", "drawings"]


# --- the models -------------------------------------------------------------------------------------------------------


@hb.model(table="pets", family="d", kind=b"p", salt=hb.HashSalt(16))
class Pet:
    """A pet, in the row of its owner."""

    owner: hb.Key[str] = hb.key()
    name: hb.Key[str] = hb.key(in_qualifier=True)
    species: hb.Column[str] = hb.column("s")
    age: hb.Column[int | None] = hb.column("a", hb.codecs.UInt8, default=None)


@hb.model(table="pets", family="d", kind=b"v", salt=hb.HashSalt(16))
class Visit:
    """A visit of a pet, with the latest visit first."""

    owner: hb.Key[str] = hb.key()
    pet: hb.Key[str] = hb.key(in_qualifier=True)
    day: hb.Key[int] = hb.key(hb.codecs.UInt16, desc=True, in_qualifier=True)
    reason: hb.Column[str] = hb.column("r")


@hb.model(table="pets_tall", family="d", salt=hb.HashSalt(16, by=("owner",)))
class TallPet:
    """A pet in a separate row."""

    owner: hb.Key[str] = hb.key()
    name: hb.Key[str] = hb.key()
    species: hb.Column[str] = hb.column("s")
    age: hb.Column[int | None] = hb.column("a", hb.codecs.UInt8, default=None)


@hb.model(table="visits_tall", family="d", salt=hb.HashSalt(16, by=("owner",)))
class TallVisit:
    """A visit in a separate row."""

    owner: hb.Key[str] = hb.key()
    pet: hb.Key[str] = hb.key()
    day: hb.Key[int] = hb.key(hb.codecs.UInt16, desc=True)
    reason: hb.Column[str] = hb.column("r")


@hb.model(table="readings", family="d")
class Reading:
    """A reading, in the row of its hour."""

    sensor: hb.Key[str] = hb.key()
    at: hb.Key[datetime] = hb.key(hb.Datetime("s"), row_span=timedelta(hours=1))
    value: hb.Column[int] = hb.column("", hb.codecs.UInt8)


PETS: Sequence[Mapping[str, Any]] = (
    {"name": "rex", "species": "dog", "age": 4},
    {"name": "tom", "species": "cat", "age": 9},
)
VISITS: Sequence[Mapping[str, Any]] = (
    {"pet": "rex", "day": 730, "reason": "teeth"},
    {"pet": "rex", "day": 12, "reason": "check"},
)


def stored(*objects: Any) -> list[tuple[str, bytes, bytes, bytes]]:
    """Returns the table, row key, qualifier and value of each cell of these objects, in order."""
    models = list(dict.fromkeys(map(type, objects)))
    found = []
    with hb.connect("memory:") as store:
        hb.create_tables(store, *models)
        with hb.Session(store) as session:
            session.add_all(objects)
        for table in dict.fromkeys(hb.schema.schema_of(model).table for model in models):
            found += [
                (table, row, column[2:], value)
                for row, cells in rows_of(store, table)
                for column, value in cells.items()
            ]
    return found


def qualifier_segments(schema: TableSchema, qualifier: bytes) -> Iterator[Segment]:
    """Yields the parts of a qualifier."""
    assert schema.wide is not None
    layout = schema.wide.qualifiers
    values, alias = layout.decode(qualifier)
    if layout.kind:
        yield Segment("kind", "kind", layout.kind, said(layout.kind.decode()))
    if layout.columns is not None:
        yield from key_fields(splits(schema), lambda _: "key", layout.columns, values, qualifier[len(layout.kind) :])
    name = next(f.name for f in schema.columns if f.column == schema.family + b":" + alias)
    yield Segment("alias", f"alias of {name}", alias, said(alias.decode()) if alias else "empty")


def bytes_of(title: str, obj: Any, alias: bytes) -> Drawing:
    """Draws the row key and the qualifier of one cell of an object."""
    schema = hb.schema.schema_of(type(obj))
    _, row, qualifier, _ = next(cell for cell in stored(obj) if cell[2].endswith(alias))
    drawing = Drawing(title)
    y = 24.0
    for name, segments in (
        ("row key", row_segments(schema, row)),
        ("qualifier", qualifier_segments(schema, qualifier)),
    ):
        made = list(segments)
        assert b"".join(segment.data for segment in made) == (row if name == "row key" else qualifier)
        drawing.text(12, y, name, "strong")
        y = strip(drawing, 12, y + LINE, made)
    return drawing


def lists_of_cells(
    drawing: Drawing, x: float, y: float, width: float, name: str, style: str, cells: Sequence[tuple[bytes, bytes]]
) -> float:
    """Draws the name and the cells of one object, one below the other. Returns the coordinate of the lower end."""
    drawing.box(x, y, width, (len(cells) + 1) * LINE + PAD, style)
    drawing.text(x + PAD, y + 17, name, "strong")
    for number, (qualifier, value) in enumerate(cells, 1):
        shown = value.decode() if value.isalpha() else str(int.from_bytes(value, "big"))
        drawing.text(x + PAD, y + 17 + number * LINE, f"{text_of(qualifier)} = {shown}")
    return y + (len(cells) + 1) * LINE + PAD


def wide_and_tall() -> Drawing:
    """Draws a wide row with objects of two kinds, and the rows of tall tables with the same objects."""
    drawing = Drawing("One wide row with pets and visits; beside it the same objects with a row each")
    column = 300.0
    drawing.text(12, 24, "one wide row", "strong")
    drawing.text(24 + column + 60, 24, "a row for each object", "strong")
    wide = stored(*(Pet(owner="ann", **pet) for pet in PETS), *(Visit(owner="ann", **visit) for visit in VISITS))
    (row,) = {row for _, row, _, _ in wide}
    y = 48.0
    drawing.text(12 + PAD, y + 18, f"row key {text_of(row)}")
    below = y + LINE + PAD
    for model in (Pet, Visit):
        schema = hb.schema.schema_of(model)
        assert schema.wide is not None
        objects: dict[bytes, list[tuple[bytes, bytes]]] = {}
        for _, _, qualifier, value in wide:
            if (end := schema.wide.prefix_end(qualifier)) is not None:
                objects.setdefault(qualifier[:end], []).append((qualifier, value))
        for prefix, cells in objects.items():
            key = schema.wide.qualifiers.decode(prefix)[0]
            name = f"{model.__name__} {', '.join(map(str, key))}"
            below = lists_of_cells(drawing, 24, below, column, name, "key" if model is Pet else "alias", cells) + PAD
    drawing.box(12, y, column + 24, below - y, "around")
    tall = stored(
        *(TallPet(owner="ann", **pet) for pet in PETS), *(TallVisit(owner="ann", **visit) for visit in VISITS)
    )
    x = 12 + column + 72
    y = 48.0
    width = column + 60
    for table, key in dict.fromkeys((table, row) for table, row, _, _ in tall):
        cells = [(qualifier, value) for of, row, qualifier, value in tall if (of, row) == (table, key)]
        style = "key" if table == "pets_tall" else "alias"
        bottom = lists_of_cells(drawing, x + 12, y + LINE + PAD, width - 24, table, style, cells)
        drawing.text(x + PAD, y + 18, f"row key {text_of(key)}")
        drawing.box(x, y, width, bottom - y + PAD, "around")
        y = bottom + 2 * PAD + 4
    return drawing


def drawings() -> dict[str, str]:
    """Returns all drawings, by file name."""
    visit = bytes_of("The row key and a qualifier of a visit", Visit(owner="ann", **VISITS[0]), b"r")
    at = datetime(2026, 1, 1, 10, 50, 20, tzinfo=UTC)
    reading = bytes_of("A time that is split over row key and qualifier", Reading(sensor="s1", at=at, value=20), b"")
    return {
        "qualifier-bytes.svg": visit.svg(),
        "split-time-bytes.svg": reading.svg(),
        "wide-and-tall.svg": wide_and_tall().svg(),
    }


if __name__ == "__main__":
    write(HERE, drawings())
