"""Pending calls in rounds, and the outcomes and errors of commits."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.errors import StoreUnavailable
from hbmodel.mapping.rows.mapper import KeyMapper
from hbmodel.protocol.writes import DeleteRow, PutObject, UpdateFields, put_object
from hbmodel.session.commit.batches import Batch, Pending, split_batches
from hbmodel.session.commit.session_sizes import SessionSizes
from hbmodel.store import Family
from hbmodel.store.clock_tick import let_tick_pass
from tests.support.beds import cells_of, fresh, rows_of
from tests.support.faulty import Call, FaultyStore, RecordingStore
from tests.support.models import Hit, Logged, Order, Person, Sample, day, order


def call(kind: str, number: int) -> Pending:
    """A pending call on one order."""
    schema, obj = hb.schema.schema_of(Order), order(number)
    row = hb.row_key(Order, customer=1, at=obj.at, number=number)
    writes: dict[str, Any] = {
        "add": put_object(schema, obj),
        "update": UpdateFields(obj, row, {}, {"state": "b"}),
        "delete": DeleteRow(obj, row),
    }
    return Pending(schema, obj, [writes[kind]])


# --- rounds -----------------------------------------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.sampled_from(["add", "update", "delete"]), st.integers(0, 3)), max_size=15), st.integers(1, 4)
)
def test_rounds_keep_the_order_of_every_row_and_touch_it_once(kinds: list[tuple[str, int]], room: int) -> None:
    calls = [call(*kind) for kind in kinds]
    rounds = split_batches(calls, room)
    assert all(1 <= len(r.writes) <= room for r in rounds)
    assert all(len({write.row for write in r.writes}) == len(r.writes) for r in rounds)
    assert all(made.remaining == 1 for made in calls)
    written = [(owner, write) for r in rounds for owner, write in zip(r.owners, r.writes, strict=True)]
    for row in {made.writes[0].row for made in calls}:
        asked = [made for made in calls if made.writes[0].row == row]
        # Of adds in a row only the last is written.
        kept = [
            made
            for at, made in enumerate(asked)
            if not (
                isinstance(made.writes[0], PutObject)
                and at + 1 < len(asked)
                and isinstance(asked[at + 1].writes[0], PutObject)
            )
        ]
        assert [owner for owner, write in written if write.row == row] == kept
    replaced: list[Pending] = []
    for made in calls:
        if made.superseded is not None:
            replaced.append(made.superseded)
    assert {id(made) for made in replaced} == {id(made) for made in calls} - {id(owner) for owner, _ in written}


def test_models_have_rounds_of_their_own() -> None:
    sample = Sample(station="s", label="l", level=1)
    rounds = split_batches(
        [
            call("add", 1),
            Pending(hb.schema.schema_of(Sample), sample, [put_object(hb.schema.schema_of(Sample), sample)]),
            call("add", 2),
        ]
    )
    assert [(r.schema.table, len(r.writes)) for r in rounds] == [("orders", 2), ("samples", 1)]


def _logged(kind: str) -> Pending:
    schema = hb.schema.schema_of(Logged)
    obj = Logged(serial=1, page="/")
    rows = KeyMapper(schema).rows((1,))
    return Pending(schema, obj, [put_object(schema, obj)] if kind == "add" else [DeleteRow(obj, row) for row in rows])


@given(st.lists(st.sampled_from(["add", "delete"]), max_size=8))
def test_a_random_salt_keeps_the_order_of_every_bucket(kinds: list[str]) -> None:
    rounds = split_batches([_logged(kind) for kind in kinds])
    rows: dict[bytes, bool] = {}
    for r in rounds:
        assert len({write.row for write in r.writes}) == len(r.writes)
        for write in r.writes:
            rows[write.row] = isinstance(write, PutObject)
    assert sum(rows.values()) == (1 if kinds and kinds[-1] == "add" else 0)


def test_a_delete_of_many_buckets_settles_once_and_tells_what_it_found() -> None:
    for found, expected in (
        (["absent", "deleted", "absent"], "deleted"),
        (["absent"] * 3, "absent"),
        (["deleted", "failed", "absent"], "failed"),
    ):
        pending = _logged("delete")
        split_batches([pending])
        for action in found:
            assert pending.remaining > 0
            pending.settle(hb.Outcome(action, b"r"))  # type: ignore[arg-type]
        assert pending.remaining == 0
        assert pending.outcome is not None
        assert pending.outcome.action == expected


# --- outcomes ---------------------------------------------------------------------------------------------------------


def test_a_single_failure_is_raised_as_itself() -> None:
    with fresh(Order) as store:
        session = hb.Session(store)
        session.update(order(1), state="b")
        with pytest.raises(hb.RowNotFound):
            session.commit()
        assert session.commit() == []


def test_failures_beside_successes_are_told_apart() -> None:
    with fresh(Order) as store:
        session = hb.Session(store)
        session.add(order(1))
        session.update(order(2), state="b")
        session.update(order(1), state="c")
        with pytest.raises(hb.PartialWrite) as caught:
            session.commit()
        error = caught.value
        assert [outcome.action for outcome in error.applied] == ["put", "put"]
        assert [type(outcome.error) for outcome in error.failures] == [hb.RowNotFound]
        assert error.failures[0].key == error.key == hb.row_key(Order, customer=1, at=day(2), number=2)
        assert error.reason.startswith("RowNotFound: There is no row with this key to update: add() or insert()")
        text = str(error)
        assert (
            error.message
            == "Some calls of the commit were refused: see `failures`. All others are carried out, and nothing is "
            "pending."
        )
        assert text == f"{error.message} [applied=2, pending=0, failures=1, key={error.key!r}]\nreason: {error.reason}"
        assert text.count(repr(error.key)) == 2, "a key is escaped once, in the reason too"
        assert error.pending == []
        assert session.commit() == []


def test_a_failed_commit_of_several_rounds_tells_applied_from_pending() -> None:
    with fresh(Order, Sample) as inner:
        store = FaultyStore(inner, at=8)
        session = hb.Session(store)
        session.add_all([order(1, "a"), order(1, "b"), order(2)])
        session.add(Sample(station="s", label="l", level=1))
        session.delete(order(2))
        with pytest.raises(hb.PartialWrite) as caught:
            session.commit()
        assert [str(c) for c in store.calls][-2:] == ["get hbmodel", "put samples"]
        error = caught.value
        assert [outcome.action for outcome in error.applied] == ["superseded", "put", "put"]
        assert [type(subject) for subject in error.pending] == [Sample, Order]
        assert "applied=3, pending=2, failures=0" in str(error)
        assert "on purpose" in str(error)
        assert (error.table, error.key) == ("samples", hb.row_key(Sample, station="s", label="l"))
        session.add(order(3))  # joins what is pending
        assert [outcome.action for outcome in session.commit()] == ["superseded", "put", "put", "put", "deleted", "put"]
        assert [o.number for o in session.query(Order).allow_full_scan()] == [3, 1]


@hb.model(table="uow_notes", family="d")
class Note:
    name: hb.Key[str] = hb.key()
    text: hb.Column[str] = hb.column("t")
    more: hb.Column[str | None] = hb.column("m", default=None, null="delete")
    labels: hb.Map[str, str] = hb.map_column("l", factory=dict)


@hb.model(table="uow_lives", family="d")
class Life:
    name: hb.Key[str] = hb.key()
    text: hb.Column[str] = hb.column("t")


@hb.model(table="uow_shared", family="d")
class Shared:
    page: hb.Key[str] = hb.key()
    name: hb.Key[str] = hb.key(in_qualifier=True)
    text: hb.Column[str] = hb.column("t")


@hb.model(table="uow_checked", family="d")
class Checked:
    name: hb.Key[str] = hb.key()
    text: hb.Column[str] = hb.column("t")
    version: hb.Column[int] = hb.version()


def _shared_row(session: hb.Session) -> None:
    session.add_all(Shared(page="a", name=name, text="mine") for name in "xy")


SERVER_TIME: dict[str, tuple[Callable[[hb.Session], object], Callable[[hb.Session], object]]] = {
    "add": (
        lambda session: session.add(Note(name="a", text="mine")),
        lambda session: session.delete_key(Note, name="a"),
    ),
    "add with a TTL": (
        lambda session: session.add(Life(name="a", text="mine"), ttl=timedelta(hours=1)),
        lambda session: session.delete_key(Life, name="a"),
    ),
    "update": (
        lambda session: session.update_key(Note, name="a", text="mine"),
        lambda session: session.update_key(Note, name="a", text="later"),
    ),
    "update to None": (
        lambda session: session.update_key(Note, name="a", more=None),
        lambda session: session.update_key(Note, name="a", more="later"),
    ),
    "update to expire": (
        lambda session: session.update_key(Life, name="a", text="mine", ttl=timedelta(hours=1)),
        lambda session: session.update_key(Life, name="a", text="later"),
    ),
    "map entry": (
        lambda session: session.put_entries(Note(name="a", text=""), Note.labels, {"k": "mine"}),
        lambda session: session.put_entries(Note(name="a", text=""), Note.labels, {"k": "later"}),
    ),
    "delete": (
        lambda session: session.delete_key(Note, name="a"),
        lambda session: session.add(Note(name="a", text="later")),
    ),
    "objects of one row": (_shared_row, lambda session: session.delete_key(Shared, page="a", name="x")),
}


def _begun(*models: type[Any]) -> RecordingStore:
    store = fresh(*models)
    session = hb.Session(store)
    session.add(Note(name="a", text="first", more="first", labels={"k": "first"}))
    if Life in models:
        session.add(Life(name="a", text="first"))
    session.commit()
    store.calls.clear()
    let_tick_pass()  # so that no call that reads the time of the row has to ask twice
    return store


@pytest.mark.parametrize("limited", [False, True])
@pytest.mark.parametrize("kind", SERVER_TIME)
def test_a_write_at_server_time_whose_answer_is_lost_is_not_sent_again(kind: str, limited: bool) -> None:
    """Another program changes the row after the write: sent again, it would undo that."""
    mine, later = SERVER_TIME[kind]
    with _begun(Note, Life, Shared) as inner:
        probe = FaultyStore(inner, limited=limited)
        mine(session := hb.Session(probe))
        session.commit()
        writes = [at for at, call in enumerate(probe.calls) if call.writes and call.table.startswith("uow")]
    tables = ("uow_notes", "uow_lives", "uow_shared")
    for at in writes:
        with _begun(Note, Life, Shared) as inner:
            store = FaultyStore(inner, at, "after", limited=limited)
            mine(session := hb.Session(store))
            with pytest.raises(hb.PartialWrite) as caught:
                session.commit()
            later(other := hb.Session(inner))
            other.commit()
            left = {table: cells_of(inner, table) for table in tables}
            sent = len(store.calls)
            # its cells have the same time each time they are put
            if "some of those in `pending` may be" not in str(caught.value):
                session.commit()
                assert at < writes[-1] or {table: cells_of(inner, table) for table in tables} == left
                continue
            with pytest.raises(hb.PartialWrite, match=r"commit\(resend=True\) to write all of them") as caught:
                session.commit()
            assert isinstance(caught.value.__cause__, hb.UnknownOutcome)
            assert "sent again, they could undo what other programs have written since" in caught.value.reason
            assert caught.value.pending
            assert not [call for call in store.calls[sent:] if call.writes]
            assert {table: cells_of(inner, table) for table in tables} == left
            session.commit(resend=True)
            assert [str(call) for call in store.calls[sent:] if call.writes][:1] == [str(store.calls[at])]
            assert session.commit() == []


def test_a_write_in_doubt_is_dropped_by_discard() -> None:
    with _begun(Note) as inner:
        session = hb.Session(FaultyStore(inner, 1, "after"))
        session.add(Note(name="b", text="mine"))
        with pytest.raises(hb.PartialWrite, match="may be"):
            session.commit()
        session.discard()
        session.add(Note(name="c", text="mine"))
        assert [outcome.action for outcome in session.commit()] == ["put"]
        assert set(cells_of(inner, "uow_notes")) == {b"a", b"b", b"c"}


@pytest.mark.parametrize("mode", ["before", "after"])
@pytest.mark.parametrize("model", [Order, Checked])
def test_writes_at_given_times_or_of_versions_are_sent_again(model: type[Any], mode: Any) -> None:
    def made() -> Any:
        return order(1) if model is Order else Checked(name="a", text="mine")

    with fresh(model) as inner:
        session = hb.Session(probe := FaultyStore(inner))
        session.add(made())
        session.commit()
        rows = [
            at for at, call in enumerate(probe.calls) if call.writes and call.table == hb.schema.schema_of(model).table
        ]
    assert rows
    for at in rows:
        with fresh(model) as inner:
            session = hb.Session(FaultyStore(inner, at, mode))
            session.add(made())
            with pytest.raises((hb.PartialWrite, StoreUnavailable)) as caught:
                session.commit()
            if isinstance(caught.value, hb.PartialWrite):
                assert str(caught.value).startswith(
                    "The commit stopped partway: the objects in `applied` are written, those in `pending` are not. "
                    "Call commit() again"
                )
            assert [outcome.action for outcome in session.commit()] == ["put"]


def test_a_row_that_the_store_refuses_is_not_in_doubt() -> None:
    with fresh(Life) as store:
        session = hb.Session(store)
        session.add(Life(name="a", text="mine"))
        store.delete_table("uow_lives")
        store.create_table("uow_lives", [Family(b"e")])
        with pytest.raises(hb.errors.FamilyNotFound):
            session.commit()
        store.add_family("uow_lives", Family(b"d"))
        assert [outcome.action for outcome in session.commit()] == ["put"]


def test_a_write_that_was_not_sent_is_sent_by_the_next_commit() -> None:
    with _begun(Note) as inner:
        session = hb.Session(FaultyStore(inner, 1, "before"))
        session.add(Note(name="b", text="mine"))
        with pytest.raises(StoreUnavailable):
            session.commit()
        assert [outcome.action for outcome in session.commit()] == ["put"]


def test_what_an_add_replaced_is_pending_as_long_as_the_add_is() -> None:
    with fresh(Order) as inner:
        session = hb.Session(FaultyStore(inner, at=4))
        session.add_all([order(1, "a"), order(1, "b")])
        with pytest.raises(hb.PartialWrite) as caught:
            session.commit()
        assert caught.value.applied == []
        assert [subject.state for subject in caught.value.pending] == ["a", "b"]
        assert [outcome.action for outcome in session.commit()] == ["superseded", "put"]


def test_what_an_add_replaced_fails_with_it() -> None:
    with fresh(Order) as store:
        row = hb.row_key(Order, customer=1, at=day(1), number=1)
        store.put("orders", [hb.store.Put(row, {b"d:n": b"from the future"}, 2**62)])
        session = hb.Session(store)
        session.add_all([order(1, "a"), order(1, "b"), order(2)])
        with pytest.raises(hb.PartialWrite) as caught:
            session.commit()
        assert [type(outcome.error) for outcome in caught.value.failures] == [
            hb.errors.ClockError,
            hb.errors.ClockError,
        ]
        assert [outcome.action for outcome in caught.value.applied] == ["put"]


def test_nothing_sent_is_the_stores_own_error_and_all_stays_pending() -> None:
    with fresh(Order) as inner:
        store = FaultyStore(inner, at=0, times=3)
        session = hb.Session(store)
        session.add_all([order(1, "a"), order(1, "b"), order(2)])
        for _ in range(3):
            with pytest.raises(hb.StoreUnavailable):
                session.commit()
        assert rows_of(inner, "orders") == rows_of(inner, "orders.by_state") == {}
        assert [outcome.action for outcome in session.commit()] == ["superseded", "put", "put"]


def test_a_commit_can_be_given_up() -> None:
    with fresh(Order) as inner:
        store = FaultyStore(inner, at=4)
        session = hb.Session(store)
        session.add(order(1))
        with pytest.raises(hb.PartialWrite):
            session.commit()
        session.discard()
        assert session.commit() == []
        assert rows_of(inner, "orders") == {}
        session.add(order(2))
        assert [outcome.action for outcome in session.commit()] == ["put"]
        assert [o.number for o in session.query(Order).where(Order.state == "new")] == [2]


def test_a_partial_write_leaves_the_block_open_for_another_commit() -> None:
    with fresh(Order) as inner:
        session = hb.Session(FaultyStore(inner, at=4))
        with pytest.raises(hb.PartialWrite), session:
            session.add(order(1))
        assert not session.closed
        assert [outcome.action for outcome in session.commit()] == ["put"]


def test_rows_that_cannot_be_written_do_not_stop_the_others() -> None:
    with fresh(Person) as store:
        session = hb.Session(store)
        session.add_all([Person(name="ann", street="s" * 20_000), Person(name="bob")])
        session.commit()
        session.update(Person(name="ann"), city="c" * 20_000)
        session.update(Person(name="bob"), city="Oslo")
        with pytest.raises(hb.PartialWrite) as caught:
            session.commit()
        assert [type(outcome.error) for outcome in caught.value.failures] == [hb.errors.KeyTooLong]
        assert session.get(Person, name="bob") == Person(name="bob", city="Oslo")
        assert session.get(Person, name="ann") == Person(name="ann", street="s" * 20_000)


def test_row_values_are_in_no_log_and_no_message(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with fresh(Order) as inner:
        session = hb.Session(inner)
        session.add(order(1, "a secret", note="a secret"))
        session.commit()
        session = hb.Session(FaultyStore(inner, at=7, times=2))
        session.update(order(1), state="another secret")
        session.commit()
        session = hb.Session(FaultyStore(inner, at=4))
        session.update(order(1), state="yet another secret")
        with pytest.raises(hb.PartialWrite) as caught:
            session.commit()
    assert "could not be brought up to date" in caplog.text
    assert "secret" not in caplog.text + str(caught.value)


def test_only_so_many_failed_deletes_of_old_entries_are_remembered() -> None:
    class Undeletable(RecordingStore):
        def delete(self, table: str, deletes: Sequence[Any]) -> None:
            self.calls.append(Call("delete", table))
            raise hb.StoreError("Deletes are not allowed here.")

    with fresh(Order) as inner:
        store = Undeletable(inner)
        session = hb.Session(store, sizes=SessionSizes(unswept=2))
        for n in range(6):
            session.add(order(1, f"state {n}"))
            session.commit()
        store.told()
        session.add(order(2))
        session.commit()
        assert store.told().count("delete orders.by_state") <= 3
        assert session.query(Order).where(Order.state == "state 5").count() == 1
        assert session.query(Order).where(Order.state == "state 0").count() == 0


def test_old_entries_in_an_index_that_was_dropped_are_not_deleted_again(caplog: pytest.LogCaptureFixture) -> None:
    with fresh(Order) as inner:
        session = hb.Session(inner)
        session.add(order(1, "new"))
        session.commit()

        class Dropping(RecordingStore):
            def delete(self, table: str, deletes: Sequence[Any]) -> None:
                if table == "orders.by_state" and table in self.inner.tables():
                    self.inner.delete_table(table)
                super().delete(table, deletes)

        dropping = Dropping(inner)
        session = hb.Session(dropping)
        session.update(order(1, "new"), state="sent")
        session.commit()
        assert "orders.by_state" not in inner.tables()
        assert caplog.text.count("could not be brought up to date") == 1
        dropping.told()
        session.update(order(1, "sent"), note="seen")
        session.commit()
        assert "delete orders.by_state" not in dropping.told()
        assert caplog.text.count("could not be brought up to date") == 1


def test_the_bucket_of_a_random_salt_is_kept_when_a_commit_is_tried_again() -> None:
    with fresh(Hit) as inner:
        for at in (3, 4):
            store = FaultyStore(inner, at, "after")
            session = hb.Session(store)
            session.add_all(Hit(at=day(at), serial=n, page="/") for n in range(20))
            with pytest.raises(hb.HbmodelError):
                session.commit()
            session.commit()
            assert len(rows_of(inner, "hits")) == len(rows_of(inner, "hits.by_page")) == 20 * (at - 2)


def test_a_round_knows_whether_it_wrote() -> None:
    assert not Batch(hb.schema.schema_of(Order), [], []).wrote
