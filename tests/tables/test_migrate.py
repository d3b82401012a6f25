"""Changing the key of a table: its phases on every store, queries over two tables, killed movers and programs that
write meanwhile.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from enum import Enum, IntEnum, StrEnum
from functools import partial
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.protocol.relocation.migration_phases import (
    BEFORE,
    CLOSED,
    CUT,
    DONE,
    MOVING,
    PHASES,
    PREPARED,
    RETURNED,
    RETURNING,
)
from hbmodel.session.queries.two_table_queries import TwoTableQueries
from hbmodel.store import Delete, Put
from hbmodel.store.embedded import EmbeddedStore
from hbmodel.tables.registry.migration_phase import MOVE
from hbmodel.tables.registry.registry_rows import registry_row
from hbmodel.tables.registry.registry_table import Registry
from hbmodel.tools.cli import main
from tests.support.beds import HBASE, drop_left, rows_of
from tests.support.examples import examples
from tests.support.faulty import Crash, FaultyStore
from tests.support.lease_clock import LeaseClock
from tests.support.page_walks import Step, check_walk, steps
from tests.support.waiting import PATIENCE
from tests.tables.migration_models import TIMES, Moved, Visit, session_of, visit

QUICK = hb.indexes.IndexTimes(lease=0.1, longest_call=0.05, grace=20, clock_bound=2)
migration = partial(hb.migration.migrate, times=QUICK)
NEW = hb.schema.schema_of(Moved)
assert NEW.replaces is not None
OLD = NEW.replaces


def old(number: int) -> Visit:
    made = visit(number)
    return Visit(user=made.user, number=made.number, page=made.page, note=made.note)


def numbers(found: Sequence[Any]) -> list[int]:
    return [one.number for one in found]


def all_of(session: hb.Session) -> list[int]:
    return numbers(session.query(Moved).use_index("primary").allow_full_scan().all())


def set_phase(store: hb.Store, phase: str) -> None:
    """Has programs that read the registry from now on be in a phase."""
    registry = Registry(store)
    found = registry.read(OLD)
    assert found is not None
    assert registry.change_move(OLD, NEW, found, phase)


def beside(model: Any) -> Any:
    """A model with the key of another one, in a family of its own in the same table."""
    schema = hb.schema.schema_of(model)

    @hb.model(table=schema.table, family="beside")
    class Beside:
        number: hb.Key[int] = hb.key()
        text: hb.Column[str] = hb.column("x")

    return Beside


def test_the_new_table_belongs_to_one_model_until_the_cutover() -> None:
    """A rollback drops the table, with everything that other models have stored in it."""
    neighbour = beside(Moved)
    with hb.connect("memory:") as store:
        hb.create_tables(store, Visit)
        with session_of(store) as session:
            session.add_all(old(number) for number in range(4))
        hb.create_tables(store, Moved, neighbour)
        with pytest.raises(hb.errors.MigrationError, match="give the new model a table of its own"):
            migration(store, Moved).start()
        assert migration(store, Moved).status().phase == BEFORE
        hb.drop_tables(store, Moved, neighbour)
        migration(store, Moved).start()
        with pytest.raises(hb.SchemaMismatch) as caught:
            hb.alter(store, neighbour)
        (refused,) = caught.value.differences
        assert "objects of visits_by_user are being moved into it" in refused
        assert "add another model to the table after the migration" in refused
        hb.create_tables(store, Moved)
        migration(store, Moved).roll_back()
        hb.create_tables(store, neighbour)
        hb.drop_tables(store, neighbour)
        migration(store, Moved).start()
        migration(store, Moved).cut_over()
        hb.alter(store, neighbour)
        with hb.Session(store) as session:
            session.add(neighbour(number=1, text="x"))
        assert len(all_of(session_of(store))) == 4


@pytest.fixture
def store() -> Iterator[hb.Store]:
    with EmbeddedStore(None) as made:
        hb.create_tables(made, Visit)
        yield made


SLOW = {kind: pytest.param(kind, marks=[pytest.mark.hbase, pytest.mark.slow]) for kind in ("thrift1", "thrift2")}
"""By default one gateway moves to the end, and the other has its movers killed."""


@pytest.fixture(params=["memory", "file", HBASE[0], SLOW["thrift2"]])
def anywhere(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[hb.Store]:
    """A store without tables of these models."""
    kind = request.param
    if kind.startswith("thrift"):
        local = request.getfixturevalue("hbmodel_hbase")
        url = f"{local.url if kind == 'thrift1' else local.thrift2_url}?table_prefix=mig{kind[-1]}"
    else:
        url = "memory:" if kind == "memory" else f"embedded:{tmp_path / 'store.db'}"
    with hb.connect(url) as made:
        hb.create_tables(made, Visit)
        yield made
        drop_left(made)


# --- from the beginning to the end ------------------------------------------------------------------------------------


@pytest.mark.lengthy
def test_objects_move_while_programs_run_and_back_and_for_good(anywhere: hb.Store) -> None:
    session = session_of(anywhere)
    session.bulk_add(visit(number) for number in range(40))
    assert len(rows_of(anywhere, OLD.table)) == 40
    moving = hb.migration.migrate(anywhere, Moved, times=QUICK if isinstance(anywhere, EmbeddedStore) else TIMES)
    assert (moving.status().phase, moving.start().copied) == ("before", True)
    session.add_all(visit(number) for number in (40, 41))
    session.commit()
    assert all_of(session) == list(range(41, -1, -1))
    assert session.get_many(Moved, [{"number": 3, "user": 3}, (41, 6), (99, 1)]) == [visit(3), visit(41), None]
    assert numbers(session.query(Moved).where(Moved.page == "p1").all()) == [41, 36, 31, 26, 21, 16, 11, 6, 1]
    checked = moving.verify()
    assert checked.sound, checked.as_check()
    assert (checked.rows, checked.only_new, [index.sound for index in checked.indexes]) == (40, 2, [True])
    with pytest.raises(hb.SchemaMismatch, match="moved to another one"):
        session_of(anywhere).get(Visit, user=1, number=1)
    assert moving.roll_back().phase == BEFORE
    assert numbers(session_of(anywhere).query(Visit).where(Visit.page == "p1").all()) == sorted(
        numbers(session.query(Moved).where(Moved.page == "p1").all()), key=lambda number: (number % 7, number)
    )
    assert not {NEW.table, f"{NEW.table}.by_page"} & set(anywhere.tables())
    session.delete(visit(0))
    session.commit()
    assert moving.start().copied
    assert moving.cut_over().phase == DONE
    session.delete(visit(1))
    session.add(visit(50))
    session.commit()
    assert all_of(session) == [50, *range(41, 1, -1)]
    assert numbers(session.query(Moved).where(Moved.page == "p0").all()) == [50, *range(40, 0, -5)]
    assert hb.indexes.verify_index(anywhere, Moved, "by_page", times=TIMES).sound
    assert moving.cut_over().phase == DONE
    with pytest.raises(hb.errors.MigrationError, match="programs use only the new table"):
        moving.roll_back()
    hb.drop_tables(anywhere, Visit)
    assert len(all_of(session_of(anywhere))) == 41


@pytest.mark.lengthy
@pytest.mark.parametrize("kind", ["file", SLOW["thrift1"], HBASE[1]])
def test_movers_are_killed_and_programs_write_and_nothing_is_lost_or_doubled(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    if kind == "file":
        url = f"embedded:{tmp_path / 'store.db'}"
    else:
        local = request.getfixturevalue("hbmodel_hbase")
        url = f"{local.url if kind == 'thrift1' else local.thrift2_url}?table_prefix=kill{kind[-1]}"
    with hb.connect(url) as store:
        hb.create_tables(store, Visit)
        session_of(store).bulk_add(visit(number) for number in range(500))
        run = partial(subprocess.Popen, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])
        program = [sys.executable, "-m", "tests.tables.migration_models", url]
        writers, mover = [run([*program, "add", str(start)]) for start in (10_000, 20_000)], run(program)
        try:
            moving = migration(store, Moved)
            for at_least in (40,) if kind == "file" else (20, 100):
                deadline = time.monotonic() + PATIENCE
                while moving.status().rows < at_least and time.monotonic() < deadline:
                    time.sleep(0.02)
                mover.kill()
                mover.communicate()
                assert not moving.status().copied, "it was killed too late"
                mover = run(program)
            assert moving.start().copied
            assert mover.wait(60) == 0
            assert moving.cut_over().phase == DONE
            time.sleep(0.3)
        finally:
            for process in (*writers, mover):
                process.kill()
            mover.communicate()
            written = [int(line) for process in writers for line in process.communicate()[0].split()]
        session = session_of(store)
        found = all_of(session)
        assert written
        assert len(found) == len(set(found)), "an object came twice"
        assert set(found) >= {*range(500), *written}
        assert len(found) <= 500 + len(written) + 2, "what was not acknowledged is one object of each writer at most"
        assert hb.indexes.verify_index(store, Moved, "by_page", times=TIMES).missing == 0
        assert sorted(numbers(session.query(Moved).where(Moved.page >= "p").all())) == sorted(found)
        drop_left(store)


# --- reading both tables ----------------------------------------------------------------------------------------------

PLACES = st.dictionaries(st.integers(0, 30), st.sampled_from(["old", "new", "both"]), max_size=25)
PREDICATES: Sequence[tuple[Any, Callable[[Moved], bool]]] = (
    (Moved.number > 4, lambda one: one.number > 4),
    (Moved.number.in_([1, 2, 3, 20]), lambda one: one.number in {1, 2, 3, 20}),
    ((Moved.number == 5) & (Moved.user == 5), lambda one: (one.number, one.user) == (5, 5)),
    (Moved.user == 2, lambda one: one.user == 2),
    (Moved.user.between(1, 3), lambda one: 1 <= one.user <= 3),
    (Moved.page == "p2", lambda one: one.page == "p2"),
    (Moved.page.in_(["p1", "p3"]), lambda one: one.page in {"p1", "p3"}),
    (Moved.note.is_(None), lambda one: one.note is None),
    (~(Moved.page == "p0") | (Moved.number < 9), lambda one: one.page != "p0" or one.number < 9),
)
ORDERS: Sequence[tuple[Any, bool]] = ((None, True), (Moved.number, False), (Moved.number.desc(), True))


@pytest.mark.lengthy
@given(
    PLACES,
    st.sampled_from([PREPARED, MOVING, RETURNING]),
    st.lists(st.sampled_from(PREDICATES), max_size=2),
    st.sampled_from(ORDERS),
    st.none() | st.integers(0, 12),
    st.integers(0, 3),
    st.integers(1, 6),
    st.booleans(),
    steps,
)
@settings(max_examples=examples(50))
def test_queries_over_both_tables_are_those_over_one(
    places: dict[int, str],
    phase: str,
    wheres: Sequence[tuple[Any, Callable[[Moved], bool]]],
    order: tuple[Any, bool],
    limit: int | None,
    skip: int,
    size: int,
    selected: bool,
    walk: list[Step],
) -> None:
    with EmbeddedStore(None) as store:
        hb.create_tables(store, Visit, Moved)
        filling = hb.Session(store)
        filling.add_all(visit(number) for number, place in places.items() if place != "new")
        filling.commit()
        set_phase(store, MOVING)
        filling = hb.Session(store)
        filling.add_all(visit(number) for number, place in places.items() if place != "old")
        filling.commit()
        set_phase(store, phase)
        session = hb.Session(store)
        query = session.query(Moved).use_index("primary").allow_full_scan()
        for predicate, _ in wheres:
            query = query.where(predicate)
        if order[0] is not None:
            query = query.order_by(order[0])
        expected = [visit(n) for n in sorted(places, reverse=order[1]) if all(test(visit(n)) for _, test in wheres)]
        whole = query
        query = query.offset(skip) if limit is None else query.limit(limit).offset(skip)
        wanted = expected[skip : None if limit is None else skip + limit]
        assert query.all() == wanted
        assert (query.count(), whole.exists(), whole.first()) == (
            len(wanted),
            bool(expected),
            next(iter(expected), None),
        )
        assert whole.reversed().all() == expected[::-1]
        if selected:
            assert query.select(Moved.page, Moved.number).all() == [(one.page, one.number) for one in wanted]
        page, found = query.page(size), []
        while True:
            found += page.items
            if page.next_token is None:
                break
            page = query.page(size, after=page.next_token)
        assert found == wanted
        check_walk(query, wanted, walk)


@pytest.mark.lengthy
@given(PLACES, st.sampled_from(["p0", "p2"]), st.none() | st.integers(0, 3), st.booleans())
@settings(max_examples=examples(30))
def test_queries_through_an_index_of_both_tables(
    places: dict[int, str], page: str, limit: int | None, backwards: bool
) -> None:
    with EmbeddedStore(None) as store:
        hb.create_tables(store, Visit, Moved)
        for phase, other in ((BEFORE, "new"), (MOVING, "old")):
            set_phase(store, phase)
            session = hb.Session(store)
            session.add_all(visit(number) for number, place in places.items() if place != other)
            session.commit()
        query = session.query(Moved).where(Moved.page == page).use_index("by_page").order_by(Moved.number.desc())
        query = query.reversed() if backwards else query
        expected = [number for number in sorted(places, reverse=not backwards) if visit(number).page == page]
        assert numbers((query if limit is None else query.limit(limit)).all()) == expected[:limit]


@hb.model(table="salted", family="d", immutable=True, salt=hb.HashSalt(2))
class Salted:
    number: hb.Key[int] = hb.key(hb.codecs.UInt16)
    page: hb.Column[str] = hb.column("p")


@hb.model(table="salted_more", family="d", immutable=True, salt=hb.HashSalt(5), replaces=Salted)
class SaltedMore:
    number: hb.Key[int] = hb.key(hb.codecs.UInt16)
    page: hb.Column[str] = hb.column("p")


@pytest.mark.lengthy
def test_a_change_of_the_salt_reads_both_tables_side_by_side() -> None:
    """Neither is held in memory: the first page reads no more of the old table than it needs."""
    with EmbeddedStore(None) as store:
        hb.create_tables(store, Salted)
        session = session_of(store)
        session.bulk_add(SaltedMore(number=number, page="x") for number in range(2000))
        hb.migration.migrate(store, SaltedMore, times=TIMES).start()
        assert len(store.regions("salted_more")) == 5
        session.add(SaltedMore(number=5000, page="x"))
        session.commit()
        taken: list[int] = []
        for one in session.query(SaltedMore).allow_full_scan():
            taken.append(one.number)
            if len(taken) == 3:
                break
        assert taken == [0, 1, 2]
        read: list[hb.store.Call] = []
        watching = hb.Session(store, on_call=read.append)
        assert numbers(watching.query(SaltedMore).where(SaltedMore.number >= 10).page(5).items) == [10, 11, 12, 13, 14]
        assert sum(call.rows for call in read if call.table in {"salted", "salted_more"}) < 100


# --- what is refused --------------------------------------------------------------------------------------------------


def test_deletes_and_inserts_wait_until_one_table_is_in_use(store: hb.Store) -> None:
    session = session_of(store)
    session.add(visit(1))
    session.commit()
    session.delete(visit(1))
    session.commit()
    hb.create_tables(store, Moved)
    for name, phase in PHASES.items():
        if name == CLOSED:
            continue
        set_phase(store, name)
        session = hb.Session(store)
        if name == DONE:
            session.insert(visit(2))
        else:
            with pytest.raises(hb.CapabilityError, match="insert"):
                session.insert(visit(2))
            with pytest.raises(hb.CapabilityError, match=r"rekey\(\) are possible once"):
                session.rekey(
                    visit(1), **{name: getattr(visit(2), name) for name in hb.schema.schema_of(Visit).layout.names}
                )
        if phase.changes:
            session.delete_key(Moved, number=2, user=2)
            session.commit()
            assert session.get(Moved, number=2, user=2) is None
            continue
        with pytest.raises(hb.CapabilityError, match="is not possible while objects move between tables, since"):
            session.delete(visit(2))


def test_a_delete_that_waits_for_its_commit_until_objects_move_is_refused_then(store: hb.Store) -> None:
    hb.create_tables(store, Moved)
    session = hb.Session(store, lease=0)
    session.add(visit(1))
    session.commit()
    session.delete(visit(1))
    set_phase(store, PREPARED)
    with pytest.raises(hb.CapabilityError, match="is not possible while objects move between tables, since"):
        session.commit()
    session.discard()
    assert session.get(Moved, number=1, user=1) == visit(1)


def test_a_write_that_outlives_its_phase_is_written_where_others_look(
    store: hb.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program is paused between its call and the acknowledgement, while all others continue to the next phases."""
    hb.create_tables(store, Moved)
    set_phase(store, PREPARED)
    session = hb.Session(store, lease=0)
    put = store.put

    def slow(table: str, puts: Any) -> None:
        put(table, puts)
        if table == OLD.table:
            set_phase(store, MOVING)
            set_phase(store, CUT)

    monkeypatch.setattr(store, "put", slow)
    session.add(visit(1))
    session.commit()
    assert hb.Session(store).get(Moved, number=1, user=1) == visit(1)


