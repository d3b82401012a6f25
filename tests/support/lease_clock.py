"""A clock that tests control, for the leases of sessions."""

from __future__ import annotations

from typing import Any

import hbmodel as hb
from hbmodel.tables.registry.registration import LEASE
from hbmodel.tables.roll.binding_cache import BindingCache


class LeaseClock:
    """A clock that does not move by itself. The clocks for timestamps of rows continue independently."""

    def __init__(self) -> None:
        self._now = 1_000_000

    def move(self, seconds: float) -> None:
        """Moves the clock by a number of seconds."""
        self._now += round(1000 * seconds)

    def cache(self, lease: float = LEASE) -> BindingCache:
        """Returns a cache of metadata that sessions trust for a number of seconds by this clock."""
        return BindingCache(lease, running=lambda: self._now)

    def session(self, store: hb.Store, *, lease: float = LEASE, **options: Any) -> hb.Session:
        """Returns a session that trusts its metadata for a number of seconds by this clock."""
        return hb.Session(store, cache=self.cache(lease), **options)
