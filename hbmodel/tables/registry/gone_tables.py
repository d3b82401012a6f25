"""Adds the call that removes the registry entry to errors about registered tables that do not exist."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hbmodel.errors import SchemaMismatch
from hbmodel.store.port import Store

GONE = (
    "The registry knows a table of this name that does not exist, and its entry does not fit the model: "
    "hb.tables.forget(store, table) or `hbmodel registry forget TABLE` removes the entry."
)

GONE_PRIMARY = (
    "The registry knows the table as an index table of a table that does not exist: hb.tables.forget(store, primary) "
    "or `hbmodel registry forget PRIMARY` removes the entry of that table, once its index tables are deleted."
)

WHY_GONE = (
    "the registry knows a table of this name that does not exist: hb.tables.forget(store, table) or "
    "`hbmodel registry forget TABLE` removes its entry"
)

WHY_PRIMARY_GONE = (
    "the registry knows it as an index table of a table that does not exist: hb.tables.forget(store, primary) or "
    "`hbmodel registry forget PRIMARY` removes the entry of that table, once its index tables are deleted"
)


@contextmanager
def naming_gone_tables(store: Store) -> Iterator[None]:
    """Changes the messages of errors in its block that are caused by a registry entry whose table does not exist. The
    details of the errors stay the same.
    """
    try:
        yield
    except SchemaMismatch as error:
        entry, message = (error.table, GONE) if error.primary is None else (error.primary, GONE_PRIMARY)
        if entry in store.tables():
            raise
        raise SchemaMismatch(message, **error.details) from error
