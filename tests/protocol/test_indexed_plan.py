"""The plan of a write of an indexed row: times, entries, cells and later deletes."""

from __future__ import annotations

from decimal import Decimal
from itertools import count
from typing import Any

import pytest
from attrs import evolve, frozen

import hbmodel as hb
from hbmodel.errors import ClockError, HbmodelError, IncompleteRow, KeyTooLong, RowNotFound
from hbmodel.mapping.schema import COUNTER_ZERO, LIVE
from hbmodel.protocol.corrected_clock import CLOCK_BOUND
from hbmodel.protocol.indexed.indexed_plan import IndexedRowPlanner, OldRow, RowPlan, draw_nonce
from hbmodel.protocol.writes import DeleteRow, PutObject, UpdateFields, put_object
from hbmodel.store import Delete
from tests.support.models import DAY, Fact, Flagged, Hit, Order, Person, day, order

NOW = 1_000_000
VERSION, LIVENESS = b"d:_v", b"d:_l"


@frozen
class StoredCell:
    value: bytes
    timestamp: int


@frozen
class StoredRow:
    row: bytes
    columns: dict[bytes, StoredCell]


def writer(model: Any) -> IndexedRowPlanner:
    """A writer whose nonces are the numbers from 1 on."""
    numbers = count(1)
    schema = hb.schema.schema_of(model)
    return IndexedRowPlanner(
        schema, tuple(schema.indexes.values()), CLOCK_BOUND, lambda: next(numbers).to_bytes(8, "big")
    )


def stored(plan: RowPlan, **newer: tuple[bytes, int]) -> StoredRow:
    """The row that a plan leaves, with further cells of family d by qualifier."""
    assert plan.put is not None
    assert plan.put.timestamp is not None
    cells = {column: StoredCell(value, plan.put.timestamp) for column, value in plan.put.cells.items()}
    return StoredRow(plan.put.row, cells | {b"d:" + name.encode(): StoredCell(*cell) for name, cell in newer.items()})


def written(model: Any, obj: Any, now: int = NOW, **newer: tuple[bytes, int]) -> tuple[IndexedRowPlanner, OldRow]:
    """A writer, and the row of `obj` as it would read it back."""
    using = writer(model)
    return using, using.old(
        stored(using.plan(put_object(hb.schema.schema_of(model), obj), using.old(None), now), **newer)
    )


def row_of(old: OldRow) -> bytes:
    assert old.row is not None
    return old.row.row


def part(obj: Any, **changes: Any) -> UpdateFields:
    schema = hb.schema.schema_of(type(obj))
    key = {name: getattr(obj, name) for name in schema.layout.names}
    return UpdateFields(obj, hb.row_key(type(obj), **key), key, changes)


def entry(model: Any, index: str, obj: Any) -> bytes:
    schema = hb.schema.schema_of(model)
    key = {name: getattr(obj, name) for name in schema.layout.names}
    if schema.salt.random:
        return hb.row_key(model, **key)
    (found,) = put_object(schema, obj).entries[index]
    return found


# --- times ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("newest", "expected"), [(0, NOW), (NOW - 1, NOW), (NOW, NOW + 1), (NOW + CLOCK_BOUND - 1, NOW + CLOCK_BOUND)]
)
def test_the_time_of_a_write_is_above_every_cell_of_the_row(newest: int, expected: int) -> None:
    using, old = written(Order, order(1), now=0, n=(b"", newest))
    assert old.newest == newest
    full = put_object(hb.schema.schema_of(Order), order(1, "b"))
    for write in (full, part(order(1), state="b"), part(order(1), note="b"), DeleteRow(None, full.row)):
        plan = using.plan(write, old, NOW)
        assert plan.outcome.timestamp == expected
        assert plan.put is not None
        assert plan.put.timestamp == expected
        assert {put.timestamp for _, put in plan.entries} <= {expected}
        assert {delete.timestamp for _, delete in plan.stale} <= {expected - 1}


