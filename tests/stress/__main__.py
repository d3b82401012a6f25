"""`make test-stress`: runs tests several times beside busy processes, with the files in a random order, and counts the
failures.

Arguments of pytest follow after `--`. Each run has a seed, the next number after that of the run before; `--seed` with
the seed of a run that failed, and `--times 1`, takes its order again. Exit status 1 if a test failed in any run, or if
a run broke.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from tests.stress import file_order
from tests.stress.busy import busy_processes
from tests.support.outcomes import Outcomes, outcomes_of, recorded_in

RECORD = Path("build/stress.json")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.stress")
    parser.add_argument("--times", type=int, default=5, help="how many runs")
    parser.add_argument(
        "--busy", type=int, default=os.cpu_count() or 1, help="how many busy processes in all; by default one per core"
    )
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="of the first run")
    parser.add_argument("arguments", nargs="*", help="of pytest")
    chosen = parser.parse_args()
    runs: dict[int, Outcomes | None] = {}
    with busy_processes(chosen.busy):
        for seed in range(chosen.seed, chosen.seed + chosen.times):
            print(f"run {len(runs) + 1} of {chosen.times}, seed {seed}, busy processes: {chosen.busy}", flush=True)
            options = ["-p", file_order.__name__, f"--file-order={seed}", *recorded_in(RECORD)]
            runs[seed] = outcomes_of([sys.executable, "-m", "pytest", *options, *chosen.arguments], RECORD)
    wrong = failures(runs)
    print("\n".join(wrong or [f"nothing failed in {len(runs)} run(s)"]))
    sys.exit(1 if wrong else 0)


def failures(runs: Mapping[int, Outcomes | None]) -> list[str]:
    """A line for each run that broke, and for each test that failed, those that failed most often first; `runs` by
    seed.
    """
    broken = [seed for seed, outcomes in runs.items() if outcomes is None or not outcomes.is_whole]
    failed: dict[str, list[int]] = defaultdict(list)
    for seed, outcomes in runs.items():
        for node_id in outcomes.failed if outcomes else ():
            failed[node_id].append(seed)
    often_first = sorted(failed.items(), key=lambda test: (-len(test[1]), test[0]))
    return [f"did not run to its end: seed {seed}" for seed in broken] + [
        f"failed {len(seeds)} of {len(runs)} times: {node_id} (seeds {', '.join(map(str, seeds))})"
        for node_id, seeds in often_first
    ]


if __name__ == "__main__":
    main()
