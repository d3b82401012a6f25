"""Opens the store of a command, which never creates the file of an embedded store."""

from __future__ import annotations

from pathlib import Path

from hbmodel.errors import StoreURLError
from hbmodel.session.connect import connect
from hbmodel.store.port import Store

_SCHEME = "embedded:"


def connect_existing(url: str) -> Store:
    """Opens the store that a URL names, as `hb.connect` does.

    Raises:
        StoreURLError: the URL cannot be parsed, or names a file that does not exist.
    """
    path = url.removeprefix(_SCHEME)
    unusual = "?" in path or (path.startswith("//") and not path.startswith("///"))  # `connect` refuses it
    if url.startswith(_SCHEME) and path and not unusual and not Path(path).exists():
        raise StoreURLError(
            "There is no such file: correct the path in the store's URL. Commands do not create stores; "
            "hb.create_tables() does.",
            file=path,
        )
    return connect(url)