def test_queries_of_two_tables_have_no_partitions(store: hb.Store) -> None:
    hb.create_tables(store, Moved)
    session = hb.Session(store)
    assert isinstance(session.query(Moved)._source, TwoTableQueries)
    with pytest.raises(hb.CapabilityError, match="has no partitions"):
        session.query(Moved).allow_full_scan().partitions(2)
    set_phase(store, DONE)
    assert hb.Session(store).query(Moved).allow_full_scan().partitions(2)


def test_a_query_that_outlives_the_migration_asks_for_another(store: hb.Store) -> None:
    """Rolled back, the objects are in the old table again, so the advice is not to move them first."""
    hb.create_tables(store, Moved)
    set_phase(store, MOVING)
    clock = LeaseClock()
    session = clock.session(store)
    session.add_all(visit(number) for number in range(3))
    session.commit()
    items = iter(session.query(Moved).allow_full_scan())
    assert next(items) == visit(2)
    set_phase(store, BEFORE)
    clock.move(seconds=120)
    with pytest.raises(hb.SchemaMismatch, match="rolled back during the query: run the query again"):
        list(items)


@pytest.mark.parametrize(("before", "after"), [(MOVING, BEFORE), (BEFORE, CUT)])
def test_a_query_chooses_its_tables_when_its_first_item_is_read(before: str, after: str, store: hb.Store) -> None:
    hb.create_tables(store, Moved)
    set_phase(store, before)
    clock = LeaseClock()
    session = clock.session(store)
    items = iter(session.query(Moved).allow_full_scan())
    set_phase(store, after)
    clock.move(seconds=120)
    session.add(visit(1))
    session.commit()
    assert list(items) == [visit(1)]


