"""Plans of queries whose shape is known: they are those that a comparison of all paths gives."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from attrs import evolve, frozen
from hypothesis import event, given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.errors import HbmodelError
from hbmodel.mapping.predicates import Comparison, Predicate, StartsWith
from hbmodel.mapping.schema import TableSchema
from hbmodel.query.ask.query import Query
from hbmodel.query.ask.terms import QueryTerms
from hbmodel.query.match.plan import Plan
from hbmodel.query.match.plan_shapes import PlanShape
from hbmodel.query.match.planner import plan
from tests.query.test_planner import orderings
from tests.support.examples import examples
from tests.support.random_queries import RandomModel, conditions, models


@hb.model(table="shaped", family="d")
class Shaped:
    a: hb.Key[str] = hb.key()
    b: hb.Key[int] = hb.key(desc=True)
    c: hb.Column[str | None] = hb.column("c", default=None)
    n: hb.Column[int] = hb.column("n")
    by_c = hb.index("c", "n", skip_none=True)
    by_n = hb.index("n")


@hb.model(table="partly", family="d")
class Partly:
    a: hb.Key[str] = hb.key()
    c: hb.Column[str] = hb.column("c")
    n: hb.Column[int] = hb.column("n")
    few = hb.index("c", where=lambda m: m.n > 100)


def shapes(schema: TableSchema) -> list[PlanShape]:
    return [value for value in schema.compiled.values() if isinstance(value, PlanShape)]


def forget(schema: TableSchema) -> None:
    for key in [key for key, value in list(schema.compiled.items()) if isinstance(value, PlanShape)]:
        schema.compiled.pop(key, None)


def made(query: Query[Any], names: Sequence[str] = ("by_c", "by_n"), path: str | None = None) -> Plan:
    schema = query.terms.schema
    return plan(query.terms, [schema.indexes[name] for name in names], schema.versioned or bool(names), path)


def asked(*predicates: Predicate) -> Query[Any]:
    return Query(QueryTerms(hb.schema.schema_of(Shaped)), None).where(*predicates)  # type: ignore[arg-type]


def told(plan: Plan) -> dict[str, Any]:
    """Everything that a plan says."""
    return {
        "path": (plan.path.name, plan.path.table, plan.backwards, plan.rows, plan.bounds),
        "columns": plan.columns and (plan.columns.ranges, plan.columns.fields),
        "buckets": [(bucket.prefix, bucket.lead, list(bucket.ranges)) for bucket in plan.buckets],
        "asked": [(bucket.prefix, bucket.lead, list(bucket.ranges)) for bucket in plan.asked],
        "filter": plan.filter,
        "residual": [part.canonical() for part in plan.residual],
        "parts": [list(values) for values in plan.match.parts],
        "bounds": plan.match.bounds,
        "consumed": sorted((part.canonical() for part in plan.match.consumed), key=repr),
        "conditions": [(one.asked.canonical(), one.on_entry.canonical()) for one in plan.match.conditions],
        "open": (plan.match.unordered, plan.match.excess, plan.match.narrowed, plan.match.pieces),
        "order": plan.order and (plan.order.merged, plan.order.runs),
        "read": (
            type(plan.reader),
            plan.reader.names,
            plan.reader.columns,
            plan.entry_columns,
            list(plan.lacking),
            plan.entry_prefix,
        ),
        "settled": (plan.settled, plan.full_scan, plan.limited, plan.digest),
    }


@frozen
class State:
    """What is known of a table.

    Attributes:
        names: the indexes that can be read.
        indexed: whether rows have system cells.
        adopting: whether there are also rows without them.
    """

    names: Sequence[str]
    indexed: bool
    adopting: bool


@st.composite
def states(draw: st.DrawFn, schema: TableSchema) -> State:
    """A table before, during and after the build of its indexes."""
    names = draw(st.lists(st.sampled_from(sorted(schema.indexes)), unique=True)) if schema.indexes else []
    return State(names, schema.versioned or bool(names) or draw(st.booleans()), draw(st.booleans()))


def outcome(query: Query[Any], state: State, path: str | None) -> Any:
    schema = query.terms.schema
    readable = [schema.indexes[name] for name in state.names]
    try:
        return told(plan(query.terms, readable, state.indexed, path, state.adopting))
    except HbmodelError as error:
        return type(error), error.message, error.details


@st.composite
def like(draw: st.DrawFn, of: RandomModel, predicate: Predicate) -> Predicate:
    """The same condition about another value of the field."""
    if not isinstance(predicate, Comparison | StartsWith):
        return predicate
    name = predicate.field.name
    pool = of.pools[name] if name in of.pools else of.computed[name]
    value = draw(st.sampled_from([value for value in pool if value is not None] or [None]))
    if value is None:
        return predicate
    if isinstance(predicate, StartsWith):
        return evolve(predicate, prefix=value[: draw(st.integers(0, 3))])
    return evolve(predicate, value=predicate.field.codec.constant(value))


@st.composite
def refined(draw: st.DrawFn, of: RandomModel) -> Query[Any]:
    """A query without conditions."""
    query: Query[Any] = Query(QueryTerms(of.schema), None)  # type: ignore[arg-type]
    if draw(st.booleans()):
        query = query.allow_full_scan()
    if draw(st.integers(0, 3)) == 0:
        query = query.limit(draw(st.integers(0, 3)))
    if draw(st.integers(0, 3)) == 0:
        query = query.reversed()
    ordering = draw(orderings(of, of.schema)) if draw(st.booleans()) else []
    if ordering:
        fields = [of.expression(name).desc() if desc else of.expression(name) for name, desc in ordering]
        query = query.order_by(*fields)
    if draw(st.integers(0, 3)) == 0:
        query = query.select(of.expression(draw(st.sampled_from(sorted(of.pools)))))
    if draw(st.integers(0, 3)) == 0:
        query = query.on_unreadable("skip")
    return query


@pytest.mark.lengthy
@settings(max_examples=examples(150), deadline=None)
@given(st.data())
def test_the_plan_of_a_known_shape_is_that_of_a_comparison_of_paths(data: st.DataObject) -> None:
    """Queries of the same form, and queries that differ in one more respect from the one whose shape is known. Another
    program may build or drop an index between them.
    """
    of = data.draw(models(covering=data.draw(st.booleans()), wide=True))
    schema = of.schema
    state = data.draw(states(schema))
    marked = State(state.names, True, not state.adopting)
    built = State(state.names, schema.versioned or bool(state.names) or not state.indexed, state.adopting)
    later = data.draw(st.sampled_from([state, marked, built, data.draw(states(schema))]))
    path = data.draw(st.sampled_from([None, None, None, "primary", *state.names]))
    first = data.draw(refined(of))
    projected = first.select(of.expression(data.draw(st.sampled_from(sorted(of.pools)))))
    changed = [first.reversed(), first.on_unreadable("skip"), projected, data.draw(refined(of))]
    second = data.draw(st.sampled_from([first, *changed]))
    predicates, _ = data.draw(conditions(of))
    others = [data.draw(like(of, predicate)) for predicate in predicates]
    outcome(first.where(*predicates), state, path)
    seen = len(shapes(schema))
    known = outcome(second.where(*others), later, path)
    event(f"{seen} shapes, {'plan' if isinstance(known, dict) else 'error'}")
    forget(schema)
    assert known == outcome(second.where(*others), later, path)


SAME = [
    pytest.param(lambda v: [Shaped.a == v], id="equality"),
    pytest.param(lambda v: [Shaped.a == v, Shaped.b < len(v)], id="bound"),
    pytest.param(lambda v: [Shaped.c == v, Shaped.n > len(v), Shaped.n <= 9 + len(v)], id="both bounds"),
    pytest.param(lambda v: [Shaped.a.startswith(v)], id="prefix"),
    pytest.param(lambda v: [Shaped.a == v, Shaped.c.is_(None), ~Shaped.c.is_(None) | (Shaped.n == 1)][:2], id="none"),
    pytest.param(lambda v: [~Shaped.c.is_(None), Shaped.a == v, Shaped.n != len(v)], id="not none"),
]
OTHERWISE = [
    pytest.param(lambda v: [Shaped.a == v, Shaped.a != "b"], id="an equality and more"),
    pytest.param(lambda v: [Shaped.a == "x", Shaped.b < 3, Shaped.b < len(v)], id="two upper bounds"),
    pytest.param(lambda v: [Shaped.a.in_([v, "x"])], id="several values"),
    pytest.param(lambda v: [(Shaped.a == v) | (Shaped.n == 3)], id="or"),
    pytest.param(lambda v: [Shaped.a == "x", Shaped.a.startswith("")], id="an empty prefix"),
]


@pytest.mark.parametrize("predicates", SAME)
def test_other_values_take_the_path_of_the_first(predicates: Any) -> None:
    schema = hb.schema.schema_of(Shaped)
    forget(schema)
    first = made(asked(*predicates("first")))
    assert len(shapes(schema)) == 1
    (shape,) = shapes(schema)
    assert (shape.scanning is None) == bool(shape.left), "the server may test the conditions that are left"
    second = made(asked(*predicates("second one")))
    assert second.path is first.path, "no path was made for it"
    forget(schema)
    assert told(second) == told(made(asked(*predicates("second one"))))


@pytest.mark.parametrize(
    "allowed",
    [
        lambda query: query.limit(3),
        lambda query: query.allow_full_scan(),
        lambda query: query.after({"a": "x", "b": 3}),
    ],
)
def test_what_allows_a_scan_does_not_allow_others(allowed: Any) -> None:
    forget(hb.schema.schema_of(Shaped))
    assert made(allowed(asked())).path.name == "primary"
    with pytest.raises(hb.errors.FullScanRefused):
        made(asked())


def test_orders_and_named_paths_are_part_of_a_shape() -> None:
    forget(hb.schema.schema_of(Shaped))
    some = asked().limit(3)
    for _ in range(2):
        assert made(some).path.name == "primary"
        assert made(some.order_by(Shaped.n)).path.name == "by_n"
        assert made(some.order_by(Shaped.n.desc())).backwards
        assert made(some.order_by(Shaped.n).reversed()).backwards
        assert made(some.use_index("by_n")).path.name == "by_n"
        assert made(some, path="by_n").path.name == "by_n"
        with pytest.raises(hb.errors.OrderNotAvailable):
            made(some.use_index("primary").order_by(Shaped.n))


@pytest.mark.parametrize("predicates", OTHERWISE)
def test_shapes_whose_plan_depends_on_values_are_not_kept(predicates: Any) -> None:
    forget(hb.schema.schema_of(Shaped))
    made(asked(*predicates("v")).allow_full_scan())
    assert not shapes(hb.schema.schema_of(Shaped))


def test_an_index_with_a_condition_is_fit_by_values() -> None:
    """Whether a query implies the condition of an index depends on its values."""
    query: Query[Any] = Query(QueryTerms(hb.schema.schema_of(Partly)), None)  # type: ignore[arg-type]
    query = query.where(Partly.c == "x")
    assert made(query.where(Partly.n > 200), ("few",)).path.name == "few"
    assert made(query.where(Partly.n > 10).allow_full_scan(), ("few",)).path.name == "primary"
    with pytest.raises(hb.errors.FullScanRefused):
        made(query.where(Partly.n > 10), ("few",))


def test_an_index_is_read_as_it_is_now() -> None:
    schema = hb.schema.schema_of(Shaped)
    terms = asked(Shaped.n == 3).terms
    index = schema.indexes["by_n"]
    for table in ("shaped.by_n", "shaped.by_n.2", "shaped.by_n"):
        assert plan(terms, [evolve(index, table=table)], True).path.table == table
    for complete in (True, False, True):
        path = plan(terms, [evolve(index, schema_complete=complete)], True).path
        assert path.index is not None
        assert path.index.schema_complete is complete
    with pytest.raises(hb.errors.IndexUnavailable):
        plan(terms, [], True)


def test_a_prefix_that_the_bytes_cannot_be_searched_by_is_refused_as_ever() -> None:
    @hb.model(table="prefixed", family="d")
    class Prefixed:
        key: hb.Key[bytes] = hb.key(codec=hb.codecs.PaddedBytes(4))
        n: hb.Column[int] = hb.column("n")

    def planned(prefix: bytes) -> Plan:
        query: Query[Any] = Query(QueryTerms(hb.schema.schema_of(Prefixed)), None)  # type: ignore[arg-type]
        return made(query.where(Prefixed.key.startswith(prefix)), ())

    first = planned(b"a")
    assert planned(b"bc").path is first.path
    with pytest.raises(hb.errors.QueryError, match="The bytes of this key field do not keep the order"):
        planned(b"a\x00")


@pytest.mark.parametrize("first", [(5, 5), (5, 7)])
def test_bounds_of_one_value_do_not_bound_others_of_a_codec_without_order(first: tuple[int, int]) -> None:
    @hb.model(table="digested", family="d")
    class Digested:
        key: hb.Key[int] = hb.key(codec=hb.codecs.DigestPrefixed(hb.codecs.Int32))
        n: hb.Column[int] = hb.column("n")

    query: Query[Any] = Query(QueryTerms(hb.schema.schema_of(Digested)), None).allow_full_scan()  # type: ignore[arg-type]
    for low, high in (first, (5, 5), (5, 7), (5, 5)):
        plan = made(query.where(Digested.key >= low, Digested.key <= high), ())
        assert plan.full_scan is (low != high)
        assert plan.match.unordered == (None if low == high else "key")


def test_bounds_that_one_path_can_express_only_for_some_values_choose_the_path_each_time() -> None:
    @hb.model(table="two_bounds", family="d")
    class TwoBounds:
        key: hb.Key[int] = hb.key(codec=hb.codecs.DigestPrefixed(hb.codecs.Int32))
        n: hb.Column[int] = hb.column("n")
        by_n = hb.index("n")

    query: Query[Any] = Query(QueryTerms(hb.schema.schema_of(TwoBounds)), None)  # type: ignore[arg-type]
    query = query.where(TwoBounds.n > 3)
    for low, high, path in ((5, 7, "by_n"), (5, 5, "primary"), (5, 7, "by_n"), (5, 5, "primary")):
        assert made(query.where(TwoBounds.key >= low, TwoBounds.key <= high), ("by_n",)).path.name == path


def test_threads_fill_in_their_own_values() -> None:
    schema = hb.schema.schema_of(Shaped)
    forget(schema)

    def query(n: int) -> Query[Any]:
        return asked(Shaped.a == f"a{n}", Shaped.b < n) if n % 2 else asked(Shaped.n == n)

    def planned(n: int) -> dict[str, Any]:
        if n % 50 == 0:
            forget(schema)
        return told(made(query(n)))

    with ThreadPoolExecutor(4) as threads:
        plans = list(threads.map(planned, range(200)))
    for n, one in enumerate(plans):
        forget(schema)
        assert one == told(made(query(n)))


@pytest.mark.parametrize("first", range(4))
@pytest.mark.parametrize("second", range(4))
def test_the_kinds_of_rows_of_a_table_are_part_of_a_shape(first: int, second: int) -> None:
    kinds = [State((), indexed, adopting) for indexed in (False, True) for adopting in (False, True)]
    schema = hb.schema.schema_of(Shaped)
    forget(schema)
    outcome(asked(Shaped.a == "x"), kinds[first], None)
    known = outcome(asked(Shaped.a == "y"), kinds[second], None)
    forget(schema)
    assert known == outcome(asked(Shaped.a == "y"), kinds[second], None)
