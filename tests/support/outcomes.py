"""A pytest plugin that records the outcome of each test in a file, and a reader of that file.

Load the plugin with the options of `recorded_in`. Workers of pytest-xdist do not need them.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from attrs import asdict, frozen

ORDER = ("passed", "skipped", "failed")
"""The possible outcomes. If the setup, the call and the teardown of a test have different outcomes, the last one in
this order counts.
"""


@frozen
class Outcomes:
    """The record of a finished run.

    Attributes:
        exit_status: the exit status of pytest.
        collected: the number of collected tests.
        tests: the outcome of each test that ran, one of `ORDER`, by node id.
        uncollected: the node ids that could not be collected.
    """

    exit_status: int
    collected: int
    tests: dict[str, str]
    uncollected: list[str]

    @property
    def failed(self) -> list[str]:
        """The node ids of the failed tests, in the order in which they ran."""
        return [node_id for node_id, outcome in self.tests.items() if outcome == "failed"]

    @property
    def is_whole(self) -> bool:
        """Whether every test ran, and nothing but tests failed."""
        expected = pytest.ExitCode.TESTS_FAILED if self.failed else pytest.ExitCode.OK
        return self.exit_status == expected and not self.uncollected and len(self.tests) == self.collected


def recorded_in(record: Path) -> list[str]:
    """Returns the options of pytest that write a record."""
    return ["-p", __name__, f"--outcomes={record}"]


def outcomes_of(command: Sequence[str], record: Path) -> Outcomes | None:
    """Runs a command that runs pytest with these options.

    Returns:
        The record; None if pytest did not start or was killed, or if the command failed for another reason.
    """
    record.unlink(missing_ok=True)
    status = subprocess.run(command, check=False).returncode
    if not record.exists():
        return None
    outcomes = Outcomes(**json.loads(record.read_bytes()))
    return outcomes if bool(status) == bool(outcomes.exit_status) else None


class _Recorder:
    def __init__(self, record: Path) -> None:
        self._record = record
        self._tests: dict[str, str] = {}
        self._uncollected: list[str] = []

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._uncollected.append(report.nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        before = self._tests.get(report.nodeid, ORDER[0])
        self._tests[report.nodeid] = max(before, report.outcome, key=ORDER.index)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        outcomes = Outcomes(int(session.exitstatus), session.testscollected, self._tests, self._uncollected)
        self._record.parent.mkdir(parents=True, exist_ok=True)
        self._record.write_text(json.dumps(asdict(outcomes)))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--outcomes", metavar="FILE", help="write there what each test came to")


def pytest_configure(config: Any) -> None:
    # the reports of a worker are sent to the process that started it
    if config.option.outcomes and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Recorder(Path(config.option.outcomes).absolute()))
