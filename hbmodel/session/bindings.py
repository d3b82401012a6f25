"""The bindings of the models that a session has used, and the view of the store for each model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from operator import attrgetter

from hbmodel.errors import SchemaMismatch
from hbmodel.mapping.schema import TableSchema
from hbmodel.protocol.corrected_clock import LONGEST_CALL
from hbmodel.protocol.relocation.migration_phases import DONE, phase_of
from hbmodel.session.dictionary_names import NamedRows, SessionNames
from hbmodel.store.clock_tick import let_tick_pass
from hbmodel.store.port import Store
from hbmodel.store.wide.folded import folded
from hbmodel.store.wide.page_sizes import PAGE_SIZES, PageSizes
from hbmodel.tables.registry.registration import AT_SERVER_TIME, Binding
from hbmodel.tables.registry.registry_rows import registry_row
from hbmodel.tables.registry.registry_table import Registry
from hbmodel.tables.roll.binding_cache import BindingCache
from hbmodel.tables.roll.renewed_lines import Calls, OwnLines

NOTHING_COUNTED = nullcontext()
"""The context for writes whose calls need not be counted, because the store checks the registry inside each write."""

_replaced = attrgetter("replaces")


class Bindings:
    """Bindings and views, by model.

    Args:
        names: the names and ids of the dictionaries of models.
        pages: how much of a wide row is read at once.
        longest_call: the longest duration of a call to the store, in seconds.
    """

    def __init__(
        self,
        store: Store,
        registry: Registry,
        cache: BindingCache,
        names: SessionNames,
        pages: PageSizes = PAGE_SIZES,
        longest_call: float = LONGEST_CALL / 1000,
    ) -> None:
        self._store, self._registry, self._cache, self._pages = store, registry, cache, pages
        self._names = names
        self._bindings: dict[TableSchema, Binding] = {}
        self._views: dict[TableSchema, Store] = {}
        self._written: set[TableSchema | None] = set()
        self._calls: Calls | None = None
        self._rows: dict[tuple[TableSchema, ...], dict[bytes, None]] = {}
        self._kept: dict[tuple[TableSchema, ...], list[TableSchema]] = {}
        self._apart = store.capabilities.versions_apart
        self._roll = None if store.capabilities.gated_writes else cache.roll(longest_call)
        self.bind_to_write = self.bind if self._roll is None else self._bind_to_write
        """Returns the binding of a model for writes. The writers' roll allows these writes until the binding's lease
        ends.
        """

    def bind(self, schema: TableSchema) -> Binding:
        """Returns the binding of a model for reads. If the lease has expired, the binding is read again.

        Raises:
            SchemaMismatch: the model cannot be used as declared, or its objects are still in the table that it
                replaces.
        """
        if schema.replaces is not None:
            self._check_in_use(schema, schema.replaces, self.bind)
        binding = self._bindings[schema] = self._cache.binding(schema, self._registry)
        return binding

    def _bind_to_write(self, schema: TableSchema) -> Binding:
        assert self._roll is not None, "such a store has a roll"
        if self._calls is not None:
            self._calls.begin()
        if schema.replaces is not None:
            self._check_in_use(schema, schema.replaces, self._bind_to_write)
        binding = self._bindings[schema] = self._cache.binding_to_write(schema, self._registry, self._roll, self._store)
        return binding

    def _check_in_use(self, schema: TableSchema, replaced: TableSchema, bind: Callable[[TableSchema], Binding]) -> None:
        if not self._in_use(schema, replaced, bind):
            raise SchemaMismatch(
                "The objects are still in the table that the model replaces: move them first, see "
                "hb.migration.migrate().",
                table=schema.table,
                replaces=replaced.table,
            )

    def _in_use(self, schema: TableSchema, replaced: TableSchema, bind: Callable[[TableSchema], Binding]) -> bool:
        """Whether a model that replaces another one is already read from its new table."""
        phase = phase_of(schema, bind(replaced).phase)
        return (
            phase is not None and "new" in phase.reads and (schema.immutable or schema.versioned or phase.name == DONE)
        )

    def view(self, schema: TableSchema) -> Store:
        """Returns the view of the store for a model, in which each object is a row."""
        if schema.wide_rows is None and not schema.dictionaries:
            return self._store
        view = self._views.get(schema)
        if view is None:
            named = NamedRows(self._store, schema, self._names, self._pages) if schema.dictionaries else None
            view = self._views[schema] = named or folded(self._store, schema.wide_rows, self._pages)
        return view

    def writing(self, *schemas: TableSchema, counts: bool = False) -> AbstractContextManager[object]:
        """Begins writes of some models. After that, `lease_valid` checks only the bindings of these models and of the
        models that they replace.

        Args:
            *schemas: the schemas of the models.
            counts: whether the only write is an increment. An increment adds a version in every store and never
                replaces one, so nothing waits for the clock after it.

        Returns:
            A context manager around the writes; `as` binds the counted calls (`Calls`), if they are counted.
        """
        self._written = {*schemas, *map(_replaced, schemas)}
        calls = NOTHING_COUNTED if self._roll is None else self._counted(self._roll, schemas)
        if self._apart or counts:
            return calls
        keeping = self._kept.get(schemas)
        if keeping is None:
            keeping = self._kept[schemas] = [schema for schema in schemas if _keeps_versions(schema)]
        return self._then_tick(keeping, calls) if keeping else calls

    def _counted(self, roll: OwnLines, schemas: tuple[TableSchema, ...]) -> AbstractContextManager[object]:
        rows = self._rows.get(schemas)
        if rows is None:
            named = [registry_row(schema) for schema in (*schemas, *map(_replaced, schemas)) if schema is not None]
            rows = self._rows[schemas] = dict.fromkeys(named)
        self._calls = roll.calls(self._store, self._registry.table, rows)
        return self._calls

    @contextmanager
    def _then_tick(self, schemas: Sequence[TableSchema], calls: AbstractContextManager[object]) -> Iterator[object]:
        """After writes at the server's time, waits until the clock shows another millisecond, so that no later write
        replaces a version that has the same timestamp.
        """
        try:
            with calls as counted:
                yield counted
        finally:
            if any(schema in self._bindings and self._bindings[schema].rows in AT_SERVER_TIME for schema in schemas):
                let_tick_pass()

    def lease_valid(self) -> bool:
        """Checks that the binding of every written model is current; always returns True. If a lease has expired, the
        binding is read again, and it must be unchanged.

        Raises:
            SchemaMismatch: a binding has changed; the next commit restarts with the new binding.
        """
        for schema, binding in list(self._bindings.items()):
            if schema not in self._written:
                continue  # the session has used this model, but does not write it now; its table may no longer exist
            if schema.replaces is not None and not self._in_use(schema, schema.replaces, self.bind_to_write):
                # the migration was rolled back: writes in progress go into the old table
                del self._bindings[schema]
                continue
            current = self.bind_to_write(schema)
            if not current.writes_like(binding):
                raise SchemaMismatch(
                    "The indexes of the table changed during a commit; commit again.", table=schema.table
                )
        return True


def _keeps_versions(schema: TableSchema) -> bool:
    return any((family.max_versions or 1) > 1 for family in schema.families)
