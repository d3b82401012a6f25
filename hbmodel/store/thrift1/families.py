"""Converts between column families and the descriptors of the first Thrift gateway."""

from __future__ import annotations

from typing import Any

from hbmodel.store.thrift1.service import ColumnDescriptor
from hbmodel.store.values import FOREVER, Family


def family_of(descriptor: Any) -> Family:
    """Returns a column family from the gateway's descriptor, which has no block size and no configuration."""
    return Family(
        name=descriptor.name.removesuffix(b":"),
        max_versions=descriptor.maxVersions,
        ttl=None if descriptor.timeToLive in {-1, FOREVER} else descriptor.timeToLive,
        compression=descriptor.compression.decode(),
        bloom_filter=descriptor.bloomFilterType.decode(),
        in_memory=descriptor.inMemory,
    )


def descriptor_of(family: Family) -> Any:
    """Returns the gateway's descriptor of a column family.

    The gateway uses every setting in the descriptor. The defaults of the descriptor in Thrift differ from HBase's: no
    block cache, no bloom filter, three versions. Options that are None in `family` get HBase's defaults.
    """
    return ColumnDescriptor(
        name=family.name,
        maxVersions=family.max_versions or 1,
        compression=family.compression or "NONE",
        inMemory=bool(family.in_memory),
        bloomFilterType=family.bloom_filter or "ROW",
        blockCacheEnabled=True,
        timeToLive=FOREVER if family.ttl is None else family.ttl,
    )
