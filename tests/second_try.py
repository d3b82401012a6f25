"""Runs a suite, then each test that failed once more, alone: `python -m tests.second_try FILE TARGET` runs
`make TARGET`, and adds to FILE the tests that pass then.

Further arguments go to make as well. The tests run alone in the Python that runs this module.

Some tests fail by chance on a busy machine. A test that passes alone does not fail the run, but it is named, so that it
is not considered sound. A run that broke in another way is not tried again, nor is a run with many failures. Exit
status 1 if anything fails.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from tests.support.outcomes import outcomes_of, recorded_in

MOST = 20
"""So many tests may fail by chance."""

RECORD = Path("build/outcomes.json")


def main() -> None:
    listed = Path(sys.argv[1])
    first = outcomes_of(["make", *sys.argv[2:], f"PYTEST_ARGS={shlex.join(recorded_in(RECORD))}"], RECORD)
    if first is None or not first.is_whole:
        sys.exit("The tests did not run to their end; there is no second try.")
    if len(first.failed) > MOST:
        sys.exit(f"{len(first.failed)} tests failed, too many for chance; there is no second try.")
    passed = [node_id for node_id in first.failed if passes_alone(node_id)]
    if passed:
        listed.parent.mkdir(parents=True, exist_ok=True)
        with listed.open("a", encoding="utf-8") as file:
            file.writelines(f"{node_id}\n" for node_id in passed)
    if failed := [node_id for node_id in first.failed if node_id not in passed]:
        sys.exit("\n".join(("failed alone too", *failed)))


def passes_alone(node_id: str) -> bool:
    """Runs a test in a separate process; returns whether it ran there and passed."""
    print(f"second try, alone: {node_id}", flush=True)
    second = outcomes_of([sys.executable, "-m", "pytest", "-n", "0", *recorded_in(RECORD), node_id], RECORD)
    return second is not None and second.is_whole and second.tests == {node_id: "passed"}


if __name__ == "__main__":
    main()
