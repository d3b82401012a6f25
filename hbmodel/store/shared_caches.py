"""The caches that the users of one store share while it is open."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import Any, Protocol, TypeVar


class SharedCache(Protocol):
    """A cache of what users of a store have read."""

    def supersede(self) -> None:
        """Called when the cache gets no new users, because another one has taken its place."""
        ...


C = TypeVar("C", bound=SharedCache)

MOST = 100
"""The maximum number of caches of one store. It matters only to a program that keeps opening sessions with new times.
"""


class SharedCaches:
    """The caches of a store, by key. Thread-safe.

    Args:
        trusted: for how many seconds, at most, sessions of this store rely on what they have read about its tables. If
            a read costs next to nothing, this time is short, so that changes of tables do not wait long for readers.
    """

    def __init__(self, trusted: float = math.inf) -> None:
        self.trusted = trusted
        self._caches: dict[Hashable, Any] = {}

    def cache(self, key: Hashable, make: Callable[[], C]) -> C:
        """The cache with a key; if there is none, `make` makes it."""
        caches = self._caches
        known: C | None = caches.get(key)
        if known is not None:
            return known
        if len(caches) >= MOST:
            self.renew()
            caches = self._caches
        cached: C = caches.setdefault(key, make())
        if caches is not self._caches:  # renewed in the meantime, perhaps before this cache was added
            cached.supersede()
        return cached

    def renew(self) -> None:
        """Lets later users start with new caches, because what the caches hold has changed. Current users keep
        theirs.
        """
        caches, self._caches = self._caches, {}
        for cache in [*caches.values()]:  # a copy, because another thread may still add one
            cache.supersede()


def trusted_for(store: object) -> float:
    """`SharedCaches.trusted` of a store; infinite if it has no shared caches."""
    shared = shared_caches(store)
    return math.inf if shared is None else shared.trusted


def shared_caches(store: object) -> SharedCaches | None:
    """The shared caches of a store; None if it has none."""
    shared: SharedCaches | None = getattr(store, "shared_caches", None)
    return shared


def renew_caches(store: object) -> None:
    """Renews the shared caches of a store, if it has any."""
    if (shared := shared_caches(store)) is not None:
        shared.renew()
