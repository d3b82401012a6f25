"""One call of a program for a row of a kind of model, and how calls change what is left."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import field, frozen

import hbmodel as hb
from tests.support.called_kinds import Kind, Row, State, names

Then = State | type[hb.HbmodelError]
"""What a call leaves, or the error that it ends with."""


@frozen(eq=False)
class Deed:
    """One call of a program.

    Attributes:
        make: makes it, given the kind, the session, the key, and a number from which its values come.
        then: what is there after it, given the kind, what was there and that number; or the error that it ends with.
        fits: whether a kind takes it.
    """

    name: str
    make: Callable[[Kind, hb.Session, str, int], object]
    then: Callable[[Kind, State, int], Then]
    fits: Callable[[Kind], bool] = field(default=lambda kind: True)


def object_of(of: Kind, key: str, m: Any, o: Any, **entries: int) -> Any:
    """The object that a call puts."""
    return of.model(**names(of, key), m=m, o=o, **({"e": entries} if entries else {}))


def added(of: Kind, state: State, m: Any, o: Any, **entries: int) -> State:
    """After the put of an object: it leaves the counter, and the entries that it does not put."""
    held = state.get("k") or Row(m, o)
    return {**state, "k": held._replace(m=m, o=o).merged(entries)}


def updated(state: State, entries: Mapping[str, int | None] | None = None, **changes: Any) -> Then:
    """After an update of these columns and entries."""
    held = state.get("k")
    return hb.RowNotFound if held is None else {**state, "k": held._replace(**changes).merged(entries or {})}


def deleted(of: Kind, state: State, n: int) -> State:
    """After a delete."""
    return {key: row for key, row in state.items() if key != "k"}
