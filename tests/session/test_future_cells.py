"""Cells whose timestamps are ahead of the server's clock: counters that are incremented quickly, and cells of other
programs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

import hbmodel as hb
from hbmodel.mapping.rows.mapper import KeyMapper
from hbmodel.store import Put, Scan
from tests.support.beds import Bed
from tests.support.faulty import Call, RecordingStore


def ahead(bed: Bed) -> int:
    """How far a cell is ahead of the server's clock, in ms: longer than the calls of a test take, because otherwise the
    clock would reach it.
    """
    return 300 if bed.real else 40


FAR = 30 * 86_400_000
"""The same beyond the clock bound. On HBase no test has such a row's key again: its tombstones stay."""


@hb.model(table="future_tall", family="d")
class Tall:
    k: hb.Key[str] = hb.key()
    m: hb.Column[int] = hb.column("m")
    hits: hb.Column[int] = hb.counter("h")


@hb.model(table="future_flag", family="d", exists=hb.flag("e"))
class Flag:
    k: hb.Key[str] = hb.key()
    m: hb.Column[int | None] = hb.column("m", default=None)
    hits: hb.Column[int] = hb.counter("h")


@hb.model(table="future_wide", family="d")
class Wide:
    r: hb.Key[str] = hb.key()
    k: hb.Key[str] = hb.key(in_qualifier=True)
    m: hb.Column[int] = hb.column("m")
    hits: hb.Column[int] = hb.counter("h")


@hb.model(table="future_families", family="d")
class Families:
    k: hb.Key[str] = hb.key()
    m: hb.Column[int] = hb.column("m")
    hits: hb.Column[int] = hb.counter("h", family="c")


@hb.model(table="future_external", family="d", external=True)
class External:
    k: hb.Key[str] = hb.key()
    m: hb.Column[int] = hb.column("m")
    hits: hb.Column[int] = hb.counter("h")


@hb.model(table="future_indexed", family="d")
class Indexed:
    k: hb.Key[str] = hb.key()
    m: hb.Column[int] = hb.column("m")
    hits: hb.Column[int] = hb.counter("h")
    by_m = hb.index("m")


@hb.model(table="future_versioned", family="d")
class Versioned:
    k: hb.Key[str] = hb.key()
    m: hb.Column[int] = hb.column("m")
    hits: hb.Column[int] = hb.counter("h")
    version: hb.Column[int] = hb.version()


UNINDEXED = (Tall, Flag, Wide, Families, External)
each_model = pytest.mark.parametrize("model", UNINDEXED, ids=lambda model: model.__name__)


def key_of(model: Any, k: str = "a") -> dict[str, str]:
    """The key of an object; a key of its own (not a letter) has a row of its own too."""
    return {"k": k, **({"r": "r" if len(k) == 1 else k} if model is Wide else {})}


def made(model: Any, k: str = "a", m: int = 1) -> Any:
    return model(**key_of(model, k), m=m)


def begun(bed: Bed, model: Any, *ks: str) -> hb.Session:
    """A session whose objects are there, with a counter of 3 each."""
    session = bed.use(model)
    for k in ks or ("a",):
        session.add(made(model, k))
        session.commit()
        assert session.increment(made(model, k), model.hits, 3) == 3
    return session


def moved_ahead(bed: Bed, model: Any, ending: bytes = b"h", by: int | None = None) -> None:
    """Gives all cells of a column a time ahead of the server's clock, or the last one that there is."""
    table = hb.schema.schema_of(model).table
    (batches,) = bed.store.scan(table, [Scan()])
    rows = [row for batch in batches for row in batch]
    at = min(int(time.time() * 1000) + (ahead(bed) if by is None else by), 2**63 - 2)
    bed.store.put(
        table,
        [
            Put(row.row, {c: cell.value for c, cell in row.columns.items() if c.endswith(ending)}, timestamp=at)
            for row in rows
        ],
    )


def delete_key(session: hb.Session, model: Any, k: str = "a") -> None:
    session.delete_key(model, **key_of(model, k))
    session.commit()


