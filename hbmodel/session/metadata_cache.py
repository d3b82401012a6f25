"""Metadata of a store that sessions may share: the bindings of models to live tables, for a lease, and the offset of its clock."""

from __future__ import annotations

import time

from hbmodel.mapping.schema import TableSchema
from hbmodel.protocol.clock import SharedOffset
from hbmodel.tables.name_cache import NameCache
from hbmodel.tables.registration import Binding
from hbmodel.tables.registry import Registry

UNWRITABLE = 1.0
"""Seconds for which it is trusted, at most, that a table has an index which the model does not declare, so that writes wait no longer."""


class MetadataCache:
    """Bindings, each read once per lease, the offset of the server's clock, and names with their ids.

    Thread-safe without locks: at worst, two threads read the same metadata at the same time.

    Args:
        lease: seconds for which a binding is trusted.
    """

    def __init__(self, lease: float) -> None:
        self.lease = lease
        self._bindings: dict[TableSchema, tuple[Binding, float]] = {}
        self.offset = SharedOffset()
        self.names = NameCache()

    def binding(self, schema: TableSchema, registry: Registry) -> Binding:
        """The binding of a model, read from the registry if the cached one is too old; raises the errors of `Registry.bind`."""
        known = self._bindings.get(schema)
        now = time.monotonic()
        if known is not None and now - known[1] < (min(self.lease, UNWRITABLE) if known[0].unknown else self.lease):
            return known[0]
        binding = registry.bind(schema)
        self._bindings[schema] = (binding, now)
        return binding
