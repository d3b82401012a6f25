"""Purges that run at the same time as a put that was planned long ago, and that has the time of the purged marker."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hbmodel as hb
from hbmodel.protocol.indexed.indexed_plan import IndexedRowPlanner
from hbmodel.protocol.indexed.indexed_write import write_indexed_batch
from hbmodel.protocol.operations import Acknowledge, CheckLease, GetRows, ReadClock
from hbmodel.protocol.writes import put_object
from hbmodel.store import Put
from hbmodel.store.gate import gated
from tests.support.beds import HBASE, drop_left
from tests.support.faulty import Call, RecordingStore

TIMES = hb.indexes.IndexTimes(lease=0.3, longest_call=0.05, grace=1.3, clock_bound=0.25)


@hb.model(table="purged", family="d")
class Thing:
    name: hb.Key[str] = hb.key()
    tag: hb.Column[str] = hb.column("t")

    by_tag = hb.index("tag")


@hb.model(table="purged_wide", family="d")
class Seat:
    """Objects that share a row, which has a version."""

    room: hb.Key[str] = hb.key()
    number: hb.Key[int] = hb.key(in_qualifier=True)
    guest: hb.Column[str] = hb.column("g")
    version: hb.Column[int] = hb.version()


SCHEMA = hb.schema.schema_of(Thing)


class Meanwhile(RecordingStore):
    """A put arrives just before the first call that deletes rows of the table."""

    late: Put | None = None

    def _do(self, call: Call, apply: Any) -> Any:
        if self.late is not None and call.table == "purged" and call.writes:
            late, self.late = self.late, None
            with gated(None):
                self.inner.put("purged", [late])
        return super()._do(call, apply)


@pytest.fixture(params=["memory", "file", HBASE[1]])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[hb.Store]:
    kind = request.param
    if kind.startswith("thrift"):
        url = f"{request.getfixturevalue('hbmodel_hbase').thrift2_url}?table_prefix=purging"
    else:
        url = "memory:" if kind == "memory" else f"embedded:{tmp_path / 'store.db'}"
    with hb.connect(url) as made:
        yield made
        drop_left(made)


@pytest.mark.lengthy
@pytest.mark.parametrize("count", [1, 3])
def test_a_purge_spares_a_row_that_is_put_again_at_the_time_of_its_marker(store: hb.Store, count: int) -> None:
    hb.create_tables(store, Thing)
    names = [f"{number}" for number in range(count)]
    with hb.Session(store) as session:
        session.add_all(Thing(name=name, tag="a") for name in names)
        session.commit()
        for name in names:
            session.delete_key(Thing, name=name)
    row = hb.row_key(Thing, name="0")
    (marker,) = store.get("purged", [row], [SCHEMA.liveness_column])
    assert marker is not None
    at = marker.columns[SCHEMA.liveness_column].timestamp
    planner = IndexedRowPlanner(SCHEMA, (), 1000)
    put = planner.plan(put_object(SCHEMA, Thing(name="0", tag="b")), planner.old(None), at).put
    assert put is not None
    between = Meanwhile(store)
    between.late = put
    time.sleep(TIMES.grace + 0.05)
    assert hb.indexes.purge_rows(between, Thing, times=TIMES) == count - 1
    assert between.late is None
    session = hb.Session(store)
    assert session.get(Thing, name="0") == Thing(name="0", tag="b")
    assert session.get_many(Thing, [(name,) for name in names[1:]]) == [None] * (count - 1)


@pytest.mark.lengthy
def test_all_markers_of_a_row_are_purged_at_once(store: hb.Store) -> None:
    hb.create_tables(store, Seat)
    session = hb.Session(store)
    session.bulk_add(Seat(room=room, number=number, guest="ann") for room in "rs" for number in range(3))
    for room, number in (("r", 0), ("r", 1), ("r", 2), ("s", 1)):
        session.delete_key(Seat, room=room, number=number)
    session.commit()
    time.sleep(TIMES.grace + 0.05)
    assert hb.indexes.purge_rows(store, Seat, times=TIMES, dry_run=True) == 4
    assert hb.indexes.purge_rows(store, Seat, times=TIMES) == 4
    assert hb.indexes.purge_rows(store, Seat, times=TIMES) == 0
    found = session.query(Seat).allow_full_scan().all()
    assert [(seat.room, seat.number) for seat in found] == [("s", 0), ("s", 2)]
    session.insert(Seat(room="r", number=1, guest="bob"))


def answers(there: bool) -> hb.HbmodelError | None:
    """The error of a put that took longer than half the grace time, in a store without conditions; whether its row
    is there after it.
    """
    put = put_object(SCHEMA, Thing(name="k", tag="a"))
    protocol = write_indexed_batch(
        IndexedRowPlanner(SCHEMA, tuple(SCHEMA.indexes.values()), 1000, checks=False), [put], False
    )
    with hb.connect("memory:") as store:
        hb.create_tables(store, Thing)
        with hb.Session(store) as session:
            session.add(Thing(name="k", tag="a"))
        stands = store.get("purged", [put.row])
    answer: Any = None
    now, fresh, reads = 10, iter((False, True)), 0
    while True:
        operation = protocol.send(answer)
        answer = None
        if isinstance(operation, Acknowledge):
            (outcome,) = operation.outcomes
            error: hb.HbmodelError | None = outcome.error
            return error
        if isinstance(operation, ReadClock):
            answer, now = now, now + 100
        elif isinstance(operation, CheckLease):
            answer = next(fresh)
        elif isinstance(operation, GetRows):
            reads += 1
            answer = list(stands) if there and reads == 2 else [None]


def test_a_put_that_took_too_long_and_is_not_there_has_an_unknown_outcome() -> None:
    assert answers(there=True) is None
    error = answers(there=False)
    assert isinstance(error, hb.UnknownOutcome)
    assert error.message.startswith("The write took longer than half the grace time, and its row was not found")
