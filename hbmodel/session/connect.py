"""From a store URL to a store that sessions use."""

from __future__ import annotations

import os

from hbmodel.errors import StoreURLError
from hbmodel.query.paging import FernetSeal
from hbmodel.store.observed import ObservedStore, OnCall, check_on_call
from hbmodel.store.open import open_store
from hbmodel.store.port import Store


def connect(url: str | None = None, *, token_key: bytes | str | None = None, on_call: OnCall | None = None) -> Store:
    """Opens the store that a URL names; a context manager that closes it. A gateway is first called when it is first needed.

    Args:
        url: `embedded:path/to/file.db` (one local file), `memory:` (private to this process), `hbase://host:9090` (HBase's
            first Thrift gateway) or `hbase+thrift2://host:9091` (its second), with options such as `?timeout=10&pool=4`;
            several gateways of one HBase are separated by commas. None takes the one that the environment variable
            `HBMODEL_URL` holds. A gateway's options that the URL does not give are taken from the environment, too, `timeout`
            from `HBMODEL_TIMEOUT` and so on.
        token_key: seals the continuation tokens of sessions on this store, so that row keys are not legible in them; 32 bytes
            in URL-safe base64, as `cryptography.fernet.Fernet.generate_key()` makes them. None takes `HBMODEL_TOKEN_KEY`, if
            there is one.
        on_call: told of every call that reads or writes rows, whoever makes it; see `hb.Session`.

    Raises:
        StoreURLError: the URL cannot be understood.
        TokenError: the token key is not one.
        DeclarationError: `on_call` cannot be called.
    """
    if url is None and not (url := os.environ.get("HBMODEL_URL")):
        raise StoreURLError("Give a store URL, or set the environment variable HBMODEL_URL.")
    if token_key is None:
        token_key = os.environ.get("HBMODEL_TOKEN_KEY") or None
    if token_key is not None:
        FernetSeal(token_key)
    if on_call is not None:
        check_on_call(on_call)
    store = open_store(url)
    store.token_key = token_key
    return store if on_call is None else ObservedStore(store, on_call)
