"""A store that wraps another store, and forwards everything to it except the reading and writing of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from hbmodel.store.closing import ClosingStore
from hbmodel.store.port import Capabilities, Store, Writes, carry_out
from hbmodel.store.shared_caches import SharedCaches, shared_caches
from hbmodel.store.values import ConditionalChange, ConditionalPut, Family, Region, Row


class WrappingStore(ClosingStore):
    """A store that forwards the administration of tables, and all other calls except reads and writes of rows, to the
    wrapped store.
    """

    def __init__(self, store: Store) -> None:
        self.token_key: bytes | str | None = getattr(store, "token_key", None)
        self._store = store

    @property
    def capabilities(self) -> Capabilities:
        """The capabilities of the wrapped store."""
        return self._store.capabilities

    def tables(self) -> list[str]:
        """See `Store.tables`."""
        return self._store.tables()

    def families(self, table: str) -> list[Family]:
        """See `Store.families`."""
        return self._store.families(table)

    def create_table(self, table: str, families: Sequence[Family], split_keys: Sequence[bytes] = ()) -> None:
        """See `Store.create_table`."""
        self._store.create_table(table, families, split_keys)

    def add_family(self, table: str, family: Family) -> None:
        """See `Store.add_family`."""
        self._store.add_family(table, family)

    def modify_family(self, table: str, family: Family) -> None:
        """See `Store.modify_family`."""
        self._store.modify_family(table, family)

    def namespaces(self) -> list[str]:
        """See `Store.namespaces`."""
        return self._store.namespaces()

    def create_namespace(self, namespace: str) -> None:
        """See `Store.create_namespace`."""
        self._store.create_namespace(namespace)

    def delete_namespace(self, namespace: str) -> None:
        """See `Store.delete_namespace`."""
        self._store.delete_namespace(namespace)

    def delete_table(self, table: str) -> None:
        """See `Store.delete_table`."""
        self._store.delete_table(table)

    def regions(self, table: str) -> list[Region]:
        """See `Store.regions`."""
        return self._store.regions(table)

    def change_and_get(
        self, table: str, change: ConditionalChange | ConditionalPut, columns: Sequence[bytes]
    ) -> tuple[bool, Sequence[Row | None] | None]:
        """See `ChangeAndGetStore`. Only the change is made, by the methods of this store."""
        return carry_out(cast("Writes", self), table, change), None

    @property
    def shared_caches(self) -> SharedCaches | None:
        """The shared caches of the wrapped store."""
        return shared_caches(self._store)

    def close(self) -> None:
        self._store.close()

    def __getattr__(self, name: str) -> Any:
        """Returns a member of the wrapped store that is not part of the port, such as `compact`."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._store, name)