def delete_many(session: hb.Session, model: Any) -> None:
    for k in ("a", "b", "c"):
        session.delete_key(model, **key_of(model, k))
    session.commit()


def delete_query(session: hb.Session, model: Any) -> None:
    key = key_of(model)
    assert session.query(model).where(*[getattr(model, name) == value for name, value in key.items()]).delete() == 1


each_delete = pytest.mark.parametrize(
    "delete", [delete_key, delete_many, delete_query], ids=lambda delete: delete.__name__
)


# --- counters ---------------------------------------------------------------------------------------------------------


@each_model
@each_delete
def test_a_delete_takes_a_counter_that_is_ahead(
    bed: Bed, model: Any, delete: Callable[[hb.Session, Any], None]
) -> None:
    session = begun(bed, model)
    moved_ahead(bed, model)
    delete(session, model)
    assert session.get(model, **key_of(model)) is None
    session.add(made(model))
    session.commit()
    assert session.get(model, **key_of(model)).hits == 0
    assert session.increment(made(model), model.hits) == 1
    assert session.get(model, **key_of(model)).hits == 1


@pytest.mark.every_store
@each_model
def test_a_delete_takes_a_counter_that_was_incremented_quickly(bed: Bed, model: Any) -> None:
    session = bed.use(model)
    for n in range(8):
        session.add(made(model))
        session.commit()
        for _ in range(n):
            session.increment(made(model), model.hits, 7)
        delete_key(session, model)
        session.add(made(model))
        session.commit()
        assert session.get(model, **key_of(model)).hits == 0
        delete_key(session, model)


class Counting(RecordingStore):
    """Before each of the first calls that delete something, another program increments a counter many times.

    Args:
        store: that does the work.
        model: of the object.
        times: before how many calls.
    """

    def __init__(self, bed: Bed, model: Any, times: int) -> None:
        super().__init__(bed.store, limited=bed.store.limited)
        self.bed, self.model, self.times, self.by = bed, model, times, 50

    def _do(self, call: Call, apply: Any) -> Any:
        deletes = call.name in ("delete", "mutate_row", "check_and_mutate", "check_and_mutate_many")
        if deletes and call.table == hb.schema.schema_of(self.model).table and self.times:
            self.times -= 1
            moved_ahead(self.bed, self.model, by=self.by)
            self.by += 50
        return super()._do(call, apply)


each_with_counter = pytest.mark.parametrize("model", [*UNINDEXED, Indexed, Versioned], ids=lambda model: model.__name__)


@pytest.mark.parametrize("times", [1, 3])
@each_with_counter
def test_a_delete_takes_increments_that_are_made_meanwhile(atomic_bed: Bed, model: Any, times: int) -> None:
    session = begun(atomic_bed, model)
    counting = Counting(atomic_bed, model, times)
    delete_key(hb.Session(counting), model)
    assert session.get(model, **key_of(model)) is None
    session.add(made(model))
    session.commit()
    assert session.get(model, **key_of(model)).hits == 0
    assert session.increment(made(model), model.hits) == 1


@pytest.mark.parametrize("model", [Tall, Flag, Wide, Families, Indexed, Versioned], ids=lambda model: model.__name__)
def test_a_moved_object_leaves_no_increments_that_are_made_meanwhile(atomic_bed: Bed, model: Any) -> None:
    session = begun(atomic_bed, model)
    hb.Session(Counting(atomic_bed, model, 4)).rekey(session.get(model, **key_of(model)), k="b")
    assert session.get(model, **key_of(model)) is None
    assert session.get(model, **key_of(model, "b")).hits == 3
    session.add(made(model))
    session.commit()
    assert session.get(model, **key_of(model)).hits == 0


each_inserted = pytest.mark.parametrize("model", [Flag, Tall, Families, Wide], ids=lambda model: model.__name__)


