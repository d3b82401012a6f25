"""Opens many short sessions on one store, which share cached metadata."""

from __future__ import annotations

from typing import Unpack

from hbmodel.session.options import SessionOptions
from hbmodel.session.session import Session
from hbmodel.store.port import Store
from hbmodel.tables.registry.registration import LEASE
from hbmodel.tables.roll.binding_cache import BindingCache


class SessionFactory:
    """Opens sessions on a store, for example one for each web request.

    The sessions share what they read about the store: the registry's entry of each model, for the duration of the
    lease, and the offset of the server's clock. Only the first session reads them. `SessionFactory` is thread-safe; its
    sessions are not.

    Args:
        store: as for `Session`.
        cache: metadata that is also shared with the sessions of other factories. The lease of the cache replaces the
            option `lease`.
        **options: the options of each session, as for `Session`.

    Raises:
        SessionError: as for `Session`.
    """

    def __init__(self, store: Store, *, cache: BindingCache | None = None, **options: Unpack[SessionOptions]) -> None:
        Session(store, **options).close()  # this reports invalid options early
        self._store = store
        self._options = options
        self._cache = BindingCache(options.get("lease", LEASE)) if cache is None else cache

    def __call__(self) -> Session:
        """Opens a new session."""
        return Session(self._store, **self._options, cache=self._cache)
