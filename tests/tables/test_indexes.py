"""Indexes of tables in use: added, checked, repaired and dropped while programs read and write."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from random import Random
from typing import Any
from uuid import uuid4

import pytest
from attrs import asdict, define, evolve
from hypothesis import given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.mapping.rows.mapper import KeyMapper
from hbmodel.mapping.schema import TableSchema
from hbmodel.protocol.versioned.unique_values import CLAIMED
from hbmodel.store import Delete, Put, Row, Scan
from hbmodel.store.embedded import EmbeddedStore
from hbmodel.tables.registry.registry_table import Registry
from hbmodel.tables.roll.binding_cache import BindingCache
from hbmodel.tables.roll.own_line import RollTimes
from tests.support.beds import HBASE, Bed, cells_of, fresh
from tests.support.examples import examples
from tests.support.faulty import RecordingStore

TIMES = hb.indexes.IndexTimes(lease=0.15, longest_call=0.1, clock_bound=0.25, grace=1.3)
PATIENT = evolve(TIMES, grace=600)  # for what must still be young, however slow the machine is
SESSION: dict[str, Any] = asdict(TIMES)


def open_session(store: hb.Store) -> hb.Session:
    return hb.Session(store, **SESSION)


@define
class Two:
    """One table as it was declared before and after it had an index."""

    before: type[Any]
    after: type[Any]

    @property
    def schema(self) -> TableSchema:
        return hb.schema.schema_of(self.after)


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
    with RecordingStore(EmbeddedStore(None), limited=request.param == "limited") as store:
        yield Bed(request.param, store)


@pytest.fixture
def two(bed: Bed) -> Two:
    """A table without an index."""
    made = declare()
    hb.create_tables(bed.store, made.before)
    return made


def found_through(store: hb.Store, two: Two, topic: str) -> list[str]:
    query = open_session(store).query(two.after).where(two.after.topic == topic).use_index("by_topic")
    return [item.name for item in query]


@pytest.mark.lengthy
def test_an_index_is_added_to_a_table_with_rows(bed: Bed, two: Two) -> None:
    session = open_session(bed.store)
    session.add_all(two.before(name=f"{n:03}", topic=f"t{n % 7}", note=None if n % 3 else "x") for n in range(100))
    session.add(two.before(name="ends", topic="t1"), ttl=timedelta(hours=1))
    session.commit()
    session.update(two.before(name="000", topic=""), note="y")
    session.delete_key(two.before, name="001")
    session.commit()
    hb.create_tables(bed.store, two.after)
    with pytest.raises(hb.errors.IndexUnavailable):
        found_through(bed.store, two, "t0")
    planned = hb.indexes.build_index(bed.store, two.after, "by_topic", dry_run=True, times=TIMES)
    assert (planned.rows, planned.entries, planned.adopted, planned.state) == (100, 100, 100, "absent")
    seen: list[hb.indexes.IndexProgress] = []
    built = hb.indexes.build_index(bed.store, two.after, "by_topic", times=TIMES, progress=seen.append)
    assert built.readable
    assert (built.rows, built.entries, built.adopted, built.missing, built.refused) == (100, 100, 100, 0, 0)
    phases = list(dict.fromkeys(progress.phase for progress in seen))
    if not bed.store.capabilities.gated_writes and phases[0] == "waiting":  # if programs can still write by then
        phases = phases[1:]
    assert phases == ["building", "verifying"]
    for topic in range(7):
        expected = [f"{n:03}" for n in range(100) if n % 7 == topic and n != 1] + (["ends"] if topic == 1 else [])
        assert found_through(bed.store, two, f"t{topic}") == expected
    report = hb.indexes.verify_index(bed.store, two.after, "by_topic", times=TIMES)
    assert report.sound
    assert (report.rows, report.entries, report.stale, report.pending, report.expiring) == (100, 100, 0, 0, 0)
    second = hb.indexes.build_index(bed.store, two.after, two.after.by_note, times=TIMES)
    assert (second.rows, second.entries, second.adopted) == (100, 100, 0)
    again = hb.indexes.build_index(bed.store, two.after, "by_topic", times=TIMES)
    assert again.readable
    assert all(row.row[:1] != b"\x01" for row in _registry_rows(bed.store) if two.schema.table.encode() in row.row)


@pytest.mark.lengthy
def test_a_row_that_expires_is_adopted_until_then(bed: Bed, two: Two) -> None:
    store, table = bed.store, two.schema.table
    hb.create_tables(store, two.after)
    session = open_session(store)
    life = timedelta(seconds=15 if bed.real else 5)
    session.add(two.before(name="a", topic="t"), ttl=life)
    session.add(two.before(name="b", topic="t"))
    session.add(two.before(name="c", topic="t"), ttl=life)
    session.commit()
    end, last = (cells_of(store, table)[row][b"d:_t"][:8] for row in (b"a", b"c"))
    built = hb.indexes.build_index(store, two.after, "by_topic", times=TIMES)
    assert (built.readable, built.entries, built.adopted) == (True, 3, 3)
    row = cells_of(store, table)[b"a"]
    assert row[b"d:_l"] == b"\x01" + end
    assert b"d:_v" in row
    session = open_session(store)
    session.update(two.after(name="a", topic="t"), topic="u", note="x")
    if store.capabilities.check_and_mutate:
        session.commit()
        row = cells_of(store, table)[b"a"]
        assert (row[b"d:t"], row[b"d:n"], row[b"d:_l"]) == (b"u", b"x", b"\x01" + end)
        assert (found_through(store, two, "t"), found_through(store, two, "u")) == (["b", "c"], ["a"])
    else:
        with pytest.raises(hb.CapabilityError, match="can be updated only in a store with check-and-mutate"):
            session.commit()
        assert found_through(store, two, "t") == ["a", "b", "c"]
    time.sleep(max(0, int.from_bytes(last, "big") - Registry(store).server_time()) / 1000 + 0.1)
    assert cells_of(store, table).keys() == {b"b"}
    assert cells_of(store, f"{table}.by_topic").keys() == {entry_of(two, "b", "t")}
    assert found_through(store, two, "u") == []
    session.add(two.after(name="a", topic="u"))
    session.commit()
    assert session.get(two.after, name="a") == two.after(name="a", topic="u")


@pytest.mark.lengthy
@pytest.mark.parametrize(
    "options",
    [
        {"salt": hb.HashSalt(3)},
        {"salt": hb.RandomSalt(2), "immutable": True},
        {"exists": hb.flag("e")},
        {"immutable": True},
    ],
    ids=["salted", "salted at random", "with a flag", "immutable"],
)
def test_an_index_is_added_to_tables_of_every_kind(options: dict[str, Any]) -> None:
    two = declare(**options)
    with fresh() as store:
        hb.create_tables(store, two.before)
        session = open_session(store)
        session.add_all(two.before(name=f"{n % 40:02}", topic=f"t{n}") for n in range(80))
        session.commit()
        expected = {f"{n % 40:02}": f"t{n}" for n in range(40, 80)}
        hb.create_tables(store, two.after)
        assert build(store, two.after).readable
        for name, topic in expected.items():
            assert found_through(store, two, topic) == [name]
            assert found_through(store, two, f"t{int(name)}") == []
        assert hb.indexes.verify_index(store, two.after, "by_topic", times=TIMES).sound
        session = open_session(store)
        session.delete_key(two.after, name="07")
        session.add(two.after(name="99", topic="last"))
        session.commit()
        assert {item.name: item.topic for item in session.query(two.after).allow_full_scan()} == {
            **{name: topic for name, topic in expected.items() if name != "07"}, "99": "last",
        }  # fmt: skip
        assert found_through(store, two, "last") == ["99"]
        assert found_through(store, two, expected["07"]) == []


def _registry_rows(store: hb.Store) -> list[Row]:
    (batches,) = store.scan("hbmodel", [Scan()])
    return [row for batch in batches for row in batch]


def build(store: hb.Store, model: type[Any], index: str = "by_topic", **options: Any) -> hb.indexes.IndexBuild:
    return hb.indexes.build_index(store, model, index, times=TIMES, **options)


def check_sound(store: hb.Store, model: type[Any], index: str = "by_topic") -> hb.indexes.IndexReport:
    report = hb.indexes.verify_index(store, model, index, times=TIMES)
    assert report.sound, str(report)
    return report


@pytest.mark.every_store
@pytest.mark.lengthy
def test_an_index_is_built_while_programs_write(bed: Bed, two: Two) -> None:
    open_session(bed.store).bulk_add([two.before(name=f"{n:04}", topic=f"t{n % 5}") for n in range(400)])
    ended = threading.Event()
    expected: list[dict[str, Any]] = [{} for _ in range(4)]
    errors: list[BaseException] = []

    def write(own: int) -> None:
        random = Random(own)
        mine = expected[own]
        mine.update({f"{n:04}": (f"t{n % 5}", None) for n in range(400) if n % 4 == own})
        session = hb.Session(bed.store, **SESSION | {"grace": PATIENT.grace})
        names = sorted(mine) + [f"new{own}{n}" for n in range(5)]
        while not ended.is_set():
            name = random.choice(names)
            try:
                _write_one(session, two.after, random, name, mine)
            except BaseException as error:
                errors.append(error)
                raise

    def _write_one(session: hb.Session, model: Any, random: Random, name: str, mine: dict[str, Any]) -> None:
        topic, note = f"t{random.randrange(5)}", random.choice([None, "a", "b"])
        match random.randrange(4):
            case 0:
                session.delete_key(model, name=name)
                mine.pop(name, None)
            case 1 if name in mine:
                session.update(model(name=name, topic=""), topic=topic)
                mine[name] = (topic, mine[name][1])
            case 2 if name in mine:
                session.update(model(name=name, topic=""), note=note)
                mine[name] = (mine[name][0], note)
            case _:
                session.add(model(name=name, topic=topic, note=note))
                mine[name] = (topic, note)
        session.commit()

    hb.create_tables(bed.store, two.after)
    threads = [threading.Thread(target=write, args=(own,)) for own in range(4)]
    for thread in threads:
        thread.start()
    try:
        built = hb.indexes.build_index(bed.store, two.after, "by_topic", times=PATIENT, batch_size=20)
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert not errors
    assert built.readable
    assert built.missing == 0
    check_sound(bed.store, two.after)
    whole = {name: values for mine in expected for name, values in mine.items()}
    items = open_session(bed.store).query(two.after).allow_full_scan()
    assert {item.name: (item.topic, item.note) for item in items} == whole
    for topic in range(5):
        assert found_through(bed.store, two, f"t{topic}") == sorted(
            n for n, (t, _) in whole.items() if t == f"t{topic}"
        )


class Killed(BaseException):
    """Stands for a signal that ends a program at once."""


@pytest.mark.lengthy
def test_a_build_that_is_killed_goes_on_where_it_was(two: Two, bed: Bed) -> None:
    open_session(bed.store).bulk_add([two.before(name=f"{n:03}", topic=f"t{n}") for n in range(100)])
    hb.create_tables(bed.store, two.after)
    reads = 0

    def dying(progress: hb.indexes.IndexProgress) -> None:
        nonlocal reads
        if progress.phase == "building" and progress.rows >= reads + 20:
            reads = progress.rows
            raise Killed

    kills = 0
    while kills < 5:
        with pytest.raises(Killed):
            build(bed.store, two.after, batch_size=10, progress=dying, claim_life=0.2)
        kills += 1
        if reads >= 80:
            break
    done = sum(1 for _ in cells_of(bed.store, f"{two.schema.table}.by_topic"))
    assert done >= 80
    bed.store.calls.clear()
    built = build(bed.store, two.after, batch_size=10, claim_life=0.2)
    assert built.readable
    assert built.rows == 100  # nothing was counted twice
    entries = [put for table, puts in _puts(bed) if table.endswith(".by_topic") for put in puts]
    assert len(entries) <= 100 - done + 10
    check_sound(bed.store, two.after)


def _puts(bed: Bed) -> list[tuple[str, Any]]:
    return [(call.table, call.items) for call in bed.store.calls if call.name in {"put", "begin_put"}]


@pytest.mark.lengthy
def test_several_builders_share_the_work() -> None:
    two = declare()
    with fresh() as store:
        hb.create_tables(
            store,
            two.before,
            splits=hb.tables.AtKeys([hb.row_key(two.before, name=f"{n:03}") for n in range(10, 300, 10)]),
        )
        open_session(store).bulk_add([two.before(name=f"{n:03}", topic=f"t{n % 9}") for n in range(300)])
        hb.create_tables(store, two.after)
        with ThreadPoolExecutor(4) as pool:
            results = list(pool.map(partial(build, store, two.after), ["by_topic"] * 4 + ["by_note"] * 2))
        assert all(result.readable for result in results)
        assert max(result.rows for result in results) == 300
        for index in ("by_topic", "by_note"):
            report = check_sound(store, two.after, index)
            assert report.entries == 300


def test_rows_that_cannot_be_indexed_keep_the_index_unreadable(bed: Bed, two: Two) -> None:
    session = open_session(bed.store)
    session.add_all([two.before(name="a", topic="t"), two.before(name="b", topic="x" * 32_766)])
    session.commit()
    hb.create_tables(bed.store, two.after)
    assert build(bed.store, two.after, dry_run=True).refused == 1
    built = build(bed.store, two.after)
    assert (built.state, built.readable, built.refused, built.entries) == ("building", False, 1, 1)
    assert built.samples[0][0] == b"b".hex()
    assert "32,767 bytes" in built.samples[0][1]
    assert "refused" in str(built)
    with pytest.raises(hb.errors.IndexUnavailable):
        found_through(bed.store, two, "t")
    session = open_session(bed.store)
    session.delete_key(two.after, name="b")
    session.commit()
    again = build(bed.store, two.after)
    assert again.readable
    assert (again.rows, again.refused) == (1, 0)
    assert found_through(bed.store, two, "t") == ["a"]


@pytest.mark.every_store
@pytest.mark.lengthy
def test_an_index_is_dropped_and_built_again(bed: Bed, two: Two) -> None:
    session = open_session(bed.store)
    session.add_all(two.before(name=name, topic="t") for name in "abc")
    session.commit()
    hb.create_tables(bed.store, two.after)
    build(bed.store, two.after)
    session = open_session(bed.store)
    query = session.query(two.after).where(two.after.topic == "t").use_index("by_topic")
    assert query.count() == 3
    assert hb.indexes.drop_index(bed.store, two.after, "by_topic", times=TIMES) == [f"{two.schema.table}.by_topic"]
    assert hb.indexes.drop_index(bed.store, two.after, "by_topic", times=TIMES) == []
    assert f"{two.schema.table}.by_topic" not in bed.store.tables()
    with pytest.raises(hb.errors.IndexUnavailable):
        query.count()
    session.add(two.after(name="d", topic="t"))
    session.commit()
    with pytest.raises(hb.errors.IndexUnavailable, match="The index is not built"):
        hb.indexes.verify_index(bed.store, two.after, "by_topic", times=TIMES)
    with pytest.raises(hb.errors.UnknownIndex, match="The registry has no such index of the model") as caught:
        hb.indexes.drop_index(bed.store, two.after, "by_nothing", times=TIMES)
    assert caught.value.known == ["by_note", "by_topic"]
    built = build(bed.store, two.after)
    assert (built.rows, built.adopted) == (4, 0)
    assert f"{two.schema.table}.by_topic.2" in bed.store.tables()
    session = open_session(bed.store)
    assert session.query(two.after).where(two.after.topic == "t").use_index("by_topic").count() == 4
    session.delete_key(two.after, name="a")
    session.commit()
    report = check_sound(bed.store, two.after)
    assert (report.rows, report.entries) == (3, 3)


@pytest.mark.lengthy
def test_an_index_that_is_being_dropped_is_not_built_before_that_is_done(bed: Bed, two: Two) -> None:
    hb.create_tables(bed.store, two.after)
    build(bed.store, two.after)
    # It is waited for: it never rests, and its lease outlasts the test. It notices a change soon.
    kept = BindingCache(60, roll_times=RollTimes(poll=0.1, idle=1e6))
    writer = hb.Session(bed.store, **{**SESSION, "lease": 60}, cache=kept)
    writer.add(two.after(name="w", topic="t"))
    writer.commit()

    def dying(stop_in: str, progress: hb.indexes.IndexProgress) -> None:
        state = Registry(bed.store).read(two.schema)
        assert state is not None
        if state.indexes["by_topic"].state == stop_in:
            raise Killed

    for stop_in in ("write-only",) if bed.store.capabilities.gated_writes else ("write-only", "absent"):
        with pytest.raises(Killed):
            hb.indexes.drop_index(bed.store, two.after, "by_topic", times=TIMES, progress=partial(dying, stop_in))
        with pytest.raises(hb.errors.IndexUnavailable, match="The index is being dropped"):
            build(bed.store, two.after)
    assert hb.indexes.drop_index(bed.store, two.after, "by_topic", times=TIMES) == [f"{two.schema.table}.by_topic"]
    assert build(bed.store, two.after).readable


def test_dropped_tables_leave_nothing_of_a_build(bed: Bed, two: Two) -> None:
    with open_session(bed.store) as session:
        session.bulk_add([two.before(name=f"{n:03}", topic="t") for n in range(50)])
    hb.create_tables(bed.store, two.after)

    def dying(progress: hb.indexes.IndexProgress) -> None:
        if progress.rows:
            raise Killed

    with pytest.raises(Killed):
        build(bed.store, two.after, batch_size=10, progress=dying)
    name = two.schema.table
    assert sum(name.encode() in row.row for row in _registry_rows(bed.store)) == 2
    assert sorted(hb.drop_tables(bed.store, two.after)) == [name, f"{name}.by_topic"]
    assert not any(name.encode() in row.row for row in _registry_rows(bed.store))


@pytest.mark.lengthy
def test_an_index_that_the_model_has_lost_is_dropped_by_its_name(bed: Bed, two: Two) -> None:
    session = open_session(bed.store)
    session.add(two.before(name="a", topic="t"))
    session.commit()
    hb.create_tables(bed.store, two.after)
    build(bed.store, two.after)
    session = open_session(bed.store)
    session.add(two.before(name="b", topic="t"))
    with pytest.raises(hb.errors.IndexUnavailable, match="drop_index"):
        session.commit()
    hb.indexes.drop_index(bed.store, two.before, "by_topic", times=TIMES)
    session.commit()
    assert [item.name for item in session.query(two.before).allow_full_scan()] == ["a", "b"]


def entry_of(two: Two, name: str, topic: str) -> bytes:
    row = hb.row_key(two.after, name=name)
    (entry,) = KeyMapper(two.schema).entries(two.schema.indexes["by_topic"], {"name": name, "topic": topic}, row)
    return entry


def orphan(bed: Bed, two: Two, name: str, topic: str, age: float) -> bytes:
    """An entry whose row was never put, so old in seconds."""
    schema = two.schema
    entry = entry_of(two, name, topic)
    now = Registry(bed.store).server_time()
    bed.store.put(
        f"{schema.table}.by_topic", [Put(entry, {b"d:_v": b"\x01" + bytes(8), b"d:n": b""}, now - round(age * 1000))]
    )
    return entry


@pytest.mark.lengthy
def test_what_crashes_left_is_found_and_repaired(bed: Bed, two: Two) -> None:
    session = open_session(bed.store)
    session.add_all(two.before(name=name, topic="t") for name in "abcd")
    session.add(two.before(name="ends", topic="t"), ttl=timedelta(hours=1))
    session.commit()
    hb.create_tables(bed.store, two.after)
    build(bed.store, two.after)
    time.sleep(TIMES.grace + 0.1)
    old = orphan(bed, two, "a", "other", 5)
    young = orphan(bed, two, "b", "other", -60)  # which it still is on a slow machine
    expiring = orphan(bed, two, "ends", "other", 5)
    table = f"{two.schema.table}.by_topic"
    bed.store.delete(table, [Delete(entry_of(two, "c", "t"))])
    time.sleep(0.01)
    report = hb.indexes.verify_index(bed.store, two.after, "by_topic", times=TIMES)
    assert not report.sound
    assert (report.rows, report.entries, report.missing, report.stale, report.pending, report.expiring) == (
        5,
        7,
        1,
        1,
        1,
        1,
    )
    assert ("missing", b"c".hex()) in [tuple(sample) for sample in report.samples]
    assert ("stale", old.hex()) in [tuple(sample) for sample in report.samples]
    dry = hb.indexes.repair_index(bed.store, two.after, "by_topic", dry_run=True, times=TIMES)
    assert (dry.missing, dry.stale, dry.put, dry.deleted) == (1, 1, 0, 0)
    time.sleep(0.01)
    done = hb.indexes.repair_index(bed.store, two.after, "by_topic", times=TIMES)
    assert (done.put, done.deleted) == (1, 1)
    left = cells_of(bed.store, table).keys()
    assert old not in left
    assert {young, expiring} <= left
    assert found_through(bed.store, two, "t") == ["a", "b", "c", "d", "ends"]
    assert found_through(bed.store, two, "other") == []
    orphan(bed, two, "c", "other", 0)
    time.sleep(TIMES.grace + 0.1)
    assert hb.indexes.repair_index(bed.store, two.after, "by_topic", times=TIMES).deleted == 1
    assert hb.indexes.repair_index(bed.store, two.after, "by_topic", times=TIMES).deleted == 0
    assert check_sound(bed.store, two.after).stale == 0


def marked(default: str) -> Any:
    @hb.model(table="index_defaults", family="d")
    class Marked:
        name: hb.Key[str] = hb.key()
        size: hb.Column[int] = hb.column("s")
        mark: hb.Column[str] = hb.column("m", default=default)

        by_mark = hb.index("mark")

    return Marked


def test_an_index_is_repaired_after_a_default_has_changed() -> None:
    @hb.model(table="index_defaults", family="d")
    class Unmarked:
        name: hb.Key[str] = hb.key()
        size: hb.Column[int] = hb.column("s")

    old, new = marked("old"), marked("new")
    with hb.connect("memory:") as store:
        hb.create_tables(store, Unmarked)
        with hb.Session(store) as session:
            session.add_all(Unmarked(name=name, size=1) for name in "ab")
        hb.alter(store, old)
        hb.indexes.build_index(store, old, "by_mark")
        with hb.Session(store) as session:
            session.add(old(name="c", size=2, mark="old"))

        def found(mark: str) -> list[str]:
            return [each.name for each in hb.Session(store).query(new).where(new.mark == mark)]

        assert (found("old"), found("new")) == (["c"], [])
        assert hb.indexes.verify_index(store, new, "by_mark").missing == 2
        repaired = hb.indexes.repair_index(store, new, "by_mark")
        assert (repaired.put, hb.indexes.verify_index(store, new, "by_mark").sound) == (2, True)
        assert (found("old"), found("new")) == (["c"], ["a", "b"])


@pytest.mark.lengthy
def test_markers_are_purged_when_they_are_old(bed: Bed, two: Two) -> None:
    session = open_session(bed.store)
    session.add_all(two.before(name=name, topic="t") for name in "abc")
    session.commit()
    hb.create_tables(bed.store, two.after)
    build(bed.store, two.after)
    session = open_session(bed.store)
    session.delete_key(two.after, name="a")
    session.delete_key(two.after, name="b")
    session.commit()
    assert hb.indexes.purge_rows(bed.store, two.after, times=PATIENT) == 0
    time.sleep(TIMES.grace + 0.1)
    session.add(two.after(name="b", topic="again"))
    session.commit()
    assert hb.indexes.purge_rows(bed.store, two.after, times=TIMES, dry_run=True) == 1
    assert b"a" in cells_of(bed.store, two.schema.table)
    assert hb.indexes.purge_rows(bed.store, two.after, times=TIMES) == 1
    assert sorted(cells_of(bed.store, two.schema.table)) == [b"b", b"c"]
    assert found_through(bed.store, two, "again") == ["b"]


@pytest.mark.lengthy
def test_the_status_shows_what_the_registry_says_and_a_sample() -> None:
    two = declare()
    with fresh() as store:
        hb.create_tables(store, two.before)
        session = open_session(store)
        session.add_all(two.before(name=f"{n:04}", topic="t") for n in range(500))
        session.commit()
        hb.create_tables(store, two.after)
        build(store, two.after)
        by_note, by_topic = hb.indexes.index_status(store, two.after, sample=50, times=TIMES)
        assert (by_note.index, by_note.state, by_note.rows) == ("by_note", "absent", 0)
        assert by_topic.state == "readable"
        assert 20 <= by_topic.rows <= 80
        assert by_topic.sampled
        assert by_topic.sound
        assert by_topic.drift == 0
        assert by_topic.whole is None or by_topic.whole > by_topic.seconds  # the bytes of decimal keys lie in clusters
        assert by_topic.as_json["samples"] == []


# --- sessions of adjacent states --------------------------------------------------------------------------------------


ROWS = ("unindexed", "marking", "mixed", "adopting", "indexed")


def put_into(store: hb.Store, two: Two, rows: str) -> None:
    registry, schema = Registry(store), two.schema
    found = registry.read(schema)
    assert found is not None
    assert registry.change_rows(schema, found, rows)  # type: ignore[arg-type]


@pytest.mark.lengthy
@pytest.mark.parametrize("at", range(1, 4))
@settings(max_examples=examples(25))
@given(st.data())
def test_what_one_session_writes_the_other_sees(at: int, data: st.DataObject) -> None:
    flagged = data.draw(st.booleans())
    two = declare(exists=hb.flag("e")) if flagged else declare()
    kinds = ["add", "expiring", "update", "note", "delete", *(["insert"] if flagged else [])]
    with fresh() as store:
        hb.create_tables(store, two.before)
        sessions = []
        for rows in ROWS[at - 1 : at + 1]:
            put_into(store, two, rows)
            sessions.append(hb.Session(store))
            assert sessions[-1].get(two.before, name="-") is None  # it has learnt the state
        expected: dict[str, Any] = {}
        for _ in range(data.draw(st.integers(1, 12))):
            session = data.draw(st.sampled_from(sessions))
            name = data.draw(st.sampled_from("ab"))
            match data.draw(st.sampled_from(kinds)):
                case "add" | "expiring" as kind:
                    made = two.before(
                        name=name,
                        topic=data.draw(st.sampled_from(["w", "x", "y"])),
                        note=data.draw(st.sampled_from([None, "n"])),
                    )
                    session.add(made, ttl=timedelta(hours=1) if kind == "expiring" else None)
                    expected[name] = made
                case "delete":
                    session.delete_key(two.before, name=name)
                    expected.pop(name, None)
                case "insert":
                    made = two.before(name=name, topic="i")
                    if name in expected:
                        with pytest.raises(hb.RowExists):
                            session.insert(made)
                    else:
                        expected[name] = session.insert(made)
                case kind:
                    changes = {"topic": "u"} if kind == "update" else {"note": "m"}
                    session.update(two.before(name=name, topic=""), **changes)
                    if name not in expected:
                        with pytest.raises(hb.RowNotFound):
                            session.commit()
                        session.discard()
                    else:
                        expected[name] = evolve(expected[name], **changes)
            session.commit()
            for reader in sessions:
                assert {item.name: item for item in reader.query(two.before).allow_full_scan()} == expected
                assert [reader.get(two.before, name=n) for n in "ab"] == [expected.get(n) for n in "ab"]


# --- versioned models -------------------------------------------------------------------------------------------------


def versioned() -> Two:
    """A versioned model without and with indexes, over a table of their own."""
    table = f"shelf-{uuid4().hex[:10]}"

    @hb.model(table=table, family="d")
    class Before:
        name: hb.Key[str] = hb.key()
        topic: hb.Column[str] = hb.column("t")
        note: hb.Column[str | None] = hb.column("n", default=None)
        version: hb.Column[int] = hb.version()

    @hb.model(table=table, family="d")
    class After:
        name: hb.Key[str] = hb.key()
        topic: hb.Column[str] = hb.column("t")
        note: hb.Column[str | None] = hb.column("n", default=None)
        version: hb.Column[int] = hb.version()

        by_topic = hb.index("topic", covers=("note",))
        by_note = hb.index("note", unique=True)

    return Two(Before, After)


@pytest.mark.lengthy
@pytest.mark.parametrize("bed", ["memory", HBASE[1]], indirect=True)
def test_an_index_is_added_to_a_versioned_table(bed: Bed) -> None:
    two = versioned()
    hb.create_tables(bed.store, two.before)
    session = open_session(bed.store)
    session.add_all(two.before(name=name, topic="t") for name in "abcd")
    session.commit()
    session.delete_key(two.before, name="d")
    session.commit()
    hb.create_tables(bed.store, two.after)
    built = build(bed.store, two.after)
    assert (built.readable, built.rows, built.entries, built.adopted) == (True, 3, 3, 0)
    session = open_session(bed.store)
    read = session.get(two.after, name="a")
    session.update(read, topic="new")
    session.delete_key(two.after, name="b")
    session.commit()
    session.update(read, topic="stale")
    with pytest.raises(hb.ConflictError):
        session.commit()
    session.discard()
    assert found_through(bed.store, two, "t") == ["c"]
    assert found_through(bed.store, two, "new") == ["a"]
    stray = orphan(bed, two, "c", "other", 5)
    time.sleep(TIMES.grace + 0.1)
    repaired = hb.indexes.repair_index(bed.store, two.after, "by_topic", times=TIMES)
    assert (repaired.stale, repaired.deleted) == (1, 1 + repaired.bare)
    assert stray not in cells_of(bed.store, f"{two.schema.table}.by_topic")
    check_sound(bed.store, two.after)
    assert hb.indexes.purge_rows(bed.store, two.after, times=TIMES) == 2
    assert sorted(cells_of(bed.store, two.schema.table)) == [b"a", b"c"]
    session.insert(two.after(name="b", topic="t"))
    assert found_through(bed.store, two, "t") == ["b", "c"]


def test_claims_of_unique_values_are_no_entries() -> None:
    two = versioned()
    with fresh(two.after) as store:
        session = open_session(store)
        session.add_all(two.after(name=name, topic="t", note=f"n{name}") for name in "abc")
        session.commit()
        report = check_sound(store, two.after, "by_note")
        assert (report.entries, report.stale, report.pending) == (3, 0, 0)
        assert hb.indexes.repair_index(store, two.after, "by_note", times=TIMES).deleted == 0
        session.add(two.after(name="d", topic="t", note="na"))
        with pytest.raises(hb.UniqueViolation):
            session.commit()


# --- unique indexes of tables in use ----------------------------------------------------------------------------------


@pytest.mark.parametrize("bed", ["memory", HBASE[1]], indirect=True)
def test_a_unique_index_is_built_once_no_two_rows_share_a_value(bed: Bed) -> None:
    two = versioned()
    hb.create_tables(bed.store, two.before)
    with open_session(bed.store) as session:
        session.add_all(two.before(name=f"{n:02}", topic="t", note=f"n{n % 10}") for n in range(12))
        session.add_all(two.before(name=name, topic="t") for name in ("none", "also none"))
    hb.create_tables(bed.store, two.after)
    built = build(bed.store, two.after, "by_note", batch_size=5)
    assert (built.state, built.duplicates, built.refused, built.rows) == ("building", 2, 0, 14)
    assert sorted(built.duplicated) == [("'n0'", b"10".hex(), b"00".hex()), ("'n1'", b"11".hex(), b"01".hex())]
    assert "rows whose value another row holds: 2" in str(built)
    assert built.as_json["duplicated"][0][0] in {"'n0'", "'n1'"}
    session = open_session(bed.store)
    with pytest.raises(hb.errors.IndexUnavailable):
        session.query(two.after).where(two.after.note == "n0").use_index("by_note").all()
    for note in ("n0", "n5"):  # kept for new writes
        session.add(two.after(name="new", topic="t", note=note))
        with pytest.raises(hb.UniqueViolation):
            session.commit()
    session.update(session.get(two.after, name="10"), note="mine")
    session.delete_key(two.after, name="01")  # the one that has the claim
    session.commit()
    again = build(bed.store, two.after, "by_note")
    assert (again.readable, again.duplicates, again.rows) == (True, 0, 13)
    report = check_sound(bed.store, two.after, "by_note")
    assert (report.rows, report.unclaimed, report.unheld, report.released) == (13, 0, 0, 0)
    session = open_session(bed.store)
    assert [item.name for item in session.query(two.after).where(two.after.note == "n1").use_index("by_note")] == ["11"]
    session.add(two.after(name="new", topic="t", note="n1"))
    with pytest.raises(hb.UniqueViolation):
        session.commit()


@pytest.mark.lengthy
@pytest.mark.parametrize("bed", ["memory", HBASE[1]], indirect=True)
def test_a_unique_index_is_built_while_programs_write(bed: Bed) -> None:
    """In the end every value has one row and its claim, for all interleavings of writers and builders."""
    two = versioned()
    times = hb.indexes.IndexTimes(lease=0.15, longest_call=0.1, clock_bound=2, grace=10)
    hb.create_tables(bed.store, two.before)
    with hb.Session(bed.store, lease=0.15, longest_call=0.1, clock_bound=2, grace=10) as session:
        session.add_all(two.before(name=f"{n:03}", topic="t", note=f"n{n}") for n in range(120))
    ended, errors = threading.Event(), list[BaseException]()

    def write(own: int) -> None:
        random, session = Random(own), hb.Session(bed.store, lease=0.15, longest_call=0.1, clock_bound=2, grace=10)
        try:
            while not ended.is_set():
                name, note = f"{random.randrange(150):03}", random.choice([None, f"n{random.randrange(150)}"])
                try:
                    if random.random() < 0.2:
                        session.delete_key(two.after, name=name)
                    else:
                        session.add(two.after(name=name, topic="t", note=note))
                    session.commit()
                except (hb.UniqueViolation, hb.ConflictError):
                    session.discard()
        except BaseException as error:
            errors.append(error)

    hb.create_tables(bed.store, two.after)
    threads = [threading.Thread(target=write, args=(own,)) for own in range(3)]
    for thread in threads:
        thread.start()
    try:
        with ThreadPoolExecutor(2) as pool:
            list(
                pool.map(
                    lambda _: hb.indexes.build_index(bed.store, two.after, "by_note", batch_size=10, times=times),
                    range(2),
                )
            )
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert not errors
    found: list[hb.indexes.IndexBuild] = []
    while not (
        built := hb.indexes.build_index(bed.store, two.after, "by_note", times=times)
    ).readable:  # writers of before the build may have shared values
        found.append(built)
        session = hb.Session(bed.store, lease=0.15, longest_call=0.1, clock_bound=2, grace=10)
        for _, row, _ in built.duplicated:
            session.delete_key(two.after, name=bytes.fromhex(row).decode())
        session.commit()
        assert len(found) < 20
    assert hb.indexes.verify_index(bed.store, two.after, "by_note", times=times).sound
    items = (
        hb.Session(bed.store, lease=0.15, longest_call=0.1, clock_bound=2, grace=10)
        .query(two.after)
        .allow_full_scan()
        .all()
    )
    held = [item.note for item in items if item.note is not None]
    assert len(held) == len(set(held))
    session = hb.Session(bed.store, lease=0.15, longest_call=0.1, clock_bound=2, grace=10)
    for note in held[:20]:
        session.add(two.after(name="other", topic="t", note=note))
        with pytest.raises(hb.UniqueViolation):
            session.commit()


@pytest.mark.parametrize("bed", ["memory", HBASE[1]], indirect=True)
def test_a_dry_run_finds_rows_that_share_a_value(bed: Bed) -> None:
    """The same rows as the build, which must be changed before the index can be used."""
    two = versioned()
    hb.create_tables(bed.store, two.before)
    session = open_session(bed.store)
    notes = {"a": "x", "b": "y", "c": "x", "d": None, "e": None, "f": "x", "g": "z"}
    session.add_all(two.before(name=name, topic="t", note=note) for name, note in notes.items())
    session.commit()
    hb.create_tables(bed.store, two.after)
    dry = hb.indexes.build_index(bed.store, two.after, "by_note", dry_run=True, times=TIMES)
    built = hb.indexes.build_index(bed.store, two.after, "by_note", times=TIMES)
    assert (dry.duplicates, built.duplicates) == (2, 2)
    assert {*dry.duplicated} == {*built.duplicated}
    assert "rows whose value another row holds: 2" in str(dry)


@pytest.mark.lengthy
@pytest.mark.parametrize("bed", ["memory", HBASE[1]], indirect=True)
def test_claims_are_checked_and_repaired(bed: Bed) -> None:
    two = versioned()
    hb.create_tables(bed.store, two.after)
    table = f"{two.schema.table}.by_note"
    session = open_session(bed.store)
    session.add_all(two.after(name=name, topic="t", note=f"n{name}") for name in "abc")
    session.commit()
    session.update(session.get(two.after, name="c"), note="other")
    session.commit()
    (batches,) = bed.store.scan(table, [Scan()])
    claims = {row.row: row.columns[b"d:_u"] for batch in batches for row in batch if b"d:_u" in row.columns}
    assert len(claims) == 4
    lost, stray = (
        next(row for row in claims if b"na" in row),
        next(row for row in claims if b"nb" in row).replace(b"nb", b"no"),
    )
    bed.store.delete(table, [Delete(lost, timestamp=claims[lost].timestamp)])
    now = Registry(bed.store).server_time()
    bed.store.put(table, [Put(stray, {b"d:_u": CLAIMED + b"crashed!" + b"a"}, now - 5_000)])
    time.sleep(TIMES.grace + 0.1)
    report = hb.indexes.verify_index(bed.store, two.after, "by_note", times=TIMES)
    assert (report.unclaimed, report.unheld, report.released, report.missing) == (1, 1, 1, 0)
    assert not report.sound
    assert {what for what, _ in report.samples} == {"unclaimed", "unheld"}
    assert hb.indexes.repair_index(bed.store, two.after, "by_note", dry_run=True, times=TIMES).claimed == 0
    done = hb.indexes.repair_index(bed.store, two.after, "by_note", times=TIMES)
    assert (done.claimed, done.freed) == (1, 1)
    after = check_sound(bed.store, two.after, "by_note")
    assert (after.unclaimed, after.unheld, after.released) == (0, 0, 2)
    [status] = [each for each in hb.indexes.index_status(bed.store, two.after, times=TIMES) if each.index == "by_note"]
    assert status.released
    session.add(two.after(name="d", topic="t", note="na"))
    with pytest.raises(hb.UniqueViolation):
        session.commit()
    session.add(two.after(name="d", topic="t", note="no"))
    session.commit()


def test_a_unique_index_needs_a_store_that_claims() -> None:
    two = versioned()
    with RecordingStore(EmbeddedStore(None), limited=True) as store:
        hb.create_tables(store, two.before)
        hb.create_tables(store, two.after)
        with pytest.raises(hb.CapabilityError, match="A unique index needs a store with check-and-mutate"):
            build(store, two.after, "by_note")


# --- builds that others have begun ------------------------------------------------------------------------------------


def test_a_builder_that_joins_in_the_check_tells_what_was_built() -> None:
    two = declare()
    with fresh(two.before) as store:
        open_session(store).bulk_add([two.before(name=f"{n:03}", topic="t") for n in range(50)])
        hb.create_tables(store, two.after)

        def dying(progress: hb.indexes.IndexProgress) -> None:
            if progress.phase == "verifying":
                raise Killed

        with pytest.raises(Killed):
            build(store, two.after, progress=dying, claim_life=0.1)
        built = build(store, two.after)
        assert (built.readable, built.rows, built.entries, built.adopted) == (True, 50, 50, 50)


@pytest.mark.parametrize("registered", [False, True])
def test_a_table_that_was_begun_for_another_declaration_goes(registered: bool) -> None:
    two = declare()
    table = two.schema.table

    class Dying(RecordingStore):
        def create_table(self, name: str, *arguments: Any) -> None:
            super().create_table(name, *arguments)
            if name.endswith(".by_topic"):
                raise Killed

    with fresh(two.before) as store:
        open_session(store).bulk_add([two.before(name=f"{n:03}", topic=f"t{n}") for n in range(20)])
        hb.create_tables(store, two.after)
        with pytest.raises(Killed):
            build(Dying(store), two.after)
        assert f"{table}.by_topic" in store.tables()
        again = declare_again(table)
        if registered:
            hb.create_tables(store, again)
        assert build(store, again).readable
        assert [name for name in store.tables() if name.startswith(table)] == [table, f"{table}.by_topic.2"]
        assert hb.indexes.verify_index(store, again, "by_topic", times=TIMES).entries == 20


def declare_again(table: str) -> type[Any]:
    """The same model with another index of the same name."""

    @hb.model(table=table, family="d")
    class Again:
        name: hb.Key[str] = hb.key()
        topic: hb.Column[str] = hb.column("t")
        note: hb.Column[str | None] = hb.column("n", default=None)

        by_topic = hb.index(hb.desc("topic"))

    return Again


@pytest.mark.lengthy
def test_a_build_does_not_look_at_the_registry_for_every_batch() -> None:
    """It records the progress of its range with one call for each batch, and makes no other calls."""
    two = declare()
    with fresh(two.before) as store:
        open_session(store).bulk_add([two.before(name=f"{n:03}", topic="t") for n in range(200)])
        hb.create_tables(store, two.after)
        store.calls.clear()
        times = hb.indexes.IndexTimes(lease=1, longest_call=0.1, clock_bound=0.25, grace=2)
        assert hb.indexes.build_index(store, two.after, "by_topic", times=times, batch_size=2).readable
        reads = [call for call in store.calls if call.name == "get" and call.table == "hbmodel"]
        assert len(reads) < 300  # before that one more for each of 200 batches


@pytest.mark.parametrize("name", [3, "", None, b"hbmodel"])
def test_a_registry_that_is_no_name(name: Any) -> None:
    two = declare()
    calls = (
        hb.create_tables, hb.diff, hb.alter, hb.drop_tables,
        partial(hb.indexes.build_index, index="by_topic"), partial(hb.indexes.index_status, sample=0),
    )  # fmt: skip
    with fresh() as store:
        for call in calls:
            with pytest.raises(hb.DeclarationError, match="registry must be the name of a table"):
                call(store, two.after, registry=name)
        with pytest.raises(hb.DeclarationError, match="registry must be the name of a table"):
            hb.Session(store, registry=name)
