"""Writes that crash or fail at every storage call: readers see old or new rows, indexes never lack a row, and commits
can be continued.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import count
from typing import Any

import pytest

import hbmodel as hb
from hbmodel.store import Delete, Put
from hbmodel.store.clock_tick import let_tick_pass
from tests.support.beds import Bed, cells_of
from tests.support.examples import SHARE
from tests.support.faulty import Call, Crash, FaultyStore, Mode, RecordingStore, failures_of, is_repetition
from tests.support.scenarios import SCENARIOS, Scenario, check_exact, check_queries, objects

CASES = [
    pytest.param(name, limited, id=f"{name}{' without atomic rows' if limited else ''}")
    for name, scenario in SCENARIOS.items()
    for limited in (False, True)
    if scenario.lone_delete or not limited
]


def prepared(scenario: Scenario) -> hb.Store:
    """A store with the tables and the seed of a scenario."""
    store = hb.connect("memory:")
    hb.create_tables(store, scenario.model, create_external=True)
    scenario.begin(store)
    let_tick_pass()  # a row written in the same millisecond would be asked for its time once more
    return store


def interruptions(scenario: Scenario, limited: bool = False, gated: bool = True) -> list[tuple[int, Mode]]:
    """Every call of the uninterrupted scenario, each with what may be carried out of it."""
    with prepared(scenario) as store:
        watched = RecordingStore(store, limited=limited, gated=gated)
        scenario.run(hb.Session(watched))
    return failures_of(watched.calls)


def check_rows(found: dict[Any, Any], states: list[dict[Any, Any]]) -> None:
    """Every row must be as it was before or after one of the steps."""
    for key in {*found, *(key for state in states for key in state)}:
        assert found.get(key) in [state.get(key) for state in states]


@pytest.mark.lengthy
@pytest.mark.parametrize(("name", "limited"), CASES)
def test_a_crash_at_any_call(name: str, limited: bool) -> None:
    scenario = SCENARIOS[name]
    with prepared(scenario) as store:
        states = scenario.states(store)
    met = 0
    for at, mode in interruptions(scenario, limited):
        if is_repetition(at, mode):
            continue
        with prepared(scenario) as store:
            crashing = FaultyStore(store, at, mode, crash=True, limited=limited)
            with pytest.raises(Crash):
                scenario.run(hb.Session(crashing))
            assert len(crashing.calls) == at + 1
            check_rows(objects(store, scenario.model), states)
            check_queries(store, scenario.model, [obj for state in states for obj in state.values()])
            # Whoever comes next and writes the same finds nothing in the way.
            with suppress(hb.RowExists):
                scenario.run(hb.Session(RecordingStore(store, limited=limited)))
            assert objects(store, scenario.model) == states[-1]
            met += 1
    assert met >= 2


def attempt(session: hb.Session, scenario: Scenario) -> tuple[list[hb.Outcome] | None, hb.HbmodelError | None]:
    """The outcomes of a scenario, or the error that stopped it."""
    try:
        return scenario.run(session), None
    except hb.HbmodelError as error:
        return None, error


def timestamps(calls: list[Call]) -> dict[tuple[str, bytes], set[int | None]]:
    """The timestamps of the puts to each row, the registry left out."""
    found: dict[tuple[str, bytes], set[int | None]] = {}
    for call in calls:
        if call.name in {"put", "mutate_row"} and call.table != "hbmodel":
            puts = call.items if call.name == "put" else [m for m in call.items[0] if isinstance(m, Put)]
            for put in puts:
                found.setdefault((call.table, put.row), set()).add(put.timestamp)
    return found


@pytest.mark.lengthy
@pytest.mark.parametrize(("name", "limited"), [case for case in CASES if not SCENARIOS[case.values[0]].at_once])
def test_a_failure_at_any_call_and_another_commit(name: str, limited: bool, caplog: pytest.LogCaptureFixture) -> None:
    scenario = SCENARIOS[name]
    with prepared(scenario) as store:
        watched = RecordingStore(store, limited=limited)
        asked = scenario.run(hb.Session(watched))
        after = objects(store, scenario.model)
        versions = {row: len(times) for row, times in timestamps(watched.calls).items()}
    for at, mode in interruptions(scenario, limited):
        with prepared(scenario) as store:
            before = objects(store, scenario.model)
            failing = FaultyStore(store, at, mode, limited=limited)
            session = hb.Session(failing)
            outcomes, error = attempt(session, scenario)
            if isinstance(error, hb.PartialWrite):
                assert isinstance(error.__cause__, hb.StoreError)
                assert len(error.applied) + len(error.pending) == len(asked)
                check_applied(store, scenario, error)
            elif error is not None:
                assert isinstance(error, hb.StoreError)
                assert objects(store, scenario.model) == before
                assert not any(call.writes for call in failing.calls[:at] if call.table != "hbmodel")
            elif failing.calls[at].table != "hbmodel":  # the server's clock was asked once more
                # Only index entries may be left to verify or delete once everything is acknowledged.
                assert failing.calls[at].name in {"put", "delete"}
                assert failing.calls[at].table in {
                    index.table for index in hb.schema.schema_of(scenario.model).indexes.values()
                }
                assert "could not be brought up to date" in caplog.text
            check_queries(store, scenario.model)
            if outcomes is None:
                outcomes = session.commit(resend=True)
            assert [outcome.action for outcome in outcomes] == [outcome.action for outcome in asked]
            assert session.commit() == []
            assert objects(store, scenario.model) == after
            check_exact(store, scenario.model)
            # What was sent before the failure was sent again as it was.
            if not any(call.name == "delete" for call in failing.calls[at:][:1]) and scenario.model.__name__ != "Hit":
                assert {row: len(times) for row, times in timestamps(failing.calls).items()} == versions


def check_applied(store: hb.Store, scenario: Scenario, error: hb.PartialWrite) -> None:
    """Writes that are reported as applied are applied: the row has the cells of the write."""
    found = cells_of(store, hb.schema.schema_of(scenario.model).table)
    live = {row for row, cells in found.items() if hb.decode(scenario.model, _row(store, scenario, row)) is not None}
    last = {outcome.key: outcome.action for outcome in error.applied}
    pending_rows = {_row_key(scenario, subject) for subject in error.pending}
    for key, action in last.items():
        if key not in pending_rows:
            assert (key in live) == (action in {"put", "superseded"})


def _row(store: hb.Store, scenario: Scenario, row: bytes) -> Any:
    (found,) = store.get(hb.schema.schema_of(scenario.model).table, [row])
    return found


def _row_key(scenario: Scenario, subject: Any) -> bytes | None:
    schema = hb.schema.schema_of(scenario.model)
    if schema.salt.random:
        return None
    key = subject if isinstance(subject, dict) else {name: getattr(subject, name) for name in schema.layout.names}
    return hb.row_key(scenario.model, **key)


@pytest.mark.lengthy
@pytest.mark.parametrize("name", ["batch", "add over a deleted row", "unindexed batch"])
def test_a_store_that_stays_away_for_a_while(name: str) -> None:
    scenario = SCENARIOS[name]
    with prepared(scenario) as store:
        scenario.run(hb.Session(store))
        after = objects(store, scenario.model)
    for at, mode in interruptions(scenario):
        with prepared(scenario) as store:
            failing = FaultyStore(store, at, mode, times=3)
            session = hb.Session(failing)
            for step in scenario.steps:
                step(session)
            for tries in count():
                try:
                    session.commit(resend=True)
                    break
                except hb.HbmodelError:
                    assert tries < 3
            assert objects(store, scenario.model) == after
            check_queries(store, scenario.model)


@pytest.mark.lengthy
@pytest.mark.parametrize("name", ["batch", "add over a deleted row", "unindexed batch"])
def test_an_interrupt_at_any_call_and_another_commit(name: str) -> None:
    scenario = SCENARIOS[name]
    with prepared(scenario) as store:
        scenario.run(hb.Session(store))
        after = objects(store, scenario.model)
    for at, mode in interruptions(scenario):
        with prepared(scenario) as store:
            session = hb.Session(FaultyStore(store, at, mode, crash=True))
            with pytest.raises(Crash):
                scenario.run(session)
            session.commit(resend=True)
            assert objects(store, scenario.model) == after
            check_exact(store, scenario.model)


@pytest.mark.lengthy
@pytest.mark.parametrize("name", [name for name, scenario in SCENARIOS.items() if scenario.at_once])
def test_a_failure_of_a_call_that_runs_at_once(name: str) -> None:
    scenario = SCENARIOS[name]
    with prepared(scenario) as store:
        states = scenario.states(store)
    for at, mode in interruptions(scenario):
        with prepared(scenario) as store:
            session = hb.Session(FaultyStore(store, at, mode))
            _, error = attempt(session, scenario)
            assert isinstance(error, hb.StoreError | hb.PartialWrite | None)
            check_rows(objects(store, scenario.model), states)
            check_queries(store, scenario.model)
            if isinstance(error, hb.PartialWrite):
                loaded = {order.number for order in objects(store, scenario.model).values() if order.state == "loaded"}
                assert loaded >= set((7, 8, 1, 2, 9, 4, 5)[: error.position])
            if error is not None:
                with suppress(hb.RowExists):
                    scenario.run(session)
            assert objects(store, scenario.model) == states[-1]


def test_old_entries_that_could_not_be_deleted_go_with_the_next_commit() -> None:
    scenario = SCENARIOS["update indexed"]
    with prepared(scenario) as store:
        at = next(at for at, call in enumerate(_calls(scenario)) if call.name == "delete")
        session = hb.Session(FaultyStore(store, at, times=2))
        scenario.run(session)
        with pytest.raises(AssertionError):
            check_exact(store, scenario.model)
        check_queries(store, scenario.model)
        session.commit()
        check_exact(store, scenario.model)


def _calls(scenario: Scenario) -> list[Call]:
    with prepared(scenario) as store:
        watched = RecordingStore(store)
        scenario.run(hb.Session(watched))
    return watched.calls


def test_a_crash_between_marker_and_row_delete_leaves_a_deleted_row() -> None:
    scenario = SCENARIOS["delete over two families"]
    with prepared(scenario) as store:
        watched = RecordingStore(store, limited=True)
        scenario.run(hb.Session(watched))
        names = [str(call) for call in watched.calls]
        deletes = [
            item for call in watched.calls for item in call.items if isinstance(item, Delete) and call.table == "people"
        ]
    assert [delete.families for delete in deletes] == [(b"p", b"x")]
    with prepared(scenario) as store:
        with pytest.raises(Crash):
            scenario.run(hb.Session(FaultyStore(store, names.index("put people"), "after", crash=True, limited=True)))
        assert ("ann",) not in objects(store, scenario.model)
        with pytest.raises(hb.RowNotFound), hb.Session(store) as session:
            session.update(scenario.seed[0], story="half a person")
        with hb.Session(store) as session:
            session.add(scenario.model(name="ann"))
        assert objects(store, scenario.model)[("ann",)] == scenario.model(name="ann")


# --- on a real HBase --------------------------------------------------------------------------------------------------


def interruptions_on(bed: Bed, scenario: Scenario, modes: set[Mode]) -> list[tuple[int, Mode]]:
    """The interruptions that a gateway is tried with: by default the two gateways take turns."""
    found = interruptions(scenario, not bed.atomic, gated=False)
    chosen = [(at, mode) for at, mode in found if mode in modes]
    return chosen if SHARE >= 1 else chosen[int(bed.atomic) :: 2]


@pytest.mark.parametrize(
    "name", ["batch", "add over a deleted row", "insert", "unindexed batch", "expiring row", "unindexed expiring row"]
)
def test_a_crash_at_any_call_on_hbase(hbase_bed: Bed, name: str) -> None:
    scenario = SCENARIOS[name]
    if scenario.atomic and not hbase_bed.atomic:
        with pytest.raises(hb.CapabilityError):
            scenario.run(hbase_bed.use(scenario.model))
        return
    hbase_bed.use(scenario.model)
    scenario.begin(hbase_bed.store)
    states = scenario.states(hbase_bed.store)
    for at, mode in interruptions_on(hbase_bed, scenario, {"after", "second half"}):
        hbase_bed.use(scenario.model)
        scenario.begin(hbase_bed.store)
        with pytest.raises(Crash):
            scenario.run(hb.Session(FaultyStore(hbase_bed.store, at, mode, crash=True)))
        check_rows(objects(hbase_bed.store, scenario.model), states)
        check_queries(hbase_bed.store, scenario.model)
        with suppress(hb.RowExists):
            scenario.run(hb.Session(hbase_bed.store))
        assert objects(hbase_bed.store, scenario.model) == states[-1]
        check_queries(hbase_bed.store, scenario.model)


@pytest.mark.parametrize("name", ["batch", "unindexed batch"])
def test_a_failure_and_another_commit_on_hbase(hbase_bed: Bed, name: str) -> None:
    scenario = SCENARIOS[name]
    hbase_bed.use(scenario.model)
    scenario.begin(hbase_bed.store)
    scenario.run(hb.Session(hbase_bed.store))
    after = objects(hbase_bed.store, scenario.model)
    for at, mode in interruptions_on(hbase_bed, scenario, {"before", "first half"}):
        hbase_bed.use(scenario.model)
        scenario.begin(hbase_bed.store)
        session = hb.Session(FaultyStore(hbase_bed.store, at, mode))
        with suppress(hb.HbmodelError):
            scenario.run(session)
        session.commit(resend=True)
        assert objects(hbase_bed.store, scenario.model) == after
        check_exact(hbase_bed.store, scenario.model)
