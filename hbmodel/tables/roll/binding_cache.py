"""A cache of a store's metadata that sessions share, such as the bindings of models and the offset of the server's
clock.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable
from weakref import WeakSet

from hbmodel.errors import SchemaMismatch, TableNotFound
from hbmodel.mapping.schema import TableSchema
from hbmodel.protocol.corrected_clock import SharedOffset, running_time
from hbmodel.store.gate import TRANSACTION, ReadRow
from hbmodel.store.port import Store
from hbmodel.store.shared_caches import shared_caches, trusted_for
from hbmodel.store.values import Row
from hbmodel.tables.ids.name_cache import NameCache
from hbmodel.tables.registry.registration import Binding
from hbmodel.tables.registry.registry_cells import cells_of
from hbmodel.tables.registry.registry_rows import registry_row
from hbmodel.tables.registry.registry_table import Registry
from hbmodel.tables.roll.child_processes import is_killed_by_parent
from hbmodel.tables.roll.own_line import ROLL_TIMES, RollTimes
from hbmodel.tables.roll.renewed_lines import OwnLines

UNSETTLED = 1.0
"""A binding that refuses writes, None or queries of an index is trusted for at most this many seconds. So the refusal
ends soon after its cause is removed: after an index that the model does not declare was dropped, the model's new
columns were registered, `hb.alter` allowed None, or an index was built.
"""

MOST_MODELS = 1_000
"""The maximum number of models whose bindings are cached. Only a program that keeps declaring new models reaches it."""

READS = 3
"""The maximum number of times that a binding is read if each read takes longer than the lease. The result of the last
read is used anyway.
"""


class BindingCache:
    """Caches bindings, the offset of the server's clock, and names with their ids. Each binding is read once per lease.

    Leases are measured on a monotonic clock that continues while the machine sleeps.

    It is thread-safe without locks: in the worst case, two threads read the same metadata at the same time.

    Args:
        lease: the number of seconds for which a binding is trusted.
        running: the clock that measures leases, in ms.
        offset: the clock for the times of writes, and its offset from the server's clock.
        roll_times: when the lines of this program on the writers' roll are renewed and put at rest.
        models: the maximum number of models whose bindings are cached.
    """

    def __init__(
        self,
        lease: float,
        *,
        running: Callable[[], int] = running_time,
        offset: SharedOffset | None = None,
        roll_times: RollTimes = ROLL_TIMES,
        models: int = MOST_MODELS,
    ) -> None:
        self.lease = lease
        self._running, self._models = running, models
        self._lease, self._unsettled = 1000 * lease, 1000 * min(lease, UNSETTLED)
        self._bindings: dict[TableSchema, tuple[Binding, int]] = {}
        self._seen: dict[TableSchema, tuple[Binding, Row | None]] = {}
        self._roll: OwnLines | None = None
        self._roll_times = roll_times
        self.offset = SharedOffset() if offset is None else offset
        self._names, self._named_since = NameCache(), running()
        self._users: WeakSet[object] = WeakSet()
        self._superseded = False

    @classmethod
    def of(cls, session: object, store: Store, lease: float, *options: Hashable) -> BindingCache:
        """Returns the cache that all sessions with these options on a store share. `session` is counted as one of them.
        If the store shares no caches, or if a signal may end this process at any time, returns a new cache that serves
        only this session.
        """
        shared, lease = shared_caches(store), min(lease, trusted_for(store))
        if shared is None or is_killed_by_parent():
            cache = cls(lease)
            cache.supersede()
            cache.opened(session)
            return cache
        while True:  # separate caches after a fork, since a thread of the parent may hold a lock
            cache = shared.cache((os.getpid(), lease, *options), lambda: cls(lease))
            cache.opened(session)
            # If this is False, a later `supersede` finds the session, and does not take the program off the roll.
            if not cache._superseded:
                return cache
            cache.closed(session, store)

    @property
    def names(self) -> NameCache:
        """The cache of names for a session that is opened now. It is at most one lease old, because another program may
        drop the tables of a dictionary and create them again after a lease.
        """
        now = self._running()
        if now - self._named_since >= self._lease:
            self._names, self._named_since = NameCache(), now
        return self._names

    def binding(self, schema: TableSchema, registry: Registry) -> Binding:
        """Returns the binding of a model. If the cached binding is too old, it is read from the registry. Raises the
        errors of `Registry.bind`.

        If the read of a binding took longer than the lease, the binding is already too old, and is read again. Inside a
        transaction, the registry's row is read in that transaction, and no lease is needed.
        """
        known = self._bindings.get(schema)
        now = self._running()
        if (read := TRANSACTION.get()) is not None:
            return self._in_transaction(schema, registry, read)
        lease = min(self._lease, registry.trusted)
        if known is not None and now - known[1] < (lease if _settled(known[0]) else self._unsettled):
            return known[0]
        reads = 1
        while True:
            binding = registry.bind(schema)
            latest = self._bindings.get(schema)
            if latest is None or latest[1] <= now:  # another thread may have read a newer binding in the meantime
                self._keep(schema, binding, now)
            began, now = now, self._running()
            if not 0 < lease < now - began or reads == READS:
                return binding
            reads += 1

    def roll(self, longest_call: float) -> OwnLines:
        """Returns this program's lines on the writers' roll. `longest_call` is the maximum duration of a call to the
        store, in seconds.
        """
        if self._roll is None:
            self._roll = OwnLines(
                round(self._lease), round(1000 * longest_call), self.offset, self._roll_times, self._running
            )
        return self._roll

    def leave(self, store: Store | None = None) -> None:
        """Takes this program off the writers' roll, until it writes again; see `OwnLines.end`."""
        if self._roll is not None:
            self._roll.end(store)

    def opened(self, session: object) -> None:
        """Counts the start of a session that uses the cache."""
        self._users.add(session)

    def closed(self, session: object, store: Store) -> None:
        """Counts the end of a session. The last session of a superseded cache takes this program off the writers'
        roll.
        """
        self._users.discard(session)
        if self._superseded and not self._users:
            self.leave(store)

    def supersede(self) -> None:
        """See `SharedCache`. If no session is open, this program is taken off the writers' roll, so that no other
        program waits for it.
        """
        self._superseded = True
        if not self._users:
            self.leave()

    def binding_to_write(self, schema: TableSchema, registry: Registry, roll: OwnLines, store: Store) -> Binding:
        """Returns the binding of a model for writes. For writes, this program must be on the writers' roll. Raises the
        errors of `Registry.bind`.
        """
        line = roll.line(store, registry.table, registry_row(schema))
        known = self._bindings.get(schema)
        if known is not None and not known[0].writable and self._running() - known[1] >= self._unsettled:
            line.look(store)
        row, began = line.state(store)
        known, seen = self._bindings.get(schema), self._seen.get(schema)
        if known is not None and seen is not None and seen[0] is known[0] and seen[1] is row and known[0].writable:
            return known[0]
        same = known is not None and known[0].cells == ({} if row is None else cells_of(row))
        if known is not None and not same and known[1] > began:  # a read in another thread has seen a later state
            line.look(store)
            row, began = line.state(store)
        if known is not None and same:
            binding = known[0]
        else:
            try:
                binding = registry.bound(schema, row)
            except SchemaMismatch:
                line.look(store)  # the table may have been created or altered since the registry was read
                row, began = line.state(store)
                binding = registry.bound(schema, row)
        # Reads use this binding too, for one lease from the time when it was read.
        read = max(began, known[1]) if known is not None and same else began
        self._keep(schema, binding, read)
        self._seen[schema] = (binding, row)
        return binding

    def _in_transaction(self, schema: TableSchema, registry: Registry, read: ReadRow) -> Binding:
        """Returns the binding that results from the registry's row, read in the transaction."""
        try:
            row = read(registry.table, registry_row(schema))
        except TableNotFound:
            row = None
        known, began = self._bindings.get(schema), self._running()
        if known is not None:
            seen = self._seen.get(schema)
            if seen is not None and seen[0] is known[0] and seen[1] is row:
                return known[0]
            if known[0].cells == ({} if row is None else cells_of(row)):
                self._seen[schema] = (known[0], row)
                return known[0]
        try:
            binding = registry.bind(schema)
        except SchemaMismatch:  # the model can no longer be used: the cached binding must not be tried again
            self._bindings.pop(schema, None)
            raise
        self._keep(schema, binding, began)
        return binding

    def _keep(self, schema: TableSchema, binding: Binding, read: int) -> None:
        if len(self._bindings) >= self._models and schema not in self._bindings:
            self._bindings.clear()
            self._seen.clear()
        self._bindings[schema] = (binding, read)


def _settled(binding: Binding) -> bool:
    return binding.writable and len(binding.readable) == len(binding.schema.indexes)
