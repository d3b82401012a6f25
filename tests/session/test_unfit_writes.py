"""Writes of objects that do not fit the table that their model replaces: only these are refused, until the cutover."""

from __future__ import annotations

from typing import Any

import pytest

import hbmodel as hb
from hbmodel.protocol.relocation.migration_phases import (
    BEFORE,
    CUT,
    HALTING,
    MOVING,
    PREPARED,
    RETURNED,
    RETURNING,
    TURNED,
)
from hbmodel.store import Delete
from hbmodel.store.embedded import EmbeddedStore
from hbmodel.tables.registry.registry_table import Registry


@hb.model(table="narrow", family="d", immutable=True)
class Narrow:
    name: hb.Key[str] = hb.key()
    number: hb.Key[int] = hb.key(hb.codecs.UInt8)
    value: hb.Column[int] = hb.column("v", hb.codecs.Int8)


@hb.model(table="broad", family="d", immutable=True, replaces=Narrow)
class Broad:
    number: hb.Key[int] = hb.key(hb.codecs.UInt16)
    name: hb.Key[str] = hb.key()
    value: hb.Column[int] = hb.column("v", hb.codecs.Int16)


@hb.model(table="narrow_versioned", family="d")
class NarrowVersioned:
    name: hb.Key[str] = hb.key()
    number: hb.Key[int] = hb.key(hb.codecs.UInt8)
    value: hb.Column[int] = hb.column("v", hb.codecs.Int8)
    version: hb.Column[int] = hb.version()


@hb.model(table="broad_versioned", family="d", replaces=NarrowVersioned)
class BroadVersioned:
    number: hb.Key[int] = hb.key(hb.codecs.UInt16)
    name: hb.Key[str] = hb.key()
    value: hb.Column[int] = hb.column("v", hb.codecs.Int16)
    version: hb.Column[int] = hb.version()


QUICK = hb.indexes.IndexTimes(lease=0.1, longest_call=0.05, grace=20, clock_bound=2)
UNFIT = "does not fit the table that the model replaces"
MODELS: dict[str, tuple[Any, Any]] = {"immutable": (Narrow, Broad), "versioned": (NarrowVersioned, BroadVersioned)}


def set_phase(store: hb.Store, new: Any, phase: str) -> None:
    """Has programs that read the registry from now on be in a phase."""
    schema = hb.schema.schema_of(new)
    assert schema.replaces is not None
    registry = Registry(store)
    found = registry.read(schema.replaces)
    assert found is not None
    assert registry.change_move(schema.replaces, schema, found, phase)


def values(session: hb.Session, model: Any) -> dict[int, int]:
    """The values of all objects, by number."""
    return {one.number: one.value for one in session.query(model).allow_full_scan()}


@pytest.mark.parametrize(
    ("kind", "phase"),
    [
        *[("immutable", phase) for phase in (BEFORE, PREPARED, MOVING, RETURNING, RETURNED)],
        *[("versioned", phase) for phase in (BEFORE, PREPARED, MOVING, HALTING, TURNED, RETURNED)],
    ],
)
def test_an_object_that_does_not_fit_the_old_table_is_refused_alone(kind: str, phase: str) -> None:
    old, new = MODELS[kind]
    with EmbeddedStore(None) as store:
        hb.create_tables(store, old, new)
        set_phase(store, new, phase)
        session = hb.Session(store)
        objects = [new(name="a", number=n, value=v) for n, v in ((1, 1), (2, 1000), (300, 3), (4, 4))]
        refused: list[tuple[int, str | None]] = []

        def on_refused(obj: Any, error: hb.HbmodelError) -> None:
            assert isinstance(error, hb.EncodingError)
            assert UNFIT in error.message
            refused.append((obj.number, error.field))

        assert session.bulk_add(objects, on_refused=on_refused, batch_size=2) == 2
        assert refused == [(2, "value"), (300, "number")]
        assert values(session, new) == {1: 1, 4: 4}

        session.add_all(new(name="a", number=n, value=v) for n, v in ((11, 11), (12, -1000), (13, 13)))
        with pytest.raises(hb.PartialWrite, match="All others are carried out, and nothing is pending") as caught:
            session.commit()
        (failure,) = caught.value.failures
        assert isinstance(failure.error, hb.EncodingError)
        assert "out of the range" in str(failure.error.details["reason"])
        session.commit()
        assert values(session, new) == {1: 1, 4: 4, 11: 11, 13: 13}

        session.add(new(name="a", number=14, value=500))
        with pytest.raises(hb.EncodingError, match=UNFIT):
            session.commit()
        if kind == "versioned":
            with pytest.raises(hb.EncodingError, match=UNFIT):
                session.insert(new(name="a", number=14, value=500))
            session.update_key(new, name="a", number=1, value=500)
            session.update_key(new, name="a", number=4, value=5)
            with pytest.raises(hb.PartialWrite) as caught:
                session.commit()
            (failure,) = caught.value.failures
            assert isinstance(failure.error, hb.EncodingError)
            assert failure.error.field == "value"
            session.update_key(new, name="a", number=4, value=4)
            session.commit()
        assert values(session, new) == {1: 1, 4: 4, 11: 11, 13: 13}


@pytest.mark.parametrize("kind", list(MODELS))
def test_after_the_cutover_it_is_written(kind: str) -> None:
    old, new = MODELS[kind]
    with EmbeddedStore(None) as store:
        hb.create_tables(store, old, new)
        set_phase(store, new, CUT)
        session = hb.Session(store)
        assert session.bulk_add([new(name="a", number=300, value=1000)]) == 1
        assert values(session, new) == {300: 1000}


@pytest.mark.parametrize("kind", list(MODELS))
def test_rows_that_do_not_fit_the_old_table_keep_a_rollback_from_its_end_until_they_are_deleted(kind: str) -> None:
    old, new = MODELS[kind]
    with EmbeddedStore(None) as store:
        hb.create_tables(store, old)
        session = hb.Session(store, lease=0.1)
        session.add_all(new(name="a", number=n, value=n) for n in (1, 2))
        session.commit()
        moving = hb.migration.migrate(store, new, times=QUICK)
        assert moving.start().copied
        set_phase(store, new, CUT)  # only then such a row can be written
        session = hb.Session(store, lease=0.1)
        if kind == "immutable":
            session.add(new(name="a", number=3, value=1000))
        else:
            session.update_key(new, name="a", number=2, value=1000)
        session.commit()
        set_phase(store, new, MOVING)
        session = hb.Session(store, lease=0.1)
        before = values(session, new)
        with pytest.raises(
            hb.errors.MigrationError, match=r"could not be copied back.*call roll_back\(\) again"
        ) as caught:
            moving.roll_back()
        assert values(session, new) == before
        lost = next(n for n, value in before.items() if value == 1000)
        assert hb.row_key(new, name="a", number=lost).hex() in dict(caught.value.details["samples"])
        store.delete(hb.schema.schema_of(new).table, [Delete(hb.row_key(new, name="a", number=lost))])
        assert moving.roll_back().phase == BEFORE
        session = hb.Session(store, lease=0.1)
        session.add(new(name="a", number=lost, value=100))
        session.commit()
        assert values(session, new) == {**before, lost: 100}
