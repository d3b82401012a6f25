"""The options of a session, and the check of those that are times."""

from __future__ import annotations

import math
from typing import TypedDict

from hbmodel.errors import SessionError
from hbmodel.store.observed import OnCall


class SessionOptions(TypedDict, total=False):
    """The options of `Session`."""

    registry: str
    lease: float
    grace: float
    clock_bound: float
    longest_call: float
    token_key: bytes | str | None
    on_call: OnCall | None


def check_seconds(**times: object) -> None:
    """Raises `SessionError` for a time that is no number of seconds."""
    for name, seconds in times.items():
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < math.inf:
            raise SessionError("A session takes its times as a number of seconds that is not negative.", option=name, found=repr(seconds))
