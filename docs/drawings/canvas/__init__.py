"""Draws keys and rows: bytes as boxes with their meaning, from models and from the contents of a store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from attrs import field, frozen

from hbmodel.encoding.key_layout import KeyLayout
from hbmodel.mapping.index_schema import Index
from hbmodel.mapping.schema import TableSchema
from hbmodel.store import Scan, Store

SIZE = 13
"""The size of the letters, in pixels."""

LETTER = 0.62 * SIZE
"""The width of a letter. In the fonts that are used, all letters have the same width, which is 0.6 of their size or a
little more.
"""

LINE, PAD = 22, 8

STYLE = """
text { font: 13px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #1f2328; }
.faint { fill: #59636e; } .strong { font-weight: bold; }
.box { fill: #ffffff; stroke: #8c959f; } .row { fill: #ddf4ff; stroke: #0969da; }
.kind { fill: #fff1e5; stroke: #bc4c00; }
.key { fill: #dafbe1; stroke: #1a7f37; } .alias { fill: #fbefff; stroke: #8250df; }
.around { fill: none; stroke: #8c959f; }
.line { stroke: #59636e; stroke-width: 1.5; }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc; } .faint { fill: #9198a1; }
  .box { fill: #151b23; stroke: #656c76; } .row { fill: #0c2d6b; stroke: #4493f8; }
  .kind { fill: #4d210c; stroke: #f0883e; }
  .key { fill: #04401f; stroke: #3fb950; } .alias { fill: #3c1e70; stroke: #ab7df8; } .around { stroke: #656c76; }
  .line { stroke: #9198a1; }
}
"""


@frozen
class Segment:
    """Some bytes that represent one thing, such as a field.

    Attributes:
        style: the style of its box.
        label: the name of the thing.
        data: its bytes.
        value: the value that the bytes represent, as text.
    """

    style: str
    label: str
    data: bytes
    value: str


def row_segments(schema: TableSchema, row: bytes) -> Iterator[Segment]:
    """Yields the parts of a row key."""
    layout, width = schema.row_layout, schema.salt.width
    if width:
        yield Segment("kind", "salt", row[:width], f"bucket {row[0]}")
    assert layout is not None
    yield from key_fields(splits(schema), lambda _: "row", layout, layout.unpack(row, width), row[width:])


def entry_segments(index: Index, entry: bytes) -> Iterator[Segment]:
    """Yields the parts of the key of an index entry: the fields of the index, and the fields that lead to the row."""
    width = index.salt.width
    assert not width, "entries are drawn without a salt"
    yield from key_fields(
        {}, lambda name: "key" if name in index.fields else "row", index.layout, index.layout.unpack(entry), entry
    )


def splits(schema: TableSchema) -> Mapping[str, timedelta]:
    """Returns the fields whose values are split over row key and qualifier."""
    return {f.name: f.row_span for f in schema.fields if f.is_key and f.row_span is not None}


def key_fields(
    split: Mapping[str, timedelta], style: Callable[[str], str], layout: KeyLayout, values: Sequence[Any], data: bytes
) -> Iterator[Segment]:
    """Yields the fields of a key with which the bytes begin."""
    for slot, value in zip(layout.slots, values, strict=True):
        name, width = slot.of.name, slot.of.codec.width
        own = data[: len(slot.encode(value)) if width is None else width]
        data = data[len(own) :]
        label, shown = f"{name}, descending" if slot.of.desc else name, said(value)
        if name in split:
            hour = style(name) == "row"
            label = f"{name}, the hour" if hour else f"{name}, seconds of the hour"
            shown = f"{datetime.fromtimestamp(value, UTC):%Y-%m-%d %H:00}" if hour else str(value)
        yield Segment(style(name), label, own, shown)


def said(value: Any) -> str:
    """Returns a value as text for a drawing."""
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M}"
    return f'"{value}"' if isinstance(value, str) else str(value)


def hexed(data: bytes) -> str:
    """Returns bytes in hex for a drawing."""
    return data.hex(" ")


def text_of(data: bytes) -> str:
    """Returns bytes as text, with bytes that are no letters in hex."""
    return "".join(chr(byte) if 32 < byte < 127 else f"\\x{byte:02x}" for byte in data)


def rows_of(store: Store, table: str) -> list[tuple[bytes, dict[bytes, bytes]]]:
    """Returns the rows of a table, each with its cells, in the order of their keys."""
    (batches,) = store.scan(table, [Scan()])
    return [
        (row.row, {column: cell.value for column, cell in row.columns.items()}) for batch in batches for row in batch
    ]


@frozen
class Drawing:
    """An SVG that grows downwards.

    Attributes:
        title: a description for people who cannot see the drawing.
    """

    title: str
    _shapes: list[ElementTree.Element] = field(factory=list)
    _size: list[float] = field(factory=lambda: [0.0, 0.0])

    def text(self, x: float, y: float, text: str, style: str = "") -> float:
        """Writes text, with its left end and its base line at the given point. Returns the coordinate of its right
        end.
        """
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

    def arrow(self, x: float, top: float, bottom: float) -> None:
        """Draws an arrow that leads downwards."""
        for ends in ((x, top, x, bottom), (x - 4, bottom - 6, x, bottom), (x + 4, bottom - 6, x, bottom)):
            places = dict(zip(("x1", "y1", "x2", "y2"), (f"{end:g}" for end in ends), strict=True))
            self._shapes.append(ElementTree.Element("line", {**places, "class": "line"}))
        self._grow(x + 4, bottom)

    def _grow(self, x: float, y: float) -> None:
        self._size[:] = max(self._size[0], x), max(self._size[1], y)

    def svg(self) -> str:
        """Returns the contents of the SVG file."""
        width, height = (f"{size + 12:.0f}" for size in self._size)
        root = ElementTree.Element(
            "svg",
            {
                "xmlns": "http://www.w3.org/2000/svg",
                "viewBox": f"0 0 {width} {height}",
                "width": width,
                "height": height,
                "role": "img",
            },
        )
        ElementTree.SubElement(root, "title").text = self.title
        ElementTree.SubElement(root, "style").text = STYLE
        root.extend(self._shapes)
        ElementTree.indent(root)
        return ElementTree.tostring(root, "unicode") + "\n"


def strip(drawing: Drawing, x: float, y: float, segments: Sequence[Segment]) -> float:
    """Draws bytes as boxes, each with its label above and its value below. Returns the coordinate of the right end."""
    for segment in segments:
        shown = hexed(segment.data) or " "
        width = max(len(text) for text in (shown, segment.label, segment.value)) * LETTER + 2 * PAD
        drawing.text(x + PAD, y, segment.label, "faint")
        drawing.box(x, y + PAD, width, LINE + 4, segment.style)
        drawing.text(x + PAD, y + PAD + 18, shown)
        drawing.text(x + PAD, y + PAD + 2 * LINE + 2, segment.value)
        x += width + 4
    return y + 4 * LINE + PAD


def line_of_boxes(drawing: Drawing, x: float, y: float, boxes: Sequence[tuple[str, str]], width: float) -> float:
    """Draws boxes of one width next to each other, each with its style and text. Returns the coordinate of the right
    end.
    """
    for style, text in boxes:
        drawing.box(x, y, width, LINE + 4, style)
        drawing.text(x + PAD, y + 18, text)
        x += width + 4
    return x - 4


def stack(
    drawing: Drawing, x: float, y: float, boxes: Sequence[tuple[str, str]], width: float | None = None
) -> tuple[float, float]:
    """Draws boxes of one width below each other, each with its style and text. Returns the coordinates of the right and
    the lower end.
    """
    width = width or max(len(text) for _, text in boxes) * LETTER + 2 * PAD
    for style, text in boxes:
        drawing.box(x, y, width, LINE + 4, style)
        if text:
            drawing.text(x + PAD, y + 18, text)
        y += LINE + 8
    return x + width, y - 4


def keys_of_rows(drawing: Drawing, x: float, y: float, rows: Sequence[tuple[str, str, str]]) -> float:
    """Draws the keys of rows below each other, each with its style, its bytes and their meaning. Returns the coordinate
    of the lower end.
    """
    right, bottom = stack(drawing, x, y, [(style, key) for style, key, _ in rows])
    for number, (_, _, text) in enumerate(rows):
        drawing.text(right + PAD, y + number * (LINE + 8) + 18, text)
    return bottom


def write(here: Path, drawn: Mapping[str, str]) -> None:
    """Writes the SVG files of drawings."""
    for name, text in drawn.items():
        (here / name).write_text(text, encoding="utf-8")
