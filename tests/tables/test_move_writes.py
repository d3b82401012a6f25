"""Programs that move objects write by what the registry says: of the indexes of both tables as well as of the phase."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import hbmodel as hb
from hbmodel.protocol.relocation.migration_phases import BEFORE, DONE, MOVING, PREPARED, RETURNED
from hbmodel.store.gate import gated
from hbmodel.tables.registry.registry_table import Registry
from tests.support.beds import fresh
from tests.support.faulty import Call, RecordingStore
from tests.tables.migration_models import Moved, Visit, visit
from tests.tables.versioned_migration_models import Parcel, Sent, parcel

TIMES = hb.indexes.IndexTimes(lease=0.2)
KINDS: dict[str, Any] = {"immutable": (Visit, Moved, visit, "by_page"), "versioned": (Parcel, Sent, parcel, "by_state")}
migration = partial(hb.migration.migrate, times=TIMES, batch_size=1, claim_life=0.2)


class Interrupted(RecordingStore):
    """Calls a function once, before a change of a table: the second one, unless `left` says otherwise."""

    def __init__(self, store: hb.Store, table: str, meanwhile: Callable[[], None], *, gated: bool = True) -> None:
        super().__init__(store, gated=gated)
        self.table, self.meanwhile, self.left = table, meanwhile, 2

    def _do(self, call: Call, apply: Any) -> Any:
        if call.writes and call.table == self.table and call.name != "create_table":
            self.left -= 1
            if not self.left:
                with gated(None):  # another program does it
                    self.meanwhile()
        return super()._do(call, apply)


def begun(store: hb.Store, kind: str) -> tuple[type[Any], Callable[[int], Any], str]:
    """Some objects in the old table; returns the new model, what makes its objects, and its index."""
    old, new, made, index = KINDS[kind]
    hb.create_tables(store, old)
    with hb.Session(store, lease=0.2) as session:
        session.add_all(made(number) for number in range(6))
    return new, made, index


def set_phase(store: hb.Store, new: type[Any], phase: str) -> None:
    registry, schema = Registry(store), hb.schema.schema_of(new)
    assert schema.replaces is not None
    found = registry.read(schema.replaces)
    assert found is not None
    assert registry.change_move(schema.replaces, schema, found, phase)


@pytest.mark.lengthy
@pytest.mark.parametrize("transactions", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_an_index_that_is_built_while_objects_move_has_them_all(kind: str, transactions: bool) -> None:
    with fresh(gated=transactions) as store:
        new, _, index = begun(store, kind)
        others: list[threading.Thread] = []

        def rebuild() -> None:
            waits = threading.Event()

            def operate() -> None:
                hb.indexes.drop_index(store, new, index, times=TIMES, progress=lambda _: waits.set())
                assert hb.indexes.build_index(store, new, index, times=TIMES).readable

            others.append(threading.Thread(target=operate))
            others[0].start()
            assert waits.wait(60)
            if transactions:
                others[0].join(60)

        store_of_mover = Interrupted(store, hb.schema.schema_of(new).table, rebuild, gated=transactions)
        moving = migration(store_of_mover, new)
        assert moving.start().copied
        others[0].join(60)
        assert moving.cut_over().phase == DONE
        report = hb.indexes.verify_index(store, new, index)
        assert (report.rows, report.missing, report.sound) == (6, 0, True)
        assert f"{hb.schema.schema_of(new).table}.{index}.2" in store.tables()


@pytest.mark.lengthy
def test_an_index_that_the_model_does_not_declare_stops_the_move() -> None:
    """Its entries would be missing."""
    with fresh() as store:
        new, _, _ = begun(store, "immutable")

        @hb.model(table="visits_by_number", family="d", immutable=True, salt=hb.HashSalt(3), replaces=Visit)
        class Later:
            number: hb.Key[int] = hb.key(hb.UInt32, desc=True)
            user: hb.Key[int] = hb.key(hb.codecs.UInt16)
            page: hb.Column[str] = hb.column("p")
            note: hb.Column[str | None] = hb.column("n", default=None)

            by_page = hb.index("page", "number")
            by_user = hb.index("user")

        def build() -> None:
            hb.create_tables(store, Later)
            assert hb.indexes.build_index(store, Later, "by_user", times=TIMES).readable

        with pytest.raises(hb.errors.IndexUnavailable, match="does not declare"):
            migration(Interrupted(store, "visits_by_number", build), new).start()
        assert migration(store, Later).start().copied
        assert migration(store, Later).cut_over().phase == DONE
        assert hb.indexes.verify_index(store, Later, "by_user").missing == 0


@pytest.mark.parametrize("phase", [MOVING, RETURNED])
def test_an_immutable_object_is_not_put_where_nobody_looks(phase: str) -> None:
    """Its phase ended between the last look at the registry and the transaction."""
    with fresh() as store:
        new, made, _ = begun(store, "immutable")
        hb.create_tables(store, new)
        set_phase(store, new, PREPARED if phase == MOVING else MOVING)
        before, after = (
            ("visits_by_user", "visits_by_number") if phase == MOVING else ("visits_by_number", "visits_by_user")
        )
        interrupted = Interrupted(store, before, lambda: set_phase(store, new, phase))
        interrupted.left = 1
        session = hb.Session(interrupted)
        session.add(made(50))
        session.commit()
        rows = {
            table: len([row for batch in store.scan(table, [hb.store.Scan()])[0] for row in batch])
            for table in (before, after)
        }
        assert rows == ({before: 6, after: 1} if phase == MOVING else {before: 0, after: 7})


def test_a_delete_of_an_immutable_object_does_not_begin_once_objects_move() -> None:
    with fresh() as store:
        new, made, _ = begun(store, "immutable")
        hb.create_tables(store, new)
        set_phase(store, new, BEFORE)

        def move() -> None:
            set_phase(store, new, PREPARED)
            set_phase(store, new, MOVING)

        interrupted = Interrupted(store, "visits_by_user", move)
        interrupted.left = 1
        session = hb.Session(interrupted)
        session.delete(made(1))
        with pytest.raises(hb.CapabilityError, match="not possible while objects move"):
            session.commit()
        assert hb.Session(store).get(new, number=1, user=1) == made(1)


@pytest.mark.lengthy
def test_a_roll_back_that_ended_after_the_new_table_was_dropped_is_finished() -> None:
    with fresh() as store:
        new, _, _ = begun(store, "versioned")
        assert migration(store, new).start().copied
        moving = migration(store, new)

        class Killed(Exception):
            pass

        def kill(*args: object) -> None:
            raise Killed

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(Registry, "change_move", _until(RETURNED, BEFORE, kill))
            with pytest.raises(Killed):
                moving.roll_back()
        assert hb.schema.schema_of(new).table not in store.tables()
        assert migration(store, new).roll_back().phase == BEFORE
        assert len(hb.Session(store).query(new).use_index("primary").allow_full_scan().all()) == 6


def _until(before: str, after: str, kill: Callable[..., None]) -> Any:
    change = Registry.change_move

    def changed(self: Registry, old: Any, new: Any, found: Any, phase: str, offline: bool = False) -> bool:
        if (found.move.phase, phase) == (before, after):
            kill()
        return change(self, old, new, found, phase, offline)

    return changed


@pytest.mark.lengthy
@pytest.mark.parametrize("kind", KINDS)
def test_what_was_read_before_a_rollback_does_not_come_back(kind: str) -> None:
    """A program is paused while the migration is rolled back, an object is deleted, and the migration is
    begun again.
    """
    with fresh() as store:
        new, made, _ = begun(store, kind)

        def again() -> None:
            moving = migration(store, new)
            assert moving.roll_back().phase == BEFORE
            with hb.Session(store, lease=0.2) as session:
                session.delete(made(1)) if kind == "immutable" else session.delete_key(new, number=1, city=1)
            hb.create_tables(store, new)
            set_phase(store, new, PREPARED)
            set_phase(store, new, MOVING)

        standing = Interrupted(store, hb.schema.schema_of(new).table, again)
        standing.left = 1
        with pytest.raises(hb.errors.MigrationError, match="to another phase in the meantime"):
            migration(standing, new, batch_size=10).start()
        assert not standing.left
        assert migration(store, new).start().copied
        assert migration(store, new).cut_over().phase == DONE
        found = hb.Session(store).query(new).use_index("primary").allow_full_scan().all()
        assert sorted(one.number for one in found) == [0, 2, 3, 4, 5]