def insert_over_counter(bed: Bed, model: Any, by: int | None = None, k: str = "a") -> hb.Session:
    """Inserts an object under a key where the counter of a deleted object remains."""
    session = begun(bed, model, k)
    delete_key(session, model, k)
    schema = hb.schema.schema_of(model)
    (row,) = KeyMapper(schema).rows(tuple(key_of(model, k)[name] for name in schema.layout.names))
    left = Put(
        row,
        {model.hits.of.column: (9).to_bytes(8, "big")},
        int(time.time() * 1000) + (ahead(bed) if by is None else by),
    )
    session._view(schema).put(schema.table, [left])
    session.insert(made(model, k))
    return session


@pytest.mark.every_store
@each_inserted
def test_an_insert_resets_a_counter_that_is_ahead(atomic_bed: Bed, model: Any) -> None:
    _is_reset(insert_over_counter(atomic_bed, model), model)


def test_an_insert_that_claims_its_key_resets_a_counter_that_is_ahead(bed: Bed) -> None:
    _is_reset(insert_over_counter(bed, Flag), Flag)


def _is_reset(session: hb.Session, model: Any) -> None:
    assert session.get(model, **key_of(model)).hits == 0
    assert session.increment(made(model), model.hits, 2) == 2
    assert session.get(model, **key_of(model)).hits == 2
    delete_key(session, model)
    session.add(made(model))
    session.commit()
    assert session.get(model, **key_of(model)).hits == 0


def test_an_insert_over_a_counter_far_ahead_is_refused(bed: Bed) -> None:
    with pytest.raises(hb.errors.ClockError):
        insert_over_counter(bed, Flag, FAR, "far insert")
    assert hb.Session(bed.store).get(Flag, k="far insert") is None


@each_inserted
def test_a_moved_object_leaves_no_counter(atomic_bed: Bed, model: Any) -> None:
    session = begun(atomic_bed, model)
    moved_ahead(atomic_bed, model)
    assert session.rekey(made(model), k="b").hits == 3
    assert session.get(model, **key_of(model)) is None
    session.add(made(model))
    session.commit()
    assert session.get(model, **key_of(model)).hits == 0
    assert session.get(model, **key_of(model, "b")).hits == 3


def test_objects_of_one_row_are_deleted_with_their_counters(bed: Bed) -> None:
    session = begun(bed, Wide, "a", "b", "c")
    moved_ahead(bed, Wide)
    session.delete_key(Wide, r="r", k="a")
    session.delete_key(Wide, r="r", k="b")
    session.commit()
    session.add_all([made(Wide, "a"), made(Wide, "b")])
    session.commit()
    assert [session.get(Wide, r="r", k=k).hits for k in "abc"] == [0, 0, 3]


def test_a_delete_beside_an_update_of_the_row_is_one_mutation(atomic_bed: Bed) -> None:
    session = begun(atomic_bed, Wide, "a", "b")
    moved_ahead(atomic_bed, Wide)
    atomic_bed.store.calls.clear()
    session.delete_key(Wide, r="r", k="a")
    session.update_key(Wide, r="r", k="b", m=5)
    session.commit()
    changes = [call.name for call in atomic_bed.store.calls if call.writes and call.table == "future_wide"]
    assert changes == ["check_and_mutate_many"]
    session.add(made(Wide, "a"))
    session.commit()
    assert [session.get(Wide, r="r", k=k).hits for k in "ab"] == [0, 3]


@each_model
def test_a_counter_far_ahead_refuses_the_delete(bed: Bed, model: Any) -> None:
    session = begun(bed, model, "far delete")
    moved_ahead(bed, model, by=FAR)
    with pytest.raises(hb.errors.ClockError):
        delete_key(session, model, "far delete")
    assert session.get(model, **key_of(model, "far delete")).hits == 3


@pytest.mark.parametrize("model", [Indexed, Versioned], ids=lambda model: model.__name__)
def test_a_counter_ahead_does_not_refuse_an_update(atomic_bed: Bed, model: Any) -> None:
    session = begun(atomic_bed, model, "far")
    moved_ahead(atomic_bed, model, by=FAR)
    session.update(session.get(model, k="far"), m=2)
    session.commit()
    found = session.get(model, k="far")
    assert (found.m, found.hits) == (2, 3)
    session.add(found)
    session.commit()
    with pytest.raises(hb.errors.ClockError):
        delete_key(session, model, "far")
    session.discard()
    assert session.get(model, k="far").hits == 3


