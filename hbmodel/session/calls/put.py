"""Writes some fields of an object, and creates the object if it does not exist, for `Session.put`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import evolve

from hbmodel.encoding.codecs.dictionary import claiming
from hbmodel.errors import (
    ConflictError,
    HbmodelError,
    PartialWrite,
    RowExists,
    RowNotFound,
    SessionError,
    UnknownOutcome,
)
from hbmodel.mapping.rows.mapper import KeyMapper
from hbmodel.mapping.schema import TableSchema
from hbmodel.protocol.expiry import milliseconds
from hbmodel.protocol.writes import UpdateFields
from hbmodel.session.calls.put_fields import PutFields
from hbmodel.session.calls.update import update_key_call
from hbmodel.session.commit.batches import BATCH_ROWS, Pending
from hbmodel.session.commit.conflict_retries import reason_of, waits_between
from hbmodel.session.commit.pending_rows import PendingRows
from hbmodel.session.commit.unit_of_work import UnitOfWork

ATTEMPTS = 10
"""How many times a put is tried if other programs create or delete the row between the two steps of the put. In a store
without check-and-mutate, the claim of a program that died during an insert has the same effect.
"""

Insert = Callable[[Any, int | None], object]
"""A function that accepts an object, and its TTL in ms or None."""


def put(
    schema: TableSchema,
    fields: Mapping[str, Any],
    pending: PendingRows,
    work: Callable[[], UnitOfWork],
    insert: Insert,
    check: Insert,
) -> bool:
    """Updates the row with a key, or inserts an object if the row does not exist. Returns whether it was inserted.

    Both the update and the insert are atomic. Each fails if another program has created or deleted the row in the
    meantime.

    Args:
        fields: the key and other fields, and `ttl`, by name.
        work: returns a separate unit of work for one update.
        insert: puts an object if its key is free, and raises `RowExists` otherwise.
        check: raises `CapabilityError` if an object cannot be inserted at all.
    """
    if schema.immutable:
        raise SessionError(
            "put() updates a row that exists, and rows of an immutable model cannot be updated: write insert(), or "
            "declare the model without immutable=True.",
            table=schema.table,
        )
    names = schema.layout.names
    mapper = KeyMapper(schema)
    key = mapper.complete({name: fields[name] for name in names if name in fields})
    taken = PutFields.of(schema)
    with claiming():  # names in the row may be new: they get ids
        # refuses unknown fields, before an object is made
        update = update_key_call(schema, fields, None) if fields.keys() - taken.key else None
        (row,) = mapper.rows(key)
    ttl = None if "ttl" in schema.by_name else fields.get("ttl")
    taken.check_complete(fields)
    obj = schema.model(**{name: value for name, value in fields.items() if name != "ttl" or "ttl" in schema.by_name})
    pending.check_row("put", schema, row)
    life = milliseconds(schema, ttl)
    check(obj, life)
    waits = waits_between(ATTEMPTS)
    while update is None or not _updated(work(), evolve(update)):
        try:
            insert(obj, life)
        except RowExists:
            if update is None:
                return False
        else:
            return True
        wait = next(waits, None)
        if wait is None:
            raise ConflictError(
                "Other programs keep creating and deleting the row, or one of them died while it created the row: "
                "call put() again.",
                table=schema.table,
                key=row,
            )
        time.sleep(wait)
    return False


def put_rows(
    schema: TableSchema,
    rows: Sequence[Mapping[str, Any]],
    one: Callable[[TableSchema, Mapping[str, Any]], object],
    together: Callable[[TableSchema, Sequence[Mapping[str, Any]]], None],
) -> None:
    """Puts many rows. Rows that are put without a read are put in batches, all others one after the other.

    Args:
        one: puts a row.
        together: puts rows without a read.

    Raises:
        SessionError: a row is not a mapping.
        PartialWrite: the store failed after something was sent; `position` is the number of rows, counted from the
            start, that are written.
    """
    wrong = [fields for fields in rows if not isinstance(fields, Mapping)]
    if wrong:
        raise SessionError(
            'put_all() takes mappings of fields: put_all(Model, [{"name": value, ...}]). Whole objects are for '
            "add_all() and bulk_add().",
            table=schema.table,
            found=type(wrong[0]).__name__,
        )
    blind = all(map(PutFields.of(schema).put_blindly, rows))
    size = BATCH_ROWS if blind else 1
    for position in range(0, len(rows), size):
        try:
            if blind:
                together(schema, rows[position : position + size])
            else:
                one(schema, rows[position])
        except HbmodelError as error:
            if not position and not isinstance(error, UnknownOutcome):
                raise  # nothing was written
            raise PartialWrite(
                "put_all() stopped: the first `position` rows are written. Put all rows again, or those that follow.",
                applied=[],
                failures=[],
                pending=list(rows[position:]),
                position=position,
                table=schema.table,
                key=error.details.get("key"),
                reason=reason_of(error),
            ) from error


def _updated(work: UnitOfWork, call: Pending) -> bool:
    """Carries out an update; returns False if there is no row.

    Raises:
        UnknownOutcome: the store became unreachable after something was sent.
    """
    work.add(call)
    try:
        work.commit()
    except RowNotFound:
        return False
    except PartialWrite as error:
        raise UnknownOutcome(
            "The fields may or may not have been written: read the row to find out.",
            **{**error.details, "applied": None, "pending": None},
        ) from error
    return True


def checked_puts(
    schema: TableSchema, rows: Sequence[Mapping[str, Any]], pending: PendingRows
) -> Sequence[UpdateFields]:
    """Returns the writes for puts without a read, one for each row. If a field of a row is given several times, the
    last value is used.

    Raises:
        SessionError: a column without a default is not given, or a pending call writes a row.
    """
    taken, writes = PutFields.of(schema), dict[bytes, UpdateFields]()
    for fields in rows:
        with claiming():  # names in the row may be new: they get ids
            (write,) = update_key_call(schema, fields, None).writes
        assert isinstance(write, UpdateFields)
        taken.check_complete(fields)
        pending.check_row("put", schema, write.row)
        earlier = writes.get(write.row)
        writes[write.row] = write if earlier is None else evolve(write, changes={**earlier.changes, **write.changes})
    return list(writes.values())
