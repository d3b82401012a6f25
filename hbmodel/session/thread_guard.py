"""Restricts a session to one thread at a time, and refuses calls on a closed session."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, Protocol, TypeVar, cast

from hbmodel.encoding.codecs.dictionary import NameIds, bind_names, unbind_names
from hbmodel.errors import SessionClosed, SessionThreadError

F = TypeVar("F", bound=Callable[..., Any])


class CallNames(NameIds, Protocol):
    """The names of a session.

    Attributes:
        kept: rows that are forgotten when a call ends.
        absent: names without an id that are forgotten when a call ends.
    """

    kept: dict[object, Any]
    absent: set[Any]


class Guard:
    """A context manager around every call of a session. The thread that is inside may enter it again.

    Raises:
        SessionClosed: the session has ended.
        SessionThreadError: another thread is inside.
    """

    def __init__(self, names: CallNames | None = None) -> None:
        self.closed = False
        self.names = names
        self._lock = threading.RLock()
        self.leave = self._lock.release
        """Ends a call."""

    def enter(self) -> None:
        """Begins a call; `leave` ends it."""
        if not self._lock.acquire(blocking=False):
            raise SessionThreadError(
                "Another thread is using this session: open one session per thread; the store can be shared."
            )
        if self.closed:
            self._lock.release()
            raise SessionClosed("The session is closed: open another one.")

    def __enter__(self) -> None:
        self.enter()

    def __exit__(self, *args: object) -> None:
        self.leave()


class Guarded(Protocol):
    """An object with a guard."""

    _guard: Guard


def guarded(method: F) -> F:
    """Runs a method of a guarded object inside its guard."""

    @functools.wraps(method)
    def inside(self: Guarded, *args: Any, **kwargs: Any) -> Any:
        guard = self._guard
        guard.enter()
        bound = bind_names(guard.names)
        try:
            return method(self, *args, **kwargs)
        finally:
            unbind_names(bound)
            if guard.names is not None:
                guard.names.kept.clear()
                # also after a call inside another one, such as a call of the function that `retry` runs
                guard.names.absent.clear()
            guard.leave()

    return cast("F", inside)


def unguarded(method: F) -> F:
    """Returns a guarded method without its guard, so that a call of it is part of the call in progress."""
    return cast("F", cast("Any", method).__wrapped__)
