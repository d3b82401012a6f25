"""The calls that a program makes for one row of a kind of model, with the expected contents after each call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import hbmodel as hb
from tests.support.called_kinds import Kind, State, moved, names
from tests.support.deeds import Deed, Then, added, deleted, object_of, updated, without
from tests.support.group_calls import GROUP_DEEDS
from tests.support.map_calls import MAP_DEEDS
from tests.support.prepend_calls import PREPEND_DEEDS

HOUR = timedelta(hours=1)


def _rekey(of: Kind, state: State) -> Then:
    if "k" not in state:
        return hb.RowNotFound
    return hb.RowExists if "z" in state else {**without(state, "k"), "z": state["k"]}


def _rekey_now(of: Kind, session: hb.Session, key: str, n: int) -> None:
    session.rekey(of.model(**names(of, key), m=of.value(0)), **moved(of, key))


def _expires(of: Kind) -> bool:
    return not of.counter and not of.schema.versioned and not of.mapped


def _increment(of: Kind, state: State) -> Then:
    held = state.get("k")
    return hb.RowNotFound if held is None else {**state, "k": held._replace(h=held.h + 1)}


def _load(of: Kind, session: hb.Session, key: str, n: int) -> None:
    session.bulk_add([object_of(of, key, of.value(n), None)])


def _delete_found(of: Kind, session: hb.Session, key: str, n: int) -> None:
    session.query(of.model).where(
        *[getattr(of.model, name) == value for name, value in names(of, key).items()]
    ).delete()


def _insertable(of: Kind) -> bool:
    return of.required and of.number


def _update_deed(
    name: str, fits: Callable[[Kind], bool] = lambda of: True, ttl: timedelta | None = None, **changes: Any
) -> Deed:
    """Returns an update. The value `...` stands for a number of the run."""

    def made(of: Kind, n: int) -> dict[str, Any]:
        return {field: of.value(n) if value is ... else value for field, value in changes.items()}

    def make(of: Kind, session: hb.Session, key: str, n: int) -> None:
        session.update_key(of.model, **names(of, key), **made(of, n), **({} if ttl is None else {"ttl": ttl}))

    return Deed(name, make, lambda of, state, n: updated(state, **made(of, n)), fits)


def _add_deed(
    name: str, o: str | None, fits: Callable[[Kind], bool] = lambda of: True, ttl: timedelta | None = None
) -> Deed:
    def make(of: Kind, session: hb.Session, key: str, n: int) -> None:
        session.add(object_of(of, key, of.value(n), o), **({} if ttl is None else {"ttl": ttl}))

    return Deed(name, make, lambda of, state, n: added(of, state, of.value(n), o), fits)


def _put_deed(name: str, **changes: Any) -> Deed:
    """Returns a put of the column m and the given fields."""

    def make(of: Kind, session: hb.Session, key: str, n: int) -> None:
        session.put(of.model, **names(of, key), m=of.value(n), **changes)

    def then(of: Kind, state: State, n: int) -> Then:
        if "k" in state:
            return updated(state, m=of.value(n), **changes)
        return added(of, state, of.value(n), changes.get("o"))

    return Deed(name, make, then, lambda of: _insertable(of) or of.schema.any_cell_shows)


DEEDS: Mapping[str, Deed] = {
    deed.name: deed
    for deed in (
        _add_deed("add", "a"),
        _add_deed("add none", None),
        _add_deed("add ttl", "t", _expires, HOUR),
        Deed("load", _load, lambda of, state, n: added(of, state, of.value(n), None)),
        _update_deed("update m", m=...),
        _update_deed("update o", o="u"),
        _update_deed("forget o", o=None),
        _update_deed("update both", m=..., o=None),
        _update_deed("forget m", lambda of: not of.required, m=None),
        _update_deed("update ttl", _expires, HOUR, o="v"),
        Deed("delete", lambda of, session, key, n: session.delete_key(of.model, **names(of, key)), deleted),
        Deed("query delete", _delete_found, deleted),
        Deed(
            "insert",
            lambda of, session, key, n: session.insert(object_of(of, key, of.value(n), "i")),
            lambda of, state, n: hb.RowExists if "k" in state else added(of, state, of.value(n), "i"),
            _insertable,
        ),
        _put_deed("put m"),
        _put_deed("put both", o="p"),
        _put_deed("put none", o=None),
        Deed(
            "increment",
            lambda of, session, key, n: session.increment(of.model(**names(of, key), m=of.value(0)), of.model.h),
            lambda of, state, n: _increment(of, state),
            lambda of: of.counter,
        ),
        Deed(
            "rekey",
            _rekey_now,
            lambda of, state, n: _rekey(of, state),
            lambda of: _insertable(of) and not of.schema.external,
        ),
        *MAP_DEEDS,
        *GROUP_DEEDS,
        *PREPEND_DEEDS,
    )
}


def fitting(of: Kind) -> list[str]:
    """Returns the calls that a kind of model supports."""
    return [name for name, deed in DEEDS.items() if deed.fits(of)]


def beginnings(of: Kind) -> list[tuple[str, ...]]:
    """Returns the possible sequences of calls that are made before the tested calls."""
    found: list[tuple[str, ...]] = [(), ("add",), ("add none",)]
    if of.schema.versioned is False and not of.counter and not of.mapped:
        found.append(("add ttl",))
    if of.counter:
        found.append(("add", "increment", "increment"))
    if of.grouped:
        found += [("add", "add z"), ("add z",), ("add", "add z", "delete")]
    if of.numbers:
        found += [("add", "add j"), ("add j",), ("add", "delete"), ("add", "add j", "delete j")]
    if of.mapped:
        found += [("add map",), ("add map", "remove x"), ("add map", "delete")]
    return found
