"""Indexes of tables in use: added, checked, repaired and dropped while programs read and write."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import uuid4

import pytest
from attrs import define, evolve

import hbmodel as hb
from hbmodel.mapping.schema import TableSchema
from hbmodel.store import Delete, Put
from hbmodel.tables.index_states import IndexStates
from hbmodel.tables.index_work import waiting
from hbmodel.tables.registry import Registry, registry_row
from tests.support.beds import HBASE, Bed, cells_of, fresh

TIMES = hb.IndexTimes(lease=0.15, longest_call=0.1, clock_bound=0.05, grace=0.7)
SESSION: dict[str, Any] = {"lease": 0.15, "longest_call": 0.1, "clock_bound": 0.05, "grace": 0.7}


def open_session(store: hb.Store) -> hb.Session:
    return hb.Session(store, **SESSION)


@define
class Two:
    """One table as it was declared before and after it had an index."""

    before: type[Any]
    after: type[Any]

    @property
    def schema(self) -> TableSchema:
        return hb.schema_of(self.after)


def declare(**options: Any) -> Two:
    """A model without and with an index, over a table of their own."""
    table = f"shelf-{uuid4().hex[:10]}"

    @hb.model(table=table, family="d", **options)
    class Before:
        name: hb.Key[str] = hb.key()
        topic: hb.Column[str] = hb.column("t")
        note: hb.Column[str | None] = hb.column("n", default=None)

    @hb.model(table=table, family="d", **options)
    class After:
        name: hb.Key[str] = hb.key()
        topic: hb.Column[str] = hb.column("t")
        note: hb.Column[str | None] = hb.column("n", default=None)

        by_topic = hb.index("topic", covers=("note",))
        by_note = hb.index("note", "topic")

    return Two(Before, After)


@pytest.fixture(params=["memory", "limited", *HBASE])
def bed(request: pytest.FixtureRequest) -> Iterator[Bed]:
    if request.param.startswith("thrift"):
        yield Bed(request.param, request.getfixturevalue("real_beds")(request.param).store)
        return
    from hbmodel.store.embedded import EmbeddedStore  # noqa: PLC0415
    from tests.support.faulty import RecordingStore  # noqa: PLC0415

    with RecordingStore(EmbeddedStore(None), limited=request.param == "limited") as store:
        yield Bed(request.param, store)


@pytest.fixture
def two(bed: Bed) -> Iterator[Two]:
    """A table without an index, which is dropped in the end."""
    made = declare()
    hb.create_tables(bed.store, made.before)
    yield made
    hb.drop_tables(bed.store, made.after)


def found_through(store: hb.Store, two: Two, topic: str) -> list[str]:
    query = open_session(store).query(two.after).where(two.after.topic == topic).use_index("by_topic")
    return [item.name for item in query]


def test_an_index_is_added_to_a_table_with_rows(bed: Bed, two: Two) -> None:
    session = open_session(bed.store)
    session.add_all(two.before(name=f"{n:03}", topic=f"t{n % 7}", note=None if n % 3 else "x") for n in range(100))
    session.add(two.before(name="ends", topic="t1"), ttl=timedelta(hours=1))
    session.commit()
    session.update(two.before(name="000", topic=""), note="y")
    session.delete_key(two.before, name="001")
    session.commit()
    with pytest.raises(hb.SchemaMismatch if bed.store is None else hb.IndexUnavailable):
        hb.create_tables(bed.store, two.after)
        found_through(bed.store, two, "t0")
    planned = hb.build_index(bed.store, two.after, "by_topic", dry_run=True, times=TIMES)
    assert (planned.rows, planned.entries, planned.adopted, planned.state) == (100, 100, 100, "absent")
    seen: list[hb.IndexProgress] = []
    built = hb.build_index(bed.store, two.after, "by_topic", times=TIMES, progress=seen.append)
    assert built.readable
    assert (built.rows, built.entries, built.adopted, built.missing, built.refused) == (100, 100, 100, 0, 0)
    assert [phase for phase in ("waiting", "building", "verifying") if any(p.phase == phase for p in seen)] == [
        "waiting", "building", "verifying",
    ]  # fmt: skip
    for topic in range(7):
        expected = [f"{n:03}" for n in range(100) if n % 7 == topic and n != 1] + (["ends"] if topic == 1 else [])
        assert found_through(bed.store, two, f"t{topic}") == expected
    report = hb.verify_index(bed.store, two.after, "by_topic", times=TIMES)
    assert report.sound
    assert (report.rows, report.entries, report.stale, report.pending, report.expiring) == (100, 100, 0, 0, 0)
    second = hb.build_index(bed.store, two.after, two.after.by_note, times=TIMES)
    assert (second.rows, second.entries, second.adopted) == (100, 100, 0)
    again = hb.build_index(bed.store, two.after, "by_topic", times=TIMES)
    assert again.readable
    assert all(row.row[:1] != b"\x01" for row in _registry_rows(bed.store) if two.schema.table.encode() in row.row)


def _registry_rows(store: hb.Store) -> list[Any]:
    from hbmodel.store import Scan  # noqa: PLC0415

    (batches,) = store.scan("hbmodel", [Scan()])
    return [row for batch in batches for row in batch]