def test_the_first_of_each_key_is_read_once_the_migration_is_over(store: hb.Store) -> None:
    hb.create_tables(store, Moved)
    set_phase(store, MOVING)
    with pytest.raises(
        hb.CapabilityError, match="not possible while both tables are read: wait until the migration is over"
    ):
        hb.Session(store).query(Moved).first_of_each(Moved.number, [2, 9])
    set_phase(store, DONE)
    session = hb.Session(store)
    session.insert(visit(2))
    assert session.query(Moved).first_of_each(Moved.number, [2, 9]) == [visit(2), None]


def test_a_model_of_a_table_that_the_objects_do_not_move_to_is_refused(store: hb.Store) -> None:
    @hb.model(table="visits_elsewhere", family="d", immutable=True, replaces=Visit)
    class Elsewhere:
        number: hb.Key[int] = hb.key(hb.UInt32)
        user: hb.Key[int] = hb.key(hb.codecs.UInt16)
        page: hb.Column[str] = hb.column("p")
        note: hb.Column[str | None] = hb.column("n", default=None)

        by_page = hb.index("page", "number")

    set_phase(store, MOVING)
    with pytest.raises(
        hb.SchemaMismatch, match="not to the table that the model names: use the model of the other table"
    ) as caught:
        hb.Session(store).get(Elsewhere, number=1, user=1)
    assert (caught.value.table, caught.value.to) == (OLD.table, NEW.table)


