"""The results of the tests of a real HBase on each version, and the tables of the README and the docs
that show them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from hbmodel.localhbase.pinned_jars import VERSIONS
from tests.support.outcomes import Outcomes

HERE = Path(__file__).parent
RECORD = HERE / "works_with.json"
README = HERE.parents[1] / "README.md"
PAGE = HERE.parents[1] / "docs" / "stores.md"

AREAS: Mapping[str, tuple[str, ...]] = {
    "stores": ("tests/conformance", "tests/store"),
    "sessions": ("tests/session", "tests/protocol", "tests/mapping"),
    "queries": ("tests/query",),
    "tables and indexes": ("tests/tables",),
}
"""The folders of the tests that run on each version, by what they are about."""

Passed = dict[str, dict[str, int]]
"""How many tests passed, by area, by version."""


def passed_of(outcomes: Outcomes) -> dict[str, int]:
    """How many tests passed in each area."""
    areas = {folder: area for area, folders in AREAS.items() for folder in folders}
    counts = Counter(
        areas["/".join(node_id.split("/")[:2])] for node_id, outcome in outcomes.tests.items() if outcome == "passed"
    )
    return {area: counts[area] for area in AREAS}


def recorded() -> Passed:
    """The record, the oldest version first."""
    record: Passed = json.loads(RECORD.read_text("utf-8"))
    return {version: record[version] for version in VERSIONS if version in record}


def record(version: str, passed: Mapping[str, int]) -> None:
    """Adds a version to the record, and renews the tables."""
    known = {**(recorded() if RECORD.exists() else {}), version: dict(passed)}
    RECORD.write_text(json.dumps({each: known[each] for each in VERSIONS if each in known}, indent=1) + "\n", "utf-8")
    for path, table in ((README, readme_table()), (PAGE, page_table())):
        head = table.splitlines()[0]
        lines = path.read_text("utf-8").splitlines()
        start = lines.index(head)
        stop = next(number for number, line in enumerate(lines[start:], start) if not line.startswith("|"))
        path.write_text("\n".join([*lines[:start], *table.splitlines(), *lines[stop:]]) + "\n", "utf-8")


def readme_table() -> str:
    """The versions, each with how many tests passed."""
    return _table(["HBase", "passed"], [[version, sum(areas.values())] for version, areas in recorded().items()])


def page_table() -> str:
    """The versions, each with how many tests passed in each area."""
    return _table(["HBase", *AREAS], [[version, *areas.values()] for version, areas in recorded().items()])


def _table(head: list[str], rows: list[list[str | int]]) -> str:
    ruler = ["---", *["---:"] * (len(head) - 1)]
    texts = [[f"{cell:,}" if isinstance(cell, int) else cell for cell in row] for row in rows]
    return "\n".join(
        f"|{'|'.join(cells)}|" if cells is ruler else f"| {' | '.join(cells)} |" for cells in [head, ruler, *texts]
    )
