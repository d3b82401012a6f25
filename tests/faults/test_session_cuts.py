"""Every call of a session to HBase is broken: a commit can be continued, an index is never wrong, and a page is correct
or raises an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import count
from typing import Any
from uuid import uuid4

import pytest
from attrs import frozen

import hbmodel as hb
from tests.support.beds import Bed, cells_of, drop_left
from tests.support.cutting_proxy import FAULTS, CuttingProxy, Fault
from tests.support.faulty import RecordingStore
from tests.support.gateway_tables import gateway_store, short_sleep
from tests.support.models import Order, order
from tests.support.scenarios import SCENARIOS, check_exact, check_queries, key_of, objects
from tests.support.slow_machines import lives_for

pytestmark = pytest.mark.hbase

COMMITS = ["batch", "unindexed batch", "delete over two families", "random salt add"]
AT_ONCE = ["insert", "unindexed insert"]

SILENCE = 0.3
"""Seconds to wait for a silent gateway."""


@frozen(eq=False)
class Cut:
    """A bed, and a proxy through which to use its HBase."""

    bed: Bed
    proxy: CuttingProxy
    prefix: str

    def through(self, fault: Fault, lasting: bool, pool: int) -> hb.Store:
        """Another store on the same tables, that the fault meets."""
        patience = f"timeout={SILENCE if fault == 'silent' else 10}{'&attempts=2' if lasting else ''}"
        return gateway_store(
            f"{self.proxy.url}?table_prefix={self.prefix}&pool={pool}&retry_for=0&{patience}", sleep=short_sleep
        )

    def tables(self, model: type[Any]) -> dict[str, Any]:
        """Every cell of a model's tables."""
        schema = hb.schema.schema_of(model)
        return {
            table: cells_of(self.bed.store, table)
            for table in (schema.table, *(index.table for index in schema.indexes.values()))
        }


@pytest.fixture(scope="module", params=["thrift1", "thrift2"])
def bed_and_url(request: pytest.FixtureRequest) -> Iterator[tuple[Bed, str, str]]:
    hbase = request.getfixturevalue("hbmodel_hbase")
    url = hbase.url if request.param == "thrift1" else hbase.thrift2_url
    prefix = f"t{uuid4().hex[:8]}"
    with hb.connect(f"{url}?table_prefix={prefix}") as store:
        yield Bed(request.param, RecordingStore(store)), url, prefix
        drop_left(store)


@pytest.fixture
def cut(bed_and_url: tuple[Bed, str, str]) -> Iterator[Cut]:
    bed, url, prefix = bed_and_url
    with CuttingProxy(url) as proxy:
        yield Cut(bed, proxy, prefix)


