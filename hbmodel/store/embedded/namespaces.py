"""The names of the tables and namespaces of an embedded store.

The namespaces are `default`, the namespaces that were created, and the namespaces of tables that were created before
namespaces were stored.
"""

from __future__ import annotations

import sqlite3

from hbmodel.errors import InvalidRequest, NamespaceExists, NamespaceNotFound, StoreError
from hbmodel.store.checks.tables import OWN_NAMESPACE, check_namespace
from hbmodel.store.embedded.damage import DAMAGED

_DEFAULT = "default"


def table_names(connection: sqlite3.Connection) -> list[str]:
    """Returns the names of all tables, sorted. Raises `StoreError` if a name is not text."""
    names = [name for (name,) in connection.execute("SELECT name FROM tables ORDER BY name")]
    if not all(isinstance(name, str) for name in names):
        raise StoreError(DAMAGED)
    return names


def namespaces(connection: sqlite3.Connection) -> set[str]:
    """Returns the names of all namespaces."""
    return {_DEFAULT, *_created(connection), *_of_tables(connection)}


def check_namespace_of(connection: sqlite3.Connection, table: str) -> None:
    """Raises `NamespaceNotFound` unless the namespace of a table's name exists."""
    namespace, colon, _ = table.partition(":")
    if colon and namespace not in namespaces(connection):
        raise NamespaceNotFound(
            "There is no such namespace: check the name, or create it with store.create_namespace().",
            table=table,
            namespace=namespace,
        )


def create_namespace(connection: sqlite3.Connection, namespace: str) -> None:
    """Creates a namespace, in a writing transaction. Raises `NamespaceExists`."""
    check_namespace(namespace)
    if namespace in {*namespaces(connection), OWN_NAMESPACE}:
        raise NamespaceExists("There is already a namespace of that name.", namespace=namespace)
    connection.execute("CREATE TABLE IF NOT EXISTS namespaces (name TEXT PRIMARY KEY)")
    connection.execute("INSERT INTO namespaces (name) VALUES (?)", (namespace,))


def delete_namespace(connection: sqlite3.Connection, namespace: str) -> None:
    """Deletes a namespace, in a writing transaction."""
    check_namespace(namespace)
    if namespace not in namespaces(connection):
        raise NamespaceNotFound(
            "There is no such namespace: check the name, or create it with store.create_namespace().",
            namespace=namespace,
        )
    if namespace == _DEFAULT or namespace in _of_tables(connection):
        raise InvalidRequest(
            "Only a namespace without tables can be deleted, and never the default namespace.", namespace=namespace
        )
    connection.execute("DELETE FROM namespaces WHERE name = ?", (namespace,))


def _created(connection: sqlite3.Connection) -> set[str]:
    # The SQLite table is created with the first namespace, so it may not exist, for example in files of older versions.
    if (
        connection.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'namespaces'").fetchone()
        is None
    ):
        return set()
    return {name for (name,) in connection.execute("SELECT name FROM namespaces")}


def _of_tables(connection: sqlite3.Connection) -> set[str]:
    return {name.partition(":")[0] for (name,) in connection.execute("SELECT name FROM tables WHERE instr(name, ':')")}