def test_a_cell_from_the_future_is_refused_for_its_row_alone() -> None:
    using, old = written(Order, order(1), n=(b"", NOW + CLOCK_BOUND))
    plan = using.plan(part(order(1), note="b"), old, NOW)
    assert isinstance(plan.outcome.error, ClockError)
    assert (plan.outcome.action, plan.put, plan.entries, plan.stale) == ("failed", None, (), ())


# --- full writes ------------------------------------------------------------------------------------------------------


def test_a_full_write_of_a_new_row_puts_every_declared_column() -> None:
    using = writer(Order)
    plan = using.plan(put_object(hb.schema.schema_of(Order), order(1, amount=5)), using.old(None), NOW)
    assert plan.put is not None
    version = b"\x01" + (1).to_bytes(8, "big")
    assert plan.put.cells == {
        b"d:s": b"new",
        b"d:a": hb.schema.schema_of(Order).by_name["amount"].encode_cell(Decimal(5)),
        b"d:n": b"",
        b"d:v": COUNTER_ZERO,
        VERSION: version,
        LIVENESS: LIVE,
    }
    entries = dict(plan.entries)
    assert {table: put.row for table, put in plan.entries} == {
        "orders.by_state": entry(Order, "by_state", order(1, amount=5)),
        "orders.by_amount": entry(Order, "by_amount", order(1, amount=5)),
    }
    assert entries["orders.by_state"].cells == {VERSION: version, b"d:a": plan.put.cells[b"d:a"]}
    assert entries["orders.by_amount"].cells == {VERSION: version}
    assert plan.stale == []
    assert plan.row_delete is None


def test_a_full_write_over_a_live_row_leaves_counters_and_hides_only_what_shows() -> None:
    using, old = written(Order, order(1, note="shows"))
    plan = using.plan(put_object(hb.schema.schema_of(Order), order(1, "b")), old, NOW)
    assert plan.put is not None
    assert sorted(plan.put.cells) == [LIVENESS, VERSION, b"d:a", b"d:n", b"d:s"]
    assert plan.put.cells[b"d:n"] == b""
    assert old.row is not None
    bare = {column: cell for column, cell in old.row.columns.items() if column not in {b"d:n", b"d:a"}}
    plan = using.plan(
        put_object(hb.schema.schema_of(Order), order(1, "b")), using.old(StoredRow(row_of(old), bare)), NOW
    )  # type: ignore[arg-type]
    assert plan.put is not None
    assert sorted(plan.put.cells) == [LIVENESS, VERSION, b"d:a", b"d:s"]  # the group stays whole, None included


def test_a_full_write_over_a_dead_row_blanks_whatever_it_shows() -> None:
    using, old = written(Order, order(1))
    dead = using.plan(DeleteRow(None, row_of(old)), old, NOW)
    remains = using.old(stored(dead, n=(b"late", NOW + 7), zz=(b"unknown column", NOW + 9)))
    assert not remains.live
    plan = using.plan(put_object(hb.schema.schema_of(Order), order(1, "b")), remains, NOW)
    assert plan.put is not None
    assert plan.put.timestamp == NOW + 10
    assert (plan.put.cells[b"d:n"], plan.put.cells[b"d:zz"], plan.put.cells[b"d:v"]) == (b"", b"", COUNTER_ZERO)
    assert plan.stale == []


def test_old_entries_go_at_one_below_the_new_time() -> None:
    using, old = written(Order, order(1, "a", amount=5))
    plan = using.plan(put_object(hb.schema.schema_of(Order), order(1, "b", amount=5)), old, NOW)
    assert plan.put is not None
    assert plan.put.timestamp == NOW + 1
    assert plan.stale == [
        ("orders.by_state", Delete(entry(Order, "by_state", order(1, "a", amount=5)), families=(b"d",), timestamp=NOW))
    ]
    # An entry whose key stays is put all the same.
    assert {table for table, _ in plan.entries} == {"orders.by_state", "orders.by_amount"}


