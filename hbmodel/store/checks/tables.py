"""Checks that refuse tables before any call, if HBase would not create them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hbmodel.errors import InvalidRequest
from hbmodel.store.values import FOREVER, Family

# `TableName.isLegalNamespaceName` and `isLegalTableQualifierName`.
_TABLE_NAME = re.compile(r"(?:\w+:)?\w[\w.-]*")

# HBase stores the length of the family's name in one signed byte of each key-value.
_MAX_FAMILY_LENGTH = 127


_NAMESPACE = re.compile(r"\w+")

OWN_NAMESPACE = "hbase"
"""The namespace of HBase's own tables."""

TABLE_EXISTS = "There is already a table of that name: use it, or choose another name."


def check_namespace(namespace: str) -> None:
    """Raises InvalidRequest for a name that no namespace can have."""
    if not _NAMESPACE.fullmatch(namespace):
        raise InvalidRequest("The name of a namespace must consist of letters, digits and '_'.", namespace=namespace)


def is_table_name(name: str) -> bool:
    """Returns whether HBase allows the name for a table."""
    return _TABLE_NAME.fullmatch(name) is not None


def check_table_name(table: str) -> None:
    """Raises InvalidRequest for a name that no table can have."""
    if not is_table_name(table):
        raise InvalidRequest(
            "A table name must consist of letters, digits, '_', '-' and '.', and must not begin with '-' or '.'; a "
            "namespace may precede it.",
            table=table,
        )


def check_new_table(table: str, families: Sequence[Family], split_keys: Sequence[bytes]) -> None:
    """Raises InvalidRequest for a name, a family or a split key that HBase's client or master refuses."""
    check_table_name(table)
    if table.startswith("hbase:"):
        raise InvalidRequest("The namespace hbase is reserved for HBase: choose another.", table=table)
    if not families:
        raise InvalidRequest("A table needs at least one column family.", table=table)
    if len({family.name for family in families}) < len(families):
        raise InvalidRequest("A table cannot have two column families with the same name.", table=table)
    for family in families:
        check_family(table, family)
    if any(not key for key in split_keys) or len(set(split_keys)) < len(split_keys):
        raise InvalidRequest("Split keys must not be empty and must differ.", table=table)


def check_family(table: str, family: Family) -> None:
    """Raises InvalidRequest for a family that HBase's client or master refuses."""
    name = family.name
    # `ColumnFamilyDescriptorBuilder.isLegalColumnFamilyName`.
    if (
        not name
        or name.startswith(b".")
        or len(name) > _MAX_FAMILY_LENGTH
        or any(byte < 32 or byte in b":/\\\x7f" for byte in name)
    ):
        raise InvalidRequest(
            "A column family's name must be 1 to 127 bytes without control characters, ':', '/' and '\\', and must "
            "not begin with '.'.",
            table=table,
            family=name,
        )
    if family.max_versions is not None and family.max_versions < 1:
        raise InvalidRequest("A column family must keep at least one version.", table=table, family=name)
    if family.ttl is not None and not 1 <= family.ttl <= FOREVER:
        raise InvalidRequest("A column family's TTL must be at least one second.", table=table, family=name)
