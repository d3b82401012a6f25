"""The names of indexes over renames, drops, declarations and builds, in any order."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest
from attrs import frozen
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.tables.indexes.index_states import IndexStates
from hbmodel.tables.registry.registration import ABSENT, READABLE, IndexState
from hbmodel.tables.registry.registry_table import Registry
from tests.support.beds import HBASE, Bed, fresh
from tests.support.examples import examples
from tests.support.faulty import RecordingStore

TIMES = hb.indexes.IndexTimes(lease=0.005, longest_call=0.005, clock_bound=0.1, grace=1)
SLOW = hb.indexes.IndexTimes(lease=0.15, longest_call=0.1, clock_bound=2, grace=10)

NAMES = ("ix", "iy", "iz")
ENTRIES: Mapping[str, tuple[str, ...]] = {"x": ("x",), "y": ("y",), "xy": ("x", "y")}


def model(table: str = "named", **indexes: hb.schema.Index | Any) -> Any:
    names = {
        "__annotations__": {"n": hb.Key[int], "x": hb.Column[str], "y": hb.Column[str]},
        "n": hb.key(),
        "x": hb.column("x"),
        "y": hb.column("y"),
    }
    return hb.model(table=table, family="d")(type("Named", (), {**names, **indexes}))


def states(store: hb.Store, table: str = "named") -> Mapping[str, IndexState]:
    found = Registry(store).read(hb.schema.schema_of(model(table)))
    assert found is not None
    return found.indexes


def check(store: hb.Store, declared: Any, index: str, times: hb.indexes.IndexTimes = TIMES) -> None:
    """Every row is found through an index, and writes keep it."""
    with hb.Session(
        store, lease=times.lease, longest_call=times.longest_call, clock_bound=times.clock_bound
    ) as session:
        number = session.query(declared).allow_full_scan().count()
        session.add(declared(n=number, x="v", y="v"))
    session = hb.Session(store, lease=times.lease)
    assert session.query(declared).where(declared.x == "v", declared.y == "v").use_index(index).count() == number + 1


# --- one after the other ----------------------------------------------------------------------------------------------


@pytest.mark.every_store
@pytest.mark.parametrize("bed", ["memory", "embedded", *HBASE], indirect=True)
@pytest.mark.parametrize("said", [True, False], ids=["said", "seen"])
def test_the_names_of_a_dropped_index_are_free(bed: Bed, said: bool) -> None:
    times, table = SLOW if bed.real else TIMES, f"named{int(said)}"
    before = model(table, ix=hb.index("x"))
    renamed = model(table, iz=hb.index("x", renamed_from="ix" if said else None))
    others = model(table, iz=hb.index("x", renamed_from="ix" if said else None), ix=hb.index("y"))
    hb.drop_tables(bed.store, before)
    hb.create_tables(bed.store, before)
    hb.alter(bed.store, renamed)
    check(bed.store, renamed, "iz", times)
    with pytest.raises(hb.SchemaMismatch, match="belongs to an index that is called iz now"):
        hb.create_tables(bed.store, others)  # programs of the first model would write into it
    assert hb.indexes.drop_index(bed.store, renamed, "iz", times=times) == [f"{table}.ix"]
    assert hb.indexes.drop_index(bed.store, renamed, "iz", times=times) == []
    for name in ("ix", "iz"):
        hb.create_tables(bed.store, others)
        assert hb.indexes.build_index(bed.store, others, name, times=times).readable
    for name in ("ix", "iz"):
        check(bed.store, others, name, times)
    assert {state.name: (state.state, state.earlier_names) for state in states(bed.store, table).values()} == {
        "ix": (READABLE, ()),
        "iz": (READABLE, ()),
    }
    assert sorted(hb.drop_tables(bed.store, others)) == [table, f"{table}.ix.2", f"{table}.iz.2"]


def test_a_drop_by_the_name_alone_means_the_index_that_has_it_now() -> None:
    with fresh(model(ix=hb.index("x"))) as store:
        hb.create_tables(store, model(iz=hb.index("x", renamed_from="ix")))
        hb.indexes.drop_index(store, model(), "iz", times=TIMES)
        again = model(ix=hb.index("x"), iz=hb.index("y"))
        hb.create_tables(store, again)
        for name in ("ix", "iz"):
            hb.indexes.build_index(store, again, name, times=TIMES)
        (table,) = (state.table for state in states(store).values() if state.name == "iz")
        assert hb.indexes.drop_index(store, model(), "iz", times=TIMES) == [table]
        check(store, model(ix=hb.index("x")), "ix")


@pytest.mark.lengthy
def test_an_index_that_is_built_by_either_of_two_programs_is_one() -> None:
    """Programs with the old and the new name, none of which has built it yet."""
    old, new = model(ix=hb.index("x")), model(iz=hb.index("x"))
    for first, second, name in ((old, new, "ix"), (new, old, "iz")):
        with fresh(model()) as store:
            for declared in (old, new):
                hb.create_tables(store, declared)
            hb.indexes.build_index(store, first, name, times=TIMES)
            for declared, called in ((old, "ix"), (new, "iz")):
                hb.alter(store, declared)
                check(store, declared, called)
            assert [state.state for state in states(store).values()] == [READABLE]
            assert second is not first


# --- in any order -----------------------------------------------------------------------------------------------------


@frozen
class Step:
    """A step of a program: it declares some indexes, and creates, alters, builds or drops."""

    what: str
    indexes: Mapping[str, tuple[str, str | None]]
    name: str

    @property
    def declared(self) -> Any:
        return model(
            **{name: hb.index(*ENTRIES[entries], renamed_from=was) for name, (entries, was) in self.indexes.items()}
        )


@st.composite
def steps(draw: st.DrawFn) -> Step:
    names = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=2))
    left = [name for name in NAMES if name not in names]
    indexes: dict[str, tuple[str, str | None]] = {}
    for name in names:
        was = draw(st.sampled_from([None, None, *left]))
        left = [other for other in left if other != was]
        indexes[name] = (draw(st.sampled_from(sorted(ENTRIES))), was)
    what = draw(
        st.sampled_from(
            ["create", "alter", "build", "build", "drop", "drop", "killed build", "killed drop", "half a drop"]
        )
    )
    return Step(what, indexes, draw(st.sampled_from(NAMES)))


class Killed(BaseException):
    """The program is gone."""


def killed(*_: object) -> None:
    raise Killed


def run(store: hb.Store, step: Step) -> None:
    declared, name = step.declared, step.name
    with suppress(hb.SchemaMismatch, hb.errors.IndexUnavailable, hb.errors.UnknownIndex):
        if step.what in {"create", "build", "killed build"}:
            hb.create_tables(store, declared)
        if step.what == "alter":
            hb.alter(store, declared, times=TIMES)
        elif step.what == "build":
            for index in step.indexes:
                assert hb.indexes.build_index(store, declared, index, times=TIMES).readable
                check_if_writable(store, declared, index)
        elif step.what == "drop":
            hb.indexes.drop_index(store, declared, name, times=TIMES)
            assert all(state.state == ABSENT for state in states(store).values() if dropped(step, state))
        elif step.what == "killed build" and step.indexes:
            with suppress(Killed):
                hb.indexes.build_index(store, declared, next(iter(step.indexes)), times=TIMES, progress=killed)
        elif step.what in {"killed drop", "half a drop"}:
            wait = killed if step.what == "killed drop" else lambda seconds, *_: time.sleep(seconds)
            IndexStates(store, Registry(store), hb.schema.schema_of(declared), name, TIMES.drain, wait).leave()


def dropped(step: Step, state: IndexState) -> bool:
    """Whether a drop means this index. If the model declares the name for an index with other entries, that index is
    dropped, also if it still has the name before; the index that has the name now stays.
    """
    entries, _ = step.indexes.get(step.name, (None, None))
    return state.name == step.name and (entries is None or state.spec == _SPECS[entries])


_SPECS = {
    entries: hb.schema.schema_of(model(ix=hb.index(*fields))).indexes["ix"].spec for entries, fields in ENTRIES.items()
}


def check_if_writable(store: hb.Store, declared: Any, index: str) -> None:
    if not hb.Session(store)._bind(hb.schema.schema_of(declared)).unknown:
        check(store, declared, index)


def hold(store: RecordingStore) -> None:
    """The invariants between any two steps."""
    found = states(store)
    live = [state.table for state in found.values() if state.state != ABSENT]
    assert len(set(live)) == len(live)
    assert set(live) <= set(store.tables())
    named = [state.name for state in found.values()]
    assert len(set(named)) == len(named)
    made = [call for call in store.calls if call.name == "create_table"]
    assert len({call.table or str(call) for call in made}) <= len(made)


@pytest.mark.lengthy
def test_a_drop_means_the_declared_entries_while_another_index_has_the_name() -> None:
    """A stopped drop has left ix; the model declares this name for the index that is called iz in the registry."""
    with Named(hb.connect("memory:")) as store:
        hb.create_tables(store, model())
        run(store, Step("build", {"iz": ("y", None), "ix": ("xy", None)}, "ix"))
        with pytest.raises(Killed):  # it would wait for a minute
            IndexStates(
                store,
                Registry(store),
                hb.schema.schema_of(model()),
                "ix",
                hb.indexes.IndexTimes(lease=60).drain,
                killed,
            ).leave()
        run(store, Step("drop", {"ix": ("y", "iz"), "iy": ("xy", None)}, "ix"))
        found = {state.name: state.state for state in states(store).values()}
        assert (found["iz"], found["ix"]) == (ABSENT, "write-only")
        run(store, Step("drop", {}, "ix"))
        assert {state.state for state in states(store).values()} == {ABSENT}


@pytest.mark.lengthy
@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(steps(), max_size=9))
def test_any_order_leaves_all_names_free(done: list[Step]) -> None:
    with Named(hb.connect("memory:")) as store:
        hb.create_tables(store, model())
        with hb.Session(store) as session:
            session.add(model()(n=0, x="v", y="v"))
        for step in done:
            with suppress(Killed):
                run(store, step)
            hold(store)
        for name in NAMES:
            with suppress(hb.errors.UnknownIndex):
                hb.indexes.drop_index(store, model(), name, times=TIMES)
        assert sorted(store.tables()) == ["hbmodel", "named"]
        last = model(ix=hb.index("x"), iy=hb.index("y"), iz=hb.index("x", "y"))
        hb.create_tables(store, last)
        for name in NAMES:
            assert hb.indexes.build_index(store, last, name, times=TIMES).readable
        for name in NAMES:
            check(store, last, name)
        assert not hb.diff(store, last)
        hold(store)


class Named(RecordingStore):
    """Refuses a table of a name that there was before."""

    def __init__(self, store: hb.Store) -> None:
        super().__init__(store)
        self.made: set[str] = set()

    def create_table(self, table: str, families: Any, split_keys: Any = ()) -> None:
        assert table not in self.made or table in self.tables()
        super().create_table(table, families, split_keys)
        self.made.add(table)
