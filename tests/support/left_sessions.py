"""Discards sessions with uncommitted writes at the end of the test that leaves them.

When a session with uncommitted writes is garbage-collected, it logs a warning. This may happen during another test,
which checks the log.
"""

from __future__ import annotations

from contextlib import suppress
from functools import wraps
from typing import Any
from weakref import WeakSet

import hbmodel as hb

_made: WeakSet[hb.Session] = WeakSet()


def watch_sessions() -> None:
    """Tracks every session that is created from now on."""
    make = hb.Session.__init__

    @wraps(make)
    def made(session: hb.Session, *args: Any, **options: Any) -> None:
        make(session, *args, **options)
        _made.add(session)

    hb.Session.__init__ = made  # type: ignore[method-assign]


def discard_left() -> None:
    """Discards the uncommitted writes of the sessions that still exist."""
    for session in list(_made):
        with suppress(hb.SessionError):  # a thread that the test has left still uses the session
            session.discard()
    _made.clear()
