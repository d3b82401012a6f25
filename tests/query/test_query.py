"""Building queries: every step gives a new query, and a step without a possible meaning is refused at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import hbmodel as hb
from hbmodel.mapping.predicates import And, conjuncts
from hbmodel.query.ask.argument_checks import MOST
from hbmodel.query.ask.continuation_tokens import Page
from hbmodel.query.ask.explain_text import Explanation
from hbmodel.query.ask.query import Query
from hbmodel.query.ask.terms import QueryTerms


@hb.model(table="t")
class Thing:
    a: hb.Key[int] = hb.key(hb.codecs.UInt8)
    b: hb.Key[str] = hb.key()
    c: hb.Column[int | None] = hb.column("c", default=None)

    by_c = hb.index("c")


@hb.model(table="t", family="x")
class Twin:
    """The same fields, but another model's."""

    a: hb.Key[int] = hb.key(hb.codecs.UInt8)
    b: hb.Key[str] = hb.key()
    z: hb.Column[int] = hb.column("z")


class Numbers:
    """A source of consecutive numbers that remembers what it was asked."""

    def __init__(self, size: int = 5) -> None:
        self.size = size
        self.asked: list[tuple[str, QueryTerms]] = []

    def stream(self, terms: QueryTerms) -> Iterator[Any]:
        self.asked.append(("stream", terms))
        numbers = list(range(self.size))[:: -1 if terms.backwards else 1]
        last = None if terms.limit is None else terms.offset + terms.limit
        return iter(numbers[terms.offset : last])

    def page(self, terms: QueryTerms, size: int, at: str | None, backwards: bool) -> Page[Any]:
        self.asked.append((f"page {size} {'before' if backwards else 'after'} {at}", terms))
        return Page(list(range(size)), None)

    def count(self, terms: QueryTerms) -> int:
        self.asked.append(("count", terms))
        return self.size

    def explain(self, terms: QueryTerms) -> Explanation:
        raise AssertionError("not asked here")


def query(size: int = 5) -> Query[Any]:
    return Query(QueryTerms(hb.schema.schema_of(Thing)), Numbers(size))


# --- steps ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "step",
    [
        lambda q: q.where(Thing.a == 1),
        lambda q: q.limit(3),
        lambda q: q.offset(3),
        lambda q: q.reversed(),
        lambda q: q.order_by(Thing.a),
        lambda q: q.use_index("by_c"),
        lambda q: q.allow_full_scan(),
        lambda q: q.select(Thing.a),
    ],
)
def test_a_step_gives_a_new_query(step: Callable[[Query[Any]], Query[Any]]) -> None:
    first = query()
    before = repr(first)
    second = step(first)
    assert second is not first
    assert repr(first) == before
    assert repr(second) != before


def test_conditions_add_up() -> None:
    one, two, three = Thing.a == 1, Thing.b == "x", Thing.c > 3
    built = query().where(one).where(two & three).where()
    assert conjuncts(built.terms.predicate) == (one, two, three)
    assert isinstance(built.terms.predicate, And)
    assert query().where().terms.predicate is None
    assert conjuncts(query().where(one, two, three).terms.predicate) == (one, two, three)


def test_later_numbers_replace_earlier_ones() -> None:
    built = query().limit(3).limit(2).offset(5).offset(1)
    assert (built.terms.limit, built.terms.offset) == (2, 1)
    assert query().limit(np.int64(3)).terms.limit == 3  # type: ignore[arg-type]
    assert type(query().limit(np.int64(3)).terms.limit) is int  # type: ignore[arg-type]
    assert query().limit(0).terms.limit == 0
    assert query().limit(MOST).terms.limit == MOST


def test_reversed_twice_is_forwards() -> None:
    assert query().reversed().terms.backwards
    assert not query().reversed().reversed().terms.backwards


def test_orders() -> None:
    built = query().order_by(Thing.a, Thing.b.desc(), Thing.c.asc())
    assert [(part.field.name, part.desc) for part in built.terms.ordering] == [("a", False), ("b", True), ("c", False)]
    assert [part.field.name for part in built.order_by(Thing.c).terms.ordering] == ["c"]


def test_paths() -> None:
    assert query().use_index("by_c").terms.index_name == "by_c"
    assert query().use_index("primary").terms.index_name == "primary"
    assert query().use_index("by_c").use_index(None).terms.index_name is None


