"""From a store URL to a store."""

from __future__ import annotations

import os

from hbmodel.errors import StoreURLError
from hbmodel.query.paging import FernetSeal
from hbmodel.store.observed import ObservedStore, OnCall, check_on_call
from hbmodel.store.values import Store


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
    store = _open(url)
    store.token_key = token_key
    return store if on_call is None else ObservedStore(store, on_call)


def _open(url: str) -> Store:
    if not isinstance(url, str):
        raise StoreURLError("A store URL is text, such as 'embedded:dev.db' or 'hbase://localhost:9090'.", found=type(url).__name__)
    scheme, colon, rest = url.partition(":")
    if scheme == "memory" and colon:
        if rest:
            raise StoreURLError("A memory store takes no path and no options: write 'memory:'.")
        from hbmodel.store.embedded import EmbeddedStore

        return EmbeddedStore(None)
    if scheme == "embedded" and colon:
        if not rest:
            raise StoreURLError("An embedded store needs the path of its file: 'embedded:dev.db'.")
        if rest.startswith("//") and not rest.startswith("///"):
            raise StoreURLError("The path of an embedded store follows the colon: 'embedded:dev.db', or 'embedded:/srv/dev.db'.")
        if "?" in rest:
            raise StoreURLError("An embedded store takes no options: 'embedded:' and the path of its file, without '?'.")
        from hbmodel.store.embedded import EmbeddedStore

        return EmbeddedStore(rest)
    if scheme == "hbase" and colon:
        from hbmodel.store.thrift1.store import Thrift1Store

        return Thrift1Store.from_url(url)
    if scheme == "hbase+thrift2" and colon:
        from hbmodel.store.thrift2.store import Thrift2Store

        return Thrift2Store.from_url(url)
    raise StoreURLError(
        "A store URL begins with 'embedded:', 'memory:', 'hbase://' or 'hbase+thrift2://'.", scheme=scheme if colon else None
    )
