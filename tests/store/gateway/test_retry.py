from __future__ import annotations

import gc
import importlib
import socket
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from thriftpy2.protocol import TBinaryProtocol
from thriftpy2.thrift import TProcessor
from thriftpy2.transport import TBufferedTransport, TSocket, TTransportException

from hbmodel.errors import (
    FamilyNotFound,
    InvalidRequest,
    StoreClosed,
    StoreError,
    StoreUnavailable,
    TableExists,
    TableNotFound,
    UnknownOutcome,
)
from hbmodel.store.gateway.failures import is_passing, reason_of, store_error
from hbmodel.store.gateway.pipeline import Exchange
from hbmodel.store.gateway.pool import Pool
from hbmodel.store.gateway.retry import LEAST_TRIES, Backoff, Idempotence, RetryingCaller
from hbmodel.store.gateway.wire.gateways import Gateway, Gateways
from hbmodel.store.thrift1.store import Thrift1Store

thrift: Any = importlib.import_module("Hbase_thrift")


class Refusal(Exception):
    """An exception of a gateway."""

    def __init__(self, message: str | bytes) -> None:
        super().__init__()
        self.message = message


class Scripted:
    """A connection that does what a script says: what each request and each reply meets, `ok` by default."""

    used_at = expires_at = float("inf")

    def __init__(self, script: dict[str, list[Exception | None]], gateway: Gateway | None = None) -> None:
        self.script = script
        self.gateway = gateway or Gateway("host", 9090)
        self.sent: deque[str] = deque()
        self.log: list[str] = []
        self.closed = False

    def ready(self) -> bool:
        return not self.closed

    def close(self) -> None:
        self.closed = True

    @property
    def outstanding(self) -> int:
        return len(self.sent)

    def _meet(self, step: str) -> None:
        if (steps := self.script.get(step)) and steps[0] is not None:
            raise steps.pop(0)  # in no variable: the error holds this frame
        if steps:
            steps.pop(0)

    def send(self, api: str) -> None:
        self._meet("send")
        self.sent.append(api)
        self.log.append(f"send {api}")

    def receive(self) -> str:
        api = self.sent.popleft()
        self._meet("receive")
        self.log.append(f"receive {api}")
        return api

    def settle(self) -> None:
        self.sent.clear()


Script = dict[str, list[Exception | None]]


def caller(
    script: Script,
    attempts: int | None = 3,
    size: int = 1,
    *,
    sleep: Callable[[float], Any] = lambda seconds: None,
    patience: float = 1,
) -> tuple[RetryingCaller, list[Scripted]]:
    """A caller on scripted connections, and those that it has opened; it calls `sleep` where it would wait."""
    opened: list[Scripted] = []

    def connect() -> Scripted:
        if (steps := script.get("connect")) and (error := steps.pop(0)) is not None:
            raise error
        opened.append(Scripted(script))
        return opened[-1]

    pool: Pool[Any] = Pool(connect, size, patience)
    return RetryingCaller(pool, Backoff(attempts, sleep=sleep), (Refusal,)), opened


def once(connection: Any) -> Any:
    connection.send("call")
    return connection.receive()


NOT_SENT, LOST = StoreUnavailable("not sent"), UnknownOutcome("lost")
MOVED = Refusal("org.apache.hadoop.hbase.NotServingRegionException: t\n\tat java")


@pytest.mark.parametrize("effect", list(Idempotence))
def test_what_was_not_sent_is_sent_again_whatever_it_does(effect: Idempotence) -> None:
    waits: list[float] = []
    caller_, opened = caller({"connect": [NOT_SENT], "send": [NOT_SENT]}, sleep=waits.append)
    assert caller_.run(effect, once) == "call"
    assert len(waits) == 2
    assert [connection.closed for connection in opened] == [True, False]


@pytest.mark.parametrize("effect", [Idempotence.NONE, Idempotence.SAME])
@pytest.mark.parametrize("failure", [LOST, MOVED])
def test_what_may_be_repeated_is(effect: Idempotence, failure: Exception) -> None:
    waits: list[float] = []
    caller_, _ = caller({"receive": [failure, failure]}, sleep=waits.append)
    assert caller_.run(effect, once) == "call"
    assert len(waits) == 2


