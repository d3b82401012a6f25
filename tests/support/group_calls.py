"""Calls that change two objects of a wide row in a group, and calls for the second object, with the contents after
them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hbmodel as hb
from tests.support.called_kinds import Kind, Row, State, names
from tests.support.deeds import Deed, Then, added, object_of, updated, without

AMOUNT = 10**9
"""The amount that a group moves. It is larger than all numbers in the calls, so no value equals a value that another
object gives up.
"""


def _grouped(of: Kind) -> bool:
    return of.grouped


Change = Callable[[Kind, hb.types.RowGroup, str, int, Any, Any], None]
"""A function that changes two objects through a group. Its arguments include the key, the number of the run, and the
objects or None.
"""


def _within(change: Change) -> Callable[[Kind, hb.Session, str, int], hb.types.RowGroup]:
    """Returns a function that makes a group which reads both objects and changes them. The program commits the
    group.
    """

    def make(of: Kind, session: hb.Session, key: str, n: int) -> hb.types.RowGroup:
        group = session.group(of.model, r="r" + key)
        change(of, group, key, n, group.get(of.model, k="k"), group.get(of.model, k="z"))
        return group

    return make


def _again(change: Change) -> Callable[[Kind, hb.Session, str, int], None]:
    """Returns a function that runs a group, and repeats it after a conflict."""

    def make(of: Kind, session: hb.Session, key: str, n: int) -> None:
        def once(group: hb.types.RowGroup) -> None:
            change(
                of, group, key, n, group.get(of.model, k="k"), group.query(of.model).where(of.model.k == "z").first()
            )

        session.group(of.model, r="r" + key).retry(once)

    return make


def _move(of: Kind, group: hb.types.RowGroup, key: str, n: int, one: Any, other: Any) -> None:
    if one is not None and other is not None:
        group.update(one, m=one.m - AMOUNT)
        group.update(other, m=other.m + AMOUNT)


def _moved(of: Kind, state: State, n: int) -> Then:
    if state.keys() != {"k", "z"}:
        return state
    return {"k": state["k"]._replace(m=state["k"].m - AMOUNT), "z": state["z"]._replace(m=state["z"].m + AMOUNT)}


def _turn(of: Kind, group: hb.types.RowGroup, key: str, n: int, one: Any, other: Any) -> None:
    """Changes both objects, whether they exist or not."""
    if one is None:
        group.add(object_of(of, key, n, "g"))
    else:
        group.update(one, o="g", **({"e": {"x": n}} if of.mapped else {}))
    if other is None:
        group.add(object_of(of, key, n + AMOUNT, "g", "z", **({"y": n} if of.mapped else {})))
    else:
        group.delete(other)


def _turned(of: Kind, state: State, n: int) -> Then:
    held, entries = state.get("k"), {"x": n} if of.mapped else {}
    one = Row(n, "g") if held is None else held._replace(o="g").merged(entries)
    if "z" in state:
        return {"k": one}
    return {"k": one, "z": Row(n + AMOUNT, "g").merged({"y": n} if of.mapped else {})}


def _join(of: Kind, group: hb.types.RowGroup, key: str, n: int, one: Any, other: Any) -> None:
    """Merges the first object into the other one."""
    if one is not None and other is not None:
        group.delete(one)
        group.update(other, m=n, o=one.o)


def _joined(of: Kind, state: State, n: int) -> Then:
    return {"z": state["z"]._replace(m=n, o=state["k"].o)} if state.keys() == {"k", "z"} else state


GROUP_DEEDS = (
    Deed("group move", _within(_move), _moved, _grouped),
    Deed("group move again", _again(_move), _moved, _grouped),
    Deed("group turn", _within(_turn), _turned, _grouped),
    Deed("group turn again", _again(_turn), _turned, _grouped),
    Deed("group join", _within(_join), _joined, _grouped),
    Deed(
        "add z",
        lambda of, session, key, n: session.add(object_of(of, key, of.value(n), "z", "z")),
        lambda of, state, n: added(of, state, of.value(n), "z", "z"),
        _grouped,
    ),
    Deed(
        "update z",
        lambda of, session, key, n: session.update_key(of.model, **names(of, key, "z"), m=of.value(n)),
        lambda of, state, n: updated(state, name="z", m=of.value(n)),
        _grouped,
    ),
    Deed(
        "delete z",
        lambda of, session, key, n: session.delete_key(of.model, **names(of, key, "z")),
        lambda of, state, n: without(state, "z"),
        _grouped,
    ),
    Deed(
        "insert z",
        lambda of, session, key, n: session.insert(object_of(of, key, of.value(n), "i", "z")),
        lambda of, state, n: hb.RowExists if "z" in state else added(of, state, of.value(n), "i", "z"),
        _grouped,
    ),
)