def test_a_phase_of_a_later_version_stops_programs(store: hb.Store) -> None:
    store.put("hbmodel", [Put(registry_row(OLD), {MOVE: b'{"phase":"resting","to":"visits_by_number"}'})])
    for call in (lambda: hb.Session(store).get(Moved, number=1, user=1), lambda: migration(store, Moved).status()):
        with pytest.raises(
            hb.StoreError, match="in a phase that this version of hbmodel does not know: update hbmodel"
        ) as caught:
            call()
        assert caught.value.table == OLD.table


@hb.model(table=NEW.table, family="d", immutable=True, salt=hb.HashSalt(3))
class Alone:
    """The model of the new table, in a program that does not know the old one."""

    number: hb.Key[int] = hb.key(hb.UInt32, desc=True)
    user: hb.Key[int] = hb.key(hb.codecs.UInt16)
    page: hb.Column[str] = hb.column("p")
    note: hb.Column[str | None] = hb.column("n", default=None)

    by_page = hb.index("page", "number")


def test_a_program_that_knows_only_the_new_table_is_refused_meanwhile(store: hb.Store) -> None:
    moving = migration(store, Moved)
    moving.start()
    with pytest.raises(hb.SchemaMismatch, match="until the migration is over"):
        hb.Session(store).get(Alone, number=1, user=1)
    for model in (Visit, Moved):
        with pytest.raises(hb.SchemaMismatch, match="cut over or roll back first"):
            hb.drop_tables(store, model)
    moving.cut_over()
    assert hb.Session(store).get(Alone, number=1, user=1) is None


