"""Calls that put an object before the first object of a prefix, and calls for the objects of the prefix."""

from __future__ import annotations

from typing import Any

import hbmodel as hb
from tests.support.called_kinds import Kind, Row, State, names, prefix
from tests.support.deeds import Deed, Then, added, object_of, without


def _numbered(of: Kind) -> bool:
    return bool(of.numbers)


def _prepend(of: Kind, session: hb.Session, key: str, n: int, **fields: Any) -> None:
    made = session.prepend(of.model, **prefix(of, key), m=of.value(n), o="p", **fields)
    assert made.m == of.value(n)


def next_name(of: Kind, state: State) -> str:
    """Returns the name of the object that a prepend puts before the first object of the prefix."""
    order = [*of.numbers]
    return order[1 + max((order.index(name) for name in state if name in of.numbers), default=-1)]


def _delete_all(of: Kind, session: hb.Session, key: str, n: int) -> None:
    ((name, value),) = prefix(of, key).items()
    session.query(of.model).where(getattr(of.model, name) == value).delete()


def _inserted(of: Kind, state: State, n: int) -> Then:
    return hb.RowExists if "j" in state else added(of, state, of.value(n), "i", "j")


PREPEND_DEEDS = (
    Deed("prepend", _prepend, lambda of, state, n: {**state, next_name(of, state): Row(of.value(n), "p")}, _numbered),
    Deed(
        "prepend map",
        lambda of, session, key, n: _prepend(of, session, key, n, e={"y": n}),
        lambda of, state, n: {**state, next_name(of, state): Row(of.value(n), "p", 0, (("y", n),))},
        lambda of: of.mapped and _numbered(of),
    ),
    Deed(
        "delete all",
        _delete_all,
        lambda of, state, n: {name: row for name, row in state.items() if name == "z"},
        _numbered,
    ),
    Deed(
        "delete j",
        lambda of, session, key, n: session.delete_key(of.model, **names(of, key, "j")),
        lambda of, state, n: without(state, "j"),
        _numbered,
    ),
    Deed(
        "add j",
        lambda of, session, key, n: session.add(object_of(of, key, of.value(n), "j", "j")),
        lambda of, state, n: added(of, state, of.value(n), "j", "j"),
        _numbered,
    ),
    Deed(
        "insert j",
        lambda of, session, key, n: session.insert(object_of(of, key, of.value(n), "i", "j")),
        _inserted,
        _numbered,
    ),
)
