"""The programs that the phases of a migration wait for: readers until their leases end, writers only if they may still
act on the previous phase.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hbmodel as hb
from hbmodel.protocol.relocation.migration_phases import (
    BEFORE,
    CLOSED,
    CUT,
    DONE,
    HALTING,
    MOVING,
    PHASES,
    PREPARED,
    RETURNED,
    RETURNING,
    TURNED,
)
from hbmodel.protocol.relocation.migration_phases import VERSIONED_PHASES as VERSIONED
from hbmodel.tables.migration.phase_waits import READ_OTHERWISE
from tests.support.beds import HBASE, drop_left, fresh
from tests.support.faulty import Call, RecordingStore
from tests.tables.migration_models import Moved, Visit, visit
from tests.tables.versioned_migration_models import Parcel, Sent, parcel

LONG = hb.indexes.IndexTimes(lease=0.3)
"""The longest call is the default, 20 minutes: no test waits for so long."""

WAYS = {
    "immutable": [
        (PHASES, [BEFORE, PREPARED, MOVING, CUT, DONE]),
        (PHASES, [MOVING, RETURNING, RETURNED]),
        (PHASES, [PREPARED, RETURNED]),
    ],
    "versioned": [
        (VERSIONED, [BEFORE, PREPARED, MOVING, CUT, DONE]),
        (VERSIONED, [MOVING, HALTING, TURNED, RETURNING, RETURNED]),
        (VERSIONED, [PREPARED, RETURNED]),
    ],
    "in a maintenance window": [(PHASES, [BEFORE, CLOSED])],
}


@pytest.mark.parametrize("kind", WAYS)
def test_readers_are_waited_for_where_tables_are_read_otherwise(kind: str) -> None:
    for phases, way in WAYS[kind]:
        for before, after in itertools.pairwise(way):
            one, other = phases[before], phases[after]
            alike = (one.reads, one.lasts) == (other.reads, other.lasts)
            assert (after in READ_OTHERWISE) == (not alike), (before, after)


MODELS: dict[str, Any] = {"immutable": (Visit, Moved, visit), "versioned": (Parcel, Sent, parcel)}


@pytest.fixture(params=["memory", "file"])
def local(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[hb.Store]:
    with hb.connect("memory:" if request.param == "memory" else f"embedded:{tmp_path / 'store.db'}") as store:
        yield store


@pytest.fixture(params=HBASE)
def gateway(request: pytest.FixtureRequest, hbmodel_hbase: Any) -> Iterator[hb.Store]:
    of = hbmodel_hbase.url if request.param == "thrift1" else hbmodel_hbase.thrift2_url
    with hb.connect(f"{of}?table_prefix=waits{request.param[-1]}") as store:
        yield store
        drop_left(store)


def move_to_and_fro(store: hb.Store, kind: str) -> list[hb.migration.MigrationProgress]:
    """Moves objects, back, and for good, beside a session that writes in between; returns the waits."""
    old, new, made = MODELS[kind]
    hb.create_tables(store, old)
    seen: list[hb.migration.MigrationProgress] = []
    with hb.Session(store, lease=0.2) as session:
        session.add_all(made(number) for number in range(20))
        session.commit()
        moving = hb.migration.migrate(store, new, times=LONG, progress=seen.append)
        assert moving.start().copied
        session.add(made(20))
        session.commit()
        assert moving.roll_back().phase == BEFORE
        session.add(made(21))
        session.commit()
        assert moving.start().copied
        session.add(made(22))
        session.commit()
        assert moving.verify().sound
        assert moving.cut_over().phase == DONE
        session.delete(made(1)) if kind == "immutable" else session.delete_key(new, number=1, city=1)
        session.commit()
        found = session.query(new).use_index("primary").allow_full_scan().all()
    assert [one.number for one in found] == [*range(22, 1, -1), 0]
    return [progress for progress in seen if progress.phase == "waiting"]


@pytest.mark.lengthy
@pytest.mark.parametrize("kind", MODELS)
def test_nobody_waits_for_writers_where_each_write_looks_at_the_registry(local: hb.Store, kind: str) -> None:
    waits = move_to_and_fro(local, kind)
    assert {(wait.waits_for, wait.writers) for wait in waits} == {("readers", ())}
    assert max(wait.seconds_left or 0 for wait in waits) <= 0.301


@pytest.mark.hbase
def test_phases_follow_each_other_once_writers_have_noticed(gateway: hb.Store) -> None:
    """Far below the longest call: the writers' roll says who is left, and a program that moves objects is on it only
    while it does.
    """
    old, new, made = MODELS["versioned" if gateway.capabilities.check_and_mutate else "immutable"]
    hb.create_tables(gateway, old)
    seen: list[hb.migration.MigrationProgress] = []
    moving = hb.migration.migrate(gateway, new, times=LONG, progress=seen.append)
    with hb.Session(gateway, lease=0.2) as session:
        session.add_all(made(number) for number in range(20))
        session.commit()
        assert moving.start().copied
        # The session is waited for if its line is not at rest yet, and nobody else is on the roll.
        assert all(len(wait.writers) == 1 for wait in seen if wait.waits_for == "writers")
        session.add(made(20))
    seen.clear()
    assert moving.cut_over().phase == DONE
    assert not [wait for wait in seen if wait.waits_for == "writers"], "nobody is left"
    assert hb.tables.table_writers(gateway, hb.schema.schema_of(new).table) == []
    found = hb.Session(gateway).query(new).use_index("primary").allow_full_scan().all()
    assert [one.number for one in found] == [*range(20, -1, -1)]


# --- a program that moves objects stands still ------------------------------------------------------------------------


class Standing(RecordingStore):
    """Its first write to a table is paused between its last check of the registry and the call to the store."""

    def __init__(self, store: hb.Store, table: str, *, gated: bool) -> None:
        super().__init__(store, gated=gated)
        self.table, self.stands, self.go_on = table, threading.Event(), threading.Event()

    def _do(self, call: Call, apply: Any) -> Any:
        if call.writes and call.table == self.table and call.name != "create_table" and not self.stands.is_set():
            self.stands.set()
            assert self.go_on.wait(60)
        return super()._do(call, apply)


@pytest.mark.lengthy
@pytest.mark.parametrize("kind", MODELS)
def test_a_program_that_moves_objects_is_waited_for_by_name(kind: str) -> None:
    """It has noticed nothing, and its lease is over: what it sends may arrive."""
    old, new, made = MODELS[kind]
    with fresh(old, gated=False) as plain:
        with hb.Session(plain, lease=0.2) as session:
            session.add_all(made(number) for number in range(3))
        standing = Standing(plain, hb.schema.schema_of(new).table, gated=False)
        failed: list[hb.errors.MigrationError] = []

        def move() -> None:
            try:
                hb.migration.migrate(standing, new, times=LONG).start()
            except hb.errors.MigrationError as error:
                failed.append(error)

        mover = threading.Thread(target=move)
        mover.start()
        assert standing.stands.wait(60)
        waits: list[hb.migration.MigrationProgress] = []

        def report(progress: hb.migration.MigrationProgress) -> None:
            waits.append(progress)
            if sum(wait.waits_for == "writers" for wait in waits) == 3:
                standing.go_on.set()

        moving = hb.migration.migrate(plain, new, times=LONG, progress=report)
        assert moving.roll_back().phase == BEFORE
        mover.join(60)
        (error,) = failed
        assert error.message == "Another program moved the migration to another phase in the meantime: call status()."
        for_writers = [wait for wait in waits if wait.waits_for == "writers"]
        assert len(for_writers) >= 3
        assert all("process" in wait.writers[0] for wait in for_writers)
        found = hb.Session(plain).query(new).use_index("primary").allow_full_scan().all()
        assert sorted(one.number for one in found) == [0, 1, 2]


@pytest.mark.lengthy
@pytest.mark.parametrize("kind", MODELS)
def test_what_a_program_sends_after_its_phase_has_no_effect_in_a_transaction(local: hb.Store, kind: str) -> None:
    old, new, made = MODELS[kind]
    hb.create_tables(local, old)
    with hb.Session(local, lease=0.2) as session:
        session.add_all(made(number) for number in range(3))
    standing = Standing(local, hb.schema.schema_of(new).table, gated=True)
    failed: list[hb.errors.MigrationError] = []

    def move() -> None:
        try:
            hb.migration.migrate(standing, new, times=LONG).start()
        except hb.errors.MigrationError as error:
            failed.append(error)

    mover = threading.Thread(target=move)
    mover.start()
    assert standing.stands.wait(60)
    waits: list[hb.migration.MigrationProgress] = []
    moving = hb.migration.migrate(local, new, times=LONG, progress=waits.append)
    assert moving.roll_back().phase == BEFORE
    assert {wait.waits_for for wait in waits if wait.phase == "waiting"} == {"readers"}
    assert moving.start().copied
    assert moving.cut_over().phase == DONE
    session = hb.Session(local)
    session.delete(made(1)) if kind == "immutable" else session.delete_key(new, number=1, city=1)
    session.commit()
    standing.go_on.set()
    mover.join(60)
    assert len(failed) == 1
    found = session.query(new).use_index("primary").allow_full_scan().all()
    assert [one.number for one in found] == [2, 0]
    assert hb.indexes.verify_index(local, new, "by_page" if kind == "immutable" else "by_state").sound
