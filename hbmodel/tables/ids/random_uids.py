"""Assigns random ids, by drawing the numbers that a protocol would otherwise read from a counter."""

from __future__ import annotations

import secrets
from typing import Any, TypeVar

from hbmodel.errors import IdsExhausted
from hbmodel.mapping.declare.dictionary_tables import DictionaryTables
from hbmodel.protocol.operations import Increment, Protocol

R = TypeVar("R")

DRAWS = 100
"""The maximum number of ids that are drawn for a name. OpenTSDB draws 10."""


def drawn(tables: DictionaryTables, highest: int, protocol: Protocol[R]) -> Protocol[R]:
    """Runs a protocol, but returns a random number from 1 to `highest` for each increment. Raises `IdsExhausted` after
    too many increments.

    If the drawn id already has a different name, the check-and-put of the name fails, as if the counter had been reset.
    """
    answer: Any = None
    draws = 0
    try:
        while True:
            operation = protocol.send(answer)
            if not isinstance(operation, Increment):
                answer = yield operation
                continue
            if draws == DRAWS:
                raise IdsExhausted(
                    "Every random id that was drawn has a name: nearly all ids of this width are in use.",
                    table=tables.name_table,
                    column=tables.id_column,
                    width=tables.ids.width,
                )
            draws += 1
            answer = secrets.randbelow(highest) + 1  # like OpenTSDB, never 0
    except StopIteration as stop:
        result: R = stop.value
        return result
    finally:
        protocol.close()
