"""Long waits for other programs are logged."""

from __future__ import annotations

import logging

import pytest

from hbmodel.tables.indexes import index_work
from hbmodel.tables.indexes.index_sweeps import IndexProgress
from hbmodel.tables.roll.logged_waits import EVERY, PAUSE, QUIET, LoggedWaits

WRITER = "import.py, process 4711 on host-a: last seen 3 s ago; at most 1300 s"


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_long_wait_is_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    waits, logged_at = LoggedWaits(clock), []
    for second in range(200):
        clock.now = 1000.0 + second
        waits(1300.0 - second, "writers", [WRITER])
        if caplog.records:
            logged_at.append(second)
            (record,) = caplog.records
            assert (record.name, record.levelno) == ("hbmodel", logging.WARNING)
            assert WRITER in record.getMessage()
            assert "--forget" in record.getMessage()
            caplog.clear()
    assert logged_at == [QUIET, QUIET + EVERY, QUIET + 2 * EVERY]


def test_short_waits_after_one_another_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    waits = LoggedWaits(clock)
    for _ in range(20):
        waits(5.0, "readers", ())
        clock.now += PAUSE + 1
    assert not caplog.records


def test_each_call_waits_for_itself(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    waits = LoggedWaits(clock)
    for logs in (0, 0, 1):
        for _ in range(15):
            waits(1300.0, "writers", [WRITER])
            clock.now += 1
        if not logs:
            waits.begin()
    assert not caplog.records
    for _ in range(10):
        waits(1300.0, "writers", [WRITER])
        clock.now += 1
    assert len(caplog.records) == 1


def test_many_short_waits_are_no_long_one(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    waits = LoggedWaits(clock)
    for _ in range(200):
        waits(0.4, "readers", ())
        clock.now += 0.4
        waits(2.0, "writers", [WRITER])
        clock.now += 2.0
    assert not caplog.records


def test_a_wait_for_unknown_programs_says_how_long_it_takes_at_most(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    waits = LoggedWaits(clock)
    for _ in range(int(QUIET) + 1):
        waits(59.6, "readers", ())
        clock.now += 1
    (record,) = caplog.records
    assert "readers" in record.getMessage()
    assert "at most 60 s" in record.getMessage()


def test_only_a_caller_without_a_function_for_progress_finds_waits_in_the_log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(index_work, "LoggedWaits", lambda: LoggedWaits(clock))
    monkeypatch.setattr("time.sleep", lambda seconds: setattr(clock, "now", clock.now + seconds))
    told: list[IndexProgress] = []
    for wait, logs in ((index_work.waiting(told.append), 0), (index_work.waiting(None), 1)):
        for _ in range(int(QUIET) + 5):
            wait(1300.0, "writers", [WRITER])
        assert len(caplog.records) == logs
    assert len(told) == int(QUIET) + 5
