"""Puts an object before the first live row of a key prefix, as a sans-IO generator.

The last key field of the new row gets the value before the value of the first row, and the key is claimed as in every
insert. If the key is already used, the first row is read again, and the next attempt uses a key that is before both
that row and the used key. So two programs never get the same key, and their rows follow each other without gaps, except
for keys that were claimed by a program that crashed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from attrs import frozen

from hbmodel.encoding.integer_order import IntegerOrder
from hbmodel.errors import CapabilityError, EncodingError, IncompleteKey, RowExists
from hbmodel.mapping.rows.mapper import RowDecoder
from hbmodel.mapping.schema import TableSchema
from hbmodel.protocol.operations import FirstRows, Protocol
from hbmodel.store.ranges import KeyRange
from hbmodel.store.values import Row

R = TypeVar("R")

MOST_ROWS = 1_000
"""The maximum number of rows that are read at once to find a live row."""


@frozen(eq=False)
class KeyPrefix:
    """The rows that have the same key fields except the last one, which holds whole numbers.

    Attributes:
        order: the order of the numbers.
        ranges: the ranges of their row keys: one range, or one for each bucket of the salt that can hold such rows.
    """

    schema: TableSchema
    order: IntegerOrder
    ranges: Sequence[KeyRange]

    @classmethod
    def of(cls, schema: TableSchema, key: Mapping[str, Any]) -> KeyPrefix:
        """Returns the prefix that consists of the given fields of an object.

        Args:
            key: every key field except the last, by name; other fields are ignored.

        Raises:
            IncompleteKey: key fields are missing; the error lists them.
            EncodingError: a value cannot be stored exactly.
            CapabilityError: the last key field is not a whole number, or may be None, or its codec does not keep the
                order; or the salt is random.
        """
        layout, salt = schema.layout, schema.salt
        *names, last = layout.names
        order = IntegerOrder.of(layout.slots[-1])
        if order is None:
            raise CapabilityError(
                "prepend() needs a model whose last key field is a whole number, never None, in a codec that keeps "
                "the order.",
                table=schema.table,
                field=last,
            )
        if salt.random:
            raise CapabilityError(
                "prepend() is not possible under RandomSalt: a key that is free in one bucket may be used in others.",
                table=schema.table,
            )
        if missing := [name for name in names if name not in key]:
            raise IncompleteKey("Give every field of the row key but the last.", table=schema.table, missing=missing)
        try:
            parts = layout.pack_leading([key[name] for name in names])
        except EncodingError as error:
            raise EncodingError(error.message, **{"table": schema.table, **error.details}) from None
        unsalted = layout.range_of(parts)
        located = {*salt.by} <= {*names}
        buckets = [salt.bucket_of_fields(dict(zip(names, parts, strict=True)))] if located else range(salt.buckets)
        return cls(schema, order, [salt.range_in(bucket, unsalted) for bucket in buckets])

    def number_of(self, row: Row) -> int:
        """Returns the last key field of a row."""
        number: int = self.schema.layout.unpack(row.row, self.schema.salt.width)[-1]
        return number


def prepend_row(prefix: KeyPrefix, reader: RowDecoder, insert: Callable[[int], Protocol[R]]) -> Protocol[R]:
    """Puts an object before the first live row of a prefix, or with the last number in key order if there is no live
    row.

    Args:
        insert: the protocol that puts the object with a given number, or raises `RowExists`. Its result is returned.

    Raises:
        EncodingError: there is no number before the first row.
    """
    order = prefix.order
    refused: int | None = None
    while True:
        first = yield from _first_number(prefix, reader)
        number = order.last if first is None else order.before(first)
        if number is not None and refused is not None:
            before = order.before(refused)
            number = None if before is None else order.earlier(number, before)
        if number is None:
            raise EncodingError(
                "No number of the last key field is left before the first row of the prefix: use another prefix.",
                table=prefix.schema.table, field=prefix.schema.layout.names[-1],
            )  # fmt: skip
        try:
            return (yield from insert(number))
        except RowExists:
            refused = number


def _first_number(prefix: KeyPrefix, reader: RowDecoder) -> Protocol[int | None]:
    """Returns the last key field of the first live row, or None if there is no live row. Rows that are not live are
    skipped, in growing batches.
    """
    lowest: int | None = None
    ranges, limit = prefix.ranges, 1
    while ranges:
        answers: Sequence[Sequence[Row]] = yield FirstRows(prefix.schema.table, ranges, reader.columns, limit)
        unsettled: list[KeyRange] = []
        for key_range, rows in zip(ranges, answers, strict=True):
            live = next(filter(reader.exists, rows), None)
            if live is not None:
                number = prefix.number_of(live)
                lowest = number if lowest is None else prefix.order.earlier(lowest, number)
            elif len(rows) == limit:
                unsettled.append(KeyRange(rows[-1].row + b"\x00", key_range.stop))
        ranges, limit = unsettled, min(8 * limit, MOST_ROWS)
    return lowest
