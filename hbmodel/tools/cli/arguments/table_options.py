"""The options of commands that read a table with its description in the registry, and the opened table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from hbmodel.store.port import Store
from hbmodel.tables.ids.dictionaries import Names
from hbmodel.tables.registry.registry_rows import RegistryKey
from hbmodel.tables.registry.registry_table import Registry
from hbmodel.tables.registry.table_from_registry import TableFromRegistry, unknown_table
from hbmodel.tools.cli.arguments.existing_store import connect_existing
from hbmodel.tools.cli.arguments.store_options import registry_option, store_option

Command = Callable[..., Any]


def table_options(command: Command) -> Command:
    """Adds the options of every command on a registered table."""
    options: list[Callable[[Command], Command]] = [
        store_option,
        registry_option,
        click.option("--family", metavar="NAME", help="Family of the model, if the table has several."),
        click.option("--kind", metavar="BYTES", help="Kind of the model, if the family has several."),
        click.option("--json", "as_json", is_flag=True, help="Print JSON, one line per object."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@contextmanager
def opened(
    table: str, url: str, registry: str, family: str | None, kind: str | None
) -> Iterator[tuple[Store, TableFromRegistry]]:
    """Opens the store, and the table as the registry describes it, for its block. In the block, the names of
    dictionaries can be looked up.
    """
    with connect_existing(url) as store, Names(store, registry=registry).bound():
        yield store, TableFromRegistry.find(Registry(store, registry), table, family, kind)


def known_keys(catalog: Registry, table: str) -> list[RegistryKey]:
    """Returns every model of a primary table.

    Raises:
        TableNotFound: no model of the table is registered.
    """
    places = catalog.keys_of_table(table)
    if not places:
        raise unknown_table(catalog, table)
    return places
