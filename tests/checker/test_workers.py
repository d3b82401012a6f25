"""Tasks in separate processes: every result arrives, and a process that is killed is an error."""

from __future__ import annotations

import os
import signal

import pytest

from tests.checker.workers import WorkerDied, each_in_a_process


def _doubled(number: int) -> int:
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    if number == 5:
        raise ValueError("five")
    return 2 * number


def test_every_result_comes() -> None:
    assert sorted(each_in_a_process(_doubled, [1, 2, 4, 6], 2)) == [2, 4, 8, 12]


def test_a_process_that_is_killed_is_an_error() -> None:
    with pytest.raises(WorkerDied, match="process of 3 has died with exit code -9"):
        list(each_in_a_process(_doubled, [1, 3, 4], 2))


def test_an_error_of_a_task_comes_as_it_is() -> None:
    with pytest.raises(ValueError, match="five"):
        list(each_in_a_process(_doubled, [1, 5], 2))