def test_a_commit_reads_the_rows_that_it_deletes_in_one_call(bed: Bed) -> None:
    @hb.model(table="future_plain", family="d")
    class Plain:
        k: hb.Key[str] = hb.key()
        m: hb.Column[int] = hb.column("m")

    session = bed.use(Plain)
    for k in "abc":
        session.delete_key(Plain, k=k)
    session.commit()
    assert [(call.name, len(call.items)) for call in bed.store.calls if call.table == "future_plain"] == [
        ("get", 3),
        ("delete", 3),
    ]


# --- cells of other programs ------------------------------------------------------------------------------------------


def with_cell_ahead(bed: Bed, model: Any, by: int, k: str) -> hb.Session:
    """A session with an object; another program has put one of its cells again with its own timestamp."""
    session = bed.use(model)
    session.add(made(model, k))
    session.commit()
    moved_ahead(bed, model, b"m", by)
    return session


@pytest.mark.every_store
@each_model
def test_an_update_waits_for_the_cell_that_it_replaces(bed: Bed, model: Any) -> None:
    session = with_cell_ahead(bed, model, ahead(bed), "a")
    session.update_key(model, **key_of(model), m=2)
    session.commit()
    assert session.get(model, **key_of(model)).m == 2


@pytest.mark.parametrize("by", [FAR, 2**63], ids=["far", "the end of time"])
@each_model
def test_an_update_of_a_cell_far_ahead_is_refused(bed: Bed, model: Any, by: int) -> None:
    k = f"far update {by}"
    session = with_cell_ahead(bed, model, by, k)
    session.update_key(model, **key_of(model, k), m=2)
    with pytest.raises(hb.errors.ClockError):
        session.commit()
    session.discard()
    assert session.get(model, **key_of(model, k)).m == 1


@each_inserted
def test_a_moved_object_leaves_nothing_that_is_ahead(atomic_bed: Bed, model: Any) -> None:
    session = with_cell_ahead(atomic_bed, model, ahead(atomic_bed), "a")
    session.rekey(made(model), k="b")
    assert session.get(model, **key_of(model)) is None
    assert session.get(model, **key_of(model, "b")).m == 1
    session.add(made(model, m=4))
    session.commit()
    assert session.get(model, **key_of(model)).m == 4


@each_inserted
def test_an_object_with_a_cell_far_ahead_stays_under_its_key(atomic_bed: Bed, model: Any) -> None:
    session = with_cell_ahead(atomic_bed, model, FAR, "far move")
    with pytest.raises(hb.errors.ClockError):
        session.rekey(made(model, "far move"), k="far moved")
    assert session.get(model, **key_of(model, "far move")).m == 1
    assert session.get(model, **key_of(model, "far moved")) is None


@pytest.mark.every_store
@each_model
def test_a_delete_takes_a_cell_that_is_ahead(bed: Bed, model: Any) -> None:
    session = with_cell_ahead(bed, model, ahead(bed), "a")
    delete_key(session, model)
    assert session.get(model, **key_of(model)) is None
    session.add(made(model, m=7))
    session.commit()
    assert session.get(model, **key_of(model)).m == 7


@each_model
def test_a_delete_of_a_cell_far_ahead_is_refused(bed: Bed, model: Any) -> None:
    session = with_cell_ahead(bed, model, FAR, "far gone")
    with pytest.raises(hb.errors.ClockError):
        delete_key(session, model, "far gone")
    session.discard()
    assert session.get(model, **key_of(model, "far gone")).m == 1
    with pytest.raises(hb.errors.ClockError):
        session.query(model).where(
            *[getattr(model, name) == value for name, value in key_of(model, "far gone").items()]
        ).delete()
    assert session.get(model, **key_of(model, "far gone")).m == 1


