"""Converts between the names of tables in a store and in HBase, where they have the store's table prefix."""

from __future__ import annotations


def name_in_store(prefix: str, table: str) -> str:
    """Returns HBase's name of a table in a store with a table prefix. The prefix follows the namespace, or contains
    one.
    """
    namespace, colon, name = table.rpartition(":")
    return f"{namespace}:{prefix}{name}" if colon and ":" not in prefix else prefix + table


def name_in_port(prefix: str, name: str) -> str | None:
    """Returns the store's name of a table, given HBase's name, or None for a table without the prefix."""
    namespace, colon, short = ("", "", name) if ":" in prefix else name.rpartition(":")
    return namespace + colon + short.removeprefix(prefix) if short.startswith(prefix) else None
