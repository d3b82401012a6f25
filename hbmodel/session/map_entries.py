"""Methods of a session for map columns: slices of their entries, and writes of entries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, overload

from attrs import evolve

from hbmodel.mapping.map_declaration import MapExpression, map_of
from hbmodel.mapping.mapper import RowDecoder
from hbmodel.mapping.schema import TableSchema, schema_of
from hbmodel.query.map_slice import EntryReader, MapSlice
from hbmodel.query.paging import Seal
from hbmodel.session.get_many import known_rows
from hbmodel.session.map_writes import put_changes, remove_changes
from hbmodel.session.sizes import SessionSizes
from hbmodel.session.thread_guard import Guard, guarded
from hbmodel.session.unit_of_work import UnitOfWork
from hbmodel.session.update import update_call
from hbmodel.store.page_sizes import PageSizes
from hbmodel.store.port import Store
from hbmodel.tables.registration import Binding

K = TypeVar("K")
V = TypeVar("V")


class MapEntryCalls:
    """The methods of a session for map columns."""

    store: Store
    _view: Callable[[TableSchema], Store]
    _planning_binding: Callable[[TableSchema], Binding]
    _seal: Seal | None
    _sizes: SessionSizes
    _guard: Guard
    _work: UnitOfWork

    @overload
    def entries(self, of: MapExpression[K, V], /, **key: Any) -> MapSlice[K, V]: ...
    @overload
    def entries(self, of: Mapping[K, V], /, **key: Any) -> MapSlice[K, V]: ...
    @guarded
    def entries(self, of: Any, /, **key: Any) -> MapSlice[Any, Any]:
        """The entries of one object's map column; refine them with `between` and others, and read them by iterating, `page`, ...

        Args:
            of: the map column, as an attribute of the model class.
            **key: every key field of the object by name.

        Raises:
            IncompleteKey: names the missing fields.
        """
        return _slice_of(of, key, self.store, self._view, self._planning_binding, self._seal, self._sizes.pages)

    @guarded
    def put_entries(self, obj: Any, of: MapExpression[K, V] | Mapping[K, V], entries: Mapping[K, V], /) -> None:
        """Puts entries of a map column at the next commit; uses only the key and version of `obj`.

        Existing entries with the same keys are overwritten. A versioned object has the row's version after the commit. All changes
        that one commit makes to such an object must be in one call.

        Args:
            obj: the object whose key identifies the row. If the row is absent at the commit, that is a `RowNotFound`.
            of: the map column, as an attribute of the model class.
            entries: keys and values.

        Raises:
            EncodingError: a key or a value cannot be stored; names the field.
        """
        self._add_entries(obj, put_changes(obj, of, entries))

    @guarded
    def remove_entries(self, obj: Any, of: MapExpression[K, V] | Mapping[K, V], keys: Iterable[K], /) -> None:
        """Removes entries of a map column at the next commit, whether they exist or not; otherwise like `put_entries`."""
        self._add_entries(obj, remove_changes(obj, of, keys))

    def _add_entries(self, obj: Any, changes: dict[str, Any]) -> None:
        call = update_call(obj, changes, None)
        call.copy, call.following = obj, None  # has the version of its row then
        self._work.add(call)


def _slice_of(
    of: Any,
    key: Mapping[str, Any],
    store: Store,
    view: Callable[[TableSchema], Store],
    bind: Callable[[TableSchema], Binding],
    seal: Seal | None,
    pages: PageSizes,
) -> MapSlice[Any, Any]:
    """The entries of one object's map column; see `Session.entries`.

    Args:
        of: the map column, as an attribute of the model class.
        key: the key of the object.
        store: the store with the table.
        view: the store as a model sees it.
        bind: returns a model's binding, and raises once the session is closed.
        seal: encrypts continuation tokens, or None.
        pages: how many entries are read at once.
    """
    schema = schema_of(getattr(of, "model", None))  # type: ignore[arg-type]
    entries = map_of(schema, of)
    rows = known_rows(schema, key)
    if not rows:  # for a name in the key that no row has
        return MapSlice(EntryReader(store, evolve(schema, wide=None), entries, b"\x00", lambda: False, seal))
    (row,) = rows

    def exists() -> bool:
        binding = bind(schema)
        reader = RowDecoder.of(schema, binding.indexed, frozenset(), binding.adopting)
        (found,) = view(schema).get(schema.table, [row], reader.columns)
        return found is not None and reader.exists(found)

    return MapSlice(EntryReader(store, schema, entries, row, exists, seal, pages))
