"""`make test-versions`: runs the tests of a real HBase on each version that can be started.

A test that failed is run once more, alone, and named if it passes then. If nothing else fails on a version, the numbers
of tests that passed go into the tables of the README and the docs. Exit status 1 if a test failed on any version, or if
a run broke. With `--last-failed`, only what failed in the last run of a version is run, and the rest counts as it was.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from attrs import asdict, evolve

from hbmodel.localhbase import VERSIONS
from tests.second_try import MOST, passes_alone
from tests.support.outcomes import Outcomes, outcomes_of, recorded_in
from tests.versions.works_with import AREAS, passed_of, record

BUILD = Path("build/versions")
SUITE = ["-n", "3", "--dist", "loadfile", "--no-loadscope-reorder", "-m", "hbase and not slow"]


def whole_run(path: Path, arguments: Sequence[str]) -> Outcomes | None:
    """Runs everything on the version that the environment names."""
    folders = [folder for area in AREAS.values() for folder in area]
    return outcomes_of([sys.executable, "-m", "pytest", *recorded_in(path), *SUITE, *folders, *arguments], path)


def last_run(path: Path) -> Outcomes | None:
    """The results of an earlier run; None if there was none."""
    return Outcomes(**json.loads(path.read_bytes())) if path.exists() else None


def tried_again(outcomes: Outcomes, path: Path) -> Outcomes:
    """The outcomes after a second try of what failed, each test alone; recorded, if any of them passes then."""
    if len(outcomes.failed) > MOST:
        return outcomes
    passed = {node_id: "passed" for node_id in outcomes.failed if passes_alone(node_id)}
    for node_id in passed:
        print(f"passed only alone: {node_id}", flush=True)
    status = outcomes.exit_status if len(passed) < len(outcomes.failed) else 0
    after = evolve(outcomes, exit_status=status, tests={**outcomes.tests, **passed})
    path.write_text(json.dumps(asdict(after)), encoding="utf-8")
    return after


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.versions")
    parser.add_argument("--version", action="append", choices=VERSIONS, help="only this one; may be repeated")
    parser.add_argument("--oldest", dest="version", action="append_const", const=VERSIONS[0], help="only the oldest")
    parser.add_argument("--last-failed", action="store_true", help="only what failed in the last run of each version")
    parser.add_argument("arguments", nargs="*", help="of pytest")
    chosen = parser.parse_args()
    wrong = []
    for version in chosen.version or VERSIONS:
        print(f"HBase {version}", flush=True)
        os.environ.update(HBMODEL_TEST_HBASE_VERSION=version, HBMODEL_REQUIRE_HBASE="1")
        path = BUILD / f"{version}.json"
        outcomes = last_run(path) if chosen.last_failed else whole_run(path, chosen.arguments)
        if outcomes is None or not outcomes.is_whole:
            wrong.append(f"{version}: did not run to its end")
            continue
        outcomes = tried_again(outcomes, path)
        if outcomes.failed:
            wrong += [f"{version}: failed: {node_id}" for node_id in outcomes.failed]
        elif not chosen.arguments:
            record(version, passed_of(outcomes))
    print("\n".join(wrong or ["nothing failed"]))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