def test_immutable_models_read_nothing_for_a_full_write_and_write_none_too() -> None:
    using = writer(Fact)
    full = put_object(hb.schema.schema_of(Fact), Fact(number=1, topic="t"))
    assert not using.needs_read(full)
    assert using.needs_read(DeleteRow(None, full.row))
    plan = using.plan(full, using.old(None), NOW)
    assert plan.put is not None
    # An earlier object of a repeated key may lie below, unread: its cells must not show through.
    assert plan.put.cells == {b"d:t": b"t", b"d:b": b"", VERSION: b"\x01" + (1).to_bytes(8, "big"), LIVENESS: LIVE}
    assert writer(Order).needs_read(put_object(hb.schema.schema_of(Order), order(1)))


def test_a_flag_is_written_beside_the_system_cells() -> None:
    @hb.model(table="both", exists=hb.flag("e"))
    class Both:
        name: hb.Key[str] = hb.key()
        tag: hb.Column[str] = hb.column("t", default="")
        by_tag = hb.index("tag")

    using = writer(Both)
    plan = using.plan(put_object(hb.schema.schema_of(Both), Both(name="a")), using.old(None), NOW)
    assert plan.put is not None
    assert plan.put.cells[b"d:e"] == b"\x01"


# --- partial writes ---------------------------------------------------------------------------------------------------


def test_a_change_outside_the_group_is_one_put_of_just_that() -> None:
    using, old = written(Person, Person(name="ann", city="Oslo"))
    plan = using.plan(part(Person(name="ann"), story="long"), old, NOW)
    assert plan.put is not None
    assert plan.put.cells == {b"x:t": b"long"}
    assert (plan.entries, plan.stale) == ((), ())


def test_a_change_in_the_group_writes_the_whole_group_from_the_row() -> None:
    using, old = written(Person, Person(name="ann", city="Oslo", street="A", story="long"))
    plan = using.plan(part(Person(name="ann", city="stale", street="stale"), street=None), old, NOW)
    assert plan.put is not None
    assert plan.put.cells == {b"p:c": b"Oslo", b"p:s": b"", b"p:_v": b"\x01" + (2).to_bytes(8, "big")}
    assert [put.row for _, put in plan.entries] == [entry(Person, "by_place", Person(name="ann", city="Oslo"))]
    assert [delete.row for _, delete in plan.stale] == [
        entry(Person, "by_place", Person(name="ann", city="Oslo", street="A"))
    ]


@pytest.mark.parametrize("changes", [{"note": "n"}, {"state": "b"}])
def test_a_partial_write_of_a_row_that_is_not_live_fails(changes: dict[str, Any]) -> None:
    using, old = written(Order, order(1))
    dead = using.old(stored(using.plan(DeleteRow(None, row_of(old)), old, NOW)))
    lacking = using.old(StoredRow(b"r", {b"d:n": StoredCell(b"late", NOW)}))
    for found in (using.old(None), dead, lacking):
        plan = using.plan(part(order(1), **changes), found, NOW)
        assert isinstance(plan.outcome.error, RowNotFound)
        assert (plan.put, plan.entries, plan.stale, plan.row_delete) == (None, (), (), None)


def test_a_change_that_makes_an_entry_too_long_fails_alone() -> None:
    using, old = written(Person, Person(name="ann", street="s" * 20_000))
    plan = using.plan(part(Person(name="ann"), city="c" * 20_000), old, NOW)
    assert isinstance(plan.outcome.error, KeyTooLong)
    assert plan.outcome.error.index == "by_place"
    assert plan.put is None


# --- deletes ----------------------------------------------------------------------------------------------------------


