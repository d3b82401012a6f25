"""Prints the differences between models and live tables as JSON."""

from __future__ import annotations

from typing import Any

from hbmodel.tables.creation.comparison.difference import Difference


def difference_as_json(difference: Difference) -> dict[str, Any]:
    """A difference; the declared and the live value are in its text."""
    return {
        "table": difference.table,
        "kind": difference.kind,
        "what": difference.what,
        "effect": difference.effect,
        "why": difference.why,
        "family": difference.family,
        "option": difference.option,
        "text": str(difference),
    }
