"""Attempts to read a query, which is planned again and continued if the indexes of its table change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TypeVar

from hbmodel.errors import TableNotFound
from hbmodel.query.match.plan import Plan
from hbmodel.query.run.executor import PlanExecutor

T = TypeVar("T")


class OutdatedPlan(Exception):
    """Raised by an executor's `check` if the way in which the table must be read has changed since the plan was
    made.
    """


class Attempts:
    """A series of attempts to read a query, which ends with the first attempt that does not raise `OutdatedPlan`: `for
    attempt in attempts: with attempt as executor: ...`

    Each attempt has a new plan of the same path. An attempt that yields items continues after the last item of the
    previous attempt.

    Args:
        executor: the executor of the first attempt.
        plan_again: accepts the outdated plan, and returns the executor of the next attempt.
    """

    def __init__(self, executor: PlanExecutor, plan_again: Callable[[Plan], PlanExecutor]) -> None:
        self._executor, self._plan_again = executor, plan_again
        self._ended = False

    def __iter__(self) -> Iterator[Attempts]:
        while not self._ended:
            yield self

    def __enter__(self) -> PlanExecutor:
        self._ended = True
        return self._executor

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if kind is None or (kind is not OutdatedPlan and not self._dropped(error)):
            return False
        self._executor = self._plan_again(self._executor.plan)
        self._ended = False
        return True

    def _dropped(self, error: BaseException | None) -> bool:
        """Whether the attempt read an index that was dropped after the plan was made. Its table may be gone before the
        first check of the attempt.
        """
        if not isinstance(error, TableNotFound):
            return False
        try:
            self._executor.check()
        except OutdatedPlan:
            return True
        return False

    def result(self, read: Callable[[PlanExecutor], T]) -> T:
        """Calls `read` for each attempt, and returns the result of the first attempt that is not outdated."""
        for attempt in self:
            with attempt as executor:
                return read(executor)
        raise AssertionError("an attempt returns, raises, or is made again")