@pytest.mark.parametrize("alone", [True, False])
def test_a_gateway_that_cannot_do_it_now_is_left_if_there_is_another(alone: bool) -> None:
    caller_, opened = caller({"receive": [MOVED, MOVED]})
    if not alone:
        gateways = Gateways([Gateway("one", 1), Gateway("other", 2)])
        script: Script = {"receive": [MOVED, MOVED]}

        def connect(gateway: Gateway) -> Any:
            opened.append(Scripted(script, gateway))
            return opened[-1]

        pool: Pool[Any] = Pool(lambda: gateways.connect(connect), 1, 1)
        caller_ = RetryingCaller(pool, Backoff(3, sleep=lambda seconds: None), (Refusal,))
    assert caller_.run(Idempotence.NONE, once) == "call"
    hosts = [connection.gateway.host for connection in opened]
    assert len(hosts) == (1 if alone else 3)
    if not alone:
        assert hosts[0] == hosts[2] != hosts[1]
        assert [connection.closed for connection in opened] == [True, True, False]


@pytest.mark.parametrize("failure", [LOST, MOVED])
def test_what_counts_anew_is_never_repeated(failure: Exception) -> None:
    waits: list[float] = []
    caller_, opened = caller({"receive": [failure]}, sleep=waits.append)
    with pytest.raises(UnknownOutcome) as caught:
        caller_.run(Idempotence.ANEW, once, table="t")
    assert caught.value.table == "t"
    assert sum(connection.log.count("send call") for connection in opened) == 1
    assert waits == []


@pytest.mark.parametrize(
    ("effect", "script", "outcome"),
    [
        (Idempotence.NONE, {"receive": [LOST] * 3}, StoreUnavailable),
        (Idempotence.NONE, {"connect": [NOT_SENT] * 3}, StoreUnavailable),
        (Idempotence.SAME, {"receive": [LOST] * 3}, UnknownOutcome),
        (Idempotence.SAME, {"receive": [MOVED] * 3}, UnknownOutcome),
        (Idempotence.SAME, {"connect": [NOT_SENT] * 3}, StoreUnavailable),
        # One request may have arrived, whatever came of the later ones.
        (Idempotence.SAME, {"connect": [None, NOT_SENT, NOT_SENT], "receive": [LOST]}, UnknownOutcome),
        (Idempotence.ANEW, {"send": [NOT_SENT] * 3}, StoreUnavailable),
        (Idempotence.ANEW, {"send": [NOT_SENT, None], "receive": [LOST]}, UnknownOutcome),
    ],
)
def test_what_is_raised_in_the_end(effect: Idempotence, script: Script, outcome: type[StoreError]) -> None:
    caller_, _ = caller(script)
    with pytest.raises(StoreError) as caught:
        caller_.run(effect, once)
    assert type(caught.value) is outcome


def test_a_refusal_is_told_at_once_and_keeps_the_connection() -> None:
    waits: list[float] = []
    caller_, opened = caller({"receive": [Refusal("java.io.IOException: no\n\tat java")]}, sleep=waits.append)
    with pytest.raises(StoreError, match="HBase refused the request") as caught:
        caller_.run(Idempotence.NONE, once, table="t")
    assert (caught.value.reason, caught.value.table) == ("java.io.IOException: no", "t")
    assert waits == []
    assert caller_.run(Idempotence.NONE, once) == "call"
    assert len(opened) == 1


@given(st.integers(1, 8), st.floats(0.01, 1), st.floats(0.01, 3))
def test_waits_double_up_to_a_cap_with_at_most_half_left_out(attempts: int, first: float, cap: float) -> None:
    for retry, wait in enumerate(waited := list(Backoff(attempts, first, cap).waits())):
        longest = min(cap, first * 2**retry)
        assert longest / 2 <= wait <= longest
    assert len(waited) == attempts - 1


def test_trying_ends_after_a_time_from_the_first_failure_but_never_before_the_least_tries() -> None:
    now = 1000.0

    def clock() -> float:
        return now

    for retry_for, took, expected in ((30.0, 3.0, 10), (30.0, 60.0, LEAST_TRIES - 1), (0.0, 0.0, LEAST_TRIES - 1)):
        waits = Backoff(retry_for=retry_for, now=clock).waits()
        now += 100  # nothing has failed yet
        found = 0
        while next(waits, None) is not None:
            found += 1
            now += took
        assert found == expected


