"""Makes calls of another program between two calls of a session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hbmodel as hb


def commit(store: Any, call: Callable[[hb.Session], object]) -> type[hb.HbmodelError] | None:
    """Runs one call in a separate session, and returns the class of its error. If several writes failed, this is the
    class of the first error.
    """
    session = hb.Session(store)
    try:
        call(session)
        session.commit()
    except hb.PartialWrite as error:
        session.discard()
        return type(error.failures[0].error or error) if error.failures else type(error)
    except hb.HbmodelError as error:
        session.discard()
        return type(error)
    return None


class Beside:
    """An `on_call` function that makes a call in a separate session, before a session's call with a given number.

    Attributes:
        error: the error that the call raised.
        made: whether the call was made.
    """

    def __init__(self, store: Any, at: int, call: Callable[[hb.Session], object]) -> None:
        self._store, self._at, self._call, self._calls = store, at, call, 0
        self.error: type[hb.HbmodelError] | None = None

    def __call__(self, _: object) -> None:
        self._calls += 1
        if self._calls == self._at:
            self.error = commit(self._store, self._call)

    @property
    def made(self) -> bool:
        return self._calls >= self._at
