"""The mutations of a round: gathered row by row or planned in one pass, they are the same."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.protocol.indexed.indexed_batch import BatchPlan, by_table, plan_unread
from hbmodel.protocol.indexed.indexed_plan import UNREAD, IndexedRowPlanner
from hbmodel.protocol.writes import DeleteRow, PutObject, put_object
from hbmodel.store import Delete
from tests.support.models import DAY, Fact, Hit, Order, order
from tests.support.things import DRAWN, POOLS

NOW = 1_000_000


@hb.model(table="marks", family="d", immutable=True, exists=hb.flag("e"))
class Mark:
    """With a flag, an index that covers several columns, and one without any."""

    number: hb.Key[int] = hb.key(hb.Int32)
    kind: hb.Column[str | None] = hb.column("k", default=None)
    owner: hb.Column[bytes] = hb.column("o")
    text: hb.Column[str | None] = hb.column("t", default=None)

    by_kind = hb.index("kind", covers=("text", "owner"))
    by_owner = hb.index("owner", "kind")


numbers = st.integers(-(2**31), 2**31 - 1)
facts = st.builds(Fact, number=numbers, topic=st.text(max_size=4), body=st.none() | st.text(max_size=4))
marks = st.builds(
    Mark,
    number=numbers,
    kind=st.none() | st.text(max_size=3),
    owner=st.binary(max_size=3),
    text=st.none() | st.text(max_size=3),
)
hits = st.builds(
    Hit, at=st.just(DAY), serial=st.integers(0, 99), page=st.text(max_size=3), agent=st.none() | st.text(max_size=3)
)
drawn = st.builds(DRAWN, **{name: st.sampled_from(pool) for name, pool in POOLS.items()})


def writer(model: Any) -> IndexedRowPlanner:
    """A writer whose nonces are the numbers from 1 on."""
    numbers = count(1)
    schema = hb.schema.schema_of(model)
    return IndexedRowPlanner(schema, tuple(schema.indexes.values()), 1000, lambda: next(numbers).to_bytes(8, "big"))


@pytest.mark.parametrize(("model", "objects"), [(Fact, facts), (Mark, marks), (Hit, hits), (DRAWN, drawn)])
@given(st.data())
def test_writes_that_need_no_old_row_are_planned_in_one_pass_as_they_are_one_by_one(
    model: Any, objects: Any, data: st.DataObject
) -> None:
    writes = [put_object(hb.schema.schema_of(model), obj) for obj in data.draw(st.lists(objects, max_size=4))]
    using = writer(model)
    assert not any(using.needs_read(write) for write in writes)
    expected = BatchPlan.of([using.plan(write, UNREAD, NOW) for write in writes])
    found = plan_unread(writer(model), writes, NOW)
    assert {table: puts for table, puts in found.entries.items() if puts} == expected.entries
    assert found.puts == expected.puts
    assert found.outcomes == expected.outcomes
    assert not found.row_deletes
    assert not found.stale


def test_cells_of_a_write_stay_as_they_are_for_another_attempt() -> None:
    schema = hb.schema.schema_of(Fact)
    write = put_object(schema, Fact(number=1, topic="a"))
    before = dict(write.cells)
    first, second = (plan_unread(writer(Fact), [write], now) for now in (NOW, NOW + 1))
    assert write.cells == before
    assert first.puts[0].timestamp == NOW
    assert second.puts[0].timestamp == NOW + 1


def test_a_round_is_gathered_by_phase_and_table() -> None:
    using = writer(Order)
    schema = hb.schema.schema_of(Order)
    new = using.plan(put_object(schema, order(1)), using.old(None), NOW)
    absent = using.plan(DeleteRow(None, b"absent"), using.old(None), NOW)
    plan = BatchPlan.of([new, absent])
    assert {table: [put.row for put in puts] for table, puts in plan.entries.items()} == {
        table: [put.row] for table, put in new.entries
    }
    assert plan.puts == [new.put]
    assert (plan.row_deletes, plan.stale) == ([], [])
    assert [outcome.action for outcome in plan.outcomes] == ["put", "absent"]


def test_mutations_are_gathered_in_their_order() -> None:
    one, two, three = (Delete(bytes((n,))) for n in range(3))
    assert by_table([("b", one), ("a", two), ("b", three)]) == {"b": [one, three], "a": [two]}


def test_only_full_writes_of_immutable_models_that_stay_need_no_read() -> None:
    write = put_object(hb.schema.schema_of(Fact), Fact(number=1, topic="a"))
    assert isinstance(write, PutObject)
    assert not writer(Fact).needs_read(write)
    assert writer(Fact).needs_read(put_object(hb.schema.schema_of(Fact), Fact(number=1, topic="a"), 5))
    assert writer(Fact).needs_read(DeleteRow(None, write.row))
    assert writer(Order).needs_read(put_object(hb.schema.schema_of(Order), order(1)))
