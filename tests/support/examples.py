"""How much of a test the suites run: the number of examples of a property, and the combinations of parameters."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from typing import Any

import pytest

SHARE = float(os.environ.get("HBMODEL_TEST_EXAMPLES", "0.35"))
"""The share of the examples that are run. `make test-fast` and `make test-all` set it."""


def examples(count: int) -> int:
    """Returns how many of `count` examples are run."""
    return max(1, round(count * SHARE))


def in_turn(first: Sequence[Any], second: Sequence[Any]) -> list[Any]:
    """Returns all pairs of the values of two parameters.

    The default suite runs only some pairs, so that each value of both parameters occurs. `make test-all` runs all
    pairs.
    """
    turns = range(max(len(first), len(second)))
    chosen = {(turn % len(first), turn % len(second)) for turn in turns}
    places = itertools.product(range(len(first)), range(len(second)))
    return [
        pytest.param(first[row], second[column], marks=() if (row, column) in chosen else pytest.mark.slow)
        for row, column in places
    ]
