"""The expiry of rows: the TTL that a put may have, and how a row stores the time of its expiry.

A store does not return the TTL of a cell (Thrift has no field for it), but a program that changes a row must know that
the row will expire: cells that it put without a TTL would outlive the others. So a put with a TTL stores the time of
expiry, in 8 bytes as ms since 1970. It is stored after the first byte of the liveness cell if rows have one, otherwise
in a separate cell, `_t`.
"""

from __future__ import annotations

import struct
from datetime import timedelta

from hbmodel.errors import CapabilityError, EncodingError, SessionError
from hbmodel.mapping.schema import EXPIRY_QUALIFIER, LIVE, STAMP_QUALIFIER, TableSchema
from hbmodel.store.values import Row

_END = struct.Struct(">Q")
_MILLISECOND = timedelta(milliseconds=1)

_VERSIONED = (
    "A versioned model takes no TTL: the version would expire with its row, and a delayed write could restore the row. "
    "Store the time of expiry in a column, leave expired rows out by a condition, and delete them with query.delete()."
)
_COUNTERS = (
    "A model with counters takes no TTL: a counter has the timestamp of its last increment, so it would outlive its "
    "row. Declare the counters in a model of their own."
)
_MAPS = (
    "A model with map columns takes no TTL: their entries are put one by one, so they would outlive their object. "
    "Leave out the TTL, or declare the entries as objects of a wide row, which can expire."
)
_EMPTY_ALIAS = (
    "A model whose column has an empty alias takes no TTL: its objects have no room for the cell with the expiry time. "
    "Give the column an alias."
)
_RANDOM_SALT = (
    "Under RandomSalt a put takes no TTL, because an older row with the same key may be in another bucket: give the "
    "column family a TTL instead."
)


def family_life(schema: TableSchema) -> int | None:
    """Returns the shortest TTL of the model's families in ms, or None if no family has a TTL."""
    lives = [family.ttl for family in schema.families if family.ttl is not None]
    return min(lives) * 1000 if lives else None


def ends_by_family(schema: TableSchema, column: bytes) -> bool:
    """Returns whether a cell of the column expires because its family has a TTL."""
    name = column.partition(b":")[0]
    return any(family.name == name and family.ttl is not None for family in schema.families)


def milliseconds(schema: TableSchema, ttl: timedelta | None) -> int | None:
    """Returns a caller's TTL in ms.

    Raises:
        SessionError: the TTL is not a timedelta, or is longer than the TTL of one of the model's families.
        EncodingError: the TTL is not positive, or not a whole number of milliseconds.
        CapabilityError: puts of the model do not accept a TTL, because it has counters, map columns, a version, a
            random salt or an empty alias.
    """
    if ttl is None:
        return None
    if not isinstance(ttl, timedelta):
        raise SessionError(
            "A TTL must be a timedelta: ttl=timedelta(days=1).", table=schema.table, found=type(ttl).__name__
        )
    if ttl <= timedelta(0):
        raise EncodingError(
            "The TTL is not positive, so the object would have expired already: do not write it.",
            table=schema.table,
            ttl=str(ttl),
        )
    if ttl % _MILLISECOND:
        raise EncodingError("A TTL must be a whole number of milliseconds.", table=schema.table, ttl=str(ttl))
    if (no_ttl := refuses_ttl(schema)) is not None:
        raise CapabilityError(no_ttl, table=schema.table)
    lifetime, life = ttl // _MILLISECOND, family_life(schema)
    if life is not None and lifetime > life:
        raise SessionError(
            "The TTL is longer than that of the model's column family: give a shorter one.",
            table=schema.table,
            ttl=str(ttl),
            family_ms=life,
        )
    return lifetime


def refuses_ttl(schema: TableSchema) -> str | None:
    """Returns the reason why puts of a model do not accept a TTL, or None if they accept one."""
    if schema.versioned:
        return _VERSIONED
    if any(f.kind == "counter" for f in schema.columns):
        return _COUNTERS
    if schema.maps:
        return _MAPS
    if schema.wide is not None and schema.wide.qualifiers.raw:
        return _EMPTY_ALIAS
    return _RANDOM_SALT if schema.salt.random else None


def live_value(end: int | None) -> bytes:
    """Returns the value of the liveness cell of a live row that expires at `end`, or never if `end` is None."""
    return LIVE if end is None else LIVE + _END.pack(end)


def end_value(end: int, nonce: bytes = b"") -> bytes:
    """Returns the value of the cell with the time of expiry of a row without a liveness cell.

    The nonce shows which put of the whole row wrote the cell.
    """
    return _END.pack(end) + nonce


def read_end(value: bytes) -> int:
    """Returns the time of expiry from a value that `end_value` has made."""
    end: int = _END.unpack_from(value)[0]
    return end


def end_of_live(row: Row, column: bytes) -> int | None:
    """Returns the time at which a live row expires, or None if it does not expire. The time is read from the row's
    liveness cell, in the column `column`. Only writes of the whole row set this cell.
    """
    cell = row.columns.get(column)
    if cell is None or cell.value[: len(LIVE)] != LIVE or len(cell.value) != len(LIVE) + _END.size:
        return None  # the cell of a dead row has the same length, and ends with a nonce
    return read_end(cell.value[len(LIVE) :])


def end_of_adopted(schema: TableSchema, row: Row) -> int | None:
    """Returns the time at which a row expires, or None if it does not expire. The table may contain live rows both with
    and without a liveness cell.

    The row was read with every column of the model. A later put by a writer that sets no liveness cell leaves an older
    liveness cell in place. So the liveness cell counts only if no cell of the object is newer.
    """
    cell = row.columns.get(schema.liveness_column)
    end = end_of_live(row, schema.liveness_column)
    if cell is not None and end is not None and not _outlives(schema, row, cell.timestamp):
        return end
    return end_of_unindexed(row, schema.expiry_column)


def _outlives(schema: TableSchema, row: Row, timestamp: int) -> bool:
    """Returns whether a cell of the object is newer than the cell that holds the row's time of expiry."""
    return any(cell.timestamp > timestamp for column, cell in row.columns.items() if not schema.is_system(column))


def end_of_unindexed(row: Row, column: bytes) -> int | None:
    """Returns the time at which a row expires, or None if it does not expire. The time is read from the row's cell in
    the column `column`. The row must have been read with every column of the model.

    A later put without a TTL leaves that cell in place. So the cell counts only if no other cell is newer, apart from
    stamps (see `ttl_timestamps`).
    """
    cell = row.columns.get(column)
    stamp = column.removesuffix(EXPIRY_QUALIFIER) + STAMP_QUALIFIER
    if cell is None or len(cell.value) < _END.size:
        return None
    if any(other.timestamp > cell.timestamp for name, other in row.columns.items() if not name.startswith(stamp)):
        return None
    return read_end(cell.value)
