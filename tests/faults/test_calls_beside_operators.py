"""Two programs with a call each for one row while an operator works at its table: the result is that of some order of
the calls.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Iterable, Iterator, Sequence

import pytest

from tests.support.calls_of_kinds import beginnings, fitting
from tests.support.examples import examples
from tests.support.operator_work import WORKS, Place
from tests.support.turns import random_turns

OPERATOR = 2
"""The number of its thread."""

Drawn = tuple[tuple[str, ...], tuple[str, str], int, bool, bool, bool, tuple[int, int] | None]


def drawn(name: str, seed: int, count: int) -> Iterator[Drawn]:
    """Beginnings with two calls, the seed of a schedule, whether the clock moves with every request, whether no row is
    changed atomically, whether writes look at the registry inside their transactions, and who crashes after how many
    requests.

    `rekey` does not crash: one that was interrupted is completed by repeating it.
    """
    of, source = WORKS[name].kind, random.Random(f"{name} {seed}")
    for _ in range(count):
        begin, pair = source.choice(beginnings(of)), (source.choice(fitting(of)), source.choice(fitting(of)))
        crash = None if source.random() < 0.6 else (source.randrange(3), source.randrange(30))
        if crash is not None and crash[0] != OPERATOR and pair[crash[0]] == "rekey":
            crash = None
        limited = source.random() < 0.3 and not of.schema.versioned
        gated = source.random() < 0.5
        yield begin, pair, source.randrange(10**9), source.random() < 0.5, limited, gated, crash


def check(name: str, cases: Iterable[Drawn], caplog: pytest.LogCaptureFixture) -> None:
    gc.collect()  # sessions that earlier tests left warn when they are collected
    caplog.clear()
    for begin, pair, seed, distinct, limited, gated, crash in cases:
        result = Place.of(WORKS[name], distinct=distinct, limited=limited, gated=gated).run(
            begin, pair, 1, random_turns(seed), crash
        )
        assert result.wrong is None, (begin, pair, seed, distinct, limited, gated, crash, result.wrong)
        said = [record.getMessage() for record in caplog.records]
        assert not said or name.startswith("drop"), (begin, pair, seed, distinct, limited, gated, crash, said)


PUT_TWICE: Sequence[tuple[str, Drawn]] = (
    ("drop flag", ((), ("update o", "add none"), 236845520, True, False, False, (2, 17))),
    (
        "drop counter",
        (("add", "increment", "increment"), ("update m", "rekey"), 502980870, True, False, False, (2, 16)),
    ),
    ("drop counter", (("add", "increment", "increment"), ("add", "rekey"), 880887013, True, False, True, None)),
    ("drop indexed", ((), ("add", "update both"), 32542746, True, False, True, None)),
    ("drop wide", ((), ("add none", "update both"), 630439757, False, False, False, (0, 24))),
)
"""A call whose row is put stops for longer than a lease; meanwhile the index is dropped, and another call changes or
moves the object.
"""


COVERED: Sequence[tuple[str, Drawn]] = (
    ("build counter", (("add",), ("forget o", "update m"), 678085245, False, False, False, None)),
    ("build indexed", (("add none",), ("delete", "update both"), 648679984, True, True, False, None)),
    (
        "build counter",
        (("add", "increment", "increment"), ("update o", "query delete"), 640621211, False, True, False, (2, 20)),
    ),
)
"""Two calls for a row from before the first index while a build waits for programs that delete without a marker."""


DROPPED: Sequence[tuple[str, Drawn]] = (
    ("drop unique", (("add none",), ("put both", "load"), 8195323, False, False, True, None)),
    ("drop unique", (("add none",), ("add none", "delete"), 17177174, True, False, True, None)),
)
"""A call is about to read claims in the table of an index, which is dropped without waiting for a lease."""

BOTH_KEYS: Sequence[tuple[str, Drawn]] = (
    ("build unique", (("add",), ("rekey", "update m"), 527473112, True, False, False, None)),
    ("build unique", (("add none",), ("rekey", "forget o"), 740329035, True, False, False, (1, 11))),
)
"""Builds of a unique index while an object is under both keys of a `rekey`."""


@pytest.mark.parametrize(("name", "case"), DROPPED)
def test_a_call_goes_on_without_the_table_of_its_index_beside(
    name: str, case: Drawn, caplog: pytest.LogCaptureFixture
) -> None:
    check(name, [case], caplog)


@pytest.mark.parametrize(("name", "case"), BOTH_KEYS)
def test_an_index_is_built_when_an_object_has_arrived_at_its_new_key_beside(
    name: str, case: Drawn, caplog: pytest.LogCaptureFixture
) -> None:
    check(name, [case], caplog)


@pytest.mark.parametrize(("name", "case"), COVERED)
def test_a_row_from_before_the_first_index_is_not_put_again_as_it_was_read_beside(
    name: str, case: Drawn, caplog: pytest.LogCaptureFixture
) -> None:
    check(name, [case], caplog)


@pytest.mark.parametrize(("name", "case"), PUT_TWICE)
def test_a_row_that_was_put_is_not_put_again_beside(name: str, case: Drawn, caplog: pytest.LogCaptureFixture) -> None:
    check(name, [case], caplog)


@pytest.mark.lengthy
@pytest.mark.parametrize("name", WORKS)
def test_two_calls_leave_what_some_order_of_them_leaves_beside(name: str, caplog: pytest.LogCaptureFixture) -> None:
    check(name, drawn(name, 0, examples(5)), caplog)


@pytest.mark.slow
@pytest.mark.parametrize("name", WORKS)
@pytest.mark.parametrize("seed", range(1, 11))
def test_many_two_calls_leave_what_some_order_of_them_leaves_beside(
    name: str, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    check(name, drawn(name, seed, 100), caplog)
