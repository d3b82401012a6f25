"""Conditions for writes of versioned models, retries after a conflict, and the error of a commit with refused calls."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Protocol, TypeVar

from hbmodel.errors import (
    ClockError,
    ConflictError,
    HbmodelError,
    PartialWrite,
    SessionClosed,
    SessionError,
    UnknownOutcome,
)
from hbmodel.mapping.predicates import Predicate
from hbmodel.mapping.schema import TableSchema
from hbmodel.protocol.writes import Outcome
from hbmodel.query.ask.argument_checks import check_own
from hbmodel.store.checks.numbers import whole_number
from hbmodel.store.jitter import jitter

T = TypeVar("T")

RETRIES = 30
"""The default maximum number of runs of `Session.retry`."""

FIRST_WAIT = 0.005
LONGEST_WAIT = 0.5
"""The maximum of the first wait between attempts, and the maximum of all later waits, in seconds. The maximum doubles
with each attempt, up to `LONGEST_WAIT`. Each wait is a random time between zero and the current maximum.
"""


def check_condition(schema: TableSchema, condition: object) -> None:
    """Checks the value of `condition`.

    Raises:
        SessionError: the condition is not a predicate, or the model has no version.
        UnknownField: the condition reads a field of another model.
    """
    if condition is None:
        return
    if not isinstance(condition, Predicate):
        raise SessionError(
            "condition takes a condition, such as Action.name == 'x'.",
            table=schema.table,
            found=type(condition).__name__,
        )
    if not schema.versioned:
        raise SessionError(
            "condition needs a versioned model: declare a field, such as version: hb.Column[int] = hb.version().",
            table=schema.table,
        )
    check_own(schema, condition)


def waits_between(attempts: int) -> Iterator[float]:
    """Yields the waits between attempts, in seconds ("full jitter", Brooker, Exponential Backoff And Jitter, 2015).

    Raises:
        SessionError: the number of attempts is invalid.
    """
    number = whole_number(attempts)
    if number is None or number < 1:
        raise SessionError("attempts must be a number of at least 1.", attempts=attempts)
    return (jitter.uniform(0, min(LONGEST_WAIT, FIRST_WAIT * 2**tried)) for tried in range(number - 1))


class Retried(Protocol):
    """The argument of a function that is retried: a session or a group."""

    def commit(self) -> object:
        """See `Session.commit`."""
        ...

    def discard(self) -> None:
        """See `Session.discard`."""
        ...


R = TypeVar("R", bound=Retried)


def _called(session: R, function: Callable[[R], T]) -> T:
    """Calls a function and returns its result. If the function fails, pending calls are dropped, so that a later commit
    does not write some of the function's changes.
    """
    try:
        return function(session)
    except BaseException:
        with suppress(SessionClosed):
            session.discard()
        raise


def again_upon_conflict(session: R, function: Callable[[R], T], waits: Iterator[float]) -> T:
    """Runs a function and commits. After a `ConflictError`, waits and repeats both, until no waits are left; see
    `Session.retry`.

    After most errors of the commit nothing is written, and the calls are dropped. After `PartialWrite` and
    `UnknownOutcome` they are kept, because only this session can find out what was written and finish the commit.
    """
    while True:
        try:
            result = _called(session, function)
            session.commit()
        except ConflictError:
            session.discard()
            wait = next(waits, None)
            if wait is None:
                raise
            time.sleep(wait)
        except (PartialWrite, UnknownOutcome):
            raise
        except HbmodelError:
            with suppress(SessionClosed):
                session.discard()
            raise
        else:
            return result


def reason_of(error: BaseException) -> str:
    """Returns the class and the text of the error that stopped a commit, for `PartialWrite.reason`."""
    return f"{type(error).__name__}: {error}"


_UNCERTAIN = (ClockError, PartialWrite, UnknownOutcome)
"""Errors after which a call may nevertheless have changed its row. `ClockError` is one of them: an update of a row that
expires writes some columns first, and may find a cell that is ahead of the clock while it rewrites the other columns.
"""


def refusal(outcomes: Sequence[Outcome], failures: Sequence[Outcome], *, whole: bool) -> HbmodelError:
    """Returns the error of a commit with failed calls. If all calls failed with errors of the same class, and it is
    certain that nothing was written, the error has this class. Otherwise it is a `PartialWrite`. If the class is
    `ConflictError`, deletes that found nothing also count as failed.

    Args:
        outcomes: the outcomes of all calls.
        failures: the outcomes of the failed calls.
        whole: whether each failed call writes only one row. In this case, no part of a failed call can have been
            carried out.
    """
    errors = [outcome.error for outcome in failures if outcome.error is not None]
    firsts: dict[type[HbmodelError], HbmodelError] = {}
    for error in errors:
        firsts.setdefault(type(error), error)
    first, *others = firsts.values()
    nothing = len(failures) == len(outcomes) or (
        isinstance(first, ConflictError) and not any(outcome.action in {"put", "deleted"} for outcome in outcomes)
    )
    if nothing and whole and not others and not isinstance(first, _UNCERTAIN):
        return type(first)(first.message, **{**first.details, "failures": failures})
    return PartialWrite(
        "Some calls of the commit were refused: see `failures`. All others are carried out, and nothing is pending.",
        applied=[outcome for outcome in outcomes if outcome.error is None],
        pending=[],
        failures=failures,
        key=failures[0].key,
        reason="; ".join(map(reason_of, [first, *others])),
    )
