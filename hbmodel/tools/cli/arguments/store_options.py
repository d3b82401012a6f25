"""The options of commands on a store: its URL, its registry, the form of the output, and the regions of new tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from hbmodel.tables.registry.registry_table import REGISTRY_TABLE

Command = Callable[..., Any]

store_option = click.option(
    "--store",
    "url",
    required=True,
    metavar="URL",
    envvar="HBMODEL_URL",
    show_envvar=True,
    help="Store, as for hb.connect(): hbase+thrift2://HOST:PORT, for example.",
)
registry_option = click.option(
    "--registry", default=REGISTRY_TABLE, show_default=True, help="Name of the registry table."
)
splits_option = click.option(
    "--splits",
    metavar="MODULE:NAME",
    help="Where the regions of new tables begin: a strategy, or a dictionary of strategies, as for hb.create_tables().",
)


def store_options(command: Command) -> Command:
    """Adds the options that all commands on tables have."""
    printed = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
    return store_option(registry_option(printed(command)))