def test_a_new_table_that_is_not_empty_is_not_moved_into(store: hb.Store) -> None:
    hb.create_tables(store, Moved)
    set_phase(store, DONE)
    hb.Session(store).insert(visit(1))
    set_phase(store, BEFORE)
    with pytest.raises(hb.errors.MigrationError, match="holds rows"):
        migration(store, Moved).start()


def test_steps_come_in_their_order(store: hb.Store) -> None:
    moving = migration(store, Moved)
    assert moving.roll_back().phase == BEFORE
    with pytest.raises(hb.errors.MigrationError, match=r"Not every row has been copied: call start\(\) first"):
        moving.cut_over()
    with pytest.raises(hb.errors.MigrationError, match="No objects are being moved, so there is nothing to compare"):
        moving.verify()
    moving.start()
    with pytest.raises(
        hb.errors.MigrationError, match="The migration was begun without a maintenance window: leave out offline=True"
    ):
        migration(store, Moved, offline=True).start()
    # Without the refusal, the cutover would not wait for the readers of other programs.
    for call in (hb.migration.Migration.cut_over, hb.migration.Migration.roll_back):
        with pytest.raises(hb.errors.MigrationError, match="leave out offline=True, or --offline"):
            call(migration(store, Moved, offline=True))
    set_phase(store, RETURNED)
    with pytest.raises(hb.errors.MigrationError, match="The migration is being rolled back"):
        moving.start()
    assert moving.roll_back().phase == BEFORE


def test_the_old_table_must_be_registered() -> None:
    with EmbeddedStore(None) as store:
        hb.create_tables(store, Moved)
        session = hb.Session(store)
        session.insert(visit(1))  # without an old table the new one is in use
        assert all_of(session) == [1]
        store.create_table(OLD.table, [hb.store.Family(b"d")])
        with pytest.raises(hb.SchemaMismatch, match="The table that the model replaces is not registered"):
            hb.Session(store, lease=0).get(Moved, number=1, user=1)
        with pytest.raises(hb.SchemaMismatch, match="The table that the model replaces is not registered"):
            migration(store, Moved).start()


@pytest.mark.lengthy
def test_rows_that_do_not_fit_are_named_and_stop_the_cut() -> None:
    @hb.model(table="wider", family="d", immutable=True)
    class Wider:
        number: hb.Key[int] = hb.key(hb.UInt32)
        page: hb.Column[str] = hb.column("p")

    @hb.model(table="narrower", family="d", immutable=True, replaces=Wider)
    class Narrower:
        number: hb.Key[int] = hb.key(hb.codecs.UInt8)
        page: hb.Column[str] = hb.column("p")

    with EmbeddedStore(None) as store:
        hb.create_tables(store, Wider)
        with hb.Session(store) as session:
            session.add_all(Wider(number=number, page="x") for number in (1, 300))
        moving = migration(store, Narrower)
        report = moving.start()
        assert (report.rows, report.refused, report.copied) == (2, 1, False)
        assert "copied 1 of 2 rows, 1 of 1 key ranges" in str(report)
        assert "0000012c" in str(report)
        with pytest.raises(hb.errors.MigrationError, match="Some rows could not be copied"):
            moving.cut_over()
        assert moving.roll_back().phase == BEFORE
        assert hb.Session(store).query(Wider).allow_full_scan().count() == 2
        store.delete("wider", [Delete(hb.row_key(Wider, number=300))])
        assert moving.start().copied
        store.put("wider", [Put(hb.row_key(Wider, number=301), {b"d:p": b"x"})])
        with pytest.raises(hb.errors.MigrationError, match="Some rows could not be copied"):
            moving.cut_over()


