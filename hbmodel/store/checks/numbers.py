"""Decides which arguments count as numbers."""

from __future__ import annotations

import math
from operator import index
from typing import Any, TypeGuard


def whole_number(value: Any) -> int | None:
    """Returns a plain int for any integer, including NumPy's scalars (anything with `__index__`). Returns None for
    everything else, including a bool.
    """
    if isinstance(value, bool):
        return None
    try:
        return index(value)
    except TypeError:
        return None


def is_plain(value: object) -> bool:
    """Returns whether a value is an int and not a bool, so that a store can send it unchanged."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_finite(value: object) -> TypeGuard[int | float]:
    """Returns whether a value is a finite int or float and not a bool, as times and rates must be."""
    return isinstance(value, int | float) and not isinstance(value, bool) and -math.inf < value < math.inf
