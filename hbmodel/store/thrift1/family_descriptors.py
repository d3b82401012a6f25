"""The column families of tables behind the first Thrift gateway: their descriptors, and a memory of their names."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from hbmodel.store.thrift1.service import ColumnDescriptor
from hbmodel.store.values import FOREVER, Family

KEPT = 60.0
"""The number of seconds for which the families of a table are remembered."""


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


class KnownFamilies:
    """The names of the families of tables, which are needed to delete whole rows: such a delete must list all families.

    There are no locks: in the worst case, two threads read the families of a table at the same time.
    """

    def __init__(self) -> None:
        self._names: dict[str, tuple[float, list[bytes]]] = {}

    def names(self, table: str) -> list[bytes] | None:
        """Returns the names of a table's families, sorted, or None if they must be read."""
        known = self._names.get(table)
        return known[1] if known is not None and time.monotonic() < known[0] else None

    def remember(self, table: str, families: Iterable[Family]) -> None:
        """Remembers the families of a table, which were read just now."""
        self._names[table] = (time.monotonic() + KEPT, sorted(family.name for family in families))

    def forget(self, table: str) -> bool:
        """Forgets the families of a table, and returns whether any were known."""
        return self._names.pop(table, None) is not None
