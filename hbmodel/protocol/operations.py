"""The storage operations that sans-IO protocol generators yield, for a driver that executes them and sends the answers
back.

If an operation fails, the generator keeps its position, and the driver may execute the same operation again later.
Every operation is safe to repeat: its timestamps are part of it, or its docstring says why.
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
    """Reads rows by their keys. Answer: `list[Row | None]`, in the order of `rows`."""

    table: str
    rows: Sequence[bytes]
    columns: Sequence[bytes]


@frozen
class FirstRows:
    """Reads the first `limit` rows of each range. Answer: `list[list[Row]]`, in the order of `ranges`, with rows in key
    order.
    """

    table: str
    ranges: Sequence[KeyRange]
    columns: Sequence[bytes]
    limit: int


@frozen
class PutRows:
    """Puts rows. Answer: None."""

    table: str
    puts: Sequence[Put]


@frozen
class DeleteRows:
    """Deletes rows. Answer: None."""

    table: str
    deletes: Sequence[Delete]


@frozen
class MutateRow:
    """Carries out puts and deletes of one row, atomically. Answer: None."""

    table: str
    mutations: Sequence[Put | Delete]


@frozen
class CheckAndMutate:
    """Changes a row if one of its cells has the expected value. Answer: whether the change was applied.

    It is safe to repeat: after a refusal, the protocol looks for its own nonce, which shows whether an earlier call was
    applied.

    Attributes:
        then: the read of the row that the protocol will probably make next. The driver may send it directly after the
            change.
    """

    table: str
    row: bytes
    column: bytes
    expected: bytes | None
    mutations: Sequence[Put | Delete]
    then: GetRows | None = None


@frozen
class CheckAndMutateRows:
    """Carries out a `CheckAndMutate` in each of many rows, independently. Answer: `list[bool | None]`, in the order of
    `changes`.

    False means that a change was not applied. None means that it was refused, perhaps because an earlier call has
    already applied it.

    Attributes:
        waiting: rows of the same batch that are changed in a later round. In a wide model these are objects. A commit
            that changes each wide row as a whole does not yet change a wide row that holds a waiting object.
        fences: whether the changes are fences, which make writes of other programs fail. Fences are not writes of the
            batch, and are not combined with other changes.
    """

    table: str
    changes: Sequence[ConditionalChange]
    waiting: Sequence[bytes] = ()
    fences: bool = False


@frozen
class CheckAndPut:
    """Puts one cell, at the server's time, if a cell has the expected value. Answer: whether the put was applied.

    It is safe to repeat if the protocol reads the row after a refusal.

    Attributes:
        then: as in `CheckAndMutate`.
    """

    table: str
    row: bytes
    column: bytes
    expected: bytes
    put: Put
    then: GetRows | None = None


@frozen
class CheckAndPutRows:
    """Carries out a `CheckAndPut` in each of many rows, independently. Answer: `list[bool]`, in the order of `puts`."""

    table: str
    puts: Sequence[ConditionalPut]


@frozen
class Increment:
    """Adds to a counter. Answer: its new value. It is safe to repeat only if the protocol may skip values, since a
    repetition counts twice.
    """

    table: str
    row: bytes
    column: bytes
    amount: int


@frozen
class Together:
    """Carries out operations in any order, and all of them before the protocol continues. Answer: None."""

    operations: Sequence[PutRows | DeleteRows | MutateRow]


@frozen
class ReadClock:
    """Reads the clock. Answer: the time in ms since 1970, by this machine's clock corrected to the server's.

    Attributes:
        exact: whether to request the server's time now. If so, the answer is not earlier than any time that the
            server's clock showed before the call.
    """

    exact: bool = False


@frozen
class AskIfAhead:
    """Asks whether a cell may be ahead of the server's clock. Answer: None, or the server's time in ms.

    The answer is None if this machine's clock has reached the timestamp of the cell. So the server's time is requested
    only for cells that are in the future by this machine's clock.

    Attributes:
        timestamp: the timestamp of the cell, in ms since 1970.
    """

    timestamp: int


@frozen
class CheckLease:
    """Asks whether a write whose timestamp was chosen at the time `since` of the clock may still be acknowledged.

    Answer: bool. The answer is False once half of the grace time has passed, by the wall clock or by the monotonic
    clock: a repair may soon delete the write's entries as orphans (rule 3). If the indexes of the table have changed,
    the driver ends the protocol with `SchemaMismatch`.
    """

    since: int


@frozen
class CheckBinding:
    """Checks that the indexes and the phase that the protocol's writes follow are still current. Answer: None.

    If they are not, the driver ends the protocol with `SchemaMismatch`. Only a round that writes nothing needs this
    operation, because the driver makes the same check before each change.
    """


@frozen
class LetClockTick:
    """Waits until the clocks of all servers show a later millisecond. Answer: None."""


@frozen
class AwaitClock:
    """Waits until the server's clock shows a later time than `passed`. Answer: None.

    Attributes:
        passed: a time in ms since 1970. It should be ahead of the server's clock by at most the clock bound, otherwise
            the wait is long.
    """

    passed: int


@frozen
class Acknowledge:
    """Acknowledges the outcomes of writes, by their positions in the batch. The outcomes are valid from this operation
    on. Answer: None.
    """

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
        step: a function that carries out an operation of the protocol, perhaps in a changed form, and returns the
            answer.
    """
    answer: Any = None
    while True:
        try:
            operation = protocol.send(answer)
        except StopIteration as stop:
            result: R = stop.value
            return result
        answer = yield from step(operation)
