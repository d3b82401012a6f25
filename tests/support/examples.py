"""How much of a test the suites run: the number of examples of a property, and the combinations of parameters."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import pytest

SHARE = float(os.environ.get("HBMODEL_TEST_EXAMPLES", "0.35"))
"""The share of the examples; `make test-fast` and `make test-all` set it."""


def examples(count: int) -> int:
    """The share of `count` examples that are run."""
    return max(1, round(count * SHARE))


def in_turn(first: Sequence[Any], second: Sequence[Any]) -> list[Any]:
    """All pairs of the values of two parameters.

    The default suite runs each value with one of the other parameter's, in turn, so that each value of both is there;
    `make test-all` runs all pairs.
    """
    count = max(len(first), len(second))
    chosen = {(at % len(first), at % len(second)) for at in range(count)}
    return [
        pytest.param(one, other, marks=() if (at, beside) in chosen else pytest.mark.slow)
        for at, one in enumerate(first)
        for beside, other in enumerate(second)
    ]
