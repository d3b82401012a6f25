"""Indexes on tables that others fill: rows without system cells that never change."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from attrs import frozen
from hypothesis import given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.store import Delete, Family, Put
from hbmodel.store.embedded import EmbeddedStore
from hbmodel.tables.registry.registry_table import Registry
from tests.support.beds import HBASE, Bed, cells_of
from tests.support.examples import examples
from tests.support.faulty import RecordingStore
from tests.support.slow_machines import lives_for

TIMES = hb.indexes.IndexTimes(lease=0.15, longest_call=0.1, clock_bound=0.25, grace=1.3)
SESSION: dict[str, Any] = {"lease": 0.15, "longest_call": 0.1, "clock_bound": 0.25, "grace": 1.3}
WORDS = ("a", "b", "c")


def declare(**options: Any) -> type[Any]:
    """A model of a table that others fill."""

    @hb.model(table=f"given-{uuid4().hex[:10]}", family="d", external=True, immutable=True, exists="topic", **options)
    class Given:
        name: hb.Key[str] = hb.key()
        topic: hb.Column[str] = hb.column("t")
        size: hb.Column[int] = hb.column("s", hb.codecs.UInt8)
        note: hb.Column[str | None] = hb.column("n", default=None)

        by_topic = hb.index("topic", covers=("note",))
        noted = hb.index("note", skip_none=True)

    return Given


@frozen
class Others:
    """Programs that write the table without hbmodel.

    Attributes:
        store: that holds it.
        table: its name.
    """

    store: hb.Store
    table: str

    def put(self, name: str, topic: str) -> None:
        """A row, with a column that the model does not know."""
        self.store.put(self.table, [Put(name.encode(), {b"d:t": topic.encode(), b"d:s": b"\x01", b"d:other": b"!"})])

    def delete(self, name: str) -> None:
        """All of a row."""
        self.store.delete(self.table, [Delete(name.encode())])


@pytest.fixture(params=["memory", "limited", *HBASE])
def bed(request: pytest.FixtureRequest) -> Iterator[Bed]:
    if request.param.startswith("thrift"):
        yield Bed(request.param, request.getfixturevalue("real_beds")(request.param).store)
        return
    with RecordingStore(EmbeddedStore(None), limited=request.param == "limited") as store:
        yield Bed(request.param, store)


@pytest.fixture
def given_model(bed: Bed) -> type[Any]:
    """A table that others have made, with ten rows of theirs."""
    model = declare()
    table = hb.schema.schema_of(model).table
    bed.store.create_table(table, [Family(b"d")])
    others = Others(bed.store, table)
    for n in range(10):
        others.put(f"other{n}", WORDS[n % 3])
    return model


def open_session(store: hb.Store) -> hb.Session:
    return hb.Session(store, **SESSION)


def found(store: hb.Store, model: Any, topic: str) -> list[str]:
    return sorted(
        item.name for item in open_session(store).query(model).where(model.topic == topic).use_index("by_topic")
    )


@pytest.mark.lengthy
def test_rows_of_others_are_found_once_the_index_is_built_or_repaired(bed: Bed, given_model: Any) -> None:
    model, store = given_model, bed.store
    others = Others(store, hb.schema.schema_of(model).table)
    hb.create_tables(store, model)
    before = cells_of(store, others.table)
    with pytest.raises(hb.errors.IndexUnavailable):
        found(store, model, "a")
    built = hb.indexes.build_index(store, model, "by_topic", times=TIMES)
    assert built.readable
    assert (built.rows, built.entries, built.adopted) == (10, 10, 0)
    assert cells_of(store, others.table) == before  # no cell was added to anybody's row
    assert found(store, model, "a") == ["other0", "other3", "other6", "other9"]

    others.put("late", "a")
    others.delete("other0")
    # what is gone is not returned, what is new not yet
    assert found(store, model, "a") == ["other3", "other6", "other9"]
    report = hb.indexes.verify_index(store, model, "by_topic", times=TIMES)
    assert (report.missing, report.stale + report.pending) == (1, 1)
    time.sleep(TIMES.grace + 0.1)
    repaired = hb.indexes.repair_index(store, model, "by_topic", times=TIMES)
    assert (repaired.put, repaired.deleted) == (1, 1)
    assert found(store, model, "a") == ["late", "other3", "other6", "other9"]
    assert hb.indexes.verify_index(store, model, "by_topic", times=TIMES).entries == 10
    others.put("other0", "a")  # once more
    hb.indexes.repair_index(store, model, "by_topic", times=TIMES)
    assert found(store, model, "a") == ["late", "other0", "other3", "other6", "other9"]
    assert hb.indexes.purge_rows(store, model, times=TIMES) == 0


def test_own_rows_are_found_at_once(bed: Bed, given_model: Any) -> None:
    model, store = given_model, bed.store
    hb.create_tables(store, model)
    for index in ("by_topic", "noted"):
        assert hb.indexes.build_index(store, model, index, times=TIMES).readable
    session = open_session(store)
    session.add(model(name="own", topic="b", size=1, note="x"))
    session.add(model(name="other1", topic="b", size=1))  # the same again
    session.commit()
    session.bulk_add([model(name=f"loaded{n}", topic="b", size=1) for n in range(3)])
    if bed.atomic:
        session.insert(model(name="new", topic="b", size=1, note="y"))
        with pytest.raises(hb.RowExists):
            session.insert(model(name="other2", topic="b", size=1))
    new = ["new"] if bed.atomic else []
    assert found(store, model, "b") == ["loaded0", "loaded1", "loaded2", *new, "other1", "other4", "other7", "own"]
    noted = session.query(model).where(~model.note.is_(None)).use_index("noted")
    assert [item.name for item in noted] == ["own", *new]
    system = {hb.schema.schema_of(model).liveness_column, hb.schema.schema_of(model).version_column}
    rows = cells_of(store, hb.schema.schema_of(model).table)
    assert not [row for row, cells in rows.items() if cells.keys() & system]

    session.delete_key(model, name="own")
    session.delete_key(model, name="other7")
    session.commit()
    assert found(store, model, "b") == ["loaded0", "loaded1", "loaded2", *new, "other1", "other4"]
    assert cells_of(store, hb.schema.schema_of(model).table)[b"other7"] == {b"d:other": b"!"}
    session.add(model(name="own", topic="b", size=1))  # below no tombstone
    session.commit()
    assert "own" in found(store, model, "b")
    assert hb.indexes.verify_index(store, model, "by_topic", times=TIMES).sound
    with pytest.raises(hb.SessionError, match="Rows of an immutable model cannot be updated"):
        session.update(model(name="own", topic="b", size=1), topic="c")


@pytest.mark.lengthy
@lives_for(0.8)
def test_a_row_that_expires_leaves_an_entry_to_repair(bed: Bed, given_model: Any) -> None:
    model, store = given_model, bed.store
    hb.create_tables(store, model)
    hb.indexes.build_index(store, model, "by_topic", times=TIMES)
    session = open_session(store)
    session.add(model(name="brief", topic="z", size=1), ttl=timedelta(seconds=0.8))
    session.commit()
    assert found(store, model, "z") == ["brief"]
    time.sleep(TIMES.grace + 0.1)
    assert found(store, model, "z") == []
    assert hb.indexes.repair_index(store, model, "by_topic", times=TIMES).deleted == 1


@pytest.mark.lengthy
@pytest.mark.parametrize("salt", [hb.HashSalt(2), hb.RandomSalt(3)], ids=["hash", "random"])
def test_a_table_that_is_made_for_the_model_is_indexed_at_once(bed: Bed, salt: hb.salts.Salt) -> None:
    model = declare(salt=salt)
    hb.create_tables(bed.store, model, create_external=True)
    session = open_session(bed.store)
    session.add_all(model(name=f"n{n}", topic=WORDS[n % 3], size=1) for n in range(9))
    session.commit()
    assert found(bed.store, model, "a") == ["n0", "n3", "n6"]
    dropped = hb.indexes.drop_index(bed.store, model, "by_topic", times=TIMES)
    assert dropped == [f"{hb.schema.schema_of(model).table}.by_topic"]
    assert hb.indexes.build_index(bed.store, model, "by_topic", times=TIMES).entries == 9
    assert found(bed.store, model, "a") == ["n0", "n3", "n6"]


@pytest.mark.lengthy
def test_an_index_is_built_while_others_and_this_library_write(bed: Bed, given_model: Any) -> None:
    model, store = given_model, bed.store
    hb.create_tables(store, model)
    others = Others(store, hb.schema.schema_of(model).table)
    ended, own = threading.Event(), [0, 0]
    errors: list[BaseException] = []

    def write(who: int) -> None:
        session = open_session(store)
        try:
            while not ended.is_set() and own[who] < 200:
                session.add(model(name=f"own{who}.{own[who]:05}", topic="w", size=1))
                session.commit()
                own[who] += 1
                others.put(f"late{who}.{own[who]:05}", "late")
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(who,)) for who in range(2)]
    for thread in threads:
        thread.start()
    try:
        # A write whose one call takes longer than the longest call has no entry.
        times = hb.indexes.IndexTimes(lease=0.15, longest_call=1, clock_bound=2, grace=12)
        assert hb.indexes.build_index(store, model, "by_topic", times=times, batch_size=20).readable
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert not errors
    assert found(store, model, "w") == sorted(f"own{who}.{n:05}" for who in range(2) for n in range(own[who]))
    hb.indexes.repair_index(store, model, "by_topic", times=TIMES)
    assert len(found(store, model, "late")) == sum(own)


def test_entries_stay_where_rows_end_by_their_family() -> None:
    """The server gives the rows their times, so that entries of the same TTL might end before them."""

    @hb.model(table="brief", family=hb.family("d", ttl=timedelta(seconds=60)), external=True, immutable=True)
    class Brief:
        name: hb.Key[str] = hb.key()
        topic: hb.Column[str] = hb.column("t")

        by_topic = hb.index("topic")

    with hb.connect("memory:") as store:
        hb.create_tables(store, Brief, create_external=True)
        ((row,), (entry,)) = store.families("brief"), store.families("brief.by_topic")
        assert (row.ttl is None, entry.ttl) == (False, None)
        assert not hb.diff(store, Brief).differences


def test_what_cannot_be_is_refused(bed: Bed, given_model: Any) -> None:
    table = hb.schema.schema_of(given_model).table
    with pytest.raises(hb.DeclarationError, match="immutable"):

        @hb.model(table=table, family="d", external=True)
        class Changing:
            name: hb.Key[str] = hb.key()
            topic: hb.Column[str] = hb.column("t")

            by_topic = hb.index("topic")

    @hb.model(table=f"own-{table}", family="d")
    class Own:
        name: hb.Key[str] = hb.key()
        topic: hb.Column[str] = hb.column("t")

        by_topic = hb.index("topic")

    @hb.model(table=f"own-{table}", family="d", external=True, immutable=True)
    class External:
        name: hb.Key[str] = hb.key()
        topic: hb.Column[str] = hb.column("t")

        by_topic = hb.index("topic")

    hb.create_tables(bed.store, Own)
    try:
        with pytest.raises(hb.SchemaMismatch, match="system cells"):
            hb.create_tables(bed.store, External)
        with pytest.raises(hb.SchemaMismatch, match="system cells"):
            open_session(bed.store).query(External).where(External.topic == "a").all()
    finally:
        hb.drop_tables(bed.store, Own)

    hb.create_tables(bed.store, given_model)
    assert hb.indexes.build_index(bed.store, given_model, "by_topic", times=TIMES).readable
    registered = Registry(bed.store).read(hb.schema.schema_of(given_model))
    assert registered is not None
    assert registered.rows == "plain"

    @hb.model(table=table, family="d", immutable=True)
    class Owned:
        name: hb.Key[str] = hb.key()
        topic: hb.Column[str] = hb.column("t")
        size: hb.Column[int] = hb.column("s", hb.codecs.UInt8)
        note: hb.Column[str | None] = hb.column("n", default=None)

        by_topic = hb.index("topic", covers=("note",))

    with pytest.raises(hb.SchemaMismatch, match="Other programs write the table"):
        open_session(bed.store).get(Owned, name="other1")


STEPS = st.lists(
    st.tuples(st.sampled_from(["own", "other", "own delete", "other delete", "repair"]), st.integers(0, 5)),
    min_size=1,
    max_size=15,
)


@pytest.mark.lengthy
@settings(max_examples=examples(25), deadline=None)
@given(STEPS)
def test_a_query_returns_every_row_of_ours_and_none_that_is_not_there(steps: list[tuple[str, int]]) -> None:
    """A name always has the same topic, no matter which program puts its row. Only rows of other programs that no
    repair has seen are hidden.
    """
    model, times = declare(), hb.indexes.IndexTimes(lease=0, longest_call=0.001, clock_bound=0.02, grace=0.09)
    table = hb.schema.schema_of(model).table
    there: dict[str, bool] = {}  # whether the query must find it
    with EmbeddedStore(None) as store:
        store.create_table(table, [Family(b"d")])
        others = Others(store, table)
        hb.create_tables(store, model)
        hb.indexes.build_index(store, model, "by_topic", times=times)
        session = hb.Session(store, lease=60, longest_call=0.001, clock_bound=0.02, grace=0.09)
        for what, number in steps:
            name, topic = f"n{number}", WORDS[number % 3]
            if what == "own":
                session.add(model(name=name, topic=topic, size=1))
                session.commit()
                there[name] = True
            elif what == "other":
                others.put(name, topic)
                there.setdefault(name, False)
            elif what == "repair":
                time.sleep(times.grace + 0.002)
                hb.indexes.repair_index(store, model, "by_topic", times=times)
                there = dict.fromkeys(there, True)
            else:
                if what == "own delete":
                    session.delete_key(model, name=name)
                    session.commit()
                else:
                    others.delete(name)
                there.pop(name, None)
            got = {
                item.name
                for topic in WORDS
                for item in session.query(model).where(model.topic == topic).use_index("by_topic")
            }
            assert got <= there.keys()
            assert got >= {name for name, must in there.items() if must}
