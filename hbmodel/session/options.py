"""The options of a session, and the check of those that are times."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypedDict

from hbmodel.errors import SessionError
from hbmodel.mapping.model_field import FieldKind
from hbmodel.mapping.schema import TableSchema
from hbmodel.store.checks.numbers import is_finite
from hbmodel.store.observed import OnCall


class SessionOptions(TypedDict, total=False):
    """The options of `Session`."""

    registry: str
    lease: float
    grace: float
    clock_bound: float
    longest_call: float
    token_key: bytes | str | None
    on_call: OnCall | None
    atomic_rows: bool


def check_seconds(**times: object) -> None:
    """Raises `SessionError` for a time that is not a number of seconds."""
    for name, seconds in times.items():
        if not is_finite(seconds) or seconds < 0:
            raise SessionError("A session takes its times as a number of seconds that is not negative.", option=name, found=repr(seconds))


_NOT_UPDATED: Mapping[FieldKind, str] = {
    "key": "A key field cannot be updated: add the object under its new key and delete the old one.",
    "counter": "A counter is changed with increment().",
    "version": "The version is counted by the session.",
    "computed": "A computed field changes with the fields that it is made of.",
}
"""Why `update` does not take fields that are no ordinary columns."""


def check_updated(schema: TableSchema, names: Iterable[str]) -> None:
    """Raises `UnknownField` or `SessionError` for a field that `update` does not accept."""
    for name in names:
        if name in schema.maps_by_name:
            continue
        kind = schema.field(name).kind
        if kind != "column":
            raise SessionError(_NOT_UPDATED[kind], table=schema.table, field=name)
