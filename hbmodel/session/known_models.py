"""The models that a session has used: their bindings, and the store as each of them sees it."""

from __future__ import annotations

from operator import attrgetter

from hbmodel.errors import SchemaMismatch
from hbmodel.mapping.schema import TableSchema
from hbmodel.protocol.migration import DONE, phase_of
from hbmodel.session.metadata_cache import MetadataCache
from hbmodel.store.folded import folded
from hbmodel.store.page_sizes import PAGE_SIZES, PageSizes
from hbmodel.store.port import Store
from hbmodel.tables.registration import Binding
from hbmodel.tables.registry import Registry

_replaced = attrgetter("replaces")


class KnownModels:
    """Bindings and views, by model.

    Args:
        store: the store with the tables.
        registry: records the state of each model's table.
        knowledge: the metadata cache that sessions share.
        pages: how much of a wide row is read at once.
    """

    def __init__(self, store: Store, registry: Registry, knowledge: MetadataCache, pages: PageSizes = PAGE_SIZES) -> None:
        self._store, self._registry, self._knowledge, self._pages = store, registry, knowledge, pages
        self._bindings: dict[TableSchema, Binding] = {}
        self._views: dict[TableSchema, Store] = {}
        self._written: set[TableSchema | None] = set()

    def bind(self, schema: TableSchema) -> Binding:
        """The binding of a model, read again if its lease has expired.

        Raises:
            SchemaMismatch: it cannot be used as declared, or its objects are still in the table that it replaces.
        """
        if schema.replaces is not None and not self._in_use(schema, schema.replaces):
            raise SchemaMismatch(
                "The objects are still in the table that the model replaces: move them first, see hb.migrate().",
                table=schema.table, replaces=schema.replaces.table,
            )  # fmt: skip
        binding = self._bindings[schema] = self._knowledge.binding(schema, self._registry)
        return binding

    def _in_use(self, schema: TableSchema, replaced: TableSchema) -> bool:
        """Whether the table of a model that replaces another is already read."""
        phase = phase_of(schema, self.bind(replaced).phase)
        return phase is not None and "new" in phase.reads and (schema.immutable or schema.versioned or phase.name == DONE)

    def view(self, schema: TableSchema) -> Store:
        """The store as a model sees it: each object is a row."""
        if schema.wide_rows is None:
            return self._store
        view = self._views.get(schema)
        if view is None:
            view = self._views[schema] = folded(self._store, schema.wide_rows, self._pages)
        return view

    def writing(self, *schemas: TableSchema) -> None:
        """Begins writes of some models: their bindings alone, and those of the models that they replace, must then be current."""
        self._written = {*schemas, *map(_replaced, schemas)}

    def lease_valid(self) -> bool:
        """Whether the binding of every written model is current: an expired one is read again and must be unchanged.

        Raises:
            SchemaMismatch: it has changed; the next commit restarts with the new binding.
        """
        for schema, binding in list(self._bindings.items()):
            if schema not in self._written:
                continue  # another model that the session has used; its table may be gone
            if schema.replaces is not None and not self._in_use(schema, schema.replaces):
                del self._bindings[schema]  # the migration was rolled back; what was under way is written into the old table then
                continue
            current = self.bind(schema)
            if not current.writes_like(binding):
                raise SchemaMismatch("The indexes of the table changed during a commit; commit again.", table=schema.table)
        return True
