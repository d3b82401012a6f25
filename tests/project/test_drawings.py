"""The drawings of the documentation are those that their program makes, and nothing in them is cut off or covered."""

from __future__ import annotations

import itertools
import runpy
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

DOCS = Path(__file__).parents[2] / "docs"
NAMES = sorted(path.name for path in (DOCS / "drawings").glob("*.svg"))
PROGRAM = runpy.run_path(str(DOCS / "drawings" / "canvas" / "__init__.py"))
SVG = "{http://www.w3.org/2000/svg}"

Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""


@cache
def drawn() -> dict[str, tuple[str, str]]:
    """The drawings that the programs make, by the names of their files, each with its style; some load rows to count
    them.
    """
    programs = [runpy.run_path(str(path)) for path in sorted((DOCS / "drawings").glob("*.py"))]
    return {name: (svg, program["STYLE"]) for program in programs for name, svg in program["drawings"]().items()}


def boxes(svg: str, kind: str) -> list[Box]:
    """Where the shapes of a drawing are."""
    found = []
    for shape in ElementTree.fromstring(svg).iter(SVG + kind):
        if kind == "line":
            (left, right), (top, bottom) = (sorted(float(shape.attrib[axis + end]) for end in "12") for axis in "xy")
            found.append((left, top, right, bottom))
            continue
        x, y = float(shape.attrib["x"]), float(shape.attrib["y"])
        if kind == "text":
            assert shape.text is not None, "a box without text has no text element"
            found.append(
                (x, y - 0.8 * PROGRAM["SIZE"], x + len(shape.text) * PROGRAM["LETTER"], y + 0.25 * PROGRAM["SIZE"])
            )
        else:
            found.append((x, y, x + float(shape.attrib["width"]), y + float(shape.attrib["height"])))
    return found


def apart(one: Box, other: Box) -> bool:
    return one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]


def inside(one: Box, other: Box) -> bool:
    return other[0] <= one[0] and other[1] <= one[1] and one[2] <= other[2] and one[3] <= other[3]


def test_the_files_are_what_the_program_draws() -> None:
    committed: dict[str, Any] = {
        path.name: path.read_text(encoding="utf-8") for path in (DOCS / "drawings").glob("*.svg")
    }
    assert committed == {name: svg for name, (svg, _) in drawn().items()}, (
        "the programs of docs/drawings draw them again"
    )
    pages = "".join(page.read_text(encoding="utf-8") for page in DOCS.rglob("*.md"))
    assert [name for name in drawn() if f"drawings/{name})" not in pages] == []


@pytest.mark.parametrize("name", NAMES)
def test_text_fits_where_it_stands(name: str) -> None:
    svg, _ = drawn()[name]
    texts, rectangles = boxes(svg, "text"), boxes(svg, "rect")
    width, height = (float(size) for size in ElementTree.fromstring(svg).attrib["viewBox"].split()[2:])
    assert all(inside(each, (0, 0, width, height)) for each in (*texts, *rectangles))
    assert all(inside(each, (0, 0, width, height)) for each in boxes(svg, "line"))
    assert all(apart(text, line) for text in texts for line in boxes(svg, "line"))
    assert all(apart(*pair) for pair in itertools.combinations(texts, 2))
    assert all(apart(text, box) or inside(text, box) for text in texts for box in rectangles)
    assert all(
        apart(*pair) or inside(*pair) or inside(*reversed(pair)) for pair in itertools.combinations(rectangles, 2)
    )


@pytest.mark.parametrize("name", NAMES)
def test_every_style_is_there_in_light_and_dark(name: str) -> None:
    svg, style = drawn()[name]
    light, _, dark = style.partition("@media (prefers-color-scheme: dark)")
    used = {style for shape in ElementTree.fromstring(svg).iter() for style in shape.get("class", "").split()} - {
        "strong"
    }
    assert used
    assert all(f".{style} {{" in part for style in used for part in (light, dark))
