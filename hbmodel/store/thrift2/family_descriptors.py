"""Converts between tables and column families and the descriptors of the second Thrift gateway."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hbmodel.store.thrift2.service import TColumnFamilyDescriptor, TTableName
from hbmodel.store.values import FOREVER, Family

_DEFAULT_NAMESPACE = b"default"


def family_of(descriptor: Any) -> Family:
    """Returns a column family from the gateway's descriptor.

    The descriptor's attributes are the attributes that HBase itself stores (`ColumnFamilyDescriptorBuilder`), as text
    by name.
    """
    settings: Mapping[bytes, bytes] = descriptor.attributes or {}
    ttl = int(settings.get(b"TTL", FOREVER))
    return Family(
        name=descriptor.name,
        max_versions=int(settings.get(b"VERSIONS", 1)),
        ttl=None if ttl == FOREVER else ttl,
        compression=settings.get(b"COMPRESSION", b"NONE").decode().upper(),
        bloom_filter=settings.get(b"BLOOMFILTER", b"ROW").decode().upper(),
        block_size=int(settings.get(b"BLOCKSIZE", 65_536)),
        in_memory=settings.get(b"IN_MEMORY", b"false").lower() == b"true",
        configuration=_configuration(descriptor),
    )


def descriptor_of(family: Family) -> Any:
    """Returns the gateway's descriptor of a column family. Options that are None in `family` get HBase's defaults."""
    return TColumnFamilyDescriptor(
        name=family.name, attributes=_attributes(family), configuration=dict(family.configuration) or None
    )


def changed(descriptor: Any, family: Family) -> Any:
    """Returns the descriptor of a live family with the options that `family` specifies."""
    return TColumnFamilyDescriptor(
        name=family.name,
        attributes={**(descriptor.attributes or {}), **_attributes(family)},
        configuration={**_configuration(descriptor), **family.configuration} or None,
    )


def _configuration(descriptor: Any) -> dict[str, str]:
    # The gateway returns bytes, as in all other answers.
    return {name.decode(): value.decode() for name, value in (descriptor.configuration or {}).items()}


def _attributes(family: Family) -> dict[bytes, bytes]:
    """Returns HBase's settings, as text by name, without the settings that are None in `family`."""
    settings = {
        b"VERSIONS": family.max_versions,
        b"TTL": family.ttl,
        b"COMPRESSION": family.compression,
        b"BLOOMFILTER": family.bloom_filter,
        b"BLOCKSIZE": family.block_size,
        b"IN_MEMORY": None if family.in_memory is None else str(family.in_memory).lower(),
    }
    return {name: str(value).encode() for name, value in settings.items() if value is not None}


def table_name(name: bytes) -> Any:
    """Returns the two parts of a table's name."""
    namespace, colon, qualifier = name.partition(b":")
    return TTableName(ns=namespace, qualifier=qualifier) if colon else TTableName(ns=_DEFAULT_NAMESPACE, qualifier=name)


def name_of(table: Any) -> str:
    """Returns a table's name from its two parts, without the default namespace."""
    qualifier: str = table.qualifier.decode()
    return qualifier if table.ns in {None, _DEFAULT_NAMESPACE} else f"{table.ns.decode()}:{qualifier}"