def test_selections() -> None:
    assert [f.name for f in query().select(Thing.b, Thing.a).terms.selection or ()] == ["b", "a"]
    assert query().terms.selection is None


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [-1, True, False, 1.0, "3", None, MOST + 1])
@pytest.mark.parametrize("step", ["limit", "offset"])
def test_limits_are_whole_numbers(step: str, count: Any) -> None:
    with pytest.raises(hb.QueryError, match="whole number") as caught:
        getattr(query(), step)(count)
    assert caught.value.argument == step


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda q: q.where(True), hb.QueryError, "got a truth value"),
        (lambda q: q.where(Thing.a), hb.QueryError, "takes predicates"),
        (lambda q: q.where(None), hb.QueryError, "takes predicates"),
        (lambda q: q.where({"a": 1}), hb.QueryError, "takes predicates"),
        (lambda q: q.where(Twin.a == 1), hb.errors.UnknownField, "another model"),
        (lambda q: q.where((Thing.a == 1) & (Twin.b == "x")), hb.errors.UnknownField, "another model"),
        (lambda q: q.where((Thing.a == 1) | ~(Twin.b == "x")), hb.errors.UnknownField, "another model"),
        (lambda q: q.where(Twin.z == 1), hb.errors.UnknownField, "belongs to another model"),
        (lambda q: q.where(Twin.a.in_([])), hb.errors.UnknownField, "another model"),
        (lambda q: q.order_by(), hb.QueryError, r"order_by\(\) takes at least one field"),
        (lambda q: q.order_by("a"), hb.QueryError, "attributes of the model class"),
        (lambda q: q.order_by(Twin.a), hb.errors.UnknownField, "another model"),
        (lambda q: q.order_by(Twin.a.desc()), hb.errors.UnknownField, "another model"),
        (lambda q: q.select(), hb.QueryError, r"select\(\) takes at least one field"),
        (lambda q: q.select("a"), hb.QueryError, "attributes of the model class"),
        (lambda q: q.select(Thing.a.desc()), hb.QueryError, "attributes of the model class"),
        (lambda q: q.select(Twin.a), hb.errors.UnknownField, "another model"),
        (lambda q: q.use_index("by_a"), hb.errors.UnknownIndex, "no such index"),
        (lambda q: q.page(0), hb.QueryError, "at least one"),
        (lambda q: q.page(-1), hb.QueryError, "whole number"),
        (lambda q: q.limit(3).last(), hb.QueryError, r"last\(\) cannot be combined with limit\(\) or offset\(\)"),
        (lambda q: q.offset(3).last(), hb.QueryError, r"last\(\) cannot be combined with limit\(\) or offset\(\)"),
    ],
)
def test_what_no_query_can_mean(build: Callable[[Query[Any]], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        build(query())


@pytest.mark.parametrize(
    "test",
    [
        lambda q: "some" if q else "none",
        lambda q: not q,
        bool,
        lambda q: q or None,
        lambda q: q and q.where(Thing.a == 1),
        lambda q: all([q]),
    ],
)
def test_a_query_has_no_truth_value(test: Callable[[Query[Any]], object]) -> None:
    built = query(0).where(Thing.a == 1)
    with pytest.raises(hb.QueryError, match=r"no truth value: write exists\(\) .* or first\(\)") as caught:
        test(built)
    assert caught.value.table == "t"
    asked: Any = built._source
    assert not asked.asked, "nothing is read"
    assert not built.exists()
    assert built in [built]


# --- what is asked of the source --------------------------------------------------------------------------------------


def test_items() -> None:
    assert list(query()) == query().all() == [0, 1, 2, 3, 4]
    assert query().offset(1).limit(2).all() == [1, 2]


def test_first_reads_one() -> None:
    built = query()
    assert built.first() == 0
    asked: Any = built._source
    assert asked.asked[-1][1].limit == 1
    assert query(0).first() is None
    assert query().limit(0).first() is None
    assert query().limit(9).offset(2).first() == 2


def test_last_is_the_first_of_the_opposite_order() -> None:
    assert query().last() == 4
    assert query().reversed().last() == 0
    assert query(0).last() is None


def test_exists_selects_nothing() -> None:
    built = query()
    assert built.exists()
    asked: Any = built._source
    assert (asked.asked[-1][1].limit, asked.asked[-1][1].selection) == (1, ())
    assert not query(0).exists()
    assert not query().limit(0).exists()
    assert not query().offset(5).exists()


def test_pages_and_counts_are_the_sources() -> None:
    built = query()
    assert built.page(3, after="token").items == [0, 1, 2]
    assert built.count() == 5
    asked: Any = built._source
    assert [what for what, _ in asked.asked] == ["page 3 after token", "count"]


def test_a_query_shows_what_it_asks_and_not_its_source() -> None:
    assert "source" not in repr(query())
