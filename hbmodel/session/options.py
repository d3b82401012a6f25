"""What the methods of a session are given: checked, and made into what they work with."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from typing import Any, TypeVar

from hbmodel.errors import SessionError
from hbmodel.mapping.mapper import RowReader
from hbmodel.mapping.schema import schema_of

T = TypeVar("T")


def whole_number(amount: Any) -> int | None:
    """A whole number, or None for anything else."""
    if isinstance(amount, bool):
        return None
    try:
        return operator.index(amount)
    except TypeError:
        return None


def changed_copy(obj: T, changes: Mapping[str, Any]) -> T:
    """Another object with some fields changed."""
    schema = schema_of(type(obj))
    values = {f.name: getattr(obj, f.name) for f in schema.fields}
    changed: T = RowReader(schema, indexed=False).make({**values, **changes})
    return changed


def check_seconds(**times: object) -> None:
    """Raises `SessionError` for a time that is no number of seconds."""
    for name, seconds in times.items():
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < math.inf:
            raise SessionError("A session takes its times as a number of seconds that is not negative.", option=name, found=repr(seconds))
