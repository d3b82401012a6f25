"""`make test-stress` runs tests several times while other processes keep the machine busy, in random orders, and counts
how often each fails; `make test-machines` runs them as on other machines.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

import hbmodel as hb
from hbmodel.protocol.corrected_clock import ServerClock, SharedOffset, wall_time
from hbmodel.store import Family
from tests.stress import machines
from tests.stress.__main__ import failures
from tests.stress.file_order import pytest_collection_modifyitems
from tests.support.outcomes import Outcomes

ROOT = Path(__file__).parents[2]


def outcomes(status: int = 0, **tests: str) -> Outcomes:
    return Outcomes(exit_status=status, collected=2, tests={"sound": "passed", **tests}, uncollected=[])


def test_failures_are_counted_over_the_runs() -> None:
    runs = {
        7: outcomes(1, a="failed", b="failed"),
        8: outcomes(a="passed", b="skipped"),
        9: outcomes(1, a="passed", b="failed"),
    }
    whole = {seed: Outcomes(run.exit_status, len(run.tests), run.tests, []) for seed, run in runs.items()}
    assert failures(whole) == ["failed 2 of 3 times: b (seeds 7, 9)", "failed 1 of 3 times: a (seeds 7)"]


def test_a_run_that_broke_is_a_failure() -> None:
    assert failures({1: outcomes(a="passed")}) == []
    broken = {1: None, 2: outcomes(2, a="failed"), 3: outcomes(1), 4: Outcomes(5, 0, {}, [])}
    assert failures(broken) == [
        *(f"did not run to its end: seed {seed}" for seed in broken),
        "failed 1 of 4 times: a (seeds 2)",
    ]


def ordered(seed: int | None, items: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Files, and the numbers of tests in them, as they are put in order."""
    found: list[Any] = [SimpleNamespace(path=Path(file), number=number) for file, number in items]
    config: Any = SimpleNamespace(option=SimpleNamespace(file_order=seed))
    pytest_collection_modifyitems(config, found)
    return [(str(item.path), item.number) for item in found]


def test_files_are_in_a_random_order_that_a_seed_decides() -> None:
    items = [(file, number) for file in "abcde" for number in range(3)]
    orders = {seed: ordered(seed, items) for seed in range(20)}
    assert len({tuple(order) for order in orders.values()}) > 10
    for seed, order in orders.items():
        files = [file for file, _ in order[::3]]
        assert order == [(file, number) for file in files for number in range(3)]
        other_way = [(file, number) for file in random.sample("abcde", 5) for number in range(3)]
        assert ordered(seed, other_way) == order
    assert ordered(None, items) == items


CHECKS = """
from pathlib import Path

def test_first():
    with Path("order").open("a") as order:
        order.write(Path(__file__).stem[-1])

def test_second():
    assert Path(__file__).stem != "test_c" or len(Path("order").read_text()) > 5
"""


def stressed(directory: Path, *options: str) -> subprocess.CompletedProcess[str]:
    outer = ("PYTEST_", "MAKE", "MFLAGS")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(outer)}
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.stress",
            *options,
            "--",
            "-p",
            "xdist",
            "-n",
            "1",
            "--dist",
            "loadfile",
            "--no-loadscope-reorder",
        ],
        cwd=directory,
        env={**inherited, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.lengthy
def test_a_test_that_fails_in_one_run_is_named_with_its_seed(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").touch()
    for name in "abcde":
        (tmp_path / f"test_{name}.py").write_text(CHECKS)
    found = stressed(tmp_path, "--times", "2", "--busy", "1", "--seed", "3")
    assert found.returncode == 1, found.stderr
    assert [line for line in found.stdout.splitlines() if line.startswith("run ")] == [
        "run 1 of 2, seed 3, busy processes: 1",
        "run 2 of 2, seed 4, busy processes: 1",
    ]
    assert found.stdout.splitlines()[-1] == "failed 1 of 2 times: test_c.py::test_second (seeds 3)"
    again = stressed(tmp_path, "--times", "1", "--busy", "0", "--seed", "3")
    assert again.returncode == 0, again.stdout
    assert again.stdout.splitlines()[-1] == "nothing failed in 1 run(s)"
    order = (tmp_path / "order").read_text()
    first, second, third = order[:5], order[5:10], order[10:]
    assert first == third != second
    assert sorted(first) == sorted(second) == list("abcde")


PARENT = """
import sys
from tests.stress.busy import busy_processes
with busy_processes(2):
    print("begun", flush=True)
    sys.stdin.read()
"""


@pytest.mark.lengthy
@pytest.mark.parametrize("killed", [True, False])
def test_busy_processes_end_with_the_one_that_started_them(killed: bool) -> None:
    command = [sys.executable, "-c", PARENT]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        started = psutil.Process(process.pid).children()
        assert len(started) == 2
        while any(child.cpu_times().user < 0.1 for child in started):
            time.sleep(0.01)
        if killed:
            process.kill()
        process.stdin.close()
        assert process.stdout.read() == b""  # which returns when the last process that has this pipe has ended
    assert (process.returncode == 0) != killed


def test_a_slow_disk_makes_some_calls_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(machines, "_sleep", waits.append)
    machines.slow_disk(monkeypatch)
    with hb.connect("memory:") as store:
        store.create_table("t", [Family(b"d")])
        for _ in range(100):
            assert store.get("t", [b"r"]) == [None]
    assert 20 < len(waits) < 180
    assert max(waits) == 0.06
    assert min(waits) < 0.003


def test_clocks_apart_are_those_of_the_machine_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    machines.clocks_apart(monkeypatch)
    for shared, offset in [(SharedOffset(), machines.AHEAD), (SharedOffset(lambda: 5), 0)]:
        shared.hear(5, 5, 5)
        ServerClock(wall_time, lambda: True, shared=shared).now()
        assert shared.latest is not None
        assert shared.latest.value == offset
