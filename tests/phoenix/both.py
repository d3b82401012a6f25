"""Drops and creates a table of Phoenix, for Phoenix and for hbmodel."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import hbmodel as hb
from hbmodel.errors import TableNotFound
from tests.support.phoenix_sql import PhoenixSql


def recreate(sql: PhoenixSql, store: hb.Store, model: Any, *statements: str) -> None:
    """Drops the table of a model, and executes the statements that create it."""
    name = hb.schema.schema_of(model).table
    sql(f"DROP TABLE IF EXISTS {name} CASCADE")
    with suppress(TableNotFound):
        hb.tables.forget(store, name, existing=True)
    for statement in statements:
        sql(statement)
