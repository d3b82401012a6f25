"""Many short sessions on one store, which share what each would otherwise have to ask for itself."""

from __future__ import annotations

from typing import Unpack

from hbmodel.session.metadata_cache import MetadataCache
from hbmodel.session.options import SessionOptions
from hbmodel.session.session import Session
from hbmodel.store.port import Store
from hbmodel.tables.registration import LEASE


class Sessions:
    """Opens sessions on a store, one for each web request for example.

    They share what they learn: what the registry says of a model, for its lease, and how far the server's clock is off, so that
    only the first of them asks. Thread-safe; the sessions are not.

    Args:
        store: as for `Session`.
        **options: of each session, as for `Session`.

    Raises:
        SessionError: as for `Session`.
    """

    def __init__(self, store: Store, **options: Unpack[SessionOptions]) -> None:
        Session(store, **options).close()  # wrong options are told here
        self._store = store
        self._options = options
        self._knowledge = MetadataCache(options.get("lease", LEASE))

    def __call__(self) -> Session:
        """A new session."""
        return Session(self._store, **self._options, knowledge=self._knowledge)