def test_a_delete_takes_a_cell_that_is_ahead_and_shows_no_object(bed: Bed) -> None:
    session = bed.use(Flag)
    bed.store.put(
        "future_flag",
        [Put(b"left", {b"d:m": b"\x80" + bytes(6) + b"\x05"}, timestamp=int(time.time() * 1000) + ahead(bed))],
    )
    delete_key(session, Flag, "left")
    session.insert(Flag(k="left"))
    assert session.get(Flag, k="left").m is None


def test_a_refused_delete_keeps_the_others_of_its_commit(bed: Bed) -> None:
    session = with_cell_ahead(bed, Tall, FAR, "far beside")
    session.add(made(Tall, "beside"))
    session.commit()
    session.delete_key(Tall, k="far beside")
    session.delete_key(Tall, k="beside")
    with pytest.raises(hb.PartialWrite) as caught:
        session.commit()
    session.discard()
    assert [type(failure.error) for failure in caught.value.failures] == [hb.errors.ClockError]
    assert session.get(Tall, k="beside") is None
    assert session.get(Tall, k="far beside").m == 1


def test_an_insert_under_a_cell_that_is_ahead_says_that_it_is_hidden(bed: Bed) -> None:
    session = bed.use(Flag)
    bed.store.put(
        "future_flag", [Put(b"hidden", {b"d:m": b"\x80" + bytes(6) + b"\x05"}, timestamp=int(time.time() * 1000) + FAR)]
    )
    put, free = (
        "The object was put, but cells of its row whose timestamps are ahead",
        "would hide a part of the object: nothing was put",
    )
    with pytest.raises(hb.errors.ClockError, match=put if bed.atomic else free):
        session.insert(made(Flag, "hidden", m=3))
    if bed.atomic:
        assert session.get(Flag, k="hidden").m != 3
    else:
        assert session.get(Flag, k="hidden") is None
        with pytest.raises(hb.errors.ClockError, match=free):
            session.insert(made(Flag, "hidden", m=3))


@pytest.mark.every_store
def test_what_follows_a_ttl_over_a_cell_that_is_ahead_is_not_hidden(bed: Bed) -> None:
    @hb.model(table="future_expiring", family="d")
    class Expiring:
        k: hb.Key[str] = hb.key()
        m: hb.Column[int] = hb.column("m")

    session = with_cell_ahead(bed, Expiring, ahead(bed), "a")
    session.add(made(Expiring, m=2), ttl=timedelta(hours=1))
    session.commit()
    session.delete_key(Expiring, k="a")
    session.commit()
    assert session.get(Expiring, k="a") is None


@pytest.mark.parametrize("model", [Tall, External], ids=lambda model: model.__name__)
def test_the_server_is_not_asked_for_its_time_where_no_cell_is_ahead(bed: Bed, model: Any) -> None:
    session = bed.use(model)
    session.add(made(model))
    session.commit()
    time.sleep(0.01)
    bed.store.calls.clear()
    session.update_key(model, **key_of(model), m=2)
    session.commit()
    delete_key(session, model)
    assert {call.table for call in bed.store.calls} == {hb.schema.schema_of(model).table}


# --- puts that are not blind ------------------------------------------------------------------------------------------


@hb.model(table="future_seen", family="d", blind_puts=False)
class Seen:
    k: hb.Key[str] = hb.key()
    m: hb.Column[int] = hb.column("m")
    o: hb.Column[str | None] = hb.column("o", default=None, null="delete")


@hb.model(table="future_seen_wide", family="d", blind_puts=False)
class SeenWide:
    r: hb.Key[str] = hb.key()
    k: hb.Key[str] = hb.key(in_qualifier=True)
    m: hb.Column[int] = hb.column("m")


@hb.model(table="future_seen_map", family="d", blind_puts=False)
class SeenMap:
    k: hb.Key[str] = hb.key()
    m: hb.Column[int] = hb.column("m")
    tags: hb.Map[str, int] = hb.map_column("t:")


@hb.model(table="future_seen_external", family="d", external=True, blind_puts=False)
class SeenForeign:
    k: hb.Key[str] = hb.key()
    m: hb.Column[int] = hb.column("m")


