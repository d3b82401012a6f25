"""Tests that a failing test is run again only if it was slow, and only once."""

from __future__ import annotations

import pytest

from tests.support import slow_machines
from tests.support.slow_machines import TRIES, lives_for


class Clock:
    """A clock that advances by the planned duration of each run."""

    def __init__(self, *seconds: float) -> None:
        self.now = 0.0
        self.runs = 0
        self._seconds = seconds

    def monotonic(self) -> float:
        return self.now

    def run(self) -> None:
        self.now += self._seconds[self.runs]
        self.runs += 1


@pytest.mark.parametrize(
    ("seconds", "fails", "runs", "raises"),
    [
        ((0.1,), 1, 1, True),  # the run was quick enough, so the failure is real
        ((5.0, 0.1), 1, 2, False),
        ((5.0, 5.0, 0.1), 9, 3, True),
        ((5.0,) * TRIES, 9, TRIES, True),
        ((5.0,), 0, 1, False),
    ],
)
def test_only_what_was_slow_is_run_again(
    monkeypatch: pytest.MonkeyPatch, seconds: tuple[float, ...], fails: int, runs: int, raises: bool
) -> None:
    clock = Clock(*seconds)
    monkeypatch.setattr(slow_machines, "time", clock)

    @lives_for(1)
    def check(answer: str) -> str:
        clock.run()
        assert clock.runs > fails, "wrong"
        return answer

    if raises:
        with pytest.raises(AssertionError, match="wrong"):
            check("right")
    else:
        assert check("right") == "right"
    assert clock.runs == runs
