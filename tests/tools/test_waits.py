"""The lines with which the command says for whom it waits, if its output is no terminal."""

from __future__ import annotations

import pytest

from hbmodel.indexes import IndexProgress
from hbmodel.tools.cli.output.waits import told_at_times

ONE = "load.py, process 7 on vm"
OTHER = "web.py, process 8 on vm"
EARLIER = "that may follow an earlier state of the registry"


def waits(*writers: str, seconds: float = 9.0) -> IndexProgress:
    return IndexProgress("waiting", 0, None, 0, seconds_left=seconds, waits_for="writers", writers=writers)


def test_a_wait_is_mentioned_when_it_begins_when_its_reason_changes_and_every_minute(
    capsys: pytest.CaptureFixture[str],
) -> None:
    now = [0.0]
    report = told_at_times(lambda: now[0])
    for now[0], progress in (
        (0.0, waits(f"{ONE}: last seen 3 s ago; at most 900 s")),
        (5.0, waits(f"{ONE}: last seen 8 s ago; at most 895 s", f"{OTHER}: last seen 1 s ago; at most 60 s")),
        (30.0, waits(f"{ONE}: has calls of unknown outcome; at most 870 s")),
        (59.9, waits(f"{ONE}: last seen 63 s ago; at most 840 s")),
        (60.0, waits(f"{ONE}: last seen 63 s ago; at most 840 s")),
        (89.0, waits(f"{ONE}: has calls of unknown outcome; at most 811 s")),
        (90.0, waits(f"{ONE}: has calls of unknown outcome; at most 810 s")),
    ):
        report(progress)
    assert capsys.readouterr().err.splitlines() == [
        f"waiting for {ONE}: last seen 3 s ago; at most 900 s",
        f"waiting for {OTHER}: last seen 1 s ago; at most 60 s",
        f"waiting for {ONE}: has calls of unknown outcome; at most 870 s",
        f"waiting for {ONE}: last seen 63 s ago; at most 840 s",
        "if such a program was killed, `hbmodel writers TABLE --forget` can shorten the wait",
        f"waiting for {ONE}: has calls of unknown outcome; at most 810 s",
    ]


def test_a_wait_for_programs_that_cannot_be_named_is_mentioned_too(capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    report = told_at_times(lambda: now[0])
    report(IndexProgress("waiting", 0, None, 0, seconds_left=50, waits_for="readers"))
    now[0] = 10.0
    report(IndexProgress("waiting", 0, None, 0, seconds_left=40, waits_for="readers"))
    report(IndexProgress("waiting", 0, None, 0, seconds_left=1, waits_for="writers"))
    report(IndexProgress("building", 1, 2, 100))
    assert (
        capsys.readouterr().err == "waiting at most 50 s for readers that may follow an earlier state of the registry\n"
    )


def test_it_is_said_why_programs_cannot_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    report = told_at_times(lambda: now[0])
    for now[0], left in ((0.0, 1260), (60.0, 1200)):
        report(IndexProgress("waiting", 0, None, 0, seconds_left=left, waits_for="writers"))
    lines = capsys.readouterr().err.splitlines()
    assert [lines[0], lines[2]] == [
        f"waiting at most {left} s for writers that may follow an earlier state of the registry"
        for left in (1260, 1200)
    ]
    assert lines[1].startswith("the table is older than its entry in the registry")
    assert len(lines) == 3
