"""How protocols are driven: what each operation asks of a store, and how a stopped protocol is taken up again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from attrs import frozen

import hbmodel as hb
from hbmodel.errors import FamilyNotFound, RowExists, SchemaMismatch, StoreUnavailable, TableNotFound, UnknownOutcome
from hbmodel.protocol.driver import Resumable, await_clock, counts_again, drive, may_have_written, perform
from hbmodel.protocol.operations import (
    Acknowledge,
    Change,
    CheckAndMutate,
    CheckAndMutateRows,
    CheckAndPut,
    CheckAndPutRows,
    DeleteRows,
    GetRows,
    Increment,
    MutateRow,
    Operation,
    Protocol,
    PutRows,
    ReadClock,
    Together,
)
from hbmodel.store import BegunPut, ConditionalChange, ConditionalPut, Delete, Family, Put, Row
from tests.support.faulty import Call, FaultyStore, RecordingStore
from tests.support.following import Following

CELL = b"d:a"


def put(row: bytes, value: bytes, timestamp: int = 10) -> Put:
    return Put(row, {CELL: value}, timestamp)


@pytest.fixture
def prepared() -> Iterator[RecordingStore]:
    with hb.connect("memory:") as store:
        store.create_table("t", [Family(b"d")])
        store.create_table("u", [Family(b"d")])
        yield RecordingStore(store, gated=False)


def values(store: Any, table: str, *rows: bytes) -> list[bytes | None]:
    return [None if row is None else row.columns[CELL].value for row in store.get(table, rows)]


def test_every_operation_reaches_the_store(prepared: RecordingStore) -> None:
    assert perform(prepared, PutRows("t", [put(b"r", b"1"), put(b"s", b"2")])) is None
    answer = perform(prepared, GetRows("t", [b"s", b"x", b"r"], [CELL]))
    assert [None if row is None else row.row for row in answer] == [b"s", None, b"r"]
    assert perform(prepared, DeleteRows("t", [Delete(b"s", timestamp=10)])) is None
    assert perform(prepared, MutateRow("t", [Delete(b"r", timestamp=10), put(b"r", b"3", 11)])) is None
    assert perform(prepared, CheckAndMutate("t", b"r", CELL, b"3", [put(b"r", b"4", 12)])) is True
    assert perform(prepared, CheckAndMutate("t", b"r", CELL, b"3", [put(b"r", b"5", 13)])) is False
    assert (
        perform(prepared, Together([PutRows("u", [put(b"r", b"6")]), DeleteRows("t", [Delete(b"q", timestamp=1)])]))
        is None
    )
    assert perform(prepared, Acknowledge(["done"])) is None
    assert prepared.told() == [
        "put t",
        "get t",
        "delete t",
        "mutate_row t",
        "check_and_mutate t",
        "check_and_mutate t",
        "put u",
        "delete t",
    ]
    assert values(prepared, "t", b"r", b"s") == [b"4", None]
    assert values(prepared, "u", b"r") == [b"6"]


class Port(RecordingStore):
    """A store with nothing but the port."""

    check_and_put_each = None  # type: ignore[assignment]


class PortFaults(FaultyStore):
    """The same, failing."""

    check_and_put_each = None  # type: ignore[assignment]


PUTS = [
    ConditionalPut(CELL, expected, Put(row, {CELL: b"2"}))
    for row, expected in ((b"r", b"1"), (b"s", None), (b"x", None))
]


def test_conditional_puts_are_one_call_or_follow_one_another(prepared: RecordingStore) -> None:
    for store, calls in ((prepared, ["check_and_put_each t"]), (Port(prepared.inner), ["check_and_put t"] * 3)):
        prepared.inner.delete("t", [Delete(b"x")])
        prepared.inner.put("t", [Put(row, {CELL: b"1"}) for row in (b"r", b"s")])
        assert perform(store, CheckAndPutRows("t", PUTS)) == [True, False, True]
        assert store.told() == calls
        assert values(prepared.inner, "t", b"r", b"s", b"x") == [b"2", b"1", b"2"]


@pytest.mark.parametrize(("at", "error"), [(0, StoreUnavailable), (1, UnknownOutcome), (2, UnknownOutcome)])
def test_conditional_puts_of_which_some_are_done_are_in_doubt(
    prepared: RecordingStore, at: int, error: type[StoreUnavailable]
) -> None:
    """Even if the store reports that it did nothing, because this concerns only its own call."""
    prepared.put("t", [Put(b"r", {CELL: b"1"})])
    running = Resumable(several)
    with pytest.raises(error):
        running.run(PortFaults(prepared, at))
    assert running.wrote == (at > 0)


def test_conditional_puts_that_were_all_refused_have_done_nothing(prepared: RecordingStore) -> None:
    with pytest.raises(StoreUnavailable):
        drive(PortFaults(prepared, 1), several())
    assert values(prepared, "t", b"r", b"s", b"x") == [None] * 3


def several() -> Protocol[None]:
    yield CheckAndPutRows("t", PUTS)
    yield GetRows("t", [b"r"], [CELL])


def test_what_fails_behind_conditional_puts_does_not_say_that_nothing_was_done(prepared: RecordingStore) -> None:
    with pytest.raises(UnknownOutcome, match="The row was put, but the store could not be reached to confirm"):
        drive(FaultyStore(prepared, 1), several())


@hb.model(table="t", family="d")
class Thing:
    k: hb.Key[str] = hb.key()
    a: hb.Column[str] = hb.column("a")


def test_conditional_puts_of_the_rows_of_a_model_count_again() -> None:
    assert counts_again(hb.schema.schema_of(Thing), CheckAndPutRows("t", PUTS))
    assert not counts_again(hb.schema.schema_of(Thing), CheckAndPutRows("u", PUTS))


READ = GetRows("t", [b"r"], [CELL])
CHANGES = [
    CheckAndMutate("t", b"r", CELL, b"1", [put(b"r", b"2", 12)], READ),
    CheckAndPut("t", b"r", CELL, b"1", Put(b"r", {CELL: b"2"}), READ),
]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("before", [b"1", b"0"], ids=["applied", "refused"])
@pytest.mark.parametrize(
    ("reads", "lost", "calls"),
    [
        ([READ], False, ["change_and_get t"]),
        ([READ], True, ["change_and_get t", "get t"]),
        ([READ, READ], False, ["change_and_get t", "get t"]),  # its answer is for the next operation only
        ([GetRows("t", [b"s"], [CELL]), READ], False, ["change_and_get t", "get t", "get t"]),
        ([ReadClock(), READ], False, ["change_and_get t", "get t"]),
    ],
)
def test_a_read_is_sent_behind_a_conditional_change(
    prepared: RecordingStore, change: Operation, before: bytes, reads: Sequence[Operation], lost: bool, calls: list[str]
) -> None:
    class Now:
        def now(self, exact: bool = False) -> int:
            return 1

    prepared.inner.put("t", [put(b"r", before)])
    store = Following(prepared.inner)
    store.lost = lost
    found: list[Any] = []

    def protocol() -> Protocol[bool]:
        applied: bool = yield change
        for read in reads:
            found.append((yield read))
        return applied

    clock: Any = Now()
    assert drive(store, protocol(), clock) == (before == b"1")
    assert store.told() == calls
    assert found[-1][0].columns[CELL].value == (b"2" if before == b"1" else b"0")


@pytest.mark.parametrize("change", CHANGES)
def test_a_store_without_such_reads_is_asked_twice(prepared: RecordingStore, change: Operation) -> None:
    def protocol() -> Protocol[Any]:
        yield change
        return (yield READ)

    assert drive(prepared, protocol()) == [None]
    assert [call.split()[0] for call in prepared.told()] == [
        "check_and_put" if isinstance(change, CheckAndPut) else "check_and_mutate",
        "get",
    ]


def test_a_protocol_that_goes_on_after_an_error_reads_again(prepared: RecordingStore) -> None:
    class Breaking(Following):
        def get(self, table: str, rows: Sequence[bytes], columns: Sequence[bytes] = ()) -> Sequence[Row | None]:
            if self.lost:
                self.lost = False
                raise StoreUnavailable("It is away.")
            return super().get(table, rows, columns)

    found: list[Any] = []

    def protocol() -> Protocol[None]:
        yield CHANGES[0]
        found.append((yield READ))
        yield Acknowledge(["done"])

    store = Breaking(prepared.inner)
    prepared.inner.put("t", [put(b"r", b"1")])
    store.lost = True
    running = Resumable(protocol)
    with pytest.raises(StoreUnavailable):
        running.run(store)
    prepared.inner.put("t", [put(b"r", b"3", 13)])
    running.run(store)
    assert found[0][0].columns[CELL].value == b"3"


class Beginning(RecordingStore):
    """Tells when puts are begun, ended and abandoned."""

    def begin_put(self, table: str, puts: Sequence[Put]) -> BegunPut:
        self.calls.append(Call("begin", table))
        return Begun(self, table, puts)


@frozen
class Begun:
    store: Beginning
    table: str
    puts: Sequence[Put]

    def end(self) -> None:
        self.store.put(self.table, self.puts)

    def abandon(self) -> None:
        self.store.calls.append(Call("abandon", self.table))


@pytest.mark.parametrize(
    ("failing", "calls"),
    [
        (None, ["put t", "put u", "put t"]),
        ("u", ["put t", "put u", "abandon t"]),
        ("t", ["put t", "abandon u", "abandon t"]),  # once one has failed, nothing is waited for
    ],
)
def test_puts_together_are_begun_before_one_is_waited_for(
    prepared: RecordingStore, failing: str | None, calls: list[str]
) -> None:
    store = Beginning(prepared.inner)
    if failing is not None:
        store.inner.delete_table(failing)
    together = Together(
        [PutRows("t", [put(b"r", b"1")]), PutRows("u", [put(b"s", b"2")]), PutRows("t", [put(b"q", b"3")])]
    )
    if failing is None:
        perform(store, together)
        assert values(store.inner, "t", b"r", b"q") == [b"1", b"3"]
        assert values(store.inner, "u", b"s") == [b"2"]
    else:
        with pytest.raises(TableNotFound):
            perform(store, together)
    assert store.told() == ["begin t", "begin u", *calls]


def test_an_interruption_is_not_waited_for(prepared: RecordingStore) -> None:
    class Interrupted(Beginning):
        def put(self, table: str, puts: Sequence[Put]) -> None:
            super().put(table, puts)
            raise KeyboardInterrupt

    store = Interrupted(prepared.inner)
    with pytest.raises(KeyboardInterrupt):
        perform(store, Together([PutRows("t", [put(b"r", b"1")]), PutRows("u", [put(b"s", b"2")])]))
    assert store.told() == ["begin t", "put u", "abandon t"]


def test_deletes_together_follow_one_another(prepared: RecordingStore) -> None:
    store = Beginning(prepared.inner)
    perform(
        store, Together([DeleteRows("t", [Delete(b"q", timestamp=1)]), DeleteRows("u", [Delete(b"q", timestamp=1)])])
    )
    assert store.told() == ["delete t", "delete u"]


def copy(rows: Sequence[bytes]) -> Protocol[int]:
    """Copies rows from one table to the other, deletes the old ones after the acknowledgement, and counts them."""
    found = yield GetRows("t", rows, [CELL])
    copied = [put(row.row, row.columns[CELL].value) for row in found if row is not None]
    yield PutRows("u", copied)
    yield Acknowledge([p.row for p in copied])
    yield DeleteRows("t", [Delete(p.row, timestamp=10) for p in copied])
    return len(copied)


def test_drive_sends_answers_in_and_returns_the_result(prepared: RecordingStore) -> None:
    prepared.put("t", [put(b"r", b"1"), put(b"s", b"2")])
    assert drive(prepared, copy([b"r", b"s", b"x"])) == 2
    assert values(prepared, "u", b"r", b"s") == [b"1", b"2"]
    assert values(prepared, "t", b"r", b"s") == [None, None]


def test_drive_ends_with_the_first_error_and_closes_the_protocol(prepared: RecordingStore) -> None:
    store = FaultyStore(prepared, at=1)
    protocol = copy([b"r"])
    with pytest.raises(StoreUnavailable):
        drive(store, protocol)
    assert next(protocol, "closed") == "closed"

    def refuse() -> Protocol[None]:
        yield GetRows("t", [b"r"], [CELL])
        raise RowExists("There is one already.")

    with pytest.raises(RowExists):
        drive(prepared, refuse())


@pytest.mark.parametrize("at", range(3))
@pytest.mark.parametrize("mode", ["before", "after"])
def test_a_protocol_goes_on_at_the_operation_that_failed(prepared: RecordingStore, at: int, mode: Any) -> None:
    prepared.put("t", [put(b"r", b"1"), put(b"s", b"2")])
    store = FaultyStore(prepared, at, mode)
    begun: list[Protocol[int]] = []

    def begin() -> Protocol[int]:
        begun.append(copy([b"r", b"s"]))
        return begun[-1]

    running = Resumable(begin)
    with pytest.raises(UnknownOutcome if mode == "after" and at else StoreUnavailable):
        running.run(store)
    assert running.wrote == (at == 2 or (at == 1 and mode == "after"))
    assert running.outcomes == ([b"r", b"s"] if at == 2 else None)
    assert not running.finished
    running.run(store)
    assert running.finished
    assert running.outcomes == [b"r", b"s"]
    assert len(begun) == 1
    names = [call.name for call in store.calls]
    assert names == ["get", "put", "delete"][: at + 1] + ["get", "put", "delete"][at:]
    sent = [call.items for call in store.calls if call.name == "put"]
    assert sent[0] == sent[-1]
    running.run(store)  # there is nothing left to do
    assert len(store.calls) == len(names)


def test_a_protocol_with_an_error_of_its_own_is_begun_anew(prepared: RecordingStore) -> None:
    answers = iter([StoreUnavailable("The clock is away."), None])

    def begin() -> Protocol[None]:
        yield GetRows("t", [b"r"], [CELL])
        error = next(answers)
        if error is not None:
            raise error
        yield PutRows("t", [put(b"r", b"1")])
        yield Acknowledge(["done"])

    running = Resumable(begin)
    with pytest.raises(StoreUnavailable):
        running.run(prepared)
    assert not running.wrote
    running.run(prepared)
    assert running.finished
    assert running.wrote
    assert [call.name for call in prepared.calls] == ["get", "get", "put"]


def test_reading_and_acknowledging_are_no_writes(prepared: RecordingStore) -> None:
    def begin() -> Protocol[None]:
        yield GetRows("t", [b"r"], [CELL])
        yield Acknowledge([])

    running = Resumable(begin)
    running.run(prepared)
    assert running.finished
    assert not running.wrote
    assert running.outcomes == []


def test_what_an_error_leaves_open() -> None:
    unavailable, unknown = StoreUnavailable("Nobody is there."), UnknownOutcome("The connection broke.")
    puts, deletes = PutRows("t", [put(b"r", b"1")]), DeleteRows("t", [Delete(b"r")])
    assert not may_have_written(GetRows("t", [b"r"], []), unknown)
    assert not may_have_written(Acknowledge([]), KeyboardInterrupt())
    assert may_have_written(puts, unknown)
    assert may_have_written(puts, KeyboardInterrupt())
    assert not may_have_written(puts, unavailable)
    assert not may_have_written(puts, TableNotFound("There is no such table."))
    assert not may_have_written(Together([puts]), unavailable)
    assert may_have_written(Together([puts, deletes]), unavailable)  # the first may be done


@pytest.mark.parametrize(
    ("change", "rows"),
    [
        (PutRows("t", [put(b"r", b"1"), put(b"r", b"2")]), 1),
        (PutRows("t", [put(b"r", b"1"), put(b"s", b"1")]), 2),
        (DeleteRows("t", [Delete(b"r")]), 1),
        (Increment("t", b"r", CELL, 1), 1),
        (CheckAndPutRows("t", [ConditionalPut(CELL, None, put(b"r", b"1"))]), 1),
        (CheckAndPutRows("t", [ConditionalPut(CELL, None, put(row, b"1")) for row in (b"r", b"s")]), 2),
        (CheckAndMutateRows("t", [ConditionalChange(b"r", CELL, None, [put(b"r", b"1")])]), 1),
        (CheckAndMutateRows("t", [ConditionalChange(row, CELL, None, [put(row, b"1")]) for row in (b"r", b"s")]), 2),
    ],
)
def test_a_missing_family_refuses_a_change_of_one_row_as_a_whole(change: Change, rows: int) -> None:
    assert may_have_written(change, FamilyNotFound("There is no such family.")) == (rows > 1)


def test_what_fails_behind_a_checked_change_does_not_say_that_nothing_was_done() -> None:
    """A store that cannot be reached promises that nothing was done, which holds for its own call only."""

    def protocol() -> Protocol[None]:
        yield CheckAndMutate("t", b"r", b"d:a", None, [Put(b"r", {b"d:a": b"1"}, 1)])
        yield GetRows("t", [b"r"], [b"d"])

    unconfirmed = "The row was put, but the store could not be reached to confirm"
    for at, error, message in ((0, StoreUnavailable, "on purpose"), (1, UnknownOutcome, unconfirmed)):
        with hb.connect("memory:") as store:
            store.create_table("t", [Family(b"d")])
            with pytest.raises(error, match=message):
                drive(FaultyStore(store, at, "before"), protocol())  # type: ignore[arg-type]
            assert (store.get("t", [b"r"])[0] is None) == (at == 0)


class Shut:
    """A gate that is shut once it has been passed so often."""

    def __init__(self, passes: int) -> None:
        self.passes = passes

    def __call__(self) -> None:
        if not self.passes:
            raise SchemaMismatch("changed")
        self.passes -= 1


@pytest.mark.parametrize("passes", range(4))
def test_every_change_passes_the_gate(prepared: RecordingStore, passes: int) -> None:
    """The protocol receives the error at the operation that was not begun, and may continue."""
    refused: list[int] = []

    def protocol() -> Protocol[str]:
        for number in range(3):
            try:
                yield CheckAndMutate("t", b"new", b"d:%d" % number, None, [put(b"new", b"v", 10 + number)])
            except SchemaMismatch:
                refused.append(number)
                break
        yield GetRows("t", [b"new"], [])
        yield Acknowledge(["done"])
        yield PutRows("t", [put(b"after", b"v")])
        return "end"

    assert drive(prepared, protocol(), check=Shut(passes)) == "end"
    assert refused == [passes][: passes < 3]
    assert prepared.told().count("check_and_mutate t") == passes
    assert values(prepared, "t", b"after") == [b"v"]  # what follows an acknowledgement passes no gate


@pytest.mark.parametrize("resumed", [False, True])
def test_each_of_several_requests_passes_the_gate(prepared: RecordingStore, resumed: bool) -> None:
    def protocol() -> Protocol[None]:
        yield Together([DeleteRows("t", [Delete(row)]) for row in (b"x", b"y", b"z")])

    running = Resumable(protocol, check=Shut(1))
    with pytest.raises(SchemaMismatch):
        running.run(prepared) if resumed else drive(prepared, protocol(), check=Shut(2))
    assert prepared.told().count("delete t") == 2
    assert running.wrote is resumed


@pytest.mark.parametrize("resumed", [False, True])
def test_each_of_several_conditional_puts_passes_the_gate(prepared: RecordingStore, resumed: bool) -> None:
    store = Port(prepared.inner, gated=False)
    running = Resumable(several, check=Shut(1))
    with pytest.raises(SchemaMismatch):
        running.run(store) if resumed else drive(store, several(), check=Shut(2))
    assert store.told() == ["check_and_put t"] * 2
    assert running.wrote is resumed


def test_a_table_that_is_gone_was_dropped_if_the_gate_says_so(prepared: RecordingStore) -> None:
    def protocol() -> Protocol[None]:
        yield GetRows("gone", [b"r"], [])

    with pytest.raises(TableNotFound):
        drive(prepared, protocol(), check=Shut(1))
    with pytest.raises(SchemaMismatch):
        drive(prepared, protocol(), check=Shut(0))


class Stepping:
    """A clock that stands still for a number of readings."""

    def __init__(self, readings: int) -> None:
        self.readings = readings

    def now(self, *, exact: bool = False) -> int:
        self.readings -= exact
        return 5000 if self.readings >= 0 else 5001


@pytest.mark.parametrize(("readings", "warnings"), [(2, 0), (2000, 1)])
def test_a_clock_that_stands_still_is_logged_once(
    readings: int, warnings: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    waits: list[float] = []
    monkeypatch.setattr("hbmodel.protocol.driver.time.sleep", waits.append)
    clock: Any = Stepping(readings)
    with caplog.at_level("WARNING", "hbmodel"):
        await_clock(clock, 5000)
    assert waits == [0.001] * readings
    assert ["stands still at 5000 ms" in record.getMessage() for record in caplog.records] == [True] * warnings
