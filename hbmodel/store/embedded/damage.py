"""Checks the file of an embedded store for damage that SQLite does not notice, because it does not check the bytes of
values.
"""

from __future__ import annotations

import sqlite3

from hbmodel.errors import HbmodelError, StoreError

DAMAGED = "The embedded store's file is damaged: restore it from a copy, or remove it."

UNREADABLE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""The errors that may occur when stored values do not have the types that the store writes."""

_CHECKS = (
    "SELECT 1 FROM segments WHERE typeof(table_id) != 'integer' OR typeof(row) != 'blob' OR typeof(first) != 'blob'"
    " OR typeof(cells) != 'blob' OR typeof(ends) NOT IN ('integer', 'null') LIMIT 1",
    "SELECT 1 FROM tombstones WHERE typeof(row) != 'blob' OR typeof(target) != 'blob' OR typeof(timestamp) != "
    "'integer' LIMIT 1",
    "SELECT 1 FROM tables WHERE typeof(name) != 'text' OR typeof(layout) != 'blob' LIMIT 1",
    "PRAGMA quick_check(1)",
)

_SOUND = (None, ("ok",))
"""The results of the checks for a file that is not damaged."""


def check_undamaged(connection: sqlite3.Connection | None, path: str | None, error: Exception) -> None:
    """Checks a file for damage after an error that damaged contents may have caused.

    Args:
        connection: the connection to the file; None if it could not be opened.

    Raises:
        StoreError: the file is damaged.
    """
    if isinstance(error, HbmodelError):
        return
    try:
        damaged = connection is None or any(connection.execute(check).fetchone() not in _SOUND for check in _CHECKS)
    except (sqlite3.Error, *UNREADABLE):
        damaged = True
    if damaged:
        raise StoreError(DAMAGED, path=path) from error
