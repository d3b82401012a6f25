"""A clock that measures the leases of sessions, and that tests move."""

from __future__ import annotations

from typing import Any

import hbmodel as hb
from hbmodel.tables.registry.registration import LEASE
from hbmodel.tables.roll.binding_cache import BindingCache


class LeaseClock:
    """Stands still until it is moved; the clocks by which rows are written go on all the same."""

    def __init__(self) -> None:
        self._now = 1_000_000

    def move(self, seconds: float) -> None:
        """Lets so many seconds pass."""
        self._now += round(1000 * seconds)

    def cache(self, lease: float = LEASE) -> BindingCache:
        """Metadata that sessions trust for so many seconds by this clock."""
        return BindingCache(lease, running=lambda: self._now)

    def session(self, store: hb.Store, *, lease: float = LEASE, **options: Any) -> hb.Session:
        """A session that trusts what it knows for so many seconds by this clock."""
        return hb.Session(store, cache=self.cache(lease), **options)
