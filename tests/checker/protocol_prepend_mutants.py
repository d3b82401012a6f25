"""Rules of prepending broken on purpose; the checker must notice every one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import islice
from typing import Any

from attrs import evolve, frozen

from hbmodel.encoding.integer_order import IntegerOrder
from hbmodel.mapping.schema import FLAG
from hbmodel.protocol.operations import (
    CheckAndMutate,
    CheckAndPut,
    FirstRows,
    GetRows,
    LetClockTick,
    Operation,
    Protocol,
    PutRows,
)
from hbmodel.protocol.prepend import KeyPrefix
from hbmodel.protocol.ttl_timestamps import OWN
from tests.checker.protocol_adapter import StoredCell
from tests.checker.protocol_prepend import ATOMIC, CLAIMING, PrependConfiguration, Remark, Rules, SaltedRemark, prepends

Change = Callable[[Operation, Operation | None, Any], Any]
"""From an operation, the one before it and that one's answer to another operation, or to the answer in its place."""


@frozen
class Answer:
    """The answer that replaces an operation."""

    value: Any


def _changed(
    protocol: Protocol[Any], change: Change, after: Callable[[Operation, Operation | None, Any], Any]
) -> Protocol[Any]:
    before: Operation | None = None
    answer: Any = None
    while True:
        try:
            operation = protocol.send(answer)
        except StopIteration as stop:
            return stop.value
        made = change(operation, before, answer)
        answer = made.value if isinstance(made, Answer) else after(operation, before, (yield made))
        before = operation


def _same(operation: Operation, before: Operation | None, answer: Any) -> Any:
    return operation


def _told(operation: Operation, before: Operation | None, answer: Any) -> Any:
    return answer


def unchecked(protocol: Protocol[Any]) -> Protocol[Any]:
    """Whatever is put under a condition is put without it."""

    def put(operation: Operation, before: Operation | None, answer: Any) -> Any:
        if isinstance(operation, CheckAndMutate):
            return PutRows(operation.table, [operation.mutations[0]])  # type: ignore[list-item]
        return PutRows(operation.table, [operation.put]) if isinstance(operation, CheckAndPut) else operation

    def applied(operation: Operation, before: Operation | None, answer: Any) -> Any:
        return _known_by_any_value(
            operation, before, True if isinstance(operation, CheckAndMutate | CheckAndPut) else answer
        )

    return _changed(protocol, put, applied)


def unread_claims(protocol: Protocol[Any]) -> Protocol[Any]:
    """A claim holds when the server says that it was put."""
    claimed: list[CheckAndPut] = []

    def believed(operation: Operation, before: Operation | None, answer: Any) -> Any:
        if isinstance(operation, LetClockTick):
            claimed[:] = [before] if isinstance(before, CheckAndPut) and answer else []
        if not isinstance(operation, GetRows) or not claimed:
            return operation
        put = claimed.pop().put
        return Answer([_Row(operation.rows[0], {column: StoredCell(value, 0) for column, value in put.cells.items()})])

    return _changed(protocol, believed, _told)


def claimed_now(protocol: Protocol[Any]) -> Protocol[Any]:
    """The columns of a claimed row get the server's time."""

    def now(operation: Operation, before: Operation | None, answer: Any) -> Any:
        if not isinstance(operation, PutRows):
            return operation
        return evolve(operation, puts=[evolve(put, timestamp=None) for put in operation.puts])

    return _changed(protocol, now, _told)


def blind_ends(protocol: Protocol[Any]) -> Protocol[Any]:
    """The flag of a claimed row is put whether the claim is still there or not."""

    def ends(operation: Operation) -> bool:
        return isinstance(operation, CheckAndPut) and operation.put.cells == {operation.column: FLAG}

    def blind(operation: Operation, before: Operation | None, answer: Any) -> Any:
        return (
            PutRows(operation.table, [operation.put])
            if isinstance(operation, CheckAndPut) and ends(operation)
            else operation
        )

    return _changed(protocol, blind, lambda operation, before, answer: True if ends(operation) else answer)


def unread_rows(protocol: Protocol[Any]) -> Protocol[Any]:
    """A row stays when the server says that it was put."""

    def believed(operation: Operation, before: Operation | None, answer: Any) -> Any:
        if not isinstance(operation, GetRows) or not isinstance(before, CheckAndMutate) or not answer:
            return operation
        cells = {
            column: StoredCell(value, 0) for mutation in before.mutations for column, value in mutation.cells.items()
        }  # type: ignore[union-attr]
        return Answer([_Row(operation.rows[0], cells)])

    return _changed(protocol, believed, _told)