def test_a_delete_is_a_marker_and_a_delete_of_every_family_below_it() -> None:
    using, old = written(Person, Person(name="ann", city="Oslo", story="long"))
    plan = using.plan(DeleteRow(None, b"ann"), old, NOW)
    nonce = (2).to_bytes(8, "big")
    assert plan.put is not None
    assert plan.put.cells == {b"p:c": b"", b"p:s": b"", b"p:_v": b"\x01" + nonce, b"p:_l": b"\x00" + nonce}
    assert plan.put.timestamp == NOW + 1
    assert plan.row_delete == Delete(b"ann", families=(b"p", b"x"), timestamp=NOW)
    assert plan.stale == [
        (
            "people.by_place",
            Delete(entry(Person, "by_place", Person(name="ann", city="Oslo")), families=(b"p",), timestamp=NOW),
        )
    ]
    assert plan.entries == ()


def test_a_delete_of_what_is_not_there_does_nothing() -> None:
    using, old = written(Order, order(1))
    dead = using.old(stored(using.plan(DeleteRow(None, row_of(old)), old, NOW)))
    for found in (using.old(None), dead):
        plan = using.plan(DeleteRow(None, b"r"), found, NOW)
        assert plan.outcome.action == "absent"
        assert (plan.put, plan.entries, plan.stale, plan.row_delete) == (None, (), (), None)


# --- damaged rows -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["missing", "garbled", "other"])
def test_a_damaged_row_can_be_overwritten_and_deleted(damage: str) -> None:
    using, old = written(Order, order(1, "a", amount=5))
    assert old.row is not None
    cells: dict[bytes, Any] = dict(old.row.columns)
    if damage == "missing":
        del cells[b"d:s"]
    elif damage == "garbled":
        cells[b"d:a"] = StoredCell(b"no decimal", NOW)
    else:
        cells[b"d:n"] = StoredCell(b"\xff no UTF-8", NOW)
    found = using.old(StoredRow(row_of(old), cells))
    # Which entries the row had cannot be told if a field of an index is damaged; they stay, and no read returns them.
    stale = {"orders.by_state", "orders.by_amount"} if damage == "other" else set()
    for write, action in (
        (put_object(hb.schema.schema_of(Order), order(1, "b")), "put"),
        (DeleteRow(None, row_of(old)), "deleted"),
    ):
        plan = using.plan(write, found, NOW)
        assert (plan.outcome.action, plan.outcome.error) == (action, None)
        assert {table for table, _ in plan.stale} == stale
    whole = {"state": "b", "amount": None}
    assert using.plan(part(order(1), **whole), found, NOW).outcome.action == "put"
    partly = using.plan(
        part(order(1), state="b") if damage == "garbled" else part(order(1), amount=None), found, NOW
    ).outcome
    assert isinstance(partly.error, HbmodelError if damage != "other" else type(None))
    assert not isinstance(partly.error, IncompleteRow) or partly.error.field == "state"


# --- encoding whole objects -------------------------------------------------------------------------------------------


def test_every_mistake_of_an_object_shows_when_it_is_encoded() -> None:
    for obj, field in (
        (order(1, state=None), "state"),  # type: ignore[arg-type]
        (order(-1), "number"),
        (Order(customer=70_000, at=DAY, number=1, state="s"), "customer"),
        (Order(customer=1, at=DAY, number=1, state="s", amount=1.5), "amount"),  # type: ignore[arg-type]
        (Order(customer=1, at=DAY, number=1, state="\ud800"), "state"),
    ):
        with pytest.raises(hb.EncodingError) as caught:
            put_object(hb.schema.schema_of(type(obj)), obj)
        assert caught.value.field == field
    for model, obj in ((Person, Person(name="a" * 32_768)), (Person, Person(name="")), (Flagged, Flagged(name=""))):
        with pytest.raises(KeyTooLong):
            put_object(hb.schema.schema_of(model), obj)
    with pytest.raises(KeyTooLong) as too_long:
        put_object(hb.schema.schema_of(Order), order(1, state="s" * 32_767))
    assert too_long.value.index == "by_state"


