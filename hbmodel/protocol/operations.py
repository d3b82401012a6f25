"""The storage operations that sans-IO protocol generators yield; a driver executes them and sends the answers back.

If an operation fails, the driver leaves the generator where it is and may execute the same operation again later. Every
operation is safe to repeat: its timestamps are part of it, or its docstring says why.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeVar

from attrs import frozen

from hbmodel.store.ranges import KeyRange
from hbmodel.store.values import ConditionalChange, ConditionalPut, Delete, Put

R = TypeVar("R")


@frozen
class GetRows:
    """Answer: `list[Row | None]`, in the order of `rows`."""

    table: str
    rows: Sequence[bytes]
    columns: Sequence[bytes]


@frozen
class FirstRows:
    """Answer: `list[list[Row]]`, in the order of `ranges`: the first rows of each in key order, `limit` of them at
    most.
    """

    table: str
    ranges: Sequence[KeyRange]
    columns: Sequence[bytes]
    limit: int


@frozen
class PutRows:
    """Answer: None."""

    table: str
    puts: Sequence[Put]


@frozen
class DeleteRows:
    """Answer: None."""

    table: str
    deletes: Sequence[Delete]


@frozen
class MutateRow:
    """Puts and deletes of one row, atomically. Answer: None."""

    table: str
    mutations: Sequence[Put | Delete]


@frozen
class CheckAndMutate:
    """Answer: whether it was applied. Safe to repeat because a protocol settles a refusal by looking for its own
    nonce.
    """

    table: str
    row: bytes
    column: bytes
    expected: bytes | None
    mutations: Sequence[Put | Delete]


@frozen
class CheckAndMutateRows:
    """`CheckAndMutate` in many rows, each by itself. Answer: `list[bool | None]`, in the order of `changes`.

    False says that a change was not applied; None that it was refused, perhaps because an earlier call already applied
    it.

    Attributes:
        table: the table of the rows.
        changes: the changes of the rows.
        waiting: rows of the same batch that are changed in a later round. Objects of wide rows are rows here, and a
            commit that changes each wide row as a whole applies no change of a row that holds one of them.
        fences: whether the changes fence rows for other writers. They are then no writes of the batch, and nothing is
            joined with them.
    """

    table: str
    changes: Sequence[ConditionalChange]
    waiting: Sequence[bytes] = ()
    fences: bool = False


@frozen
class CheckAndPut:
    """One cell, at the server's time. Answer: whether it was applied. Safe to repeat where a protocol looks at the
    row after a refusal.
    """

    table: str
    row: bytes
    column: bytes
    expected: bytes
    put: Put


@frozen
class CheckAndPutRows:
    """`CheckAndPut` in many rows, each by itself. Answer: `list[bool]`, in the order of `puts`."""

    table: str
    puts: Sequence[ConditionalPut]


@frozen
class Increment:
    """Adds to a counter. Answer: its new value. Safe to repeat if the protocol may skip values, since a repetition
    counts twice.
    """

    table: str
    row: bytes
    column: bytes
    amount: int


@frozen
class Together:
    """Operations in any order; all must be done before the protocol continues. Answer: None."""

    operations: Sequence[PutRows | DeleteRows | MutateRow]


@frozen
class ReadClock:
    """Answer: milliseconds since 1970, this machine's clock corrected to the server's.

    Attributes:
        exact: whether to ask the server now, so that its clock had shown no later time before the call.
    """

    exact: bool = False


@frozen
class AskIfAhead:
    """Whether a cell may be ahead of the server's clock. Answer: None if this machine's clock has reached its time;
    otherwise the server's.

    So the server is asked only about cells that this machine's clock finds in the future.

    Attributes:
        timestamp: the timestamp of the cell, in ms since 1970.
    """

    timestamp: int


@frozen
class CheckLease:
    """Whether a write whose time was chosen from the reading `since` of the clock may still be acknowledged. Answer:
    bool.

    False once more than half of the grace time has passed, by any clock: a repairer may soon take the write's entries
    for orphans (rule 3). Where the indexes of the table have changed, the driver ends the protocol with
    `SchemaMismatch`.
    """

    since: int


@frozen
class CheckBinding:
    """Whether the indexes and the phase by which the protocol writes still hold. Answer: None.

    Where they do not, the driver ends the protocol with `SchemaMismatch`. For rounds that write nothing: before each
    change the driver checks it anyway.
    """


@frozen
class LetClockTick:
    """Waits until the clocks of all servers show a later millisecond. Answer: None."""


@frozen
class AwaitClock:
    """Waits until the server's clock shows a later time than `passed`. Answer: None.

    Attributes:
        passed: in ms since 1970; at most the clock bound ahead of the server's clock, or the wait is long.
    """

    passed: int


@frozen
class Acknowledge:
    """The outcomes that hold from here on, by position of the write in its batch. Answer: None."""

    outcomes: Sequence[Any]


Change = (
    PutRows
    | DeleteRows
    | MutateRow
    | CheckAndMutate
    | CheckAndMutateRows
    | CheckAndPut
    | CheckAndPutRows
    | Increment
    | Together
)
Question = GetRows | FirstRows | ReadClock | AskIfAhead | CheckLease | CheckBinding
Operation = Change | Question | LetClockTick | AwaitClock | Acknowledge

Protocol = Generator[Operation, Any, R]


def carried_out(protocol: Protocol[R], step: Callable[[Operation], Protocol[Any]]) -> Protocol[R]:
    """Runs a protocol as a part of another one.

    Args:
        protocol: the protocol; its result is returned.
        step: carries out one of its operations, as it is or otherwise, and returns the answer.
    """
    answer: Any = None
    while True:
        try:
            operation = protocol.send(answer)
        except StopIteration as stop:
            result: R = stop.value
            return result
        answer = yield from step(operation)
