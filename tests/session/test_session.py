"""The effect of each call of a session, on every store."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

import hbmodel as hb
from hbmodel.mapping.schema import LIVE
from hbmodel.session.commit.session_sizes import SessionSizes
from tests.support.beds import Bed, cells_of, rows_of
from tests.support.models import DAY, Flagged, Hit, Legacy, Logged, Order, Person, Sample, day, order
from tests.support.orders import of_state, states

# --- add --------------------------------------------------------------------------------------------------------------


@pytest.mark.every_store
def test_what_is_added_comes_back_whole(bed: Bed) -> None:
    session = bed.use(Order, Sample)
    first = order(1, amount=12, note="it's 100% \0 ÿ 🦄 שלום")
    sample = Sample(station="", label="", level=-5, remark="")
    session.add(first)
    session.add(sample)
    outcomes = session.commit()
    assert [outcome.action for outcome in outcomes] == ["put", "put"]
    assert outcomes[0].key == hb.row_key(Order, customer=1, at=day(1), number=1)
    assert outcomes[0].timestamp is not None
    assert outcomes[1].timestamp is None
    assert session.get(Order, customer=1, at=day(1), number=1) == first
    assert session.get(Sample, station="", label="") == sample


def test_add_overwrites_every_column(bed: Bed) -> None:
    session = bed.use(Order, Sample)
    session.add_all([order(1, amount=3, note="old"), Sample(station="s", label="l", level=1, remark="old")])
    session.commit()
    session.add_all([order(1, "paid"), Sample(station="s", label="l", level=2)])
    session.commit()
    assert session.get(Order, customer=1, at=day(1), number=1) == order(1, "paid")
    assert session.get(Sample, station="s", label="l") == Sample(station="s", label="l", level=2)
    assert of_state(session, "new") == []
    assert of_state(session, "paid") == [1]
    assert session.query(Order).where(Order.amount == Decimal(3)).all() == []


def test_reads_never_see_what_is_pending(bed: Bed) -> None:
    session = bed.use(Order)
    session.add(order(1))
    assert states(session, 1) == [None]
    assert of_state(session, "new") == []
    session.commit()
    session.update(order(1), state="paid")
    session.delete(order(1))
    assert states(session, 1) == ["new"]
    assert of_state(session, "new") == [1]
    session.discard()
    assert session.commit() == []
    assert states(session, 1) == ["new"]


def test_models_of_several_tables_go_into_one_commit(bed: Bed) -> None:
    session = bed.use(Order, Sample, Hit)
    hit = Hit(at=DAY, serial=1, page="/")
    session.add_all([order(1), Sample(station="s", label="l", level=1), hit, order(2)])
    assert [outcome.action for outcome in session.commit()] == ["put"] * 4
    assert states(session, 1, 2) == ["new", "new"]
    assert session.get(Hit, at=DAY, serial=1) == hit
    assert session.query(Hit).where(Hit.page == "/").all() == [hit]


def test_writes_of_one_row_run_in_their_order(bed: Bed) -> None:
    session = bed.use(Order)
    session.add(order(1, "a", note="gone"))
    session.update(order(1), state="b")
    session.delete(order(1))
    session.add(order(1, "c"))
    session.update(order(1), note="kept")
    session.add(order(2, "x"))
    session.delete(order(2))
    session.update(order(1), state="d")
    assert [outcome.action for outcome in session.commit()] == [
        "put",
        "put",
        "deleted",
        "put",
        "put",
        "put",
        "deleted",
        "put",
    ]
    assert session.get(Order, customer=1, at=day(1), number=1) == order(1, "d", note="kept")
    assert states(session, 2) == [None]
    assert [of_state(session, state) for state in "abcdx"] == [[], [], [], [1], []]


def test_unindexed_writes_of_one_row_run_in_their_order(bed: Bed) -> None:
    session = bed.use(Sample)
    session.add(Sample(station="s", label="l", level=1, remark="gone"))
    session.delete_key(Sample, station="s", label="l")
    session.add(Sample(station="s", label="l", level=2))
    session.update(Sample(station="s", label="l", level=0), level=3)
    session.commit()
    assert session.get(Sample, station="s", label="l") == Sample(station="s", label="l", level=3)
    session.delete_key(Sample, station="s", label="l")
    session.commit()
    assert session.get(Sample, station="s", label="l") is None


def test_the_last_of_several_adds_of_a_key_wins_and_the_others_say_so(bed: Bed) -> None:
    session = bed.use(Order)
    session.add_all([order(1, "a"), order(2, "a"), order(1, "b"), order(1, "c")])
    bed.store.told()
    assert [outcome.action for outcome in session.commit()] == ["superseded", "put", "superseded", "put"]
    assert sum(len(call.items) for call in bed.store.calls if call.name == "put" and call.table == "orders") == 2
    assert (of_state(session, "a"), of_state(session, "b"), of_state(session, "c")) == ([2], [], [1])


def test_a_key_twice_under_a_random_salt_is_one_row(bed: Bed) -> None:
    session = bed.use(Hit, Logged)
    for serial in range(8):
        session.add_all([Hit(at=DAY, serial=serial, page=page) for page in ("a", "b", "c")])
        session.add_all([Logged(serial=serial, page=page) for page in ("a", "b", "c")])
    session.commit()
    assert (len(rows_of(bed.store, "hits")), len(rows_of(bed.store, "logged"))) == (8, 8)
    assert session.query(Hit).where(Hit.page == "c").count() == 8
    assert {found.page for found in session.query(Logged).allow_full_scan()} == {"c"}


def test_no_system_cells_without_indexes(bed: Bed) -> None:
    session = bed.use(Sample, Order)
    session.add_all([Sample(station="s", label="l", level=1, remark="r"), order(1, note="n", amount=1)])
    session.commit()
    assert [sorted(cells) for cells in cells_of(bed.store, "samples").values()] == [[b"d:l", b"d:r"]]
    (row,) = cells_of(bed.store, "orders").values()
    assert sorted(row) == [b"d:_l", b"d:_v", b"d:a", b"d:n", b"d:s", b"d:v"]
    assert row[b"d:_l"] == LIVE
    assert row[b"d:v"] == bytes(8)


# --- get --------------------------------------------------------------------------------------------------------------


def test_get_many_keeps_order_duplicates_and_gaps_in_one_call(bed: Bed) -> None:
    session = bed.use(Order)
    session.add_all(order(n) for n in range(1, 6))
    session.commit()
    bed.store.told()
    keys: list[Any] = [
        (1, day(5), 5),
        (1, day(9), 9),
        {"number": 2, "at": day(2), "customer": 1},
        (1, day(5), 5),
        [1, day(1), 1],
        (2, day(1), 1),
    ]
    found = session.get_many(Order, iter(keys))
    assert [None if o is None else o.number for o in found] == [5, None, 2, 5, 1, None]
    assert bed.store.told() == ["get orders"]
    assert session.get_many(Order, []) == []
    assert bed.store.told() == []


def test_a_row_without_its_flag_or_with_other_cells_only(bed: Bed) -> None:
    session = bed.use(Flagged)
    session.add(Flagged(name="a"))
    session.commit()
    assert session.get(Flagged, name="a") == Flagged(name="a", text="", extra=None)
    bed.store.put("flagged", [hb.store.Put(b"b", {b"d:t": b"text"})])
    assert session.get(Flagged, name="b") is None
    assert session.query(Flagged).allow_full_scan().all() == [Flagged(name="a")]
    assert session.query(Flagged).allow_full_scan().count() == 1


# --- update -----------------------------------------------------------------------------------------------------------


def test_update_changes_just_its_fields_and_returns_a_changed_copy(bed: Bed) -> None:
    session = bed.use(Order)
    before = order(1, amount=1, note="n")
    session.add(before)
    session.commit()
    after = session.update(before, state="paid", amount=None)
    assert (before.state, before.amount) == ("new", 1)
    assert after == order(1, "paid", note="n")
    assert type(after) is Order
    session.commit()
    assert session.get(Order, customer=1, at=day(1), number=1) == after
    assert of_state(session, "paid") == [1]
    assert [o.number for o in session.query(Order).where(Order.amount.is_(None))] == [1]
    assert session.query(Order).where(Order.amount == Decimal(1)).all() == []


def test_frozen_models_can_be_updated(bed: Bed) -> None:
    session = bed.use(Sample)
    sample = Sample(station="s", label="l", level=1)
    session.add(sample)
    session.commit()
    changed = session.update(sample, level=2)
    assert (sample.level, changed.level) == (1, 2)
    assert hash(changed) == hash(Sample(station="s", label="l", level=2))
    session.commit()
    assert session.get(Sample, station="s", label="l") == changed


def test_a_stale_object_undoes_nothing_that_another_session_wrote(bed: Bed) -> None:
    session = bed.use(Person, Sample)
    stale = Person(name="ann", city="Oslo", street="A", story="long")
    sample = Sample(station="s", label="l", level=1, remark="r")
    session.add_all([stale, sample])
    session.commit()
    with hb.Session(bed.store) as other:
        other.update(stale, street="B", story="longer")
        other.update(sample, remark="changed")
    session.update(stale, city="Rome")
    session.update(sample, level=2)
    session.commit()
    now = Person(name="ann", city="Rome", street="B", story="longer")
    assert session.get(Person, name="ann") == now
    assert session.get(Sample, station="s", label="l") == Sample(station="s", label="l", level=2, remark="changed")
    assert session.query(Person).where(Person.city == "Rome", Person.street == "B").all() == [now]
    for city, street in (("Oslo", "A"), ("Oslo", "B"), ("Rome", "A")):
        assert session.query(Person).where(Person.city == city, Person.street == street).all() == []


def test_a_stale_delete_takes_only_the_key(bed: Bed) -> None:
    session = bed.use(Order)
    stale = order(1)
    session.add(stale)
    session.commit()
    with hb.Session(bed.store) as other:
        other.update(stale, state="paid", amount=Decimal(2))
    session.delete(stale)
    session.commit()
    assert states(session, 1) == [None]
    assert rows_of(bed.store, "orders.by_state") == rows_of(bed.store, "orders.by_amount") == {}


@pytest.mark.every_store
@pytest.mark.parametrize(
    "changes", [{"state": "paid"}, {"note": "n"}, {"state": "paid", "note": "n"}], ids=["indexed", "other", "both"]
)
def test_an_update_of_an_absent_or_deleted_row_brings_nothing_back(bed: Bed, changes: dict[str, Any]) -> None:
    session = bed.use(Order)
    session.update(order(1), **changes)
    with pytest.raises(hb.RowNotFound) as caught:
        session.commit()
    assert caught.value.key == hb.row_key(Order, customer=1, at=day(1), number=1)
    session.add(order(1))
    session.commit()
    session.delete(order(1))
    session.commit()
    session.update(order(1), **changes)
    with pytest.raises(hb.RowNotFound):
        session.commit()
    assert session.commit() == []
    assert states(session, 1) == [None]
    assert session.query(Order).allow_full_scan().all() == []
    assert of_state(session, "paid") == of_state(session, "new") == []


def test_an_unindexed_update_of_an_absent_row(bed: Bed) -> None:
    session = bed.use(Sample, Flagged)
    session.update(Sample(station="s", label="l", level=1), remark="r")
    session.update(Flagged(name="a"), text="t")
    session.add(Sample(station="t", label="l", level=1))
    with pytest.raises(hb.PartialWrite) as caught:
        session.commit()
    assert [type(outcome.error) for outcome in caught.value.failures] == [hb.RowNotFound, hb.RowNotFound]
    assert [outcome.action for outcome in caught.value.applied] == ["put"]
    assert caught.value.pending == []
    assert session.get(Sample, station="t", label="l") is not None
    assert len(rows_of(bed.store, "samples")) == 1
    assert rows_of(bed.store, "flagged") == {}
    assert session.commit() == []


def test_an_update_of_a_field_with_a_default_over_a_row_without_the_cell(bed: Bed) -> None:
    session = bed.use(Flagged)
    session.add(Flagged(name="a"))
    session.commit()
    session.update(Flagged(name="a"), extra=b"\0")
    session.commit()
    assert session.get(Flagged, name="a") == Flagged(name="a", extra=b"\0")


def test_none_deletes_the_cell_where_the_model_says_so(bed: Bed) -> None:
    session = bed.use(Legacy)
    legacy = Legacy(code="x", when=5, title="t", tag="tag")
    session.add(legacy)
    session.commit()
    assert [sorted(cells) for cells in cells_of(bed.store, "legacy").values()] == [[b"f:tag", b"f:title"]]
    session.update(legacy, tag=None)
    session.commit()
    assert [sorted(cells) for cells in cells_of(bed.store, "legacy").values()] == [[b"f:title"]]
    assert session.get(Legacy, code="x", when=5) == Legacy(code="x", when=5, title="t")
    session.add(legacy)
    session.commit()
    session.add(Legacy(code="x", when=5, title="u"))
    session.commit()
    assert session.get(Legacy, code="x", when=5) == Legacy(code="x", when=5, title="u")


# --- delete -----------------------------------------------------------------------------------------------------------


def test_delete_removes_row_and_entries_and_tells_what_was_absent(bed: Bed) -> None:
    session = bed.use(Order)
    session.add_all([order(1), order(2, amount=1)])
    session.commit()
    session.delete(order(1))
    session.delete_key(Order, customer=1, at=day(2), number=2)
    session.delete(order(3))
    outcomes = session.commit()
    assert [outcome.action for outcome in outcomes] == ["deleted", "deleted", "absent"]
    assert states(session, 1, 2, 3) == [None] * 3
    assert session.query(Order).allow_full_scan().count() == 0
    assert rows_of(bed.store, "orders.by_state") == rows_of(bed.store, "orders.by_amount") == {}


@pytest.mark.every_store
def test_a_row_deleted_and_added_again_has_nothing_of_the_old_one(bed: Bed) -> None:
    session = bed.use(Person, Sample)
    session.add_all(
        [Person(name="ann", city="Oslo", street="A", story="long"), Sample(station="s", label="l", level=1, remark="r")]
    )
    session.commit()
    assert session.increment(Person(name="ann"), Person.visits, 7) == 7
    assert session.increment(Sample(station="s", label="l", level=1), Sample.seen, 7) == 7
    session.delete_key(Person, name="ann")
    session.delete_key(Sample, station="s", label="l")
    session.commit()
    session.add_all([Person(name="ann"), Sample(station="s", label="l", level=2)])
    session.commit()
    assert session.get(Person, name="ann") == Person(name="ann")
    assert session.get(Sample, station="s", label="l") == Sample(station="s", label="l", level=2)
    assert session.query(Person).where(Person.city == "Oslo").all() == []
    assert session.query(Person).where(Person.city.is_(None)).all() == [Person(name="ann")]


def test_delete_under_a_random_salt_empties_every_bucket_and_the_index(bed: Bed) -> None:
    session = bed.use(Hit, Logged)
    while len(rows_of(bed.store, "hits")) < 2:  # a repeated load leaves copies in several buckets
        with hb.Session(bed.store) as other:
            other.add_all([Hit(at=DAY, serial=1, page="/"), Logged(serial=1, page="/")])
    session.delete_key(Hit, at=DAY, serial=1)
    session.delete(Logged(serial=1, page=""))
    session.delete_key(Hit, at=DAY, serial=2)
    assert [outcome.action for outcome in session.commit()] == ["deleted", "deleted", "absent"]
    assert session.get(Hit, at=DAY, serial=1) is None
    assert session.get(Logged, serial=1) is None
    assert rows_of(bed.store, "hits.by_page") == rows_of(bed.store, "logged") == {}
    assert session.query(Hit).allow_full_scan().all() == []


def test_delete_spares_what_the_model_of_a_external_table_does_not_map(bed: Bed) -> None:
    session = bed.use(Legacy)
    session.add(Legacy(code="x", when=5, title="t", tag="g"))
    session.commit()
    (row,) = rows_of(bed.store, "legacy")
    bed.store.put("legacy", [hb.store.Put(row, {b"f:other": b"theirs"})])
    session.delete_key(Legacy, code="x", when=5)
    session.commit()
    assert cells_of(bed.store, "legacy") == {row: {b"f:other": b"theirs"}}
    assert session.get(Legacy, code="x", when=5) is None


# --- the life of a session --------------------------------------------------------------------------------------------


def test_a_clean_exit_commits_and_an_exception_discards(bed: Bed) -> None:
    session = bed.use(Order)
    with hb.Session(bed.store) as writing:
        writing.add(order(1))
    assert writing.closed
    assert states(session, 1) == ["new"]
    abandoned = hb.Session(bed.store)
    with pytest.raises(KeyError), abandoned:
        _add_and_fail(abandoned)
    assert abandoned.closed
    assert states(session, 2) == [None]


def _add_and_fail(session: hb.Session) -> None:
    session.add(order(2))
    raise KeyError


def test_a_session_closed_inside_its_block_commits_nothing(bed: Bed) -> None:
    session = bed.use(Order)
    with hb.Session(bed.store) as writing:
        writing.add(order(1))
        writing.close()
        writing.close()
    assert states(session, 1) == [None]


def test_a_failed_commit_leaves_the_session_open(bed: Bed) -> None:
    session = bed.use(Order)
    with pytest.raises(hb.RowNotFound), hb.Session(bed.store) as writing:
        writing.update(order(1), state="paid")
    assert not writing.closed
    writing.add(order(1))
    writing.commit()
    writing.close()
    assert states(session, 1) == ["new"]


def test_discard_drops_everything_pending(bed: Bed) -> None:
    session = bed.use(Order)
    session.add_all([order(1), order(2)])
    session.delete(order(3))
    session.discard()
    bed.store.told()
    assert session.commit() == []
    assert bed.store.told() == []


# --- several rounds ---------------------------------------------------------------------------------------------------


def test_a_commit_larger_than_a_round_keeps_the_order_of_each_row(atomic_bed: Bed) -> None:
    session = atomic_bed.use(Order, sizes=SessionSizes(batch_rows=3))
    for n in range(10):
        session.add(order(n, "a"))
    for n in range(10):
        session.update(order(n), state="b")
    for n in range(0, 10, 2):
        session.delete(order(n))
    assert [outcome.action for outcome in session.commit()] == ["put"] * 20 + ["deleted"] * 5
    assert states(session, *range(10)) == [None, "b"] * 5
    assert of_state(session, "a") == []
    assert of_state(session, "b") == [9, 7, 5, 3, 1]
    assert all(
        len(call.items) <= 3 for call in atomic_bed.store.calls if call.writes and call.table.startswith("orders")
    )