def test_a_put_moves_to_another_bucket_with_its_entries() -> None:
    schema = hb.schema.schema_of(Hit)
    hit = Hit(at=day(1), serial=1, page="/")
    puts = {write.row: write for write in (put_object(schema, hit) for _ in range(60))}
    assert len(puts) == 3
    for write in puts.values():
        for row, other in puts.items():
            moved = write.moved_to(row)
            assert isinstance(moved, PutObject)
            assert (moved.row, moved.entries, moved.cells) == (other.row, other.entries, other.cells)


def test_nonces_differ() -> None:
    assert len({draw_nonce() for _ in range(1000)}) == 1000
    assert {len(draw_nonce()) for _ in range(10)} == {8}


# --- rows that expire -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("write", ["add", "update"])
def test_a_row_from_before_the_index_that_gets_a_ttl_has_no_entries_to_delete(write: str) -> None:
    using = evolve(writer(Person), adopting=True, mixed=True)
    old = using.old(StoredRow(b"ann", {b"p:c": StoredCell(b"Oslo", NOW - 9), b"p:s": StoredCell(b"Main", NOW - 9)}))
    assert old.live
    ann = Person(name="ann", city="Rome")
    plan = using.plan(
        put_object(hb.schema.schema_of(Person), ann, ttl=50)
        if write == "add"
        else evolve(part(ann, city="Rome"), ttl=50),
        old,
        NOW,
    )
    assert plan.put is not None
    assert plan.put.ttl == 50 + (plan.put.timestamp is not None and NOW - plan.put.timestamp)
    assert plan.stale == []


def test_a_put_that_expires_deletes_what_is_older_and_old_entries_at_their_own_time() -> None:
    using, old = written(Person, Person(name="ann", city="Oslo", story="long"), note=(b"n", NOW + 5))
    write = put_object(hb.schema.schema_of(Person), Person(name="ann", city="Oslo"), ttl=50)
    plan = using.plan(write, old, NOW + 9)
    assert plan.put is not None
    assert (plan.put.timestamp, plan.put.ttl) == (NOW + 9, 50)
    assert plan.put.cells[b"p:_l"] == LIVE + (NOW + 59).to_bytes(8, "big")
    assert {b"p:c", b"p:s", b"x:t"} < plan.put.cells.keys()  # whatever is None too
    assert plan.row_delete == Delete(write.row, families=(b"p", b"x"), timestamp=NOW + 8)
    assert {put.ttl for _, put in plan.entries} == {50}
    # The entry's key stays the same; what another writer put since may be the row's again.
    assert plan.stale == [("people.by_place", Delete(write.entries["by_place"][0], families=(b"p",), timestamp=NOW))]


def test_an_update_of_a_row_that_expires_writes_it_whole_until_then() -> None:
    using = writer(Person)
    first = using.plan(
        put_object(hb.schema.schema_of(Person), Person(name="ann", city="Oslo", story="long"), ttl=50),
        using.old(None),
        NOW,
    )
    old = using.old(stored(first))  # type: ignore[arg-type]
    plan = using.plan(part(Person(name="ann"), story="short"), old, NOW + 10)
    assert plan.put is not None
    assert first.put is not None
    assert (plan.put.timestamp, plan.put.ttl) == (NOW + 10, 40)
    assert plan.put.cells == {**first.put.cells, b"x:t": b"short", b"p:_v": plan.put.cells[b"p:_v"]}
    assert plan.put.cells[b"p:_v"] != first.put.cells[b"p:_v"]
    assert [put.ttl for _, put in plan.entries] == [40]
    assert plan.row_delete is not None
    renewed = using.plan(evolve(part(Person(name="ann")), ttl=70), old, NOW + 10)
    assert renewed.put is not None
    assert renewed.put.ttl == 70
    late = using.plan(part(Person(name="ann"), story="short"), old, NOW + 50)
    assert isinstance(late.outcome.error, RowNotFound)
    kept = using.plan(put_object(hb.schema.schema_of(Person), Person(name="ann")), old, NOW + 10)
    assert kept.put is not None
    assert (kept.put.ttl, kept.row_delete, kept.put.cells[b"p:_l"]) == (None, None, LIVE)
