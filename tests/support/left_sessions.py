"""Sessions that a test leaves with writes that it did not commit: they are discarded at its end.

When such a session is collected it says in the log what is lost. That may be in the middle of another test, which asks
what is in the log.
"""

from __future__ import annotations

from contextlib import suppress
from functools import wraps
from typing import Any
from weakref import WeakSet

import hbmodel as hb

_made: WeakSet[hb.Session] = WeakSet()


def watch_sessions() -> None:
    """Takes care of every session that is made from now on."""
    make = hb.Session.__init__

    @wraps(make)
    def made(session: hb.Session, *args: Any, **options: Any) -> None:
        make(session, *args, **options)
        _made.add(session)

    hb.Session.__init__ = made  # type: ignore[method-assign]


def discard_left() -> None:
    """Discards what the sessions that are there have not committed."""
    for session in list(_made):
        with suppress(hb.SessionError):  # a thread that the test has left still uses it
            session.discard()
    _made.clear()