def by_value(protocol: Protocol[Any]) -> Protocol[Any]:
    """An insert considers a row its own if the row holds any value that it put."""
    return _changed(protocol, _same, _known_by_any_value)


def _known_by_any_value(operation: Operation, before: Operation | None, answer: Any) -> Any:
    if not isinstance(operation, GetRows) or not isinstance(before, CheckAndMutate) or answer[0] is None:
        return answer
    put, *marks = before.mutations
    held = answer[0].columns
    if any(column in held and held[column].value == value for column, value in put.cells.items()):  # type: ignore[union-attr]
        own = {column: StoredCell(OWN, 0) for mark in marks for column in mark.cells}  # type: ignore[union-attr]
        return [_Row(operation.rows[0], {**held, **own})]
    return answer


def first_row_alone(protocol: Protocol[Any]) -> Protocol[Any]:
    """A prefix whose first row is not an object counts as empty."""

    def seen(operation: Operation, before: Operation | None, answer: Any) -> Any:
        if not isinstance(operation, FirstRows):
            return answer
        return [rows if rows and rows[0].columns[b"d:e"].value == b"\x01" else [] for rows in answer]

    return _changed(protocol, _same, seen)


@frozen
class _Row:
    row: bytes
    columns: Mapping[bytes, Any]


class Leaping(IntegerOrder):
    """Leaves out a number."""

    __slots__ = ()

    def before(self, value: int) -> int | None:
        return value - 2


def leaping(prefix: KeyPrefix) -> KeyPrefix:
    """The number before the first one is computed as two before it."""
    return evolve(prefix, order=Leaping(prefix.order.first, prefix.order.last))


def one_bucket(prefix: KeyPrefix) -> KeyPrefix:
    """Only the first bucket of a salt is read."""
    return evolve(prefix, ranges=prefix.ranges[:1])


@frozen
class Mutant:
    """One rule broken: the code with the change, configurations in which it shows, and how the checker's message
    begins.
    """

    rules: Rules
    where: Callable[[Rules], Iterable[PrependConfiguration]]
    violation: str


EMPTY, OLD, GAP, REUSED = 0, 1, 4, 6
"""Which configuration: an empty prefix, the same where claims become old, rows with a gap, and a first row that is
deleted.
"""


def _two(
    at: int, rules: Rules, kinds: tuple[bool, bool] = (CLAIMING, CLAIMING), model: Any = Remark, crashes: int = 0
) -> Any:
    return islice(prepends(model, kinds, rules, crashes=crashes), at, at + 1)


def _atomic(at: int, model: Any = Remark) -> Callable[[Rules], Any]:
    return partial(_two, at, kinds=(ATOMIC, ATOMIC), model=model)


def _claiming(at: int, crashes: int = 0) -> Callable[[Rules], Any]:
    return partial(_two, at, crashes=crashes)


MUTANTS: Mapping[str, Mutant] = {
    "a claim is put without a check": Mutant(Rules(around=unchecked), _claiming(EMPTY), "LOST"),
    "a row is put without a check": Mutant(Rules(around=unchecked), _atomic(EMPTY), "LOST"),
    "a claim is not read back": Mutant(Rules(around=unread_claims), _claiming(REUSED), "TORN"),
    "a row is not read back": Mutant(Rules(around=unread_rows), _atomic(REUSED), "LOST"),
    "a row is known by one of its values": Mutant(Rules(around=by_value), _atomic(REUSED), "LOST"),
    "the columns of a claimed row at the server's time": Mutant(Rules(around=claimed_now), _claiming(OLD), "LOST"),
    "the flag of a claimed row without a check": Mutant(Rules(around=blind_ends), _claiming(OLD), "LOST"),
    "a first row that is claimed ends the search": Mutant(
        Rules(around=first_row_alone), _claiming(GAP, crashes=1), "BEHIND"
    ),
    "a number is left out": Mutant(Rules(prefix=leaping), _claiming(EMPTY), "GAPS"),
    "one bucket is read for all": Mutant(Rules(prefix=one_bucket), _atomic(GAP, SaltedRemark), "BEHIND"),
}