@pytest.mark.parametrize(
    ("retry_for", "took", "expected"), [(30, 0, 5), (30, 6, 5), (30, 12, 4), (30, 30, 2), (0, 0, 2), (30, 60, 2)]
)
def test_a_gateway_that_never_answered_is_given_up_sooner(retry_for: float, took: float, expected: int) -> None:
    now, tries = 1000.0, 0
    waits: list[float] = []

    def call(_: Any) -> None:
        nonlocal now, tries
        now, tries = now + took, tries + 1
        raise UnknownOutcome("It did not answer in time.")

    pool: Pool[Any] = Pool(lambda: Scripted({}), 1, 1, reached=lambda: False)
    backoff = Backoff(retry_for=retry_for, sleep=waits.append, now=lambda: now)
    with pytest.raises(StoreUnavailable):
        RetryingCaller(pool, backoff, (Refusal,)).run(Idempotence.NONE, call)
    assert tries == expected
    assert len(waits) == expected - 1


def test_a_call_that_waits_lets_others_have_its_turn() -> None:
    meanwhile: list[str] = []
    caller_, opened = caller(
        {"receive": [UnknownOutcome("lost")]}, sleep=lambda _: meanwhile.append(caller_.run(Idempotence.ANEW, once))
    )
    assert caller_.run(Idempotence.NONE, once) == "call"
    assert meanwhile == ["call"]
    assert len(opened) == 2  # a pool of one


@pytest.mark.parametrize(
    ("effect", "failure", "outcome"),
    [
        (Idempotence.SAME, LOST, UnknownOutcome),
        (Idempotence.SAME, NOT_SENT, StoreClosed),
        (Idempotence.NONE, LOST, StoreClosed),
    ],
)
def test_a_store_that_is_closed_meanwhile_does_not_hide_a_doubt(
    effect: Idempotence, failure: Exception, outcome: type[StoreError]
) -> None:
    caller_, _ = caller({"receive" if failure is LOST else "send": [failure]}, sleep=lambda _: caller_._pool.close())
    with pytest.raises(outcome) as caught:
        caller_.run(effect, once)
    assert type(caught.value) is outcome


def test_a_turn_that_does_not_come_again_does_not_hide_a_doubt() -> None:
    held: list[Any] = []
    for effect, outcome in ((Idempotence.SAME, UnknownOutcome), (Idempotence.NONE, StoreUnavailable)):
        caller_, _ = caller({"receive": [LOST]}, sleep=lambda _: held.append(caller_._pool.lease()), patience=0.01)  # noqa: B023
        with pytest.raises(outcome, match="larger pool") as caught:
            caller_.run(effect, once)
        assert type(caught.value) is outcome


def test_a_call_that_was_repeated_is_not_left_to_the_garbage_collector() -> None:
    caller_, _ = caller({"receive": [UnknownOutcome("lost")]})

    def call(connection: Any) -> Any:
        return once(connection)

    known = weakref.ref(call)
    gc.disable()
    try:
        assert caller_.run(Idempotence.NONE, call) == "call"
        del call
        assert known() is None
    finally:
        gc.enable()


# --- exchanges --------------------------------------------------------------------------------------------------------


def requests(count: int) -> Iterator[tuple[str, dict[str, Any]]]:
    return ((f"r{number}", {}) for number in range(count))


def test_some_requests_are_sent_ahead() -> None:
    connection: Any = Scripted({})
    assert Exchange(requests(4), ahead=2)(connection) == ["r0", "r1", "r2", "r3"]
    assert connection.log == [
        "send r0",
        "send r1",
        "receive r0",
        "send r2",
        "receive r1",
        "send r3",
        "receive r2",
        "receive r3",
    ]


@given(
    st.integers(0, 6),
    st.lists(st.tuples(st.sampled_from(["send", "receive"]), st.integers(0, 5)), max_size=3),
    st.integers(1, 3),
)
def test_an_exchange_goes_on_behind_what_was_acknowledged(
    count: int, failures: list[tuple[str, int]], ahead: int
) -> None:
    exchange = Exchange(requests(count), ahead)
    acknowledged: list[str] = []
    for step, position in [*failures, ("none", 0)]:
        connection: Any = Scripted({step: [*[None] * position, NOT_SENT if step == "send" else LOST]})
        outcome: BaseException | None = None
        try:
            replies = exchange(connection)
        except (StoreUnavailable, UnknownOutcome) as error:
            outcome = error
        if outcome is None:
            assert replies == [f"r{number}" for number in range(count)]
            return
        received = [entry for entry in connection.log if entry.startswith("receive")]
        sent = [entry for entry in connection.log if entry.startswith("send")]
        assert not set(acknowledged) & set(received)
        acknowledged += received
        # "Certainly not done" may be said only where nothing is under way or done.
        assert isinstance(outcome, UnknownOutcome) or not (sent or acknowledged)
    raise AssertionError("never finished")


