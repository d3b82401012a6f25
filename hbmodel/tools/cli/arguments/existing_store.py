"""Opens the store of a command, without ever creating the file of an embedded store."""

from __future__ import annotations

from pathlib import Path

from hbmodel.errors import StoreURLError
from hbmodel.session.connect import connect
from hbmodel.store.open import embedded_path
from hbmodel.store.port import Store


def connect_existing(url: str) -> Store:
    """Opens the store of a URL, as `hb.connect` does.

    Raises:
        StoreURLError: the URL cannot be parsed, or the file in it does not exist.
    """
    path = embedded_path(url)
    if path is not None and not Path(path).exists():
        raise StoreURLError(
            "There is no such file: correct the path in the store's URL. Only `hbmodel create` and hb.create_tables() "
            "create stores.",
            file=path,
        )
    return connect(url)
