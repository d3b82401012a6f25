"""Every call of every operation of a store is broken in every way: nothing is lost, doubled or told wrong."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, count
from time import monotonic, sleep
from typing import Any, ClassVar
from uuid import uuid4

import pytest
from attrs import define

from hbmodel.errors import CapabilityError, StoreError, StoreUnavailable, UnknownOutcome
from hbmodel.session.connect import connect
from hbmodel.store import (
    ConditionalChange,
    ConditionalPut,
    Delete,
    Family,
    PipelinedStore,
    Put,
    Row,
    Scan,
    Store,
)
from hbmodel.store.gateway.wire.call_sizes import CallSizes
from hbmodel.store.port import change_and_get, check_and_put_each
from hbmodel.store.ranges import KeyRange
from tests.support.cutting_proxy import CARRIED_OUT, FAULTS, CuttingProxy, Fault
from tests.support.gateway_tables import gateway_store, short_sleep
from tests.support.slow_machines import lives_for
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.hbase

TABLE = "cuts"
PREFIX = f"t{uuid4().hex[:8]}"  # the workers of pytest-xdist share an HBase
A, B, N = b"d:a", b"d:b", b"d:n"

SMALL = CallSizes(rows=4, read_bytes=300)
"""Several calls for what otherwise takes one."""

Cells = Mapping[bytes, tuple[bytes, int]]
State = dict[bytes, Cells]


@pytest.fixture(scope="module", params=["thrift1", "thrift2"])
def url(request: pytest.FixtureRequest) -> str:
    hbase = request.getfixturevalue("hbmodel_hbase")
    return hbase.url if request.param == "thrift1" else hbase.thrift2_url


@pytest.fixture(scope="module")
def direct(url: str) -> Iterator[Store]:
    with connect(f"{url}?table_prefix={PREFIX}") as store:
        store.create_table(TABLE, [Family(b"d", max_versions=1), Family(b"e")])
        yield store
        store.delete_table(TABLE)


@pytest.fixture
def proxy(url: str, direct: Store) -> Iterator[CuttingProxy]:
    with CuttingProxy(url) as proxy:
        yield proxy


@define
class Case:
    """One fault at one request of an operation, on rows of its own.

    Attributes:
        prefix: with which its rows begin.
        direct: not through the proxy.
        through: through it.
        lasting: whether every later request fails too.
    """

    prefix: bytes
    direct: Store
    through: Store
    proxy: CuttingProxy
    fault: Fault
    at: int
    lasting: bool

    def row(self, number: int) -> bytes:
        return self.prefix + b"%03d" % number

    def rows(self, count: int) -> list[bytes]:
        return [self.row(number) for number in range(count)]

    @property
    def range(self) -> KeyRange:
        return KeyRange.prefix(self.prefix)

    def state(self) -> State:
        """Every row with its cells and their times."""
        (batches,) = self.direct.scan(TABLE, [Scan(self.range)])
        return {
            row.row: {column: (cell.value, cell.timestamp) for column, cell in row.columns.items()}
            for batch in batches
            for row in batch
        }

    def __str__(self) -> str:
        return f"{self.fault} at request {self.at}{' and all that follow' if self.lasting else ''}"


class Operation(ABC):
    """Something to do with a store, and how to tell whether it was done right."""

    only_second: ClassVar[bool] = False
    calls: ClassVar[int] = 1
    """How many requests it takes at least."""

    pool: ClassVar[int] = 1

    @abstractmethod
    def seed(self, case: Case) -> None:
        """Writes the initial rows."""

    @abstractmethod
    def run(self, case: Case) -> Any:
        """Does it, through the proxy."""

    @abstractmethod
    def check(self, case: Case, before: State, result: Any, error: StoreError | None) -> None:
        """Checks what came of it."""


# --- reads ------------------------------------------------------------------------------------------------------------


class Reading(Operation):
    """Reads succeed, or cannot be carried out; the rows that they return before that are correct."""

    size: ClassVar[int] = 12

    def seed(self, case: Case) -> None:
        case.direct.put(TABLE, [Put(row, {A: row, B: b"b"}, 5) for row in case.rows(self.size)])

    def check(self, case: Case, before: State, result: Any, error: StoreError | None) -> None:
        if error is None:
            assert result == self.expected(case)
        else:
            assert type(error) is StoreUnavailable
            assert case.lasting
            assert case.proxy.fired

    @abstractmethod
    def expected(self, case: Case) -> Any:
        """The right answer."""


def value(row: Row | None) -> bytes | None:
    return None if row is None else row.columns[A].value


class Get(Reading):
    def run(self, case: Case) -> Any:
        return [value(row) for row in case.through.get(TABLE, [case.row(1)])]

    def expected(self, case: Case) -> Any:
        return [case.row(1)]


class MultiGet(Reading):
    """Several calls, some of which are sent ahead, with absent and repeated rows."""

    calls = 3

    def wanted(self, case: Case) -> list[bytes]:
        return [*case.rows(self.size + 3)[::-1], *case.rows(20)]

    def run(self, case: Case) -> Any:
        return [value(row) for row in case.through.get(TABLE, self.wanted(case), [A])]

    def expected(self, case: Case) -> Any:
        there = set(case.rows(self.size))
        return [row if row in there else None for row in self.wanted(case)]


class Scanning(Reading):
    """One scan of several batches."""

    size = 23
    calls = 6

    def scans(self, case: Case) -> Sequence[Scan]:
        return [Scan(case.range, batch_size=5)]

    def run(self, case: Case) -> Any:
        iterators = case.through.scan(TABLE, self.scans(case))
        found: list[list[bytes]] = [[] for _ in iterators]
        left = list(range(len(iterators)))
        try:
            while left:  # one batch of each in turn
                for number in list(left):
                    batch = next(iterators[number], None)
                    if batch is None:
                        left.remove(number)
                    else:
                        assert batch
                        assert all(value(row) == row.row for row in batch)
                        found[number].extend(row.row for row in batch)
        finally:
            for right, rows in zip(self.expected(case), found, strict=True):
                assert rows == right[: len(rows)]
            for iterator in iterators:
                iterator.close()  # type: ignore[attr-defined]
        return found

    def expected(self, case: Case) -> Any:
        rows = case.rows(self.size)
        return [
            sorted((row for row in rows if row in scan.range), reverse=scan.reversed)[: scan.limit]
            for scan in self.scans(case)
        ]


class ReversedScan(Scanning):
    def scans(self, case: Case) -> Sequence[Scan]:
        return [Scan(case.range, reversed=True, batch_size=5)]


class ShortScan(Scanning):
    """In one call where the gateway has such a call."""

    calls = 1

    def scans(self, case: Case) -> Sequence[Scan]:
        return [Scan(case.range, limit=7, batch_size=10)]


class SharingScans(Scanning):
    """Several scans on one connection, in both directions, with and without a limit."""

    def scans(self, case: Case) -> Sequence[Scan]:
        middle = KeyRange(case.row(6), case.row(17))
        return [
            Scan(case.range, batch_size=9),
            Scan(middle, reversed=True, batch_size=4),
            Scan(case.range, limit=10, batch_size=4),
        ]


class Pieces(Scanning):
    """A scan of rows in pieces: what came of a row before it begins again is given up."""

    size = 8

    def seed(self, case: Case) -> None:
        case.direct.put(
            TABLE,
            [Put(row, dict.fromkeys(self.columns(number), row), 5) for number, row in enumerate(case.rows(self.size))],
        )

    def columns(self, number: int) -> list[bytes]:
        return [b"d:%02d" % at for at in range(1 + 3 * number)]

    def run(self, case: Case) -> Any:
        (batches,) = case.through.scan(TABLE, [Scan(case.range, batch_size=5, cells=4)])
        found: dict[bytes, list[list[bytes]]] = {}
        for piece in (piece for batch in batches for piece in batch):
            if piece.columns:
                found.setdefault(piece.row, []).append(list(piece.columns))
            else:
                assert found.pop(piece.row, None) is not None
        return found

    def expected(self, case: Case) -> Any:
        rows = [(row, self.columns(number)) for number, row in enumerate(case.rows(self.size))]
        return {row: [columns[at : at + 4] for at in range(0, len(columns), 4)] for row, columns in rows}


# --- writes -----------------------------------------------------------------------------------------------------------


class Writing(Operation):
    """Writes leave every row in its old or its intended state, and the error says which of these is certain."""

    repeatable: ClassVar[bool] = False
    """Whether it may be repeated, so that a single fault is not seen."""

    timed: ClassVar[bool] = True
    whole: ClassVar[bool] = True
    """Whether what was certainly not done is all of it, and not one of several."""

    answer: ClassVar[Any] = None

    size: ClassVar[int] = 6

    def seed(self, case: Case) -> None:
        case.direct.put(TABLE, [Put(row, {A: b"old", b"e:a": b"old"}, 5) for row in case.rows(self.size)])

    @abstractmethod
    def after(self, case: Case) -> State:
        """Every row as it should be."""

    def alike(self, state: State) -> State:
        """A state without what the server chooses."""
        return (
            state if self.timed else {row: {c: (v, 0) for c, (v, _) in cells.items()} for row, cells in state.items()}
        )

    def check(self, case: Case, before: State, result: Any, error: StoreError | None) -> None:
        found, after = self.alike(case.state()), self.alike(self.after(case))
        before = self.alike(before)
        if error is None:
            assert result == self.answer
            assert found == after
            return
        assert case.proxy.fired
        if type(error) is StoreUnavailable and self.whole:
            assert found == before
        else:
            assert type(error) is UnknownOutcome or not self.whole
            for row in {*before, *after, *found}:
                assert found.get(row) in (before.get(row), after.get(row))
        if self.repeatable:
            assert case.lasting
            case.proxy.disarm()
            assert self.run(case) == self.answer
            assert self.alike(case.state()) == after


class TimedPuts(Writing):
    """Old rows overwritten and new ones made, some with other times."""

    repeatable = True
    calls = 3

    def puts(self, case: Case) -> list[Put]:
        return [Put(row, {A: b"new", B: b"%d" % n}, 7 + n % 2) for n, row in enumerate(case.rows(self.size + 5))]

    def run(self, case: Case) -> Any:
        case.through.put(TABLE, self.puts(case))

    def after(self, case: Case) -> State:
        made: dict[bytes, Cells] = {
            put.row: {c: (v, put.timestamp or 0) for c, v in put.cells.items()} for put in self.puts(case)
        }
        return {
            row: {**cells, **({b"e:a": (b"old", 5)} if row < case.row(self.size) else {})}
            for row, cells in made.items()
        }


class UntimedPuts(TimedPuts):
    repeatable = timed = False

    def puts(self, case: Case) -> list[Put]:
        return [Put(put.row, put.cells) for put in super().puts(case)]


class BegunPuts(TimedPuts):
    """Two puts, the first of which is begun before the second and ended after it."""

    whole = False
    pool = 3

    def run(self, case: Case) -> Any:
        puts = self.puts(case)
        assert isinstance(case.through, PipelinedStore)
        begun = case.through.begin_put(TABLE, puts[:5])
        try:
            case.through.put(TABLE, puts[5:])
        except BaseException:
            begun.abandon()
            raise
        begun.end()


class TimedDeletes(Writing):
    repeatable = True
    calls = 2
    time: int | None = 6

    def deletes(self, case: Case) -> list[Delete]:
        parts: tuple[dict[str, Any], ...] = ({}, {"families": [b"d"]}, {"columns": [A]})
        return [Delete(row, timestamp=self.time, **parts[n % 3]) for n, row in enumerate(case.rows(self.size))]

    def run(self, case: Case) -> Any:
        case.through.delete(TABLE, self.deletes(case))

    def after(self, case: Case) -> State:
        return {row: {b"e:a": (b"old", 5)} for n, row in enumerate(case.rows(self.size)) if n % 3}


class UntimedDeletes(TimedDeletes):
    repeatable = timed = False
    time = None


class RowChange(Writing):
    """Puts and deletes of a row in one call."""

    only_second = repeatable = True
    size = 1
    time: int | None = 7

    def change(self, case: Case) -> list[Put | Delete]:
        return [Delete(case.row(0), columns=[A], timestamp=self.time), Put(case.row(0), {B: b"new"}, self.time)]

    def run(self, case: Case) -> Any:
        case.through.mutate_row(TABLE, self.change(case))

    def after(self, case: Case) -> State:
        return {case.row(0): {B: (b"new", 7), b"e:a": (b"old", 5)}}


class UntimedRowChange(RowChange):
    repeatable = timed = False
    time = None


class Once(Writing):
    """Calls that take effect each time that they are made."""

    timed = False
    size = 1
    call: ClassVar[tuple[str, str]]

    def check(self, case: Case, before: State, result: Any, error: StoreError | None) -> None:
        super().check(case, before, result, error)
        assert case.proxy.count == 1
        if case.proxy.fired:
            assert type(error) is UnknownOutcome
            right = self.alike(self.after(case) if case.fault in CARRIED_OUT else before)
            deadline = monotonic() + PATIENCE  # nobody waited for the silent gateway to do it
            while (found := self.alike(case.state())) != right and monotonic() < deadline:
                sleep(0.01)
            assert found == right


class CheckAndPut(Once):
    answer = True

    def run(self, case: Case) -> Any:
        return case.through.check_and_put(TABLE, case.row(0), A, b"old", Put(case.row(0), {A: b"new"}))

    def after(self, case: Case) -> State:
        return {case.row(0): {A: (b"new", 0), b"e:a": (b"old", 0)}}


class CheckAndPutEach(Writing):
    """A conditional put in each of several rows, spread over two connections: none is made twice, which would come
    back as a refusal.
    """

    timed = whole = False
    pool = 2
    size = 32
    calls = 32
    answer: ClassVar[Any] = [True] * 32

    def run(self, case: Case) -> Any:
        puts = [ConditionalPut(A, b"old", Put(row, {A: b"new"})) for row in case.rows(self.size)]
        return list(check_and_put_each(case.through, TABLE, puts))

    def after(self, case: Case) -> State:
        return {row: {A: (b"new", 0), b"e:a": (b"old", 0)} for row in case.rows(self.size)}


class CheckAndMutate(Once, RowChange):
    repeatable = False
    answer = True

    def run(self, case: Case) -> Any:
        return case.through.check_and_mutate(TABLE, case.row(0), A, b"old", self.change(case))


class PutAndGet(Writing):
    """A conditional put with a get sent behind it. Neither is sent again, and a lost get leaves the put certain."""

    timed = False
    size = 1
    calls = 2
    answer: ClassVar[Any] = (True, b"new")

    def change(self, case: Case) -> ConditionalPut | ConditionalChange:
        return ConditionalPut(A, b"old", Put(case.row(0), {A: b"new"}))

    def run(self, case: Case) -> Any:
        columns = [A, B]
        applied, rows = change_and_get(case.through, TABLE, self.change(case), columns)
        assert rows is not None or case.proxy.fired
        (row,) = case.direct.get(TABLE, [case.row(0)], columns) if rows is None else rows
        assert row is not None
        assert len(row.columns) == 1
        return applied, next(iter(row.columns.values())).value

    def after(self, case: Case) -> State:
        return {case.row(0): {A: (b"new", 0), b"e:a": (b"old", 0)}}

    def check(self, case: Case, before: State, result: Any, error: StoreError | None) -> None:
        super().check(case, before, result, error)
        assert error is None or type(error) is UnknownOutcome


class MutateAndGet(PutAndGet):
    """The same with a conditional change of a row."""

    only_second = True

    def change(self, case: Case) -> ConditionalChange:
        row = case.row(0)
        return ConditionalChange(row, A, b"old", [Delete(row, columns=[A], timestamp=7), Put(row, {B: b"new"}, 7)])

    def after(self, case: Case) -> State:
        return {case.row(0): {B: (b"new", 0), b"e:a": (b"old", 0)}}


class CheckAndMutateMany(Writing):
    """A change of each of several rows, each on its condition: none is made twice, which would come back as a
    refusal.
    """

    only_second = True
    whole = False
    calls = 6
    answer: ClassVar[Any] = [True] * 6

    def run(self, case: Case) -> Any:
        changes: list[ConditionalChange] = []
        for row in case.rows(self.size):
            mutations: list[Put | Delete] = [Delete(row, columns=[A], timestamp=7), Put(row, {B: b"new"}, 7)]
            changes.append(ConditionalChange(row, A, b"old", mutations))
        return list(case.through.check_and_mutate_many(TABLE, changes))

    def after(self, case: Case) -> State:
        return {row: {B: (b"new", 7), b"e:a": (b"old", 5)} for row in case.rows(self.size)}


class Increment(Once):
    answer = 5

    def seed(self, case: Case) -> None:
        assert case.direct.increment(TABLE, case.row(0), N, 2) == 2

    def run(self, case: Case) -> Any:
        return case.through.increment(TABLE, case.row(0), N, 3)

    def after(self, case: Case) -> State:
        return {case.row(0): {N: ((5).to_bytes(8), 0)}}


# --- the tests --------------------------------------------------------------------------------------------------------

OPERATIONS: list[Operation] = [
    Get(),
    MultiGet(),
    Scanning(),
    ReversedScan(),
    ShortScan(),
    SharingScans(),
    Pieces(),
    TimedPuts(),
    BegunPuts(),
    UntimedPuts(),
    TimedDeletes(),
    UntimedDeletes(),
    RowChange(),
    UntimedRowChange(),
    CheckAndPut(),
    CheckAndPutEach(),
    CheckAndMutate(),
    CheckAndMutateMany(),
    PutAndGet(),
    MutateAndGet(),
    Increment(),
]

SILENCE = 0.25
"""Seconds to wait for a silent gateway."""

prefixes = (b"%05d-" % number for number in count())


def break_off(operation: Operation, proxy: CuttingProxy, direct: Store, fault: Fault, at: int, lasting: bool) -> bool:
    """Does the operation with a fault; whether that happened."""
    # A busy gateway may take longer than that for anything; that is one more fault, and must do no harm either.
    patience = f"timeout={SILENCE if fault == 'silent' else 10}{'&attempts=2' if lasting else ''}"
    url = f"{proxy.url}?table_prefix={PREFIX}&pool={operation.pool}&retry_for=0&{patience}"
    with gateway_store(url, sizes=SMALL, sleep=short_sleep) as through:
        case = Case(next(prefixes), direct, through, proxy, fault, at, lasting)
        operation.seed(case)
        before = case.state()
        proxy.arm(fault, at, lasting=lasting)
        result, error = None, None
        try:
            result = operation.run(case)
        except StoreError as caught:
            error = caught
        try:
            operation.check(case, before, result, error)
        except AssertionError as wrong:
            raise AssertionError(f"{case}: {error!r}: {wrong}") from (error or wrong)
        finally:
            proxy.disarm()
        return proxy.fired


def tried(fault: Fault) -> Callable[[Operation, CuttingProxy, Store, Fault, int, bool], bool]:
    """`break_off`, once more if a slow machine was taken to be a silent gateway."""
    return lives_for(SILENCE)(break_off) if fault == "silent" else break_off


def faults_at(at: int, full: bool) -> Iterator[tuple[Fault, bool]]:
    """The faults to try at a request, each with whether it lasts: all faults at the first request, then every second
    one in turn.
    """
    for number, fault in enumerate(FAULTS):
        if full or at == 0 or number % 2 == at % 2:
            yield fault, False
        if full or number == at % len(FAULTS):
            yield fault, True
    yield "gone", True


@pytest.mark.parametrize("full", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["some lasting", "all"])
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: type(operation).__name__)
def test_a_fault_at_every_call(operation: Operation, proxy: CuttingProxy, direct: Store, full: bool) -> None:
    if operation.only_second and not direct.capabilities.mutate_row:
        with pytest.raises(CapabilityError):
            operation.run(Case(next(prefixes), direct, direct, proxy, "before", 0, lasting=False))
        return
    for at in count() if full else chain(range(8), count(8, 4)):
        fired = [tried(fault)(operation, proxy, direct, fault, at, lasting) for fault, lasting in faults_at(at, full)]
        if not any(fired):
            assert at >= operation.calls
            return
