"""The options of a session, and a check of the options that are times."""

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
            raise SessionError(
                "The times of a session must be numbers of seconds, at least 0.", option=name, found=repr(seconds)
            )


_NOT_UPDATED: Mapping[FieldKind, str] = {
    "key": "A key field cannot be updated: change the key with rekey().",
    "counter": "A counter cannot be updated: change it with increment().",
    "version": "The version cannot be updated: the session increases it with each write.",
    "computed": "A computed field cannot be updated: update the fields that it is computed from.",
}
"""The messages of errors for fields that `update` does not accept, by kind of field."""


def check_updated(schema: TableSchema, names: Iterable[str]) -> None:
    """Raises `UnknownField` or `SessionError` for a field that `update` does not accept."""
    for name in names:
        if name in schema.maps_by_name:
            continue
        kind = schema.field(name).kind
        if kind != "column":
            raise SessionError(_NOT_UPDATED[kind], table=schema.table, field=name)