@pytest.mark.lengthy
def test_a_row_that_expires_does_so_in_the_new_table() -> None:
    later = [0]
    models = ((SaltedMore, {"number": 1}), (Moved, {"number": 1, "user": 1}))
    with EmbeddedStore(None, lambda: time.time_ns() // 1_000_000 + later[0]) as store:
        hb.create_tables(store, Salted, Visit)
        session = session_of(store)
        session.add(SaltedMore(number=1, page="x"), ttl=timedelta(hours=1))
        session.add(visit(1), ttl=timedelta(hours=1))
        session.commit()
        for model, _ in models:
            moving = migration(store, model)
            assert moving.start().rows == 1
            moving.cut_over()
        assert all(hb.Session(store).get(model, **row) is not None for model, row in models)
        later[0] = 3_600_000
        assert all(hb.Session(store).get(model, **row) is None for model, row in models)


# --- a maintenance window ---------------------------------------------------------------------------------------------


@hb.model(table="accounts", family="d")
class Account:
    region: hb.Key[str] = hb.key()
    number: hb.Key[int] = hb.key(hb.codecs.UInt16)
    owner: hb.Column[str] = hb.column("o")
    visits: hb.Column[int] = hb.counter("v")

    by_owner = hb.index("owner")


@hb.model(table="accounts_by_number", family="d", replaces=Account)
class Numbered:
    number: hb.Key[int] = hb.key(hb.codecs.UInt16)
    region: hb.Key[str] = hb.key()
    owner: hb.Column[str] = hb.column("o")
    visits: hb.Column[int] = hb.counter("v")

    by_owner = hb.index("owner")


NUMBERED = hb.schema.schema_of(Numbered)


@pytest.mark.lengthy
def test_objects_that_change_move_in_a_maintenance_window(anywhere: hb.Store) -> None:
    times = QUICK if isinstance(anywhere, EmbeddedStore) else TIMES
    hb.create_tables(anywhere, Account)
    with hb.Session(anywhere) as session:
        session.add_all(Account(region=f"r{n % 3}", number=n, owner=f"o{n % 4}") for n in range(20))
        session.commit()
        session.increment(Account(region="r1", number=4, owner=""), Account.visits, 7)
        session.delete_key(Account, region="r0", number=0)
    with pytest.raises(hb.CapabilityError, match="Objects that change can be moved only while no program writes"):
        hb.migration.migrate(anywhere, Numbered, times=times)
    early = hb.Session(anywhere)
    with pytest.raises(hb.SchemaMismatch, match="The objects are not in the table of this model yet, and no"):
        early.get(Numbered, number=4, region="r1")
    with pytest.raises(
        hb.SchemaMismatch,
        match=r"still in the table that the model replaces: move them first, see "
        r"hb\.migration\.migrate\(\)",
    ):
        early.increment(Numbered(region="r1", number=4, owner=""), Numbered.visits)
    moving = hb.migration.migrate(anywhere, Numbered, times=times, offline=True)
    assert moving.start().phase == CLOSED
    for model in (Account, Numbered):
        with pytest.raises(hb.SchemaMismatch):
            hb.Session(anywhere).get(model, number=4, region="r1")
    assert moving.verify().sound
    assert moving.roll_back().phase == BEFORE
    assert hb.Session(anywhere).query(Account).allow_full_scan().count() == 19
    moving.start()
    assert moving.cut_over().phase == DONE
    session = session_of(anywhere)
    found = session.get(Numbered, number=4, region="r1")
    assert found is not None
    assert (found.owner, found.visits) == ("o0", 7)
    session.update(found, owner="o9")
    session.increment(found, Numbered.visits)
    session.commit()
    assert numbers(session.query(Numbered).where(Numbered.owner == "o0").all()) == [8, 12, 16]
    assert [(one.number, one.visits) for one in session.query(Numbered).where(Numbered.owner == "o9")] == [(4, 8)]
    assert hb.indexes.verify_index(anywhere, Numbered, "by_owner", times=times).sound


@pytest.mark.lengthy
def test_a_rollback_of_a_maintenance_window_that_was_cut_short_must_be_finished() -> None:
    """It drops the new table while the phase is still that of the window."""
    times = hb.indexes.IndexTimes(lease=0.02, longest_call=0.01, grace=20, clock_bound=2)
    migration = partial(hb.migration.migrate, times=times)
    seen = set()
    for crash in range(1000):
        with EmbeddedStore(None) as inner:
            hb.create_tables(inner, Account)
            with hb.Session(inner) as session:
                session.add_all(Account(region=f"r{n % 3}", number=n, owner="o") for n in range(3))
            moving = migration(inner, Numbered, offline=True)
            moving.start()
            try:
                migration(FaultyStore(inner, crash, crash=True), Numbered, offline=True).roll_back()
                break
            except Crash:
                pass
            if moving.status().phase == CLOSED and not Registry(inner).moves_into(NUMBERED):
                for step in (moving.start, moving.verify, moving.cut_over):
                    with pytest.raises(hb.errors.MigrationError, match=r"finish that first with roll_back\(\)"):
                        step()
                seen.add(NUMBERED.table in inner.tables())
            assert moving.roll_back().phase == BEFORE
            moving.start()
            assert moving.cut_over().phase == DONE
            assert hb.Session(inner).query(Numbered).where(Numbered.owner == "o").count() == 3
    assert seen == {False, True}


# --- declarations -----------------------------------------------------------------------------------------------------


def test_layouts_that_cannot_be_moved_are_refused_where_they_are_declared() -> None:
    @hb.model(table="versioned_a", family="d")
    class Versioned:
        number: hb.Key[int] = hb.key(hb.codecs.UInt16)
        page: hb.Column[str] = hb.column("p")
        version: hb.Column[int] = hb.version()

    def declare(
        replaces: type[Any], table: str = "elsewhere", *, salt: Any = None, immutable: bool = True, more: bool = False
    ) -> None:
        if more:

            @hb.model(table=table, family="d", immutable=immutable, salt=salt, replaces=replaces)
            class More:
                number: hb.Key[int] = hb.key(hb.codecs.UInt16)
                page: hb.Key[str] = hb.key()
                other: hb.Column[str] = hb.column("p")
        else:

            @hb.model(table=table, family="d", immutable=immutable, salt=salt, replaces=replaces)
            class Same:
                number: hb.Key[int] = hb.key(hb.codecs.UInt16)
                page: hb.Column[str] = hb.column("p")

    declare(Salted)
    refused: Sequence[tuple[str, Callable[[], None]]] = (
        ("Both layouts must have the same columns", lambda: declare(Versioned, immutable=False)),
        ("The new layout needs its own table", lambda: declare(Salted, "salted")),
        ("same key fields", lambda: declare(Salted, more=True)),
        ("Both layouts must have the same columns", lambda: declare(Visit_without_user)),
        ("random salt", lambda: declare(Salted, salt=hb.RandomSalt(3))),
        ("immutable, or neither", lambda: declare(Salted, immutable=False)),
        ("finish that migration", lambda: declare(SaltedMore)),
    )
    for message, declaring in refused:
        with pytest.raises(hb.DeclarationError, match=message):
            declaring()


class _Colour(Enum):
    RED = "red"


class _Number(IntEnum):
    ONE = 1


class _Named(StrEnum):
    ANN = "ann"


def changed(before: Any, after: Any, *, key: bool = False) -> Any:
    """Declares a model that replaces another one and has other codecs, in a column or in the key."""

    def model(table: str, codec: Any, **options: Any) -> Any:
        hints = {"id": hb.Key[int], "part": hb.Key[Any], "value": hb.Column[Any]}
        body = {
            "id": hb.key(hb.UInt32),
            "part": hb.key(codec if key else hb.UInt32),
            "value": hb.column("v", hb.UInt32 if key else codec),
        }
        thing = type("Thing", (), {**body, "__annotations__": hints})
        return hb.model(table=table, family="d", immutable=True, **options)(thing)

    return model("changed_new", after, replaces=model("changed_old", before))


TEXT, STAMP = hb.codecs.Text, hb.Datetime("s")
ADDRESS = hb.codecs.IPAddress


@pytest.mark.parametrize("key", [False, True])
@pytest.mark.parametrize(
    ("before", "after", "expected", "found"),
    [
        (TEXT, hb.UInt32, "str", "int"),
        (hb.UInt32, TEXT, "int", "str"),
        (hb.codecs.Bytes(4), TEXT, "bytes", "str"),
        (hb.codecs.Float64, hb.UInt32, "float", "int"),
        (hb.codecs.Bool, hb.UInt32, "bool", "int"),
        (hb.codecs.Bool, hb.codecs.Float64, "bool", "float"),
        (STAMP, hb.codecs.Date, "datetime", "date"),
        (hb.codecs.Date, STAMP, "date", "datetime"),
        (hb.codecs.EnumOf(_Colour), TEXT, "_Colour", "str"),
        (TEXT, hb.codecs.EnumOf(_Named), "str", "_Named"),
        (ADDRESS, TEXT, "IPv4Address or IPv6Address", "str"),
    ],
)
def test_a_type_that_the_new_layout_cannot_store_is_refused(
    before: Any, after: Any, expected: str, found: str, key: bool
) -> None:
    with pytest.raises(hb.DeclarationError, match="cannot store the values of this field") as caught:
        changed(before, after, key=key)
    error = caught.value
    assert (error.field, error.expected, error.found) == ("part" if key else "value", expected, found)
    assert (error.model, error.table) == ("Thing", "changed_new")


def test_types_of_the_same_name_are_told_apart() -> None:
    other = Enum("_Colour", {"RED": "red"}, module="elsewhere")  # type: ignore[misc]
    with pytest.raises(hb.DeclarationError) as caught:
        changed(hb.codecs.EnumOf(_Colour), hb.codecs.EnumOf(other))
    assert (caught.value.expected, caught.value.found) == (f"{__name__}._Colour", "elsewhere._Colour")


@pytest.mark.parametrize(
    ("before", "after", "value"),
    [
        (hb.UInt32, hb.codecs.Int64, 7),
        (hb.UInt32, hb.codecs.Float64, 7),
        (hb.codecs.EnumOf(_Number), hb.UInt32, _Number.ONE),
        (hb.codecs.EnumOf(_Number), hb.codecs.Float64, _Number.ONE),
        (hb.codecs.EnumOf(_Named), TEXT, _Named.ANN),
        (ADDRESS, hb.codecs.IPv4, IPv4Address("10.0.0.1")),
        (hb.codecs.Json(str), TEXT, "ann"),
        (TEXT, hb.codecs.Json(str), "ann"),
        (hb.Datetime("s"), hb.Datetime("ms"), datetime(2026, 1, 1, tzinfo=UTC)),
    ],
)
def test_a_codec_that_can_store_the_values_is_accepted(before: Any, after: Any, value: Any) -> None:
    new = hb.schema.schema_of(changed(before, after)).by_name["value"]
    assert new.codec.decode(new.codec.encode(value)) == value


@hb.model(table="without_user", family="d", immutable=True)
class Visit_without_user:
    number: hb.Key[int] = hb.key(hb.codecs.UInt16)
    other: hb.Column[str] = hb.column("p")


def test_a_model_that_replaces_none_is_not_migrated(store: hb.Store) -> None:
    with pytest.raises(hb.DeclarationError, match="The model does not replace another"):
        hb.migration.migrate(store, Visit)


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.mark.lengthy
def test_the_command_leads_from_start_to_cut_over(tmp_path: Path) -> None:
    url = f"embedded:{tmp_path / 'store.db'}"
    with hb.connect(url) as store:
        hb.create_tables(store, Visit)
        session_of(store).bulk_add(visit(number) for number in range(10))

    def run(step: str, *more: str, answer: str = "") -> tuple[int, str]:
        times = ("--lease", "0.1", "--longest-call", "0.1", "--grace", "20", "--clock-bound", "2")
        named = ("--model", "tests.tables.migration_models:Moved", "--store", url)
        result = CliRunner().invoke(main, ["migrate", step, NEW.table, *named, *times, *more], input=answer)
        return result.exit_code, result.output

    assert "before" in run("status")[1]
    assert "copied 10 rows, 1 of 1 key ranges" in run("start", "--rows-per-second", "10000")[1]
    assert run("verify", "--json")[0] == 0
    assert "missing 0" in run("verify")[1]
    for step, question in (("rollback", "drop the new one?"), ("cutover", "cannot be rolled back after that.")):
        status, told = run(step, answer="n\n")
        assert (status, "copied 10 rows" in told, question in told) == (1, True, True)
        assert "moving" in run("status")[1]
    assert run("rollback", "--yes", "--json")[0] == 0
    assert "before" in run("rollback")[1]  # nothing is left to be asked for
    assert run("start")[0] == 0
    assert "done" in run("cutover", answer="y\n")[1]
    assert "done" in run("cutover")[1]
    assert run("rollback")[0] == 2


def test_the_difference_of_a_model_that_programs_cannot_use_is_refused(store: hb.Store) -> None:
    moving = migration(store, Moved)
    moving.start()
    for model, live, why in (
        (Visit, "objects move to visits_by_number", "use the model of that table"),
        (Alone, "objects move here from visits_by_user", "until the migration is over"),
    ):
        (found,) = hb.diff(store, model)
        assert (found.effect, found.live) == ("refused", live)
        assert found.why is not None
        assert why in found.why
        for call in (hb.alter, hb.create_tables):
            with pytest.raises(hb.SchemaMismatch, match=why):
                call(store, model)
    assert not hb.diff(store, Moved)
    moving.cut_over()
    assert [found.live for found in hb.diff(store, Visit)] == ["objects have moved to visits_by_number"]
    assert not hb.diff(store, Moved)
    assert not hb.diff(store, Alone)


def test_after_the_old_table_is_dropped_no_step_asks_for_it(store: hb.Store) -> None:
    """If the old table were created again, programs would use it instead of the new one, which has the objects."""
    with hb.Session(store) as session:
        session.add(visit(1))
    moving = migration(store, Moved)
    moving.start()
    moving.cut_over()
    hb.drop_tables(store, Visit)
    assert moving.status().phase == DONE
    for step in (moving.start, moving.verify, moving.cut_over, moving.roll_back):
        with pytest.raises(hb.SchemaMismatch, match="remove replaces= from the model"):
            step()