each_seen = pytest.mark.parametrize("model", [Seen, SeenWide, SeenMap, SeenForeign], ids=lambda model: model.__name__)


def key_seen(model: Any, k: str) -> dict[str, str]:
    return {"k": k, **({"r": k} if model is SeenWide else {})}


def seen_ahead(bed: Bed, model: Any, by: int, *ks: str) -> hb.Session:
    """A session with objects; another program has put one of their cells again with its own timestamp."""
    session = bed.use(model)
    session.add_all([model(**key_seen(model, k), m=1) for k in ks])
    session.commit()
    moved_ahead(bed, model, b"m", by)
    return session


@each_seen
@pytest.mark.parametrize("many", [False, True], ids=["commit", "load"])
def test_a_put_that_is_not_blind_waits_for_the_cell_that_it_replaces(bed: Bed, model: Any, many: bool) -> None:
    session = seen_ahead(bed, model, ahead(bed), "a")
    objects = [model(**key_seen(model, k), m=2) for k in ("a", "b")]
    if many:
        session.bulk_add(objects)
    else:
        session.add_all(objects)
        session.commit()
    assert [session.get(model, **key_seen(model, k)).m for k in ("a", "b")] == [2, 2]


@each_seen
def test_a_put_that_is_not_blind_is_refused_under_a_cell_far_ahead(bed: Bed, model: Any) -> None:
    k, beside = f"far put {model.__name__}", f"beside {model.__name__}"
    session = seen_ahead(bed, model, FAR, k)
    session.add_all([model(**key_seen(model, k), m=2), model(**key_seen(model, beside), m=2)])
    with pytest.raises(hb.PartialWrite) as caught:
        session.commit()
    session.discard()
    assert [type(failure.error) for failure in caught.value.failures] == [hb.errors.ClockError]
    assert session.get(model, **key_seen(model, k)).m == 1
    assert session.get(model, **key_seen(model, beside)).m == 2


def test_objects_of_one_row_that_are_put_together_wait_for_the_cell_of_one(bed: Bed) -> None:
    session = bed.use(SeenWide)
    session.add_all([SeenWide(r="r", k=k, m=1) for k in "ab"])
    session.commit()
    moved_ahead(bed, SeenWide, b"m")
    session.add_all([SeenWide(r="r", k=k, m=2) for k in "abc"])
    session.commit()
    assert [session.get(SeenWide, r="r", k=k).m for k in "abc"] == [2, 2, 2]


def test_a_none_that_deletes_its_cell_waits_for_it_too(bed: Bed) -> None:
    session = bed.use(Seen)
    session.add(Seen(k="a", m=1, o="old"))
    session.commit()
    moved_ahead(bed, Seen, b"o")
    session.add(Seen(k="a", m=2))
    session.commit()
    assert session.get(Seen, k="a") == Seen(k="a", m=2)


def test_a_map_entry_ahead_of_the_clock_is_waited_for(bed: Bed) -> None:
    session = bed.use(SeenMap)
    session.add(SeenMap(k="a", m=1, tags={"x": 1}))
    session.commit()
    moved_ahead(bed, SeenMap, b"x")
    session.add(SeenMap(k="a", m=2, tags={"x": 2}))
    session.commit()
    assert session.entries(SeenMap.tags, k="a").all() == {"x": 2}


def test_puts_that_are_not_blind_read_their_rows_in_one_call(bed: Bed) -> None:
    session = bed.use(Seen)
    session.add_all([Seen(k=k, m=1, o="there") for k in "abc"])
    session.commit()
    assert [(call.name, len(call.items)) for call in bed.store.calls if call.table == "future_seen"] == [
        ("get", 3),
        ("put", 3),
    ]


def test_rows_that_are_put_once_have_no_use_for_it() -> None:
    with pytest.raises(hb.DeclarationError, match="leave out blind_puts=False"):

        @hb.model(table="future_once", family="d", immutable=True, blind_puts=False)
        class Once:
            k: hb.Key[str] = hb.key()
            m: hb.Column[int] = hb.column("m")
