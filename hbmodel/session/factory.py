"""Many short sessions on one store, which share what each would otherwise have to ask for itself."""

from __future__ import annotations

from typing import TypedDict, Unpack

from hbmodel.session.metadata_cache import Knowledge
from hbmodel.session.session import LEASE, Session
from hbmodel.store.observed import OnCall
from hbmodel.store.values import Store


class SessionOptions(TypedDict, total=False):
    """The options of `Session`."""

    registry: str
    lease: float
    grace: float
    clock_bound: float
    token_key: bytes | str | None
    on_call: OnCall | None


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
        self._knowledge = Knowledge(options.get("lease", LEASE))

    def __call__(self) -> Session:
        """A new session."""
        return Session(self._store, **self._options, knowledge=self._knowledge)
