"""Calls that write the entries of a map column, with the contents after them."""

from __future__ import annotations

from typing import Any

import hbmodel as hb
from tests.support.called_kinds import Kind, names
from tests.support.deeds import Deed, added, object_of, updated


def _mapped(of: Kind) -> bool:
    return of.mapped


def _subject(of: Kind, session: hb.Session, key: str) -> Any:
    """Returns the object that the calls are about, with its key and, if it has one, the version that they check."""
    if not of.schema.versioned:
        return object_of(of, key, of.value(0), None)
    held = session.get(of.model, **names(of, key))
    if held is None:
        raise hb.RowNotFound("There is no object to change.")
    return held


def _set(of: Kind, session: hb.Session, key: str, **entries: int) -> None:
    session.put_entries(_subject(of, session, key), of.model.e, entries)


def _remove(of: Kind, session: hb.Session, key: str, *keys: str) -> None:
    session.remove_entries(_subject(of, session, key), of.model.e, keys)


MAP_DEEDS = (
    Deed(
        "add map",
        lambda of, session, key, n: session.add(object_of(of, key, of.value(n), None, x=n, y=n)),
        lambda of, state, n: added(of, state, of.value(n), None, x=n, y=n),
        _mapped,
    ),
    Deed(
        "load map",
        lambda of, session, key, n: session.bulk_add([object_of(of, key, of.value(n), "l", y=n)]),
        lambda of, state, n: added(of, state, of.value(n), "l", y=n),
        _mapped,
    ),
    Deed(
        "insert map",
        lambda of, session, key, n: session.insert(object_of(of, key, of.value(n), "i", y=n)),
        lambda of, state, n: hb.RowExists if "k" in state else added(of, state, of.value(n), "i", y=n),
        lambda of: of.mapped and of.number,
    ),
    Deed(
        "set x",
        lambda of, session, key, n: _set(of, session, key, x=n),
        lambda of, state, n: updated(state, {"x": n}),
        _mapped,
    ),
    Deed(
        "set both",
        lambda of, session, key, n: _set(of, session, key, x=n, y=n),
        lambda of, state, n: updated(state, {"x": n, "y": n}),
        _mapped,
    ),
    Deed(
        "remove x",
        lambda of, session, key, n: _remove(of, session, key, "x"),
        lambda of, state, n: updated(state, {"x": None}),
        _mapped,
    ),
    Deed(
        "update m and x",
        lambda of, session, key, n: session.update_key(of.model, **names(of, key), m=of.value(n), e={"x": n}),
        lambda of, state, n: updated(state, {"x": n}, m=of.value(n)),
        _mapped,
    ),
)
