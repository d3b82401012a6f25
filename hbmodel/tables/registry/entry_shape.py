"""Checks the shape of the registry's JSON when it is read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hbmodel.errors import HbmodelError, StoreError

UNREADABLE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""The errors that may occur when JSON of an unexpected shape is read."""


ENTRY = (
    "The registry entry of the table cannot be read: another version of hbmodel may have written it. If none has, the "
    "entry is damaged: hb.tables.forget(store, table, existing=True) or `hbmodel registry forget TABLE --existing` "
    "removes it."
)
"""The message of the error for an entry that cannot be read."""

_WORK = (
    "The registry cannot say how far the work on a table has come: another version of hbmodel may be doing it. If none "
    "does, delete the row `key` of the registry table, and the work begins again."
)


@contextmanager
def entry_of(table: str, registry: str | None = None) -> Iterator[None]:
    """Turns errors about the shape of a registry entry, raised in its block, into `StoreError`."""
    try:
        yield
    except HbmodelError:
        raise
    except UNREADABLE as error:
        raise StoreError(ENTRY, table=table, registry=registry) from error


@contextmanager
def work_of(row: bytes, registry: str) -> Iterator[None]:
    """Turns errors about the shape of the stored progress of a build, a check or a migration, raised in its block, into
    `StoreError`.
    """
    try:
        yield
    except UNREADABLE as error:
        raise StoreError(_WORK, key=row, registry=registry) from error


def check_layout_shape(layout: Any) -> None:
    """Raises one of `UNREADABLE` if a layout lacks a part that every version has written."""
    _need(isinstance(layout, dict))
    key, columns, salt = layout["key"], layout["columns"], layout["salt"]
    _need(isinstance(key, list) and bool(key) and all(_is_field(spec) for spec in key))
    _need(isinstance(salt, dict) and _are_texts(salt["by"]))
    _need(isinstance(columns, dict) and all(_is_column(name, spec) for name, spec in columns.items()))
    _need(isinstance(layout.get("exists"), str | None))
    _need(all(isinstance(layout.get(name, ""), str) for name in ("row", "kind")))
    was, members = layout.get("was", {}), layout.get("members", {})
    _need(isinstance(was, dict) and all(map(_are_texts, was.values())))
    _need(
        isinstance(members, dict)
        and all(isinstance(named, dict) and _are_texts(list(named.values())) for named in members.values())
    )


def check_plan_shape(plan: Any) -> None:
    """Raises one of `UNREADABLE` if the ranges of a build, a check or a migration do not have the known shape."""
    _need(isinstance(plan, dict) and type(plan.get("attempt", 0)) is int and isinstance(plan["ranges"], list))
    for start, stop in plan["ranges"]:
        _need(isinstance(start, str) and isinstance(stop, str | None))


def check_state_shape(state: Any) -> None:
    """Raises one of `UNREADABLE` if the state of one range does not have the known shape."""
    _need(
        isinstance(state, dict) and isinstance(state.get("done", False), bool) and isinstance(state.get("at", ""), str)
    )
    bytes.fromhex(state.get("at", ""))
    for name, value in state.items():
        _need(name not in NUMBERS or (type(value) is int and value >= 0))
        _need(name not in LISTS or (isinstance(value, list) and all(map(_are_texts, value))))


NUMBERS = ("rows", "entries", "adopted", "missing", "refused", "duplicates", "until")
LISTS = ("samples", "duplicated")
"""The names of the lists in the state of a range. `NUMBERS` has the names of the counts."""


def check_index_shape(entry: Any) -> None:
    """Raises one of `UNREADABLE` if the entry of an index does not have the known shape."""
    _need(isinstance(entry, dict) and all(isinstance(entry[name], str) and entry[name] for name in ("state", "table")))
    _need(type(entry.get("generation", 0)) is int and entry.get("generation", 0) >= 0)
    _need(isinstance(entry.get("name", ""), str))
    _need(all(_are_texts(entry.get(name, [])) for name in ("was", "former", "left", "strays")))
    _need(isinstance(entry["spec"], dict) and isinstance(entry.get("stored", {}), dict | None))


def check_index_spec(spec: Any) -> None:
    """Raises one of `UNREADABLE` if the description of an index is not enough to read its entries."""
    fields, salt, tail = spec["fields"], spec["salt"], spec["tail"]
    _need(isinstance(fields, list) and bool(fields) and all(map(_is_field, fields)))
    _need(isinstance(salt, dict) and _are_texts(salt.get("by", [])))
    _need(_are_texts(spec["declared"]) and _are_texts(spec["covers"]))
    _need(type(tail) is int and tail in (0, 1))


def _is_field(spec: Any) -> bool:
    return isinstance(spec, dict) and isinstance(spec["name"], str) and isinstance(spec["codec"], dict)


def _is_column(name: str, spec: Any) -> bool:
    name.encode("latin-1")
    return isinstance(spec, dict) and isinstance(spec["name"], str) and isinstance(spec["kind"], str)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _need(holds: bool) -> None:
    if not holds:
        raise ValueError("an entry of another shape")