def test_a_begun_exchange_is_ended_on_its_connection() -> None:
    caller_, opened = caller({}, size=2)
    exchange = Exchange(requests(3), ahead=2)
    begun = caller_.begin(exchange)
    assert begun is not None
    assert opened[0].log == ["send r0", "send r1"]
    assert not exchange.repeats
    assert caller_.run(Idempotence.SAME, once) == "call"
    assert opened[1].log == ["send call", "receive call"]
    assert caller_.run(Idempotence.SAME, exchange, begun) == ["r0", "r1", "r2"]
    assert opened[0].log == ["send r0", "send r1", "receive r0", "send r2", "receive r1", "receive r2"]
    assert caller_._pool.lease_spare() is not None  # its own was released


@pytest.mark.parametrize("script", [{"connect": [NOT_SENT]}, {"send": [NOT_SENT]}])
def test_what_could_not_be_begun_is_done_when_it_is_run(script: Script) -> None:
    waits: list[float] = []
    caller_, opened = caller(script, size=2, sleep=waits.append)
    exchange = Exchange(requests(2))
    assert caller_.begin(exchange) is None
    assert all(connection.closed for connection in opened)
    assert caller_.run(Idempotence.SAME, exchange, None) == ["r0", "r1"]
    assert waits == []


def test_nothing_is_begun_without_a_connection_to_spare() -> None:
    caller_, opened = caller({})
    assert caller_.begin(Exchange(requests(2))) is None
    assert opened == []


@pytest.mark.parametrize("script", [{"receive": [LOST]}, {"send": [None, NOT_SENT]}])
@pytest.mark.parametrize("back", [True, False])
def test_what_breaks_after_it_was_begun_is_in_doubt(script: Script, back: bool) -> None:
    caller_, opened = caller({**{step: list(steps) for step, steps in script.items()}, "connect": [None]}, size=2)
    exchange = Exchange(requests(2))
    begun = caller_.begin(exchange)
    assert begun is not None
    if "send" in script:  # as a broken connection does
        opened[0].script["receive"] = [LOST]
    if back:
        assert caller_.run(Idempotence.SAME, exchange, begun) == ["r0", "r1"]
        assert [connection.closed for connection in opened] == [True, False]
        return
    opened[0].script["connect"] = [NOT_SENT] * 9
    with pytest.raises(UnknownOutcome):
        caller_.run(Idempotence.SAME, exchange, begun)


def test_a_request_that_cannot_be_written_gives_its_connection_back() -> None:
    caller_, opened = caller({"send": [InvalidRequest("It does not fit.")]}, size=2)
    with pytest.raises(InvalidRequest):
        caller_.begin(Exchange(requests(1)))
    assert opened[0].closed
    assert caller_._pool.lease_spare() is not None


def test_what_an_http_server_did_not_take_is_in_doubt_when_others_before_it_are_done() -> None:
    connection: Any = Scripted({"receive": [None, StoreUnavailable("HTTP 429")]})
    with pytest.raises(UnknownOutcome, match="429"):
        Exchange(requests(2))(connection)
    connection = Scripted({"receive": [StoreUnavailable("HTTP 429")]})
    with pytest.raises(StoreUnavailable):
        Exchange(requests(1))(connection)


def test_replies_left_over_from_a_refusal_are_not_taken_for_others() -> None:
    connection: Any = Scripted({"receive": [MOVED]})
    exchange = Exchange(requests(3))
    with pytest.raises(Refusal):
        exchange(connection)
    assert exchange.repeats
    assert exchange(connection) == ["r0", "r1", "r2"]


# --- meanings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("org.apache.hadoop.hbase.TableNotFoundException: t\n\tat x", TableNotFound),
        (
            "org.apache.hadoop.hbase.client.RetriesExhaustedWithDetailsException: Failed 1 action: "
            "x.NoSuchColumnFamilyException: y",
            FamilyNotFound,
        ),
        ("org.apache.hadoop.hbase.TableExistsException: t", TableExists),
        ("x.DoNotRetryIOException: Field is not a long, it's 3 bytes wide", InvalidRequest),
        ("java.io.IOException: something else\n\tat java", StoreError),
        ("Invalid method name: 'getMultiple'", StoreError),
    ],
)
def test_java_exceptions_become_errors_of_this_library(message: str, kind: type[StoreError]) -> None:
    for text in (message, message.encode()):
        failure = Refusal(text)
        assert type(store_error(failure)) is kind
        assert not is_passing(failure)
        assert reason_of(failure) == message.partition("\n")[0]


