"""Metadata of a store that sessions may share: the bindings of models to live tables, for a lease, and the offset of its clock."""

from __future__ import annotations

from collections.abc import Callable

from hbmodel.errors import TableNotFound
from hbmodel.mapping.schema import TableSchema
from hbmodel.protocol.clock import SharedOffset, running_time
from hbmodel.store.gate import TRANSACTION, ReadRow
from hbmodel.store.values import Row
from hbmodel.tables.name_cache import NameCache
from hbmodel.tables.registration import Binding
from hbmodel.tables.registry import Registry, registry_row

UNWRITABLE = 1.0
"""Seconds for which it is trusted, at most, that a table has an index which the model does not declare, so that writes wait no longer."""

READS = 3
"""How often a binding is read, at most, if each time takes longer than the lease. The last one is used all the same."""


class MetadataCache:
    """Bindings, each read once per lease, the offset of the server's clock, and names with their ids.

    Leases are measured on a clock that never jumps and continues while the machine sleeps.

    Thread-safe without locks: at worst, two threads read the same metadata at the same time.

    Args:
        lease: seconds for which a binding is trusted.
        running: the clock that measures leases, in ms.
        offset: the clocks that the times of writes are made from, and their offset to the server's.
    """

    def __init__(self, lease: float, *, running: Callable[[], int] = running_time, offset: SharedOffset | None = None) -> None:
        self.lease = lease
        self._running = running
        self._lease, self._unwritable = 1000 * lease, 1000 * min(lease, UNWRITABLE)
        self._bindings: dict[TableSchema, tuple[Binding, int]] = {}
        self._seen: dict[TableSchema, tuple[Binding, Row | None]] = {}
        self.offset = SharedOffset() if offset is None else offset
        self.names = NameCache()

    def binding(self, schema: TableSchema, registry: Registry) -> Binding:
        """The binding of a model, read from the registry if the cached one is too old; raises the errors of `Registry.bind`.

        What took longer than the lease to read is too old already, and is read once more. Inside a transaction the row is looked at.
        """
        known = self._bindings.get(schema)
        now = self._running()
        if (read := TRANSACTION.get()) is not None:
            return self._in_transaction(schema, registry, read)
        if known is not None and now - known[1] < (self._unwritable if known[0].unknown else self._lease):
            return known[0]
        reads = 1
        while True:
            binding = registry.bind(schema)
            latest = self._bindings.get(schema)
            if latest is None or latest[1] <= now:  # another thread may have read a newer one meanwhile
                self._bindings[schema] = (binding, now)
            began, now = now, self._running()
            if not 0 < self._lease < now - began or reads == READS:
                return binding
            reads += 1

    def _in_transaction(self, schema: TableSchema, registry: Registry, read: ReadRow) -> Binding:
        """The binding by what the registry says in a transaction."""
        try:
            row = read(registry.table, registry_row(schema))
        except TableNotFound:
            row = None
        known, began = self._bindings.get(schema), self._running()
        if known is not None:
            seen = self._seen.get(schema)
            if seen is not None and seen[0] is known[0] and seen[1] is row:
                return known[0]
            if known[0].cells == ({} if row is None else {column: cell.value for column, cell in row.columns.items()}):
                self._seen[schema] = (known[0], row)
                return known[0]
        binding = registry.bind(schema)
        self._bindings[schema] = (binding, began)
        return binding
