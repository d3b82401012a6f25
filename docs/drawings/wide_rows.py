"""Draws the bytes of wide rows, from models and what they store: `python docs/drawings/wide_rows.py` writes the SVG files next to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from attrs import field, frozen

import hbmodel as hb
from hbmodel.encoding.key_layout import KeyLayout
from hbmodel.mapping.schema import TableSchema
from hbmodel.store import Scan

HERE = Path(__file__).parent

SIZE = 13
"""Of the letters, in pixels."""

LETTER = 0.62 * SIZE
"""The width of a letter: all fonts that are asked for have one width for all letters, of 0.6 of their size or a little more."""

LINE, PAD = 22, 8

STYLE = """
text { font: 13px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #1f2328; }
.faint { fill: #59636e; } .strong { font-weight: bold; }
.box { fill: #ffffff; stroke: #8c959f; } .row { fill: #ddf4ff; stroke: #0969da; } .kind { fill: #fff1e5; stroke: #bc4c00; }
.key { fill: #dafbe1; stroke: #1a7f37; } .alias { fill: #fbefff; stroke: #8250df; } .around { fill: none; stroke: #8c959f; }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc; } .faint { fill: #9198a1; }
  .box { fill: #151b23; stroke: #656c76; } .row { fill: #0c2d6b; stroke: #4493f8; } .kind { fill: #4d210c; stroke: #f0883e; }
  .key { fill: #04401f; stroke: #3fb950; } .alias { fill: #3c1e70; stroke: #ab7df8; } .around { stroke: #656c76; }
}
"""


# --- the models -------------------------------------------------------------------------------------------------------


@hb.model(table="pets", family="d", kind=b"p", salt=hb.HashSalt(16))
class Pet:
    """A pet among those of its owner."""

    owner: hb.Key[str] = hb.key()
    name: hb.Key[str] = hb.key(part="column")
    species: hb.Column[str] = hb.column("s")
    age: hb.Column[int | None] = hb.column("a", hb.UInt8, default=None)


@hb.model(table="pets", family="d", kind=b"v", salt=hb.HashSalt(16))
class Visit:
    """A visit of a pet, the latest first."""

    owner: hb.Key[str] = hb.key()
    pet: hb.Key[str] = hb.key(part="column")
    day: hb.Key[int] = hb.key(hb.UInt16, desc=True, part="column")
    reason: hb.Column[str] = hb.column("r")


@hb.model(table="pets_tall", family="d", salt=hb.HashSalt(16, by=("owner",)))
class TallPet:
    """A pet with a row of its own."""

    owner: hb.Key[str] = hb.key()
    name: hb.Key[str] = hb.key()
    species: hb.Column[str] = hb.column("s")
    age: hb.Column[int | None] = hb.column("a", hb.UInt8, default=None)


@hb.model(table="visits_tall", family="d", salt=hb.HashSalt(16, by=("owner",)))
class TallVisit:
    """A visit with a row of its own."""

    owner: hb.Key[str] = hb.key()
    pet: hb.Key[str] = hb.key()
    day: hb.Key[int] = hb.key(hb.UInt16, desc=True)
    reason: hb.Column[str] = hb.column("r")


@hb.model(table="readings", family="d")
class Reading:
    """A value of an hour."""

    sensor: hb.Key[str] = hb.key()
    at: hb.Key[datetime] = hb.key(hb.Datetime("s"), split=timedelta(hours=1))
    value: hb.Column[int] = hb.column("", hb.UInt8)


PETS: Sequence[Mapping[str, Any]] = ({"name": "rex", "species": "dog", "age": 4}, {"name": "tom", "species": "cat", "age": 9})
VISITS: Sequence[Mapping[str, Any]] = ({"pet": "rex", "day": 730, "reason": "teeth"}, {"pet": "rex", "day": 12, "reason": "check"})


def stored(*objects: Any) -> list[tuple[str, bytes, bytes, bytes]]:
    """What a table holds of these objects: table, row key, qualifier and value of each cell, in order."""
    models = list(dict.fromkeys(map(type, objects)))
    found = []
    with hb.connect("memory:") as store:
        hb.create_tables(store, *models)
        with hb.Session(store) as session:
            session.add_all(objects)
        for table in dict.fromkeys(hb.schema_of(model).table for model in models):
            (batches,) = store.scan(table, [Scan()])
            found += [
                (table, row.row, column[2:], cell.value) for batch in batches for row in batch for column, cell in row.columns.items()
            ]
    return found


# --- bytes as segments ------------------------------------------------------------------------------------------------


@frozen
class Segment:
    """Some bytes that stand for one thing.

    Attributes:
        style: how it is drawn.
        label: what it is.
        data: its bytes.
        value: what they say.
    """

    style: str
    label: str
    data: bytes
    value: str


def row_segments(schema: TableSchema, row: bytes) -> Iterator[Segment]:
    """The parts of a row key."""
    layout, width = schema.row_layout, schema.salt.width
    if width:
        yield Segment("kind", "salt", row[:width], f"bucket {row[0]}")
    assert layout is not None
    yield from _fields(schema, "row", layout, layout.unpack(row, width), row[width:])


def qualifier_segments(schema: TableSchema, qualifier: bytes) -> Iterator[Segment]:
    """The parts of a qualifier."""
    assert schema.wide is not None
    layout = schema.wide.qualifiers
    values, alias = layout.decode(qualifier)
    if layout.kind:
        yield Segment("kind", "kind", layout.kind, _said(layout.kind.decode()))
    if layout.columns is not None:
        yield from _fields(schema, "key", layout.columns, values, qualifier[len(layout.kind) :])
    name = next(f.name for f in schema.columns if f.column == schema.family + b":" + alias)
    yield Segment("alias", f"alias of {name}", alias, _said(alias.decode()) if alias else "empty")


def _fields(schema: TableSchema, style: str, layout: KeyLayout, values: Sequence[Any], data: bytes) -> Iterator[Segment]:
    """The fields of a key, which the bytes begin with."""
    split = {f.name: f.split for f in schema.fields if f.is_key and f.split is not None}
    for slot, value in zip(layout.slots, values, strict=True):
        name, width = slot.of.name, slot.of.codec.width
        own = data[: len(slot.encode(value)) if width is None else width]
        data = data[len(own) :]
        label, said = f"{name}, descending" if slot.of.desc else name, _said(value)
        if name in split:
            hour = style == "row"
            label = f"{name}, the hour" if hour else f"{name}, seconds of the hour"
            said = f"{datetime.fromtimestamp(value, UTC):%Y-%m-%d %H:00}" if hour else str(value)
        yield Segment(style, label, own, said)


def _said(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def hexed(data: bytes) -> str:
    """Bytes as they are drawn."""
    return data.hex(" ")


def text_of(data: bytes) -> str:
    """Bytes as text, what is no letter in hex."""
    return "".join(chr(byte) if 32 < byte < 127 else f"\\x{byte:02x}" for byte in data)


# --- drawing ----------------------------------------------------------------------------------------------------------


@frozen
class Drawing:
    """An SVG that grows downwards.

    Attributes:
        title: what it shows, for those who do not see it.
    """

    title: str
    _shapes: list[ElementTree.Element] = field(factory=list)
    _size: list[float] = field(factory=lambda: [0.0, 0.0])

    def text(self, x: float, y: float, text: str, style: str = "") -> float:
        """Writes text with its left end and its base line here; returns where it ends."""
        element = ElementTree.Element("text", {"x": f"{x:g}", "y": f"{y:g}", **({"class": style} if style else {})})
        element.text = text
        self._shapes.append(element)
        self._grow(x + len(text) * LETTER, y)
        return x + len(text) * LETTER

    def box(self, x: float, y: float, width: float, height: float, style: str) -> None:
        """Draws a box."""
        place = {"x": f"{x:g}", "y": f"{y:g}", "width": f"{width:g}", "height": f"{height:g}"}
        self._shapes.append(ElementTree.Element("rect", {**place, "rx": "3", "class": style}))
        self._grow(x + width, y + height)

    def _grow(self, x: float, y: float) -> None:
        self._size[:] = max(self._size[0], x), max(self._size[1], y)

    def svg(self) -> str:
        """The file."""
        width, height = (f"{size + 12:.0f}" for size in self._size)
        root = ElementTree.Element(
            "svg",
            {"xmlns": "http://www.w3.org/2000/svg", "viewBox": f"0 0 {width} {height}", "width": width, "height": height, "role": "img"},
        )
        ElementTree.SubElement(root, "title").text = self.title
        ElementTree.SubElement(root, "style").text = STYLE
        root.extend(self._shapes)
        ElementTree.indent(root)
        return ElementTree.tostring(root, "unicode") + "\n"


def strip(drawing: Drawing, x: float, y: float, segments: Sequence[Segment]) -> float:
    """Draws bytes as boxes, each with its label above and its value below; returns where that ends."""
    for segment in segments:
        shown = hexed(segment.data) or " "
        width = max(len(text) for text in (shown, segment.label, segment.value)) * LETTER + 2 * PAD
        drawing.text(x + PAD, y, segment.label, "faint")
        drawing.box(x, y + PAD, width, LINE + 4, segment.style)
        drawing.text(x + PAD, y + PAD + 18, shown)
        drawing.text(x + PAD, y + PAD + 2 * LINE + 2, segment.value)
        x += width + 4
    return y + 4 * LINE + PAD


def bytes_of(title: str, obj: Any, alias: bytes) -> Drawing:
    """Row key and qualifier of one cell of an object."""
    schema = hb.schema_of(type(obj))
    _, row, qualifier, _ = next(cell for cell in stored(obj) if cell[2].endswith(alias))
    drawing = Drawing(title)
    y = 24.0
    for name, segments in (("row key", row_segments(schema, row)), ("qualifier", qualifier_segments(schema, qualifier))):
        made = list(segments)
        assert b"".join(segment.data for segment in made) == (row if name == "row key" else qualifier)
        drawing.text(12, y, name, "strong")
        y = strip(drawing, 12, y + LINE, made)
    return drawing


def lists_of_cells(
    drawing: Drawing, x: float, y: float, width: float, name: str, style: str, cells: Sequence[tuple[bytes, bytes]]
) -> float:
    """Draws one object: its name and its cells, one below the other; returns where that ends."""
    drawing.box(x, y, width, (len(cells) + 1) * LINE + PAD, style)
    drawing.text(x + PAD, y + 17, name, "strong")
    for number, (qualifier, value) in enumerate(cells, 1):
        shown = value.decode() if value.isalpha() else str(int.from_bytes(value, "big"))
        drawing.text(x + PAD, y + 17 + number * LINE, f"{text_of(qualifier)} = {shown}")
    return y + (len(cells) + 1) * LINE + PAD


def wide_and_tall() -> Drawing:
    """A wide row with the objects of two kinds, and what tall tables hold of the same objects."""
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
        schema = hb.schema_of(model)
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
    tall = stored(*(TallPet(owner="ann", **pet) for pet in PETS), *(TallVisit(owner="ann", **visit) for visit in VISITS))
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
    """All of them, by file name."""
    visit = bytes_of("The row key and a qualifier of a visit", Visit(owner="ann", **VISITS[0]), b"r")
    at = datetime(2026, 1, 1, 10, 50, 20, tzinfo=UTC)
    reading = bytes_of("A time that is split over row key and qualifier", Reading(sensor="s1", at=at, value=20), b"")
    return {"qualifier-bytes.svg": visit.svg(), "split-time-bytes.svg": reading.svg(), "wide-and-tall.svg": wide_and_tall().svg()}


if __name__ == "__main__":
    for name, text in drawings().items():
        (HERE / name).write_text(text, encoding="utf-8")
