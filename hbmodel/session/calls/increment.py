"""Increments of counters, which run immediately and are atomic on the server."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from attrs import Factory, frozen

from hbmodel.encoding.codecs.dictionary import claiming
from hbmodel.encoding.codecs.java import LONG, LONG_MAX
from hbmodel.errors import (
    CounterOverflow,
    EncodingError,
    HbmodelError,
    InvalidRequest,
    RowNotFound,
    SessionError,
    UnknownField,
)
from hbmodel.mapping.field_expressions import FieldExpression
from hbmodel.mapping.rows.mapper import KeyMapper, RowDecoder
from hbmodel.mapping.schema import COUNTER_ZERO, TableSchema
from hbmodel.protocol.operations import CheckAndPut, Increment
from hbmodel.session.calls.sending import Sending
from hbmodel.session.commit.pending_rows import PendingRows
from hbmodel.store.checks.numbers import whole_number
from hbmodel.store.gate import Gate, gated
from hbmodel.store.port import Store
from hbmodel.store.values import Put, Row
from hbmodel.tables.registry.registration import Binding


def increment(
    store: Store,
    bind: Callable[[TableSchema], Binding],
    pending: PendingRows,
    schema: TableSchema,
    key: tuple[Any, ...],
    counter: FieldExpression[int],
    amount: int,
    sending: Sending,
) -> int:
    """Adds to a counter and returns its new value; see `Session.increment`."""
    if not isinstance(counter, FieldExpression) or schema.by_name.get(counter.of.name) is not counter.of:
        raise UnknownField(
            "increment() takes a counter as an attribute of the model class: Model.field.", table=schema.table
        )
    if counter.of.kind != "counter":
        raise SessionError(
            "Only a counter can be incremented: declare the field with hb.counter().",
            table=schema.table,
            field=counter.of.name,
        )
    if schema.immutable:
        raise SessionError(
            "Rows of an immutable model cannot be incremented: declare the model without immutable=True, if "
            "nothing else needs it.",
            table=schema.table,
        )
    number = whole_number(amount)
    if number is None or not in_range(number):
        raise EncodingError(
            "A counter can be incremented by whole numbers of 64 bits only.", table=schema.table, field=counter.of.name
        )
    with claiming():  # the increment may create the row
        (row,) = KeyMapper(schema).rows(key)
    pending.check_row("increment", schema, row, beside_updates=True)
    cell = CounterCell(store, schema.table, row, counter.of.column, counter.of.name, sending)
    while True:
        binding = bind(schema)
        binding.check_registered()
        if binding.indexed or any(f.required for f in schema.columns) or schema.exists_column is not None:
            reader = RowDecoder.of(schema, binding.indexed, frozenset((counter.of.name,)), binding.adopting)
            (current,) = store.get(schema.table, [row], reader.columns)
            if current is None or not reader.exists(current):
                raise RowNotFound(
                    "There is no row with this key to increment: add the object first.", table=schema.table, key=row
                )
            cell.check(current, number)
            return cell.add(number)
        # This increment may create a row. But if the rows of the table have system cells since the check, it must not
        # create one.
        with suppress(_Changed):
            return cell.add(number, partial(_check_unchanged, bind, binding))


class _Changed(Exception):
    """Raised if the way in which the table must be written has changed since the increment began. `increment` catches
    this and begins again.
    """


def _check_unchanged(bind: Callable[[TableSchema], Binding], binding: Binding) -> None:
    if not bind(binding.schema).writes_like(binding):
        raise _Changed


def in_range(number: int) -> bool:
    """Whether a counter can hold a number."""
    return -LONG_MAX - 1 <= number <= LONG_MAX


@frozen
class CounterCell:
    """One counter of one row. The server's sums wrap at 64 bits, so `add` undoes an increment that has wrapped.

    Attributes:
        row: key of the row; in a wide row, the object key.
        column: `family:qualifier` of the counter.
        sending: carries out the changes.
    """

    store: Store
    table: str
    row: bytes
    column: bytes
    field: str
    sending: Sending = Factory(Sending)

    def check(self, row: Row, amount: int) -> None:
        """Raises `CounterOverflow` if the amount would take the counter, as it was read, beyond 64 bits."""
        cell = row.columns.get(self.column)
        if cell is not None and len(cell.value) == LONG.size and not in_range(LONG.unpack(cell.value)[0] + amount):
            raise self._refused()

    def add(self, amount: int, gate: Gate | None = None) -> int:
        """Increments the counter, and undoes the increment if the sum has wrapped.

        The order of increments makes no difference, so an increment can be undone exactly, whatever other programs have
        added since.

        Args:
            gate: called before the increment is sent. It is not called before the increment that undoes the first one.
        """
        with gated(gate):
            value = self._sent(amount)
        if in_range(value - amount):
            return value
        opposite = -amount if in_range(-amount) else amount
        try:
            undone = self._incremented(opposite)
        except HbmodelError as error:
            raise self._wrapped(
                "An increment took a counter beyond 64 bits, and undoing it failed: the counter may have wrapped. "
                "Read it, and correct it."
            ) from error
        if in_range(undone + amount):  # the increment that undoes the first one did not wrap back
            raise self._wrapped(
                "An increment took a counter beyond 64 bits, and was undone. Another program changed the counter in "
                "between, so it may have wrapped: read it, and correct it."
            )
        raise self._refused()

    def _sent(self, amount: int) -> int:
        """Sends the increment and returns the new value.

        An empty cell counts as 0, but HBase cannot increment it. So a 0 is put into it first.
        """
        try:
            return self._incremented(amount)
        except InvalidRequest:
            (row,) = self.store.get(self.table, [self.row], [self.column])
            cell = None if row is None else row.columns.get(self.column)
            if cell is None or cell.value:
                raise
        zero = Put(self.row, {self.column: COUNTER_ZERO})
        # this put does nothing if another program was faster
        self.sending.perform(self.store, CheckAndPut(self.table, self.row, self.column, b"", zero))
        return self._incremented(amount)

    def _incremented(self, amount: int) -> int:
        value: int = self.sending.perform(self.store, Increment(self.table, self.row, self.column, amount))
        return value

    def _refused(self) -> CounterOverflow:
        return CounterOverflow(
            "The sum would be beyond the 64 bits of a counter: the counter is unchanged.",
            table=self.table,
            key=self.row,
            field=self.field,
            unchanged=True,
        )

    def _wrapped(self, message: str) -> CounterOverflow:
        return CounterOverflow(message, table=self.table, key=self.row, field=self.field, unchanged=False)
