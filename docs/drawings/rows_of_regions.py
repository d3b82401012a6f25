"""Draws the number of rows in each region for six kinds of key: `python docs/drawings/rows_of_regions.py` writes the
SVG file.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "examples")]

import spreading_keys as example  # noqa: E402
from canvas import LETTER, LINE, PAD, SIZE, write  # noqa: E402

import hbmodel as hb  # noqa: E402

__all__ = ["STYLE", "drawings"]

STYLE = """
text { font: 13px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #1f2328; }
.faint { fill: #59636e; } .bar { fill: #54aeff; stroke: #0969da; }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc; } .faint { fill: #9198a1; } .bar { fill: #1f6feb; stroke: #4493f8; }
}
"""

LEFT = 110
"""The coordinate at which the bars begin."""

SLOT, BAR = 52, 40
"""The distance from bar to bar and the width of a bar, in pixels."""

HEIGHT = 72
"""The height of the tallest bar, in pixels."""


def counts() -> Iterator[tuple[str, Sequence[int]]]:
    """Yields the number of rows in each region. For random buckets, it is the expected number."""
    with hb.connect("memory:") as store:
        for model, (rows, _) in example.spread(store).items():
            drawn = [example.EVENTS // example.REGIONS] * example.REGIONS
            yield model.__name__.lower(), drawn if model is example.Random else rows


def chart() -> str:
    """Returns a chart with a bar for each region, and a line of bars for each kind of key."""
    found = list(counts())
    most = max(count for _, rows in found for count in rows)
    band = HEIGHT + 2 * LINE
    width, height = LEFT + example.REGIONS * SLOT + PAD, PAD + LINE + len(found) * band
    svg = ElementTree.Element(
        "svg", xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {width} {height}", width=str(width)
    )
    ElementTree.SubElement(svg, "style").text = STYLE

    def text(x: float, y: float, said: str, style: str | None = None) -> None:
        ElementTree.SubElement(
            svg, "text", {"x": f"{x:g}", "y": f"{y:g}", **({"class": style} if style else {})}
        ).text = said

    text(PAD, PAD + SIZE, "rows of each of eight regions", "faint")
    for at, (name, rows) in enumerate(found):
        floor = PAD + LINE + at * band + HEIGHT + LINE // 2
        text(PAD, floor, name)
        for region, count in enumerate(rows):
            size, left = round(count / most * HEIGHT), LEFT + region * SLOT
            if size:
                box = {"x": f"{left}", "y": f"{floor - size}", "width": f"{BAR}", "height": f"{size}"}
                ElementTree.SubElement(svg, "rect", {**box, "class": "bar"})
            text(left + (BAR - len(str(count)) * LETTER) / 2, floor + LINE - 4, str(count), "faint")
    ElementTree.indent(svg)
    return ElementTree.tostring(svg, encoding="unicode") + "\n"


def drawings() -> dict[str, str]:
    """Returns all drawings, by file name."""
    return {"rows-of-regions.svg": chart()}


if __name__ == "__main__":
    write(HERE, drawings())
