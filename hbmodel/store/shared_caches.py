"""The caches that the users of one store share while it is open."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import Any, Protocol, TypeVar


class SharedCache(Protocol):
    """A cache of data that users of a store have read."""

    def supersede(self) -> None:
        """Called when the cache will get no new users, because another cache has replaced it."""
        ...


C = TypeVar("C", bound=SharedCache)

MOST = 100
"""The maximum number of caches of one store. Only a program that keeps opening sessions with new times reaches it."""


class SharedCaches:
    """The caches of a store, by key. It is thread-safe.

    Args:
        trusted: the maximum number of seconds for which sessions of this store rely on the data that they have read
            about its tables. If a read is very cheap, this time is short, so that changes of tables do not wait long
            for readers.
    """

    def __init__(self, trusted: float = math.inf) -> None:
        self.trusted = trusted
        self._caches: dict[Hashable, Any] = {}

    def cache(self, key: Hashable, make: Callable[[], C]) -> C:
        """Returns the cache with a key. If there is none, `make` makes it."""
        caches = self._caches
        known: C | None = caches.get(key)
        if known is not None:
            return known
        if len(caches) >= MOST:
            self.renew()
            caches = self._caches
        cached: C = caches.setdefault(key, make())
        if caches is not self._caches:  # the caches were renewed in the meantime, perhaps before this one was added
            cached.supersede()
        return cached

    def renew(self) -> None:
        """Lets later users start with new caches, because the cached data has changed. Current users keep the old
        caches.
        """
        caches, self._caches = self._caches, {}
        for cache in [*caches.values()]:  # a copy, because another thread may still add a cache
            cache.supersede()


def trusted_for(store: object) -> float:
    """Returns `SharedCaches.trusted` of a store, or infinity if it has no shared caches."""
    shared = shared_caches(store)
    return math.inf if shared is None else shared.trusted


def shared_caches(store: object) -> SharedCaches | None:
    """Returns the shared caches of a store, or None if it has none."""
    shared: SharedCaches | None = getattr(store, "shared_caches", None)
    return shared


def renew_caches(store: object) -> None:
    """Renews the shared caches of a store, if it has any."""
    if (shared := shared_caches(store)) is not None:
        shared.renew()
