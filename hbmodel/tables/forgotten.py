"""Removes what the registry knows of a table, such as one that another program dropped."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from attrs import asdict, frozen

from hbmodel.errors import DeclarationError, MigrationError, TableExists, TableNotFound
from hbmodel.protocol.relocation.migration import BEFORE, DONE
from hbmodel.store.port import Store, check_store
from hbmodel.store.values import Delete
from hbmodel.tables.creation.index_tables import unused
from hbmodel.tables.indexes.index_arguments import check_choices
from hbmodel.tables.registry.migration_phase import FROM
from hbmodel.tables.registry.registration import Registration
from hbmodel.tables.registry.registry_table import FAMILY, REGISTRY_TABLE, Registry, RegistryKey
from hbmodel.tables.writers import TableWriter, table_writers


@frozen
class Forgotten:
    """What `forget` removed from the registry, and what remains elsewhere.

    Attributes:
        table: the name of the table.
        models: the models of the table, each as its default family, followed by its kind if it has one.
        indexes: the names of the indexes that had a table.
        remaining: the table itself and its index tables, if they exist: the registry no longer names them.
        writers: the programs on the writers' roll whose writes to the table may still follow the removed entry. Before
            the table is created again, stop them, or wait for one lease.
    """

    table: str
    models: Sequence[str]
    indexes: Sequence[str] = ()
    remaining: Sequence[str] = ()
    writers: Sequence[TableWriter] = ()

    @property
    def as_json(self) -> Mapping[str, Any]:
        """The attributes as values of JSON."""
        return {**asdict(self), "writers": [writer.as_json for writer in self.writers]}

    @property
    def contents(self) -> str:
        """What the registry knew, in one line."""
        models = ", ".join(f"model {model}" for model in self.models) or "no model"
        return ", ".join([f"{self.table}: {models}", *(f"index {index}" for index in self.indexes)])

    @property
    def notes(self) -> Sequence[str]:
        """One line for each table that remains, and for each program that may still write."""
        return [
            *(f"{table}: exists, and the registry no longer names it" for table in self.remaining),
            *(f"may still write by the removed entry: {writer}" for writer in self.writers),
        ]

    def __str__(self) -> str:
        return "\n".join([f"forgot {self.contents}", *self.notes])


def forget(store: Store, table: str, *, existing: bool = False, registry: str = REGISTRY_TABLE) -> Forgotten:
    """Removes everything that the registry knows of a table: the layouts of its models, the states of its indexes, and
    the progress of work on them. Nothing else changes; no table is dropped.

    Use it after another program, such as HBase's shell, dropped the table: the remaining entry would make every other
    model for a table of this name fail. Afterwards `create_tables` creates the table as if it had never existed. To
    drop a table together with its entry, use `drop_tables`.

    A table that exists is refused, and so is one with index tables that exist: only the entry says which indexes writes
    must maintain, which tables hold them, how rows say that they are live, and with which layout rows were written. If
    the entry of a table of hbmodel is removed, `create_tables` takes the table for one without indexes: they must be
    built again, cells that an interrupted write left may appear as objects, and a model with another layout is not
    refused.

    Programs that write the table are not waited for; their lines on the writers' roll remain. If the table is created
    again before the lease of such a program is over (`Session`, a minute by default), its writes still follow the
    removed entry, and may be lost. So stop the programs that `writers` names, or wait for one lease, before
    `create_tables`. No program may create the table during the call.

    Args:
        store: the store that holds the registry.
        table: the name of the primary table.
        existing: forget the entry although the table, or an index table, exists; the tables remain. This is right for a
            table of another program, which has no rows of hbmodel; `drop_tables` with its `external` model does the
            same, and also drops its index tables.
        registry: name of the registry table.

    Returns:
        What was forgotten, which tables remain, and who may still write.

    Raises:
        TableNotFound: the registry does not know the table; `primary` names the table whose index table it is.
        TableExists: the table or an index table exists; `tables` names them.
        MigrationError: objects are being moved from or to the table, and the other table exists.
        StoreError: the entry cannot be read. A newer version may have written it.
        DeclarationError: an argument has a value that cannot be used.
    """
    found, rows = known(store, table, existing=existing, registry=registry)
    store.delete(registry, [Delete(row, families=(FAMILY,)) for row in rows])
    return found


def known(
    store: Store, table: str, *, existing: bool = False, registry: str = REGISTRY_TABLE
) -> tuple[Forgotten, Sequence[bytes]]:
    """What `forget` would remove, and the rows of the registry that hold it; raises what `forget` raises, and changes
    nothing.
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
    # The rows about work in progress come first: a repeated call finds the rest through the rows of the models.
    rows = [*catalog.work_rows_of_table(table), *catalog.rows_of_table(table)] if registry in tables else []
    if not rows:
        raise TableNotFound(
            "The registry does not know the table as a primary table: `hbmodel registry list` lists those that it "
            "knows.",
            table=table,
            primary=catalog.owner(table),
            registry=registry,
        )
    entries = {key: entry for key in keys if (entry := catalog.read(key)) is not None}
    _check_at_rest(table, entries.values(), tables)
    index_tables = sorted({name for key, entry in entries.items() for name in _filled(store, catalog, key, entry)})
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


_EXISTS = (
    "The table exists, and without its entry in the registry nothing says which layout and which indexes it has: "
    "hb.drop_tables(store, Model) drops it together with the entry, and for an external model removes only the entry. "
    "existing=True (--existing in the command line) nevertheless forgets the entry, and leaves the tables."
)
_INDEX_TABLES_EXIST = (
    "The table is gone, but some of its index tables exist, and only its entry in the registry names them: delete them "
    "first, with `hbmodel index drop`, store.delete_table() or HBase's shell. existing=True (--existing in the command "
    "line) nevertheless forgets the entry, and leaves the tables."
)


def _filled(store: Store, catalog: Registry, key: RegistryKey, entry: Registration) -> Iterator[str]:
    """The index tables of a model. A table that a killed call may have created for an index counts if it is empty."""
    for state in entry.indexes.values():
        yield from state.filled
        yield from unused(store, catalog, key, state.begun)


def _check_at_rest(table: str, entries: Iterable[Registration], tables: Collection[str]) -> None:
    """Raises `MigrationError` if objects are being moved between the table and another one that exists. If that one is
    gone too, there is nothing left to move.
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