def test_passing_conditions_are_known_by_name() -> None:
    assert is_passing(Refusal("org.apache.hadoop.hbase.RegionTooBusyException: memstore\n\tat x"))
    assert is_passing(
        Refusal("org.apache.hadoop.hbase.client.RetriesExhaustedException: y\nCaused by: java.net.ConnectException")
    )
    # What the gateways of HBase 2.3 answer, which do not say that a call can be retried.
    assert is_passing(Refusal("Cannot get the location for replica0 of region for 04- in rows"))
    assert is_passing(Refusal("Failed 1 action: LockTimeoutException: 1 time, servers with issues: null"))
    assert not is_passing(Refusal("org.apache.hadoop.hbase.TableNotEnabledException: t is disabled."))
    assert not is_passing(Refusal(""))


ATTEMPT = (
    "2026-11-26T20:54:51.516Z, RpcRetryingCaller{globalStartTime=2026-11-26T20:54:20.711Z, pause=100, maxAttempts=2}, "
)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (
            f"x.RetriesExhaustedException: Failed after attempts=2, exceptions:\n{ATTEMPT}a.B: one\n{ATTEMPT}a.C: two\n"
            "\n\tat y",
            "a.C: two",
        ),
        (f"Failed after attempts=2, exceptions:\n{ATTEMPT}a.B: one\n{ATTEMPT}a.C: two\n\n", "a.C: two"),
        ("Failed after attempts=1, exceptions:\n2026-11-26T20:54:51.516Z, a.C: two\n\tat y", "a.C: two"),
    ],
)
def test_the_reason_quotes_what_the_last_attempt_met(message: str, reason: str) -> None:
    found = reason_of(Refusal(message))
    assert found == message.partition("\n")[0] + " " + reason


def test_a_list_of_attempts_may_be_empty() -> None:
    assert reason_of(Refusal("Failed after attempts=0, exceptions:\n")) == "Failed after attempts=0, exceptions:"
    assert reason_of(Refusal("")) == ""


@pytest.mark.parametrize(
    "message",
    [
        "x.DoNotRetryIOException: Zookeeper LIST could not be completed in 10000 ms",
        "java.io.IOException: Failed to get result within timeout, timeout=60000ms",
    ],
)
@pytest.mark.parametrize(("effect", "kind"), [(Idempotence.ANEW, UnknownOutcome), (Idempotence.NONE, StoreUnavailable)])
def test_a_cluster_that_does_not_answer_the_gateway_refuses_nothing(
    message: str, effect: Idempotence, kind: type[StoreError]
) -> None:
    """An attempt before the one that failed in this way may have been carried out."""
    caller_, _ = caller({"receive": [Refusal(message)] * 3})
    with pytest.raises(kind) as caught:
        caller_.run(effect, once)
    assert caught.value.reason == message


# --- a gateway of our own ---------------------------------------------------------------------------------------------


class LargeRows:
    """Answers as a gateway does: one request after the other; the next request is read when the last reply
    is written.
    """

    def getRowsWithColumns(self, tableName: bytes, rows: list[bytes], columns: object, attributes: object) -> list[Any]:
        cell = thrift.TCell(value=bytes(300_000), timestamp=1)
        return [thrift.TRowResult(row=row, columns={b"d:a": cell}) for row in rows]


@pytest.fixture
def narrow_gateway() -> Iterator[int]:
    """The port of a gateway with little room for requests that it has not read."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)

        def serve() -> None:
            connection, _ = listener.accept()
            with connection, suppress(TTransportException, OSError):
                protocol = TBinaryProtocol(TBufferedTransport(TSocket(sock=connection)), decode_response=False)
                processor = TProcessor(thrift.Hbase, LargeRows())
                while True:
                    processor.process(protocol, protocol)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        thread.join(10)


def test_requests_sent_ahead_never_wait_for_replies_that_nobody_reads(narrow_gateway: int) -> None:
    keys = [b"%03d" % number + bytes(32_000) for number in range(100)]
    with Thrift1Store("127.0.0.1", narrow_gateway, timeout=5, attempts=1) as store:
        with store._pool.lease() as lease:  # little room on this side too, as on a slow network
            lease.connection()._socket.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 64 * 1024)
        assert [row and row.row for row in store.get("t", keys)] == keys
