"""Opens the store that a URL names."""

from __future__ import annotations

import os
from typing import Never

from hbmodel.errors import StoreURLError
from hbmodel.query.ask.continuation_tokens import FernetSeal
from hbmodel.store.observed import ObservedStore, OnCall, check_on_call
from hbmodel.store.open import open_store
from hbmodel.store.port import Store


def connect(
    url: str | None = None,
    *,
    token_key: bytes | str | None = None,
    on_call: OnCall | None = None,
    **misplaced: Never,
) -> Store:
    """Opens the store that a URL names.

    The store is a context manager that closes itself. A gateway is not called before it is needed.

    Args:
        url: `embedded:path/to/file.db` (one local file), `memory:` (private to this process), `hbase://host:9090`
            (HBase's Thrift1 gateway) or `hbase+thrift2://host:9091` (its Thrift2 gateway), with options such as
            `?timeout=10&pool=4`; several gateways of one HBase are separated by commas. With None, the URL is read from
            the environment variable `HBMODEL_URL`. Gateway options that the URL does not contain are read from the
            environment, too: `timeout` from `HBMODEL_TIMEOUT` and so on.
        token_key: the key that encrypts the continuation tokens of sessions on this store, so that row keys cannot be
            read from them; 32 bytes in URL-safe base64, as returned by `cryptography.fernet.Fernet.generate_key()`.
            With None, the key is read from `HBMODEL_TOKEN_KEY`, if it is set.
        on_call: called after every call that reads or writes rows, by any part of the library; see `hb.Session`.
        misplaced: options of a gateway, which belong in the URL. Any of them is an error.

    Raises:
        StoreURLError: the URL cannot be parsed.
        SessionError: the token key is invalid, or the extra `tokens` is not installed.
        DeclarationError: `on_call` is not callable.
    """
    if misplaced:
        shown = "&".join(f"{name}=..." for name in misplaced)
        raise StoreURLError(
            "hb.connect() takes token_key= and on_call=, and the options of a gateway in the URL, such as "
            f"hbase://host:9090?{shown}",
            option=", ".join(misplaced),
        )
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
