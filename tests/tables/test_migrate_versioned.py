"""Changing the key of a table of versioned objects while programs read and write it: seal and move, on every store
that has versions.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

import hbmodel as hb
from hbmodel.protocol.indexed.move_marks import LEAVING, MoveMark
from hbmodel.protocol.relocation.migration_phases import (
    BEFORE,
    CUT,
    DONE,
    HALTING,
    MOVING,
    PREPARED,
    RETURNED,
    RETURNING,
    TURNED,
)
from hbmodel.protocol.relocation.row_seals import Way
from hbmodel.protocol.versioned.versioned_plan import VersionedRowPlanner
from hbmodel.session.commit.session_sizes import SessionSizes
from hbmodel.store import Put
from hbmodel.store.embedded import EmbeddedStore
from hbmodel.store.gate import gated
from hbmodel.tables.registry.layout_differences import canonical_json
from hbmodel.tables.registry.registry_rows import ROWS, registry_row
from hbmodel.tables.registry.registry_table import Registry
from tests.support.beds import drop_left, rows_of, set_state
from tests.support.faulty import RecordingStore
from tests.support.waiting import PATIENCE
from tests.tables.versioned_migration_models import TIMES, Parcel, Sent, parcel, session_of

QUICK = hb.indexes.IndexTimes(lease=0.1, longest_call=0.05, grace=20, clock_bound=2)
migration = partial(hb.migration.migrate, times=QUICK)
NEW = hb.schema.schema_of(Sent)
assert NEW.replaces is not None
OLD = NEW.replaces


def numbers(found: Sequence[Any]) -> list[int]:
    return [one.number for one in found]


def all_of(session: hb.Session) -> list[int]:
    return numbers(session.query(Sent).use_index("primary").allow_full_scan().all())


def set_phase(store: hb.Store, phase: str) -> None:
    """Has programs that read the registry from now on be in a phase."""
    registry = Registry(store)
    found = registry.read(OLD)
    assert found is not None
    assert registry.change_move(OLD, NEW, found, phase)


@pytest.fixture
def store() -> Iterator[hb.Store]:
    with EmbeddedStore(None) as made:
        hb.create_tables(made, Parcel)
        yield made


@pytest.fixture(params=["memory", "file", pytest.param("thrift2", marks=[pytest.mark.hbase, pytest.mark.slow])])
def anywhere(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[hb.Store]:
    """A store without tables of these models."""
    if request.param == "thrift2":
        url = f"{request.getfixturevalue('hbmodel_hbase').thrift2_url}?table_prefix=seal"
    else:
        url = "memory:" if request.param == "memory" else f"embedded:{tmp_path / 'store.db'}"
    with hb.connect(url) as made:
        hb.create_tables(made, Parcel)
        yield made
        drop_left(made)


@pytest.mark.lengthy
def test_objects_move_while_programs_write_and_back_and_for_good(anywhere: hb.Store) -> None:
    session = session_of(anywhere)
    session.add_all(parcel(number) for number in range(40))
    session.commit()
    read = {number: session.get(Sent, number=number, city=number % 7) for number in range(40)}
    moving = hb.migration.migrate(anywhere, Sent, times=QUICK if isinstance(anywhere, EmbeddedStore) else TIMES)
    assert (moving.status().phase, moving.start().copied) == ("before", True)
    assert all_of(session) == list(range(39, -1, -1))
    for number, one in read.items():  # nobody has changed them: what was read before is of the version that they have
        assert one is not None
        assert session.get(Sent, number=number, city=number % 7) == one
        if number < 5:
            session.update(one, count=7, state="s7")
    session.delete(read[39])
    session.commit()
    assert session.put(Sent, number=40, city=40 % 7, state="s0", count=0)
    assert not session.put(Sent, number=40, city=40 % 7, state="s0", count=3)
    with pytest.raises(hb.RowExists):
        session.insert(parcel(3))
    session.update(read[3], count=8)
    with pytest.raises(hb.ConflictError):
        session.commit()
    session.discard()
    expected = [40, *range(38, -1, -1)]
    assert all_of(session) == expected
    assert numbers(session.query(Sent).where(Sent.state == "s7").all()) == [4, 3, 2, 1, 0]
    checked = moving.verify()
    assert checked.sound, checked.as_check()
    assert (checked.rows, checked.only_new) == (40, 40)
    with pytest.raises(hb.SchemaMismatch, match="moved to another one"):
        session_of(anywhere).get(Parcel, city=1, number=1)
    assert moving.roll_back().phase == BEFORE
    assert sorted(numbers(session_of(anywhere).query(Parcel).allow_full_scan().all())) == sorted(expected)
    assert sorted(numbers(session_of(anywhere).query(Parcel).where(Parcel.state == "s7").all())) == [0, 1, 2, 3, 4]
    assert NEW.table not in anywhere.tables()
    session.delete_key(Sent, number=0, city=0)
    session.insert(parcel(39))
    assert not session.put(Sent, number=39, city=39 % 7, state="s1", count=1)
    session.update(read[6], count=6)
    session.commit()
    assert moving.start().copied
    assert moving.cut_over().phase == DONE
    session.add(parcel(50))
    session.delete_key(Sent, number=1, city=1)
    session.commit()
    assert all_of(session) == [50, *range(40, 1, -1)]
    assert hb.indexes.verify_index(anywhere, Sent, "by_state", times=TIMES).sound
    hb.drop_tables(anywhere, Parcel)
    assert len(all_of(session_of(anywhere))) == 40


@pytest.mark.lengthy
@pytest.mark.parametrize("kind", ["file", pytest.param("thrift2", marks=pytest.mark.hbase)])
def test_movers_and_writers_are_killed_and_nothing_is_lost_or_doubled(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    if kind == "file":
        url = f"embedded:{tmp_path / 'store.db'}"
    else:
        url = f"{request.getfixturevalue('hbmodel_hbase').thrift2_url}?table_prefix=sealkill"
    with hb.connect(url) as store:
        hb.create_tables(store, Parcel)
        session = session_of(store)
        session.add_all(parcel(number) for number in range(100))
        session.commit()
        run = partial(subprocess.Popen, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])
        program = [sys.executable, "-m", "tests.tables.versioned_migration_models", url]
        said: list[str] = []
        writers = [run([*program, "count", str(start)]) for start in (10_000, 20_000)]
        movers = [run(program), run(program)]
        try:
            moving = migration(store, Sent)
            for start in (30_000, 40_000):
                _wait_until(partial(_moved, moving, (start - 20_000) // 1000))
                mover, writer = movers.pop(0), writers.pop(0)
                assert writer.stdout is not None
                said.append(writer.stdout.readline().strip())  # it has begun, however slow the machine is
                for process in (mover, writer):
                    process.kill()
                mover.communicate()
                said += writer.communicate()[0].splitlines()
                movers.append(run(program))
                writers.append(run([*program, "count", str(start)]))
            if kind == "file":
                assert moving.roll_back().phase == BEFORE
            assert moving.start().copied
            assert moving.cut_over().phase == DONE
            time.sleep(0.3)
        finally:
            for process in (*writers, *movers):
                process.kill()
            for process in movers:
                process.communicate()
            for process in writers:
                said += process.communicate()[0].splitlines()
        session = session_of(store)
        found = session.query(Sent).use_index("primary").allow_full_scan().all()
        assert len({one.number for one in found}) == len(found), "an object came twice"
        counts = {one.number: one.count for one in found}
        done = [line.split() for line in said if line]
        counted = Counter(int(number) for what, number in done if what == "counted")
        assert done
        unsaid = sum(counts[number] - counted[number] for number in range(100))
        assert all(counts[number] >= counted[number] for number in range(100)), "an acknowledged update is lost"
        assert unsaid <= 4, "each writer has died in one update at most"
        added, deleted = ({int(number) for what, number in done if what == kind_} for kind_ in ("added", "deleted"))
        assert counts.keys() >= added - deleted - {max(added, default=0)} - {
            number for number in added if number + 1 not in added
        }
        assert not counts.keys() & deleted, "a deleted object is back"
        assert len(counts) <= 100 + len(added - deleted) + 4
        for state in range(5):
            stored = sorted(number for number, count in counts.items() if count % 5 == state)
            assert sorted(numbers(session.query(Sent).where(Sent.state == f"s{state}").all())) == stored
        assert hb.indexes.verify_index(store, Sent, "by_state", times=TIMES).missing == 0
        drop_left(store)


def _moved(moving: hb.migration.Migration, rows: int) -> bool:
    now = moving.status()
    return now.phase == MOVING and now.rows > rows


def _wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


WAY_BACK = (BEFORE, PREPARED, MOVING, HALTING, TURNED, RETURNING, RETURNED)


@pytest.mark.lengthy
def test_programs_are_not_cut_over_to_a_table_that_is_gone(store: hb.Store) -> None:
    session = session_of(store)
    session.add_all(parcel(number) for number in range(3))
    session.commit()
    moving = hb.migration.migrate(store, Sent, times=QUICK)
    assert moving.start().copied
    store.delete_table(NEW.table)
    with pytest.raises(hb.errors.TableNotFound):
        moving.cut_over()
    assert moving.status().phase == "moving"


def test_a_start_ends_when_another_program_rolls_the_migration_back(store: hb.Store) -> None:
    session = session_of(store)
    session.add_all(parcel(number) for number in range(3))
    session.commit()
    rolled_back: list[str] = []

    def roll_back(progress: hb.migration.MigrationProgress) -> None:
        if progress.phase == "copying" and not rolled_back:
            rolled_back.append(migration(store, Sent).roll_back().phase)

    with pytest.raises(
        hb.errors.MigrationError,
        match=r"moved the migration to another phase in the meantime: call "
        r"status\(\)",
    ) as caught:
        migration(store, Sent, progress=roll_back).start()
    assert rolled_back == [caught.value.phase] == [BEFORE]
    assert sorted(all_of(session)) == [0, 1, 2]


@pytest.mark.lengthy
@pytest.mark.parametrize("there", [True, False])
def test_every_kind_of_write_in_every_phase(store: hb.Store, there: bool) -> None:
    """Each program may know the phase before the current one."""
    hb.create_tables(store, Sent)
    steps = (BEFORE, PREPARED, MOVING, CUT, DONE) if there else WAY_BACK
    expected: dict[int, int] = {}
    read: dict[int, Sent] = {}
    late = hb.Session(store, lease=3600)
    for at, phase in enumerate(steps):
        if phase in {CUT, RETURNED}:
            _complete(store, back=phase == RETURNED)
        set_phase(store, phase)
        now = hb.Session(store, lease=3600)
        late.query(Sent)
        for which, session in enumerate((late, now)):
            if at == 0 and which == 0:
                continue
            number = 10 * (2 * at + which)
            session.add(parcel(number))
            session.commit()
            new = session.insert(parcel(number + 1))
            assert new.version > 0
            session.insert(parcel(number + 2))
            expected |= {number: 0, number + 1: 0, number + 2: 0}
            with pytest.raises(hb.RowExists):
                session.insert(parcel(number + 1))
            changed = session.update(new, count=1, state="s1")
            session.commit()
            assert changed.version == new.version + 1
            with pytest.raises(hb.ConflictError):
                _update(session, new)
            expected[number + 1] = 1
            for earlier, one in read.items():  # what was read in an earlier phase has the version that it had
                if earlier in expected and (earlier // 10 + number // 10) % 3 == 0:
                    if earlier % 3:
                        expected[earlier] = one.count + 1
                        read[earlier] = session.update(one, count=one.count + 1, state=f"s{one.count + 1}")
                    else:
                        session.delete(one)
                        del expected[earlier]
                    session.commit()
            for every in (late, now):
                found = every.query(Sent).use_index("primary").allow_full_scan().all()
                assert {one.number: one.count for one in found} == expected
                assert len(found) == len(expected), "an object came twice"
                keys = [(number, number % 7) for number in range(200)]
                assert [one.number for one in every.get_many(Sent, keys) if one is not None] == sorted(expected)
                for state in (0, 1):
                    query = every.query(Sent).where(Sent.state == f"s{state}")
                    assert sorted(numbers(query.all())) == sorted(
                        number for number, count in expected.items() if count == state
                    )
                    assert query.limit(2).all() == query.all()[:2]
            gone = read.keys() - expected.keys()
            read = {one.number: one for one in now.query(Sent).allow_full_scan()}
            for number in gone:
                session.insert(parcel(number))
                expected[number] = 0
        late = now


def _update(session: hb.Session, one: Sent) -> None:
    session.update(one, count=9)
    try:
        session.commit()
    finally:
        session.discard()


def _complete(store: hb.Store, *, back: bool) -> None:
    moving = migration(store, Sent)
    with moving._copying(back=back, phase=RETURNING if back else MOVING) as copying:
        moving._complete(copying)


# --- what is refused --------------------------------------------------------------------------------------------------


def test_what_cannot_move_is_refused(store: hb.Store) -> None:
    with pytest.raises(hb.CapabilityError, match="leave out offline"):
        migration(store, Sent, offline=True)
    with pytest.raises(
        hb.CapabilityError, match="Versioned objects can be moved only in a store with check-and-mutate: embedded, or"
    ):
        migration(RecordingStore(store, limited=True), Sent)
    hb.create_tables(store, Sent)
    set_phase(store, MOVING)
    session = hb.Session(store)
    with pytest.raises(hb.CapabilityError, match=r"^prepend\(\) and rekey\(\)"):
        session.rekey(parcel(1), number=2)
    with pytest.raises(hb.CapabilityError, match=r"^prepend\(\) and rekey\(\)"):
        session.prepend(Sent, number=3, state="s", count=1)
    with pytest.raises(hb.CapabilityError, match="has no partitions"):
        session.query(Sent).allow_full_scan().partitions(2)
    with pytest.raises(hb.CapabilityError, match="delete the objects one by one"):
        session.query(Sent).allow_full_scan().delete()


def test_a_check_and_a_migration_print_what_matters(store: hb.Store) -> None:
    session = session_of(store)
    session.add_all(parcel(number) for number in range(3))
    session.commit()
    moving = migration(store, Sent)
    assert repr(moving) == "Migration(parcels_by_city -> parcels_by_number)"
    assert str(moving.start()).splitlines()[1].strip().startswith("copied 3 rows")
    checked = moving.verify()
    assert checked.checked
    assert checked.as_json["checked"]
    assert str(checked).splitlines()[:3] == [
        "parcels_by_city -> parcels_by_number: moving",
        "  rows 3, missing 0, differing 0, only in the new table 3",
        "  sound",
    ]
    assert "parcels_by_number.by_state" in str(checked)
    assert "not sound" in str(evolve(checked, missing=1))


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("unique", "The key of a versioned model with a unique index cannot be"),
        ("counter", "The key of a versioned model with counters cannot be changed"),
    ],
)
def test_layouts_whose_rows_cannot_be_sealed_are_refused_where_they_are_declared(what: str, message: str) -> None:
    def declare(table: str, replaces: type[Any] | None = None) -> type[Any]:
        if what == "counter":

            @hb.model(table=table, family="d", replaces=replaces)
            class Counted:
                number: hb.Key[int] = hb.key(hb.codecs.UInt16)
                visits: hb.Column[int] = hb.counter("c")
                version: hb.Column[int] = hb.version()

            return Counted

        @hb.model(table=table, family="d", replaces=replaces)
        class Named:
            number: hb.Key[int] = hb.key(hb.codecs.UInt16)
            name: hb.Column[str] = hb.column("n")
            version: hb.Column[int] = hb.version()

            by_name = hb.index("name", unique=what == "unique")

        return Named

    earlier = declare(f"refused_{what}_a")
    with pytest.raises(hb.DeclarationError, match=message):
        declare(f"refused_{what}_b", earlier)


def badges(table: str, unique: bool, replaces: type[Any] | None = None) -> Any:
    """A versioned model whose names may be unique; by city, or by number."""

    keys = {"city": hb.key(hb.codecs.UInt8), "number": hb.key(hb.codecs.UInt16)}
    body: dict[str, Any] = dict(sorted(keys.items(), reverse=table == "badges_by_number"))
    hints: dict[str, Any] = dict.fromkeys(body, hb.Key[int])
    body |= {"name": hb.column("n"), "version": hb.version()}
    hints |= {"name": hb.Column[str], "version": hb.Column[int]}
    if unique:
        body["by_name"] = hb.index("name", unique=True)
    return hb.model(table=table, family="d", replaces=replaces)(type("Badge", (), {**body, "__annotations__": hints}))


@pytest.mark.lengthy
@pytest.mark.parametrize("shared", [False, True])
def test_a_unique_index_is_dropped_before_the_objects_move_and_built_after_it(shared: bool) -> None:
    unique, plain = badges("badges_by_city", True), badges("badges_by_city", False)
    moved = badges("badges_by_number", False, plain)
    with EmbeddedStore(None) as made:
        hb.create_tables(made, unique)
        programs = session_of(made)
        programs.add_all(unique(city=n % 3, number=n, name=f"n{n}") for n in range(10))
        programs.commit()
        with pytest.raises(
            hb.DeclarationError, match=r"unique index.*hb\.indexes\.drop_index\(\).*hb\.indexes\.build_index\(\)"
        ):
            badges("badges_by_number", False, unique)
        assert hb.indexes.drop_index(made, unique, "by_name", times=QUICK)
        # programs that still declare the index continue to write
        programs.insert(unique(city=1, number=10, name="n10"))
        moving = hb.migration.migrate(made, moved, times=QUICK)
        assert moving.start().copied
        late = session_of(made)
        late.insert(moved(city=1, number=11, name="n3" if shared else "n11"))
        assert moving.cut_over().phase == DONE
        again = badges("badges_by_number", True)
        hb.create_tables(made, again)
        built = hb.indexes.build_index(made, again, "by_name", times=QUICK)
        assert (built.readable, built.duplicates) == (not shared, int(shared))
        if shared:
            with session_of(made) as mending:
                mending.delete_key(again, city=1, number=11)
            assert hb.indexes.build_index(made, again, "by_name", times=QUICK).readable
        session = session_of(made)
        assert session.query(again).where(again.name == "n3").one().number == 3
        with pytest.raises(hb.UniqueViolation):
            session.insert(again(city=2, number=12, name="n10"))


@pytest.mark.lengthy
def test_an_object_between_two_keys_does_not_move_and_stops_the_cut(store: hb.Store) -> None:
    session = session_of(store)
    session.add_all(parcel(number) for number in range(3))
    session.commit()
    (row,) = (row for row in rows_of(store, OLD.table) if row.endswith(b"\x01"))
    store.put(OLD.table, [Put(row, {OLD.move_column: MoveMark(LEAVING, b"12345678", b"elsewhere").value})])
    moving = migration(store, Sent)
    report = moving.start()
    assert (report.rows, report.refused, report.copied) == (3, 1, False)
    assert "A program that crashed was moving the object to another key: finish the move with rekey() first." in str(
        report
    )
    with pytest.raises(hb.errors.MigrationError, match="Some rows could not be copied"):
        moving.cut_over()
    assert all_of(session) == [2, 1, 0]
    assert moving.roll_back().phase == BEFORE


# --- programs that stand still ----------------------------------------------------------------------------------------


@pytest.mark.lengthy
@pytest.mark.parametrize("call", ["add", "update", "insert", "delete"])
@pytest.mark.parametrize("lost", [False, True])
def test_a_write_that_stands_still_while_its_row_moves_is_carried_out_once(
    store: hb.Store, monkeypatch: pytest.MonkeyPatch, call: str, lost: bool
) -> None:
    """The answer may be lost too: what became of the call is found out in the other table."""
    session = hb.Session(store, lease=0, longest_call=0.05, grace=20, clock_bound=2)
    session.add(parcel(1))
    session.commit()
    read = session.get(Sent, number=1, city=1)
    change, done = store.check_and_mutate_many, []

    def slow(table: str, changes: Any) -> Any:
        if done or table != OLD.table:
            return change(table, changes)
        done.append(table)
        found = change(table, changes) if lost else None
        monkeypatch.setattr(store, "check_and_mutate_many", change)
        with gated(None):  # another program does it
            assert migration(store, Sent).start().copied
        if lost:
            raise hb.UnknownOutcome("The answer is lost.", table=table)
        return change(table, changes) if found is None else found

    monkeypatch.setattr(store, "check_and_mutate_many", slow)
    if call == "insert":
        try:
            session.insert(parcel(2))
        except hb.UnknownOutcome:
            assert lost
    else:
        if call == "add":
            session.add(parcel(2))
        elif call == "update":
            session.update(read, count=5)
        else:
            session.delete(read)
        for _ in range(2):
            try:
                session.commit()
            except (hb.PartialWrite, hb.UnknownOutcome):
                assert lost
    assert done
    expected = {"add": {1: 0, 2: 0}, "insert": {1: 0, 2: 0}, "update": {1: 5}, "delete": {}}[call]
    found = hb.Session(store).query(Sent).use_index("primary").allow_full_scan().all()
    assert {one.number: one.count for one in found} == expected
    for one in found:
        session.update(one, count=9)
        session.commit()


@pytest.mark.lengthy
@pytest.mark.parametrize("call", ["add", "update", "insert", "delete"])
@pytest.mark.parametrize("ends", [False, True])
def test_a_session_that_has_read_the_earlier_model_writes_the_later_one(store: hb.Store, call: str, ends: bool) -> None:
    """Which it can no longer read: what it knows of that model does not concern the write."""
    session = session_of(store)
    session.add(parcel(1))
    session.commit()
    assert len(session.query(Parcel).allow_full_scan().all()) == 1
    moving = migration(store, Sent)
    assert moving.start().copied
    if ends:
        moving.cut_over()
    read = session.get(Sent, number=1, city=1)
    if call == "insert":
        session.insert(parcel(2))
    elif call == "add":
        session.add(parcel(2))
    elif call == "update":
        session.update(read, count=5)
    else:
        session.delete(read)
    session.commit()
    with pytest.raises(
        hb.SchemaMismatch,
        match=r"to another one: use the model of that table, with "
        r"@hb\.model\(replaces=\.\.\.\)",
    ):
        session.query(Parcel).allow_full_scan().all()
    expected = {"add": {1: 0, 2: 0}, "insert": {1: 0, 2: 0}, "update": {1: 5}, "delete": {}}[call]
    assert {
        one.number: one.count for one in hb.Session(store).query(Sent).use_index("primary").allow_full_scan()
    } == expected


@pytest.mark.lengthy
def test_a_write_whose_row_moved_and_returned_since_it_was_read_is_carried_out(
    store: hb.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = session_of(store)
    session.add(parcel(1))
    session.commit()
    session.update(session.get(Sent, number=1, city=1), count=5)
    read, done = store.get, []

    def slow(table: str, *more: Any) -> Any:
        if done or table != OLD.table:
            return read(table, *more)
        done.append(table)
        moving = migration(store, Sent)
        assert moving.start().copied
        found = read(table, *more)
        assert moving.roll_back().phase == BEFORE
        return found

    monkeypatch.setattr(store, "get", slow)
    session.commit()
    assert done
    assert [one.count for one in hb.Session(store).query(Sent).use_index("primary").allow_full_scan()] == [5]


def test_a_write_does_not_wait_for_a_row_that_the_next_phase_seals(
    store: hb.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever sealed it has died; programs of the next phase move it themselves."""
    session = hb.Session(store, lease=0, longest_call=0.05, grace=20, clock_bound=2)
    session.add(parcel(1))
    session.commit()
    assert migration(store, Sent).start().copied
    session.update(session.get(Sent, number=1, city=1), count=5)
    set_phase(store, HALTING)
    read, reads = store.get, []
    new, old = (VersionedRowPlanner(of, tuple(of.indexes.values()), 100) for of in (NEW, OLD))
    way = Way(new, evolve(old, over_closed=True), back=True)

    def slow(table: str, rows: Sequence[bytes], columns: Sequence[bytes] = ()) -> Any:
        if table == NEW.table and not reads:
            set_phase(store, TURNED)
            set_phase(store, RETURNING)
            (row,) = read(table, rows, columns)
            assert row is not None
            assert store.check_and_mutate_many(table, [way.seal(row.row, way.old(row), 0)]) == [True]
        reads.append(table)
        return read(table, rows, columns)

    monkeypatch.setattr(store, "get", slow)
    session.commit()
    assert len([table for table in reads if table in {OLD.table, NEW.table}]) < 10
    assert [one.count for one in hb.Session(store).query(Sent).use_index("primary").allow_full_scan()] == [5]


