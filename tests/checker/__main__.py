"""Runs every sweep, every sample and every mutant of the model checker to the end, on two processes: `make
check-protocol`.

Where a sweep has more than one combination of clocks, its configurations have them in turn, see `clocks`; with
EVERY_CLOCK=1 each has every one, which takes about a day.

Prints for each what it was, configurations, states and seconds; exits with 1 if any of them has found a violation, or
if a mutant was not found. With a text as argument, those alone whose names have it. A run that was stopped continues
where it was, if the code is still the same: `finished` knows what has passed. A whole run without errors records the
code that it has judged, see `checked_code`.
"""

from __future__ import annotations

import gc
import resource
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Literal

from attrs import frozen

from tests.checker.broken_rules import BROKEN
from tests.checker.checked_code import fingerprint, record
from tests.checker.finished import FILE, FinishedTasks, Result
from tests.checker.protocol_sweeps import Found, sweep
from tests.checker.sample_sweeps import SAMPLES
from tests.checker.whole_sweeps import EVERY_CLOCK, WHOLE, Sweep
from tests.checker.workers import each_in_a_process

PROCESSES = 2

KINDS = {"sweep": WHOLE, "sample": SAMPLES}


@frozen
class Task:
    """One task, which runs in its own process, so that its memory is released afterwards.

    Attributes:
        kind: what is run.
        name: of the sweep, the sample or the mutant.
    """

    kind: Literal["sweep", "sample", "mutant", "shipped"]
    name: str

    def run(self) -> tuple[Task, Found, float, int]:
        """The result, with the processor seconds and the kibibytes that the task took."""
        gc.set_threshold(1_000_000, 50, 1000)  # nearly all that is made is kept
        begun = time.process_time()
        found = sweep(self._sweep()())
        return self, found, time.process_time() - begun, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def _sweep(self) -> Sweep:
        if self.kind in KINDS:
            return KINDS[self.kind][self.name]
        broken = BROKEN[self.name]
        return broken.mutant if self.kind == "mutant" else broken.shipped

    def wrong(self, found: Found) -> str | None:
        """The problem in the result, if any."""
        if self.kind != "mutant":
            return None if found.error is None else str(found)
        if found.error is None:
            return "the checker does not notice it"
        return None if found.error.startswith(BROKEN[self.name].violation) else str(found)


def tasks(text: str) -> Iterator[Task]:
    """Everything that is to be run, whole sweeps first."""
    yield from (Task("sweep", name) for name in WHOLE if text in name)
    yield from (Task("sample", name) for name in SAMPLES if text in name)
    yield from (Task(kind, name) for name in BROKEN if text in name for kind in ("mutant", "shipped"))


def main(text: str = "") -> int:
    """Runs everything whose name has the text."""
    begun = time.monotonic()
    judged = fingerprint()
    finished = FinishedTasks(f"every {judged}" if EVERY_CLOCK else judged)
    results: dict[Task, Result] = {}
    left: list[Task] = []
    for task in tasks(text):
        known = finished.result(task.kind, task.name)
        if known is None:
            left.append(task)
        else:
            results[task] = known
    if results:
        print(f"{len(results)} of {len(results) + len(left)} have passed in an earlier run; delete {FILE} to run all")
    wrong: list[str] = []
    for task, found, seconds, memory in each_in_a_process(Task.run, left, PROCESSES):
        result = results[task] = Result(found.models, found.states, seconds, memory)
        error = task.wrong(found) if found.models else "no configuration"
        if error is None:
            finished.add(task.kind, task.name, result)
        else:
            wrong.append(f"{task.kind} {task.name}: {error}")
            print("WRONG", wrong[-1], flush=True)
        print(
            f"{task.kind:7} {task.name}: {found.models} configurations, {found.states} states, {seconds:.0f} s",
            flush=True,
        )
    for line in summary(results, len(wrong)):
        print(line)
    spent = sum(result.seconds for result in results.values())
    most = max((result.memory for result in results.values()), default=0)
    print(
        f"{time.monotonic() - begun:.0f} seconds; {spent:.0f} of a processor in all; at most {most / 1024:.0f} MiB in "
        "each process"
    )
    if wrong or not results:
        return 1
    if not text and fingerprint() == judged:
        record(judged)
    return 0


def summary(results: Mapping[Task, Result], wrong: int) -> Iterator[str]:
    """The sums of each kind."""
    for kind in ("sweep", "sample", "shipped"):
        found = [result for task, result in results.items() if task.kind == kind]
        models, states = sum(result.models for result in found), sum(result.states for result in found)
        what = {"sweep": "whole sweeps", "sample": "samples", "shipped": "sweeps of shipped code beside mutants"}[kind]
        yield f"{len(found)} {what}, {models} configurations, {states} states"
    yield f"{sum(task.kind == 'mutant' for task in results)} mutants, {wrong} unexpected results"


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
