"""One call of a program for a row of a kind of model, and the contents after calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import define, field, frozen

import hbmodel as hb
from tests.support.called_kinds import Kind, Row, State, names

Then = State | type[hb.HbmodelError]
"""The contents after a call, or the error that it raises."""


@frozen(eq=False)
class Deed:
    """One call of a program.

    Attributes:
        make: makes the call, given the kind, the session, the key, and a number from which its values are derived;
            returns the group that commits the call, if the session does not commit it.
        then: the contents after the call, given the kind, the contents before it and that number; or the error that it
            raises.
        fits: whether a kind supports the call.
    """

    name: str
    make: Callable[[Kind, hb.Session, str, int], object]
    then: Callable[[Kind, State, int], Then]
    fits: Callable[[Kind], bool] = field(default=lambda kind: True)


@define
class Program:
    """A program that makes one call.

    Attributes:
        session: its session.
        pending: the session or the group that commits the call.
    """

    session: hb.Session
    pending: Any = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.pending = self.session

    def call(self, deed: Deed, of: Kind, key: str, n: int) -> None:
        """Makes the call and commits it."""
        made = deed.make(of, self.session, key, n)
        if isinstance(made, hb.types.RowGroup):
            self.pending = made
        self.pending.commit()

    @property
    def waiting(self) -> bool:
        """Whether another commit would continue."""
        work = self.pending._work
        return work is not None and bool(work.waiting)

    def discard(self) -> None:
        """Drops the pending calls."""
        self.pending.discard()
        self.session.discard()


def object_of(of: Kind, key: str, m: Any, o: Any, name: str = "k", **entries: int) -> Any:
    """Returns the object that a call puts."""
    return of.model(**names(of, key, name), m=m, o=o, **({"e": entries} if entries else {}))


def added(of: Kind, state: State, m: Any, o: Any, name: str = "k", **entries: int) -> State:
    """Returns the contents after the put of an object: the counter, and entries that are not put, are unchanged."""
    held = state.get(name) or Row(m, o)
    return {**state, name: held._replace(m=m, o=o).merged(entries)}


def updated(state: State, entries: Mapping[str, int | None] | None = None, name: str = "k", **changes: Any) -> Then:
    """Returns the contents after an update of these columns and entries."""
    held = state.get(name)
    return hb.RowNotFound if held is None else {**state, name: held._replace(**changes).merged(entries or {})}


def without(state: State, name: str) -> State:
    """Returns the contents after a delete."""
    return {key: row for key, row in state.items() if key != name}


def deleted(of: Kind, state: State, n: int) -> State:
    """Returns the contents after a delete of the object for which the calls are made."""
    return without(state, "k")