def test_a_program_that_knows_nothing_of_the_move_does_not_write_a_sealed_row(store: hb.Store) -> None:
    late = hb.Session(store, lease=3600)
    late.add(Parcel(city=1, number=1, state="s0", count=0))
    late.commit()
    read = late.get(Parcel, city=1, number=1)
    assert migration(store, Sent).start().copied
    late.update(read, count=5)
    with pytest.raises(
        hb.SchemaMismatch,
        match="The row is sealed, because its object is being moved to another table: use the model of",
    ):
        late.commit()
    late.discard()
    assert [one.count for one in hb.Session(store).query(Sent).use_index("primary").allow_full_scan()] == [0]


def test_a_write_whose_row_others_keep_moving_is_given_up(store: hb.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = partial(hb.Session, store, lease=0, longest_call=0.05, grace=20, clock_bound=2)
    session = opened(sizes=SessionSizes(move_rounds=1))
    session.add(parcel(1))
    session.commit()
    hb.create_tables(store, Sent)
    set_phase(store, PREPARED)
    read, reads = store.get, []
    old, new = (VersionedRowPlanner(of, tuple(of.indexes.values()), 100) for of in (OLD, NEW))
    way = Way(old, new, back=False)

    def slow(table: str, rows: Sequence[bytes], columns: Sequence[bytes] = ()) -> Any:
        reads.append(table)
        if table == OLD.table and reads.count(table) == 2:  # it was live at the first look
            (row,) = read(table, rows, columns)
            assert row is not None
            found = way.old(row)
            assert store.check_and_mutate_many(table, [way.seal(row.row, found, found.newest)]) == [True]
        return read(table, rows, columns)

    session.update(session.get(Sent, number=1, city=1), count=5)
    with monkeypatch.context() as patched:
        patched.setattr(store, "get", slow)
        with pytest.raises(hb.ConflictError, match="Other programs keep moving the object: try again"):
            session.commit()
    session = opened()
    session.update(session.get(Sent, number=1, city=1), count=6)
    session.commit()
    assert [one.count for one in hb.Session(store).query(Sent).use_index("primary").allow_full_scan()] == [6]


def test_an_insert_whose_answer_is_lost_while_objects_move_is_in_doubt(store: hb.Store) -> None:
    hb.create_tables(store, Sent)
    set_phase(store, MOVING)

    class Losing(RecordingStore):
        def check_and_mutate_many(self, table: str, changes: Any) -> Any:
            super().check_and_mutate_many(table, changes)
            raise hb.UnknownOutcome("The answer is lost.", table=table)

    with pytest.raises(
        hb.UnknownOutcome, match="The object may or may not have been put: read its key to find out"
    ) as caught:
        hb.Session(Losing(store)).insert(parcel(1))
    assert caught.value.pending is None


def test_an_index_that_is_taken_from_a_query_of_two_tables_ends_it(
    store: hb.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    hb.create_tables(store, Sent)
    set_phase(store, MOVING)
    session = hb.Session(store, lease=0, longest_call=0.05, grace=20, clock_bound=2)
    session.add(parcel(1))
    session.commit()
    query, scan = session.query(Sent).where(Sent.state == "s0").use_index("by_state"), store.scan
    assert numbers(query.all()) == [1]

    def slow(table: str, scans: Any) -> Any:
        if table == NEW.indexes["by_state"].table:
            set_state(store, Sent, "by_state", "write-only")
        return scan(table, scans)

    monkeypatch.setattr(store, "scan", slow)
    with pytest.raises(hb.errors.IndexUnavailable, match="The index cannot be read"):
        query.all()


@pytest.mark.parametrize("through", ["primary", "by_state"])
def test_a_query_of_two_tables_goes_on_when_rows_are_kept_otherwise(
    store: hb.Store, monkeypatch: pytest.MonkeyPatch, through: str
) -> None:
    hb.create_tables(store, Sent)
    set_phase(store, MOVING)
    session = hb.Session(store, lease=0, longest_call=0.05, grace=20, clock_bound=2)
    session.add_all(parcel(number) for number in range(8))
    session.commit()
    query, scan = session.query(Sent).use_index(through).allow_full_scan(), store.scan
    expected = numbers(query.all())
    changed: list[str] = []

    def slow(table: str, scans: Any) -> Any:
        rows = scan(table, scans)
        if table in {NEW.table, NEW.indexes["by_state"].table} and not changed:
            changed.append(table)
            store.put("hbmodel", [Put(registry_row(NEW), {ROWS: canonical_json({"state": "adopting"})})])
        return rows

    monkeypatch.setattr(store, "scan", slow)
    assert numbers(query.all()) == expected
    assert changed
    assert len(expected) == 8


def test_a_query_that_is_read_while_rows_leave_its_table_says_so(store: hb.Store) -> None:
    session = hb.Session(store, lease=0, longest_call=0.05, grace=20, clock_bound=2)
    session.add_all(parcel(number) for number in range(10))
    session.commit()
    items = iter(session.query(Sent).use_index("primary").allow_full_scan())
    next(items)
    migration(store, Sent).start()
    with pytest.raises(hb.SchemaMismatch, match="The migration went on to its next phase during the query"):
        list(items)
    assert len(all_of(session)) == 10


@hb.model(table="stamped", family="d")
class Stamped:
    """Keys as Java programs write them, and text that is never empty."""

    user: hb.Key[str] = hb.key(hb.codecs.Unterminated(hb.Text, followed_by=8))
    at: hb.Key[int] = hb.key(hb.codecs.UInt64, desc=True)
    tag: hb.Column[str] = hb.column("t", hb.codecs.NonEmpty(hb.Text))
    version: hb.Column[int] = hb.version()

    by_tag = hb.index("tag")


@hb.model(table="stamped_by_text", family="d", replaces=Stamped)
class ByText:
    user: hb.Key[str] = hb.key()
    at: hb.Key[int] = hb.key(hb.codecs.UInt64)
    tag: hb.Column[str] = hb.column("t")
    version: hb.Column[int] = hb.version()

    by_tag = hb.index("tag")


@pytest.mark.lengthy
def test_keys_without_a_terminator_move() -> None:
    users = ("", "a", "ab", "a\0", "abc", "\uffff", "aaaaaaaa", "aaaaaaaaa")
    places = [(user, at) for user in users for at in (0, 1, 2**64 - 1)]
    with EmbeddedStore(None) as store:
        hb.create_tables(store, Stamped)
        before = session_of(store)
        for user, at in places:
            before.insert(Stamped(user=user, at=at, tag=f"x{user}"))
        moved = before.rekey(before.get(Stamped, user="ab", at=1), user="b")
        before.rekey(moved, user="ab")
        hb.create_tables(store, ByText)
        moving = migration(store, ByText)
        for step in (moving.start, moving.roll_back, moving.start, moving.cut_over):
            step()
            session = session_of(store)
            for user in users:
                own = [place for place in places if place[0] == user]
                found = session.query(ByText).where(ByText.user == user)
                assert sorted((each.user, each.at) for each in found) == own
                tagged = session.query(ByText).where(ByText.tag == f"x{user}")
                assert sorted((each.user, each.at) for each in tagged) == own
            new = ("ab", len(places))
            session.insert(ByText(user=new[0], at=new[1], tag="xab"))
            places = sorted([*places, new])


def by_room(table: str, replaces: type[Any] | None = None, *, indexed: bool = True) -> Any:
    """A model of chairs, with or without its index."""
    body: dict[str, Any] = {
        "room": hb.key(),
        "chair": hb.key(),
        "state": hb.column("s"),
        "version": hb.version(),
        "__annotations__": {
            "room": hb.Key[int],
            "chair": hb.Key[int],
            "state": hb.Column[str],
            "version": hb.Column[int],
        },
        **({"by_state": hb.index("state")} if indexed else {}),
    }
    return hb.model(table=table, family="d", replaces=replaces)(type("ByRoom", (), body))


@pytest.mark.parametrize("lacking", ["old", "new"])
def test_a_program_that_cannot_copy_rows_does_not_begin_to_roll_back(lacking: str) -> None:
    with EmbeddedStore(None) as store:
        old = by_room("chairs")
        hb.create_tables(store, old)
        with hb.Session(store) as session:
            session.add(old(room=1, chair=1, state="free"))
        able = migration(store, by_room("chairs_new", old))
        able.start()
        incomplete = by_room("chairs_new", by_room("chairs", indexed=lacking != "old"), indexed=lacking != "new")
        with pytest.raises(hb.errors.IndexUnavailable) as caught:
            migration(store, incomplete).roll_back()
        assert caught.value.index == "by_state"
        assert able.status().phase == MOVING
        assert able.roll_back().phase == BEFORE
