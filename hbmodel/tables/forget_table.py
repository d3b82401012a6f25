"""Removes a table from the registry, for example after another program has dropped the table."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from attrs import asdict, frozen

from hbmodel.errors import DeclarationError, MigrationError, StoreError, TableExists, TableNotFound
from hbmodel.protocol.relocation.migration_phases import BEFORE, DONE
from hbmodel.store.port import Store, check_store
from hbmodel.tables.creation.index_tables import unused
from hbmodel.tables.indexes.index_arguments import check_choices
from hbmodel.tables.registry.entry_shape import ENTRY
from hbmodel.tables.registry.migration_phase import FROM
from hbmodel.tables.registry.registration import Registration
from hbmodel.tables.registry.registry_rows import RegistryKey
from hbmodel.tables.registry.registry_table import REGISTRY_TABLE, Registry
from hbmodel.tables.writers import TableWriter, table_writers


@frozen
class Forgotten:
    """The entries that `forget` removed from the registry, and the tables and writers that remain.

    Attributes:
        table: the name of the table.
        models: the models of the table. Each is given by its default family, followed by its kind if it has one.
        indexes: the names of the indexes that had a table.
        remaining: the table and its index tables, as far as they still exist. They are no longer in the registry.
        writers: the programs on the writers' roll that may still write the table as the removed entry says. Before the
            table is created again, stop them, or wait for one lease.
    """

    table: str
    models: Sequence[str]
    indexes: Sequence[str] = ()
    remaining: Sequence[str] = ()
    writers: Sequence[TableWriter] = ()

    @property
    def as_json(self) -> Mapping[str, Any]:
        """The attributes as JSON values."""
        return {**asdict(self), "writers": [writer.as_json for writer in self.writers]}

    @property
    def contents(self) -> str:
        """What was removed from the registry, in one line."""
        models = ", ".join(f"model {model}" for model in self.models) or "no model"
        return ", ".join([f"{self.table}: {models}", *(f"index {index}" for index in self.indexes)])

    @property
    def notes(self) -> Sequence[str]:
        """One line for each table that remains, and for each program that may still write."""
        return [
            *(f"{table}: exists, and the registry no longer names it" for table in self.remaining),
            *(f"may still write in the layout of the removed entry: {writer}" for writer in self.writers),
        ]

    def __str__(self) -> str:
        return "\n".join([f"forgot {self.contents}", *self.notes])


def forget(store: Store, table: str, *, existing: bool = False, registry: str = REGISTRY_TABLE) -> Forgotten:
    """Removes everything that the registry records about a table: the layouts of its models, the states of its indexes,
    and the progress of work on them. Nothing else changes, and no table is dropped.

    Use it after another program, such as HBase's shell, has dropped the table. The entry of the table remains in that
    case, and because of the entry, every different model for a table of this name is refused. After this call,
    `create_tables` creates the table as if it had never existed. To drop a table together with its entry, use
    `drop_tables`.

    The call is refused if the table, or one of its index tables, exists. Only the entry says which indexes writes must
    maintain, which tables hold these indexes, how live rows are recognised, and with which layout rows were written. If
    the entry of an existing table of hbmodel is removed, `create_tables` assumes that the table has no indexes. As a
    result, indexes must be built again, cells that an interrupted write has left may appear as objects, and a model
    with a different layout is not refused.

    The call does not wait for programs that write the table, and their lines on the writers' roll remain. If the table
    is created again before the lease of such a program ends (see `Session`; a minute by default), the program still
    writes as the removed entry says, and its writes may be lost. So stop the programs that are listed in `writers`, or
    wait for one lease, before you call `create_tables`. No program may create the table during the call.

    Args:
        store: the store that holds the registry.
        table: the name of the primary table.
        existing: forget the entry even if the table or an index table exists; the tables remain. This is harmless for a
            table of another program, which has no rows that hbmodel wrote. `drop_tables` with the table's `external`
            model does the same, and also drops the index tables. With `existing`, an entry that cannot be read is
            removed too. In this case, `remaining` lists all tables that have names of its index tables.
        registry: name of the registry table.

    Returns:
        What was removed, which tables remain, and which programs may still write.

    Raises:
        TableNotFound: the table is not registered. If it is an index table, `primary` is the name of its primary table.
        TableExists: the table or an index table exists; `tables` names them.
        MigrationError: objects are being moved from or to the table, and the other table exists.
        StoreError: the entry cannot be read, and `existing` is false. A newer version may have written it.
        DeclarationError: an argument has a value that cannot be used.
    """
    found, rows = known(store, table, existing=existing, registry=registry)
    Registry(store, registry).delete(rows)
    return found


def known(
    store: Store, table: str, *, existing: bool = False, registry: str = REGISTRY_TABLE
) -> tuple[Forgotten, Sequence[bytes]]:
    """Returns what `forget` would remove, and the rows of the registry that contain it, and changes nothing. Raises the
    errors of `forget`.
    """
    check_store(store)
    check_choices(existing=existing)
    if not isinstance(table, str) or not table:
        raise DeclarationError(
            'The table must be given by its name: hb.tables.forget(store, "visits").',
            option="table",
            found=repr(table),
        )
    catalog, tables = Registry(store, registry), set(store.tables())
    keys = catalog.keys_of_table(table) if registry in tables else []
    # The rows about work in progress are deleted first, because a repeated call finds them through the rows of the
    # models.
    rows = [*catalog.work_rows_of_table(table), *catalog.rows_of_table(table)] if registry in tables else []
    if not rows:
        raise TableNotFound(
            "The registry does not know the table as a primary table: `hbmodel registry list` lists those that it "
            "knows.",
            table=table,
            primary=catalog.owner(table),
            registry=registry,
        )
    entries, damaged = _entries(catalog, keys, existing)
    _check_at_rest(table, entries.values(), tables)
    index_tables = sorted(
        {
            *(name for key, entry in entries.items() for name in _filled(store, catalog, key, entry)),
            *(name for name in tables if damaged and name.startswith(f"{table}.") and not catalog.rows_of_table(name)),
        }
    )
    remaining = [name for name in dict.fromkeys([table, *index_tables]) if name in tables]
    if remaining and not existing:
        raise TableExists(_EXISTS if table in tables else _INDEX_TABLES_EXIST, table=table, tables=remaining)
    indexes = sorted(state.name for entry in entries.values() for state in entry.indexes.values() if state.tables)
    models = [key.shown for key in keys]
    writers = [
        writer
        for writer in table_writers(store, table, registry=registry)
        if writer.until is not None or writer.state == "unknown"
    ]
    return Forgotten(table, tuple(models), tuple(indexes), tuple(remaining), tuple(writers)), rows


def _entries(
    catalog: Registry, keys: Iterable[RegistryKey], existing: bool
) -> tuple[Mapping[RegistryKey, Registration], bool]:
    """Returns the entries of a table's models that can be read, and whether there are others.

    Raises the `StoreError` for an entry that cannot be read, unless `existing` is true.
    """
    entries: dict[RegistryKey, Registration] = {}
    damaged = False
    for key in keys:
        try:
            entry = catalog.read(key)
        except StoreError as error:
            if not existing or error.message != ENTRY:
                raise
            damaged = True
            continue
        if entry is not None:
            entries[key] = entry
    return entries, damaged


_EXISTS = (
    "The table exists, and without its entry in the registry nothing says which layout and which indexes it has: "
    "hb.drop_tables(store, Model) drops it together with the entry, and for an external model removes only the entry. "
    "existing=True (--existing on the command line) nevertheless forgets the entry, and leaves the tables."
)
_INDEX_TABLES_EXIST = (
    "The table is gone, but some of its index tables exist, and only its entry in the registry names them: delete the "
    "index tables first, with `hbmodel index drop`, store.delete_table() or HBase's shell. existing=True (--existing "
    "on the command line) nevertheless forgets the entry, and leaves the tables."
)


def _filled(store: Store, catalog: Registry, key: RegistryKey, entry: Registration) -> Iterator[str]:
    """Yields the index tables of a model. If a killed call may have created a table for an index, the table is included
    if it is empty.
    """
    for state in entry.indexes.values():
        yield from state.filled
        yield from unused(store, catalog, key, state.begun)


def _check_at_rest(table: str, entries: Iterable[Registration], tables: Collection[str]) -> None:
    """Raises `MigrationError` if objects are being moved between the table and another existing table. If the other
    table does not exist either, there is nothing to move.
    """
    for entry in entries:
        others = [entry.cells.get(FROM, b"").decode()]
        if entry.move is not None and entry.move.phase not in {BEFORE, DONE}:
            others.append(entry.move.to)
        for other in others:
            if other in tables:
                raise MigrationError(
                    "Objects are being moved between this table and another one: cut over or roll back first, see "
                    "hb.migration.migrate(). If one of the two is gone, hb.create_tables() creates it again.",
                    table=table,
                    other=other,
                )
