"""What counts as a number, wherever one is given."""

from __future__ import annotations

import math
from operator import index
from typing import Any, TypeGuard


def whole_number(value: Any) -> int | None:
    """A plain int from anything that is an integer (`__index__`), NumPy's scalars included; None for anything else,
    a bool too.
    """
    if isinstance(value, bool):
        return None
    try:
        return index(value)
    except TypeError:
        return None


def is_plain(value: object) -> bool:
    """Whether it is an int and no bool: a number that a store can send as it stands."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_finite(value: object) -> TypeGuard[int | float]:
    """Whether it is an int or a float, finite, and no bool: a time or a speed."""
    return isinstance(value, int | float) and not isinstance(value, bool) and -math.inf < value < math.inf
