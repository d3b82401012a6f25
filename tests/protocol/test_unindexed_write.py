"""Writes of models without an index: puts of whole objects in one pass equal those with a plan for each."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.errors import EncodingError
from hbmodel.mapping.schema import TableSchema
from hbmodel.protocol.operations import Acknowledge, GetRows, Operation, Protocol
from hbmodel.protocol.server_timed.unindexed_batch import carry_out
from hbmodel.protocol.server_timed.unindexed_plan import UnindexedRowPlanner
from hbmodel.protocol.server_timed.unindexed_write import write_unindexed_batch
from hbmodel.protocol.writes import DeleteRow, RowWrite, put_object
from hbmodel.store.port import EVERYTHING_POSSIBLE
from tests.support.examples import examples
from tests.support.random_queries import RandomModel, models


@hb.model(table="sparse", family="d")
class Sparse:
    """Its cells may all be absent."""

    name: hb.Key[str] = hb.key()
    note: hb.Column[str | None] = hb.column("n", default=None, null="delete")
    page: hb.Column[str | None] = hb.column("p", default=None, null="delete")


@hb.model(table="keys", family="d")
class Bare:
    """It has a key and a counter, so an object has no cell."""

    name: hb.Key[str] = hb.key()
    views: hb.Column[int] = hb.counter("v")


NAMES = st.sampled_from("abc")
FIXED = [
    st.builds(Sparse, name=NAMES, note=st.none() | st.just("x"), page=st.none() | st.just("y")),
    st.builds(Bare, name=NAMES),
]


@st.composite
def objects_of(draw: st.DrawFn) -> tuple[TableSchema, list[Any]]:
    """A model and some objects of it."""
    if draw(st.booleans()):
        objects = draw(st.lists(draw(st.sampled_from(FIXED)), min_size=1, max_size=4))
        kind = type(objects[0])
        return hb.schema.schema_of(kind), [obj for obj in objects if type(obj) is kind]
    of: RandomModel = draw(models())
    names = [f.name for f in of.schema.fields if f.kind != "counter"]
    count = draw(st.integers(1, 4))
    return of.schema, [
        of.model(**{name: draw(st.sampled_from(of.pools[name])) for name in names}) for _ in range(count)
    ]


def without_errors(operation: Operation) -> object:
    """An operation whose failed outcomes compare by what failed."""
    if not isinstance(operation, Acknowledge):
        return operation
    return [(o.action, o.key, o.timestamp, o.error and (type(o.error), str(o.error))) for o in operation.outcomes]


def changes_of(protocol: Protocol[Any]) -> list[Operation]:
    """The operations of a protocol that finds no rows, without its reads."""
    found: list[Operation] = []
    answer: Any = None
    while True:
        try:
            operation = protocol.send(answer)
        except StopIteration:
            return found
        answer = [None] * len(operation.rows) if isinstance(operation, GetRows) else None
        if not isinstance(operation, GetRows):
            found.append(operation)


@pytest.mark.lengthy
@settings(max_examples=examples(150), deadline=None)
@given(objects_of(), st.booleans())
def test_puts_in_one_pass_are_the_puts_of_their_plans(made: tuple[TableSchema, list[Any]], deleting: bool) -> None:
    schema, objects = made
    writes: dict[bytes, RowWrite] = {}
    for obj in objects:
        try:
            write = put_object(schema, obj)
        except (EncodingError, hb.errors.KeyTooLong):  # an empty text alone in a key
            continue
        writes[write.row] = DeleteRow(obj, write.row) if deleting and not writes else write
    planner = UnindexedRowPlanner(schema)
    plans = [planner.plan(write, None) for write in writes.values()]
    expected = [*carry_out(schema.table, plans, EVERYTHING_POSSIBLE), Acknowledge([plan.outcome for plan in plans])]
    before = {write.row: dict(getattr(write, "cells", {})) for write in writes.values()}
    found = changes_of(write_unindexed_batch(planner, list(writes.values()), 1000, EVERYTHING_POSSIBLE))
    assert list(map(without_errors, found)) == list(map(without_errors, expected))
    assert {write.row: dict(getattr(write, "cells", {})) for write in writes.values()} == before
