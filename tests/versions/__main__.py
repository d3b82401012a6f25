"""`make test-versions`: runs the tests of a real HBase on each version that can be started.

If nothing fails on a version, the numbers of tests that passed go into the tables of the README and the docs. Exit
status 1 if a test failed on any version, or if a run broke.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from hbmodel.localhbase import VERSIONS
from tests.support.outcomes import outcomes_of, recorded_in
from tests.versions.works_with import AREAS, passed_of, record

BUILD = Path("build/versions")
SUITE = ["-n", "3", "--dist", "loadfile", "--no-loadscope-reorder", "-m", "hbase and not slow"]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.versions")
    parser.add_argument("--version", action="append", choices=VERSIONS, help="only this one; may be repeated")
    parser.add_argument("--oldest", dest="version", action="append_const", const=VERSIONS[0], help="only the oldest")
    parser.add_argument("arguments", nargs="*", help="of pytest")
    chosen = parser.parse_args()
    wrong = []
    for version in chosen.version or VERSIONS:
        print(f"HBase {version}", flush=True)
        os.environ.update(HBMODEL_TEST_HBASE_VERSION=version, HBMODEL_REQUIRE_HBASE="1")
        path = BUILD / f"{version}.json"
        folders = [folder for area in AREAS.values() for folder in area]
        command = [sys.executable, "-m", "pytest", *recorded_in(path), *SUITE, *folders, *chosen.arguments]
        outcomes = outcomes_of(command, path)
        if outcomes is None or not outcomes.is_whole:
            wrong.append(f"{version}: did not run to its end")
        elif outcomes.failed:
            wrong += [f"{version}: failed: {node_id}" for node_id in outcomes.failed]
        elif not chosen.arguments:
            record(version, passed_of(outcomes))
    print("\n".join(wrong or ["nothing failed"]))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
