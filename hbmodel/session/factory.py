"""Opens sessions with the same options on one store."""

from __future__ import annotations

from typing import Unpack

from hbmodel.session.options import SessionOptions
from hbmodel.session.session import Session
from hbmodel.store.port import Store
from hbmodel.store.shared_caches import shared_caches
from hbmodel.tables.registry.registration import LEASE
from hbmodel.tables.roll.binding_cache import BindingCache


class SessionFactory:
    """Opens sessions on a store, for example one for each web request.

    `SessionFactory` is thread-safe; its sessions are not.

    Args:
        store: as for `Session`.
        cache: metadata that the sessions share, as for `Session`.
        **options: the options of each session, as for `Session`.

    Raises:
        SessionError: as for `Session`.
    """

    def __init__(self, store: Store, *, cache: BindingCache | None = None, **options: Unpack[SessionOptions]) -> None:
        Session(store, **options).close()  # this reports invalid options early
        if cache is None and shared_caches(store) is None:
            cache = BindingCache(options.get("lease", LEASE))
        self._store, self._options, self._cache = store, options, cache

    def __call__(self) -> Session:
        """Opens a new session."""
        return Session(self._store, **self._options, cache=self._cache)