def faults_at(at: int, full: bool) -> Iterator[tuple[Fault, bool]]:
    """The faults to try at a request, each with whether it lasts: all, or one of them, which lasts at every second
    request that is tried.
    """
    turn = at if full else at // 2
    for number, fault in enumerate(FAULTS):
        for lasting in (False, True):
            if full or (number == (turn // 2 + 3 * lasting) % len(FAULTS) and lasting == turn % 2):
                yield fault, lasting
    if full or turn % 3 == 0:
        yield "gone", True


def try_one(
    cut: Cut, attempt: Callable[[hb.Store, Fault], None], fault: Fault, at: int, lasting: bool, pool: int
) -> bool:
    """Tries something with one fault; returns whether the fault happened."""
    with cut.through(fault, lasting, pool) as store:
        cut.proxy.arm(fault, at, lasting=lasting)
        try:
            attempt(store, fault)
        except BaseException as error:
            error.add_note(f"{fault} at request {at}{' and all that follow' if lasting else ''}")
            raise
        finally:
            cut.proxy.disarm()
        return cut.proxy.fired


def try_all(cut: Cut, model: type[Any], full: bool, attempt: Callable[[hb.Store, Fault], None]) -> None:
    """Tries something with faults at its requests, one after the other: at every one, or at every second one of each
    gateway, which take turns.
    """
    first, step = (0, 1) if full else (int(cut.bed.atomic), 2)
    for at in count(first, step):
        fired = False
        for number, (fault, lasting) in enumerate(faults_at(at, full)):
            # a slow machine may be taken to be silent
            tried = lives_for(SILENCE)(try_one) if fault == "silent" else try_one
            fired |= tried(cut, attempt, fault, at, lasting, pool=(at // 2 + number) % 2 * 3 + 1)
        if not fired:
            assert at >= 2
            return


def settled(cut: Cut, model: type[Any], fault: Fault) -> None:
    """No request to a silent gateway is still in progress."""
    if fault == "silent":
        before = None
        while before != (before := cut.tables(model)):
            pass


def check_told(error: hb.PartialWrite, count: int) -> None:
    """Every call is either applied or pending."""
    assert len(error.applied) + len(error.pending) == count
    assert not error.failures


def check_certain(error: hb.PartialWrite, found: Mapping[Any, Any]) -> None:
    """The objects that a load of the scenario's orders reports as written are written."""
    assert error.position in {0, 3, 6}
    for number in (7, 8, 1, 2, 9, 4, 5)[: error.position]:
        written = order(number, "loaded", customer=number % 3, amount=number)
        assert found[key_of(written)] == written


some_or_all = pytest.mark.parametrize("full", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["some", "all"])


@some_or_all
@pytest.mark.parametrize("name", COMMITS)
def test_a_commit_can_go_on_after_a_fault_at_any_call(cut: Cut, name: str, full: bool) -> None:
    scenario = SCENARIOS[name]
    with hb.connect("memory:") as memory:
        hb.create_tables(memory, scenario.model)
        scenario.begin(memory)
        asked = scenario.run(hb.Session(memory))
        after = objects(memory, scenario.model)

    def attempt(store: hb.Store, fault: Fault) -> None:
        cut.bed.use(scenario.model)
        scenario.begin(cut.bed.store)
        before = cut.tables(scenario.model)
        session = hb.Session(store)
        outcomes = None
        try:
            outcomes = scenario.run(session)
        except hb.PartialWrite as error:
            check_told(error, len(asked))
        except hb.StoreUnavailable:
            assert cut.tables(scenario.model) == before
        check_queries(cut.bed.store, scenario.model)
        cut.proxy.disarm()
        if outcomes is None:
            outcomes = session.commit(resend=True)
        assert [outcome.action for outcome in outcomes] == [outcome.action for outcome in asked]
        assert session.commit() == []  # which deletes old index entries that could not be deleted
        assert objects(cut.bed.store, scenario.model) == after
        check_exact(cut.bed.store, scenario.model)

    try_all(cut, scenario.model, full, attempt)


@pytest.mark.parametrize(
    ("name", "full"),
    [
        *((name, False) for name in AT_ONCE),
        *(pytest.param(name, True, marks=pytest.mark.slow) for name in (*AT_ONCE, "load")),
    ],
)
def test_what_runs_at_once_is_done_or_not_and_can_be_repeated(cut: Cut, name: str, full: bool) -> None:
    scenario = SCENARIOS[name]
    if scenario.atomic and not cut.bed.atomic:
        with pytest.raises(hb.CapabilityError):
            scenario.run(cut.bed.use(scenario.model))
        return
    with hb.connect("memory:") as memory:
        hb.create_tables(memory, scenario.model)
        scenario.begin(memory)
        states = scenario.states(memory)

    def attempt(store: hb.Store, fault: Fault) -> None:
        cut.bed.use(scenario.model)
        scenario.begin(cut.bed.store)
        before = cut.tables(scenario.model)
        done = False
        try:
            scenario.run(hb.Session(store))
            done = True
        except hb.StoreUnavailable:
            if name != "insert":  # whose entries may stand before its row, where readers pass them over
                assert cut.tables(scenario.model) == before
            assert objects(cut.bed.store, scenario.model) == states[0]
        except hb.PartialWrite as error:
            check_certain(error, objects(cut.bed.store, scenario.model))
        except hb.UnknownOutcome:
            assert objects(cut.bed.store, scenario.model) in states
        if done:
            assert objects(cut.bed.store, scenario.model) == states[-1]
        check_queries(cut.bed.store, scenario.model, states[-1].values())
        cut.proxy.disarm()
        settled(cut, scenario.model, fault)
        with suppress(hb.RowExists):
            scenario.run(hb.Session(store))
        assert objects(cut.bed.store, scenario.model) == states[-1]
        check_queries(cut.bed.store, scenario.model, states[-1].values())

    try_all(cut, scenario.model, full, attempt)


@some_or_all
def test_pages_are_right_whatever_breaks_on_the_way(cut: Cut, full: bool) -> None:
    with cut.bed.use(Order) as session:
        session.add_all(order(n, "odd" if n % 2 else "even", customer=n % 4, amount=n) for n in range(40))
    queries: list[Callable[[hb.Session], hb.Query[Order]]] = [
        lambda session: session.query(Order).where(Order.state == "odd").use_index("by_state"),
        lambda session: session.query(Order).where(Order.customer.in_([0, 1])).reversed().use_index("primary"),
    ]
    for query in queries:
        expected = query(hb.Session(cut.bed.store)).all()

        def attempt(store: hb.Store, fault: Fault, query: Any = query, expected: Any = expected) -> None:
            session = hb.Session(store)
            found: list[Order] = []
            token: str | None = None
            try:
                for size in (7, 9):
                    page = query(session).page(size, after=token)
                    found += page.items
                    token = page.next_token
                assert found == expected[:16]
            except hb.StoreUnavailable:
                assert cut.proxy.fired
                assert found == expected[: len(found)]

        try_all(cut, Order, full, attempt)
