"""Rows that are put, and then not put again when the indexes change or the write takes too long: concurrent changes by
others are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

import hbmodel as hb
from hbmodel.protocol.corrected_clock import GRACE, SharedOffset, wall_time
from hbmodel.store import Delete, Put
from hbmodel.store.embedded import EmbeddedStore
from hbmodel.store.gate import gated
from hbmodel.tables.registry.registration import ABSENT, LEASE, READABLE
from hbmodel.tables.roll.binding_cache import BindingCache
from tests.support.beds import set_state
from tests.support.faulty import RecordingStore


@hb.model(table="put", family="d", exists=hb.flag("e"))
class Tall:
    """Two indexes."""

    k: hb.Key[str] = hb.key()
    m: hb.Column[int] = hb.column("m")
    o: hb.Column[str | None] = hb.column("o", default=None)

    by_m = hb.index("m")
    by_o = hb.index("o")


@hb.model(table="put_wide", family="d", row=b"r")
class Wide:
    """The same model with the objects in one row."""

    k: hb.Key[str] = hb.key(in_qualifier=True)
    m: hb.Column[int] = hb.column("m")
    o: hb.Column[str | None] = hb.column("o", default=None)

    by_m = hb.index("m")
    by_o = hb.index("o")


MODELS = (Tall, Wide)

TIMES = {"built": round(1000 * LEASE) + 1, "dropped": round(1000 * LEASE) + 1, "slow": GRACE // 2 + 1}
"""What happens, and the ms that pass: the lease of a program, or so much that a repair may take the entries of a
write for orphans.
"""


class PassingStore(RecordingStore):
    """A store whose clock is the only one, and moves with every call; something happens after a change of the table,
    once.

    Attributes:
        now: the time, in ms since 1970.
        after: the table, and what happens.
    """

    def __init__(self, how: str, *, limited: bool = False) -> None:
        self.now = wall_time() - TIMES[how]  # so that it is the time of this machine in the end
        self.after: tuple[str, Callable[[], object]] | None = None
        self.refused: str | None = None
        super().__init__(EmbeddedStore(None, lambda: self.now), limited=limited)

    def _do(self, call: Any, apply: Callable[[Sequence[Any]], Any]) -> Any:
        self.now += 1
        answer = super()._do(call, apply)
        if self.after is not None and call.writes and call.table == self.after[0]:
            happens, self.after = self.after[1], None
            with gated(None):
                happens()
        return answer

    def session(self) -> hb.Session:
        """A program that trusts the registry for a lease by this clock."""
        clock = lambda: self.now  # noqa: E731
        return hb.Session(self, cache=BindingCache(LEASE, running=clock, offset=SharedOffset(clock, clock)))


def begun(model: Any, how: str, *objects: Any, limited: bool = False) -> PassingStore:
    """A store with these objects, and the index that is built or dropped in its state before."""
    store = PassingStore(how, limited=limited)
    hb.create_tables(store, model)
    if how == "built":
        set_state(store, model, "by_o", ABSENT)
    with store.session() as session:
        session.add_all(objects)
    return store


def passes(store: PassingStore, model: Any, how: str) -> None:
    """The index is built or dropped; or only enough time passes for a repair to treat entries as orphans."""
    store.now += TIMES[how]
    if how != "slow":
        set_state(store, model, "by_o", READABLE if how == "built" else ABSENT)


def interrupted(
    store: PassingStore, model: Any, how: str, call: Callable[[hb.Session], object], beside: Callable[[hb.Session], Any]
) -> Any:
    """One program's commit, which stops once its row is put, and continues when another program has made its call;
    returns the result of that call.
    """

    def meanwhile() -> None:
        passes(store, model, how)
        other = store.session()
        beside(other)
        other.commit()

    first = store.session()
    call(first)
    store.after = hb.schema.schema_of(model).table, meanwhile
    (outcome,) = first.commit()
    assert store.after is None
    return outcome


def found(store: PassingStore, model: Any, how: str) -> list[tuple[str, int, str | None]]:
    """The remaining rows; the indexes have entries for all of them."""
    set_state(store, model, "by_o", READABLE if how == "built" else ABSENT)
    for index in ("by_m", "by_o") if how == "built" else ("by_m",):
        assert hb.indexes.verify_index(store, model, index).missing == 0
    return sorted((obj.k, obj.m, obj.o) for obj in store.session().query(model).allow_full_scan())


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("how", ["built", "dropped", "slow"])
def test_an_object_that_was_put_does_not_cover_an_update(how: str, model: Any) -> None:
    store = begun(model, how)
    outcome = interrupted(
        store,
        model,
        how,
        lambda one: one.add(model(k="a", m=1, o="x")),
        lambda other: other.update(model(k="a", m=1, o="x"), m=2, o="y"),
    )
    assert outcome.action == "put"
    assert found(store, model, how) == [("a", 2, "y")]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("how", ["built", "dropped", "slow"])
def test_an_object_that_was_put_and_deleted_stays_deleted(how: str, model: Any) -> None:
    store = begun(model, how)
    obj = model(k="a", m=1, o="x")
    assert interrupted(store, model, how, lambda one: one.add(obj), lambda other: other.delete(obj)).action == "put"
    assert found(store, model, how) == []


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("how", ["built", "dropped", "slow"])
def test_an_object_that_was_put_and_moved_is_under_one_key(how: str, model: Any) -> None:
    store = begun(model, how)
    obj = model(k="a", m=1, o="x")
    assert (
        interrupted(store, model, how, lambda one: one.add(obj), lambda other: other.rekey(obj, k="b")).action == "put"
    )
    assert found(store, model, how) == [("b", 1, "x")]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("how", ["built", "dropped", "slow"])
def test_an_update_that_was_made_and_moved_is_no_missing_row(how: str, model: Any) -> None:
    obj = model(k="a", m=1, o="x")
    store = begun(model, how, obj)
    outcome = interrupted(
        store, model, how, lambda one: one.update(obj, m=2, o="y"), lambda other: other.rekey(obj, k="b")
    )
    assert outcome.action == "put"
    assert found(store, model, how) == [("b", 2, "y")]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("how", ["built", "dropped", "slow"])
def test_a_delete_that_was_made_spares_what_is_inserted_after_it(how: str, model: Any) -> None:
    obj = model(k="a", m=1, o="x")
    store = begun(model, how, obj)
    new = model(k="a", m=2, o="y")
    assert (
        interrupted(store, model, how, lambda one: one.delete(obj), lambda other: other.insert(new)).action == "deleted"
    )
    assert found(store, model, how) == [("a", 2, "y")]


@pytest.mark.parametrize("how", ["built", "dropped", "slow"])
def test_a_delete_whose_marker_was_put_is_completed(how: str) -> None:
    """Where no row is changed atomically, the marker is put first; the indexes change before the rest of the row is
    deleted.
    """
    obj = Tall(k="a", m=1, o="x")
    store = begun(Tall, how, obj, limited=True)
    outcome = interrupted(
        store, Tall, how, lambda one: one.delete(obj), lambda other: other.add(Tall(k="b", m=2, o="y"))
    )
    assert outcome.action == "deleted"
    assert found(store, Tall, how) == [("b", 2, "y")]
    (row,) = store.get("put", [b"a"], [b"d:e"])
    assert row is None


@pytest.mark.parametrize("how", ["built", "dropped", "slow"])
@pytest.mark.parametrize("others", [0, 1])
def test_what_a_commit_has_put_into_a_row_is_not_put_again(others: int, how: str) -> None:
    store = begun(Wide, how)

    def call(session: hb.Session) -> None:
        session.add_all([Wide(k="a", m=1, o="x"), *(Wide(k=f"c{n}", m=1, o="x") for n in range(others))])

    first = store.session()
    call(first)

    def meanwhile() -> None:
        passes(store, Wide, how)
        with store.session() as other:
            other.update(Wide(k="a", m=1, o="x"), m=2)

    store.after = "put_wide", meanwhile
    assert {outcome.action for outcome in first.commit()} == {"put"}
    assert found(store, Wide, how) == [("a", 2, "x"), *[("c0", 1, "x")][:others]]


def test_what_a_commit_has_only_gathered_is_put() -> None:
    """The indexes change after the entries of two objects of a row are put, and before their row is."""
    store = begun(Wide, "built")
    first = store.session()
    first.add_all([Wide(k="a", m=1, o="x"), Wide(k="b", m=2, o="y")])
    store.after = "put_wide.by_m", lambda: passes(store, Wide, "built")
    assert [outcome.action for outcome in first.commit()] == ["put", "put"]
    assert found(store, Wide, "built") == [("a", 1, "x"), ("b", 2, "y")]


@hb.model(table="put_short", family="d")
class Short:
    """An index whose entries may be too long for it."""

    k: hb.Key[str] = hb.key()
    m: hb.Column[int] = hb.column("m")
    o: hb.Column[str | None] = hb.column("o", default=None)

    by_m = hb.index("m")
    by_o = hb.index("o")


def _committed(session: hb.Session, obj: object) -> None:
    session.add(obj)
    session.commit()


def _loaded(session: hb.Session, obj: object) -> None:
    session.bulk_add([obj], on_refused=lambda refused, error: pytest.fail("it may have been written"))


@pytest.mark.parametrize("write", [_committed, _loaded])
def test_an_object_that_was_put_and_that_the_new_indexes_refuse_is_an_unknown_outcome(
    write: Callable[[hb.Session, object], None],
) -> None:
    store = begun(Short, "built")
    session = store.session()

    def meanwhile() -> None:
        passes(store, Short, "built")
        store.put("put_short", [Put(b"a", {b"d:o": b"\xff"}, store.now)])  # no text

    store.after = "put_short", meanwhile
    with pytest.raises(
        hb.UnknownOutcome, match="The indexes of the table changed during the write, and the write is refused"
    ):
        write(session, Short(k="a", m=1, o="x"))
    store.delete("put_short", [Delete(b"a")])
