"""Opens the store at a URL."""

from __future__ import annotations

from hbmodel.errors import StoreURLError
from hbmodel.store.port import Store


def open_store(url: str) -> Store:
    """Opens and returns the store at a URL, see `hb.connect`."""
    if not isinstance(url, str):
        raise StoreURLError(
            "A store URL is text, such as 'embedded:dev.db' or 'hbase://localhost:9090'.", found=type(url).__name__
        )
    scheme, colon, rest = url.partition(":")
    if scheme == "memory" and colon:
        if rest:
            raise StoreURLError("A memory store takes no path and no options: write 'memory:'.")
        from hbmodel.store.embedded import EmbeddedStore

        return EmbeddedStore(None)
    path = embedded_path(url)
    if path is not None:
        from hbmodel.store.embedded import EmbeddedStore

        return EmbeddedStore(path)
    if scheme == "hbase" and colon:
        from hbmodel.store.thrift1.store import Thrift1Store

        return Thrift1Store.from_url(url)
    if scheme == "hbase+thrift2" and colon:
        from hbmodel.store.thrift2.store import Thrift2Store

        return Thrift2Store.from_url(url)
    raise StoreURLError(
        "A store URL begins with 'embedded:', 'memory:', 'hbase://' or 'hbase+thrift2://'; for a local file, put "
        "'embedded:' before its path.",
        scheme=scheme if colon else None,
    )


def embedded_path(url: str) -> str | None:
    """Returns the path of the file in the URL of an embedded store, or None for the URL of another store.

    Raises:
        StoreURLError: the URL of an embedded store has no path, or has more than a path.
    """
    scheme, colon, path = url.partition(":")
    if scheme != "embedded" or not colon:
        return None
    if not path:
        raise StoreURLError("An embedded store needs the path of its file: 'embedded:dev.db'.")
    if path.startswith("//") and not path.startswith("///"):
        raise StoreURLError(
            "The path of an embedded store follows the colon: 'embedded:dev.db', or 'embedded:/srv/dev.db'."
        )
    if "?" in path:
        raise StoreURLError("An embedded store takes no options: 'embedded:' and the path of its file, without '?'.")
    return path
