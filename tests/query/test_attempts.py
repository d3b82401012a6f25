"""Reads that continue with a new plan: what is read again, and from which position."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from typing import Any

import pytest

import hbmodel as hb
from hbmodel.query.ask.query import Query
from hbmodel.query.match.plan import Plan
from hbmodel.query.match.planner import plan
from hbmodel.query.run.attempts import Attempts, OutdatedPlan
from hbmodel.query.run.executor import PlanExecutor


@hb.model(table="readings", family="d")
class Numbered:
    number: hb.Key[int] = hb.key()
    text: hb.Column[str] = hb.column("t")
    by_text = hb.index("text")


@pytest.fixture
def store() -> Iterator[hb.Store]:
    with hb.connect("memory:") as store:
        hb.create_tables(store, Numbered)
        session = hb.Session(store)
        session.add_all(Numbered(number=number, text=f"{9 - number}") for number in range(10))
        session.commit()
        yield store


def planned(query: Query[Any], path: str | None = None) -> Plan:
    return plan(query.terms, tuple(query.terms.schema.indexes.values()), True, path)


def checks(*fails: bool) -> Callable[[], None]:
    """A check that fails at the given calls."""
    left = iter(fails)

    def check() -> None:
        if next(left, False):
            raise OutdatedPlan

    return check


def numbers_of(attempts: Attempts) -> Generator[int, None, None]:
    after: bytes | None = None
    for attempt in attempts:
        with attempt as executor, closing(executor.items(after)) as items:
            for position, values in items:
                after = position
                yield values["number"]


@pytest.mark.parametrize("path", ["primary", "by_text"])
@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("fails", [(), (True,), (False, True), (False, False, True), (True, True, True)])
def test_items_are_read_once_each_however_often_the_plan_is_made_again(
    store: hb.Store, path: str, backwards: bool, fails: tuple[bool, ...]
) -> None:
    query = hb.Session(store).query(Numbered).allow_full_scan()
    first = planned(query.reversed() if backwards else query, path)
    check, again = checks(*fails), []

    def plan_again(outdated: Plan) -> PlanExecutor:
        again.append(outdated)
        return PlanExecutor(store, first, 3, check)

    expected = sorted(range(10), reverse=backwards != (path == "by_text"))
    assert list(numbers_of(Attempts(PlanExecutor(store, first, 3, check), plan_again))) == expected
    assert again == [first] * sum(fails)


def test_a_result_is_that_of_the_attempt_that_ends(store: hb.Store) -> None:
    first = planned(hb.Session(store).query(Numbered).allow_full_scan())
    second = first.opposite
    seen: list[Plan] = []

    def read(executor: PlanExecutor) -> int:
        seen.append(executor.plan)
        executor.check()
        return len(seen)

    attempts = Attempts(
        PlanExecutor(store, first, None, checks(True)), lambda outdated: PlanExecutor(store, outdated.opposite)
    )
    assert attempts.result(read) == 2
    assert seen == [first, second]


def test_other_errors_end_a_read(store: hb.Store) -> None:
    first = planned(hb.Session(store).query(Numbered).allow_full_scan())

    def fail(executor: PlanExecutor) -> int:
        raise hb.errors.QueryError("No.")

    def plan_again(outdated: Plan) -> PlanExecutor:
        raise AssertionError("is not made again")

    with pytest.raises(hb.errors.QueryError):
        Attempts(PlanExecutor(store, first), plan_again).result(fail)
    numbers = numbers_of(Attempts(PlanExecutor(store, first), plan_again))
    assert next(numbers) == 0
    numbers.close()


def test_a_query_whose_index_is_dropped_before_it_is_read_says_so(store: hb.Store) -> None:
    """The plan is made when the iteration begins, and the table of the index is gone when the first item is wanted."""
    times = hb.indexes.IndexTimes(lease=0.1, longest_call=0.05, grace=1, clock_bound=0.002)
    session = hb.Session(store, lease=0.1)
    items = iter(session.query(Numbered).where(Numbered.text == "5"))
    hb.indexes.drop_index(store, Numbered, "by_text", times=times)
    with pytest.raises(hb.errors.IndexUnavailable) as caught:
        next(items)
    assert caught.value.index == "by_text"
    store.delete_table("readings")
    with pytest.raises(hb.errors.TableNotFound):
        session.query(Numbered).allow_full_scan().all()
