"""Programs prepend rows to one prefix, and one of them is killed: no key is given twice, no row is lost, and
there is no other gap.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from uuid import uuid4

import pytest

import hbmodel as hb
from tests.faults.prepender import STACK, Entry
from tests.support.beds import ONE_GATEWAY, drop_left

PROGRAMS = 4
COUNTS = [pytest.param(8, id="few"), pytest.param(1_000, id="many", marks=pytest.mark.slow)]


@pytest.fixture(params=["file", *ONE_GATEWAY])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of a store that several programs can open."""
    if request.param == "file":
        return f"embedded:{tmp_path / 'stacked.db'}"
    hbase = request.getfixturevalue("hbmodel_hbase")
    gateway = hbase.url if request.param == "thrift1" else hbase.thrift2_url
    return f"{gateway}?table_prefix=p{uuid4().hex[:8]}"


class Program:
    """One of the programs; the rows that it was acknowledged, by the number of the call.

    Args:
        url: of the store.
        number: of the program.
        count: rows that it prepends.
        last: after how many of them it is killed, or None.
    """

    def __init__(self, url: str, number: int, count: int, last: int | None) -> None:
        arguments = [sys.executable, "-m", "tests.faults.prepender", url, f"{number}", f"{count}"]
        self.process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.got: dict[int, int] = {}
        self._last = last
        self._thread = threading.Thread(target=self._read)

    def begin(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"
        self._thread.start()

    def go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            call, number = map(int, line.split())
            self.got[call] = number
            if call + 1 == self._last:
                self.process.kill()

    def end(self) -> int:
        """Waits for the program; how it ended."""
        self._thread.join()
        return self.process.wait()


@pytest.mark.lengthy
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("count", COUNTS)
def test_programs_prepend_rows_and_one_is_killed(url: str, count: int) -> None:
    with hb.connect(url) as store:
        hb.create_tables(store, Entry)
        programs = [Program(url, number, count, count // 2 if number == 0 else None) for number in range(PROGRAMS)]
        try:
            for program in programs:
                program.begin()
            for program in programs:
                program.go()
            assert [program.end() for program in programs] == [-9] + [0] * (PROGRAMS - 1)
        finally:
            for program in programs:
                program.process.kill()
                program.process.communicate()
        found = {
            entry.number: (entry.program, entry.call)
            for entry in hb.Session(store).query(Entry).where(Entry.stack == STACK)
        }
        told = {number: (at, call) for at, program in enumerate(programs) for call, number in program.got.items()}
        assert sum(len(program.got) for program in programs) == len(told) >= count * (PROGRAMS - 1) + count // 2
        assert told.items() <= found.items()  # none is lost, and none is another's
        assert len(set(found.values())) == len(found)  # none is there twice
        assert {found[number][0] for number in found.keys() - told.keys()} <= {0}  # the last of the one that was killed
        gaps = max(found) + 1 - len(found)
        assert gaps <= 1, sorted(found)
        for program in programs:
            assert list(program.got.values()) == sorted(program.got.values())
        print(f"{len(found)} rows, {gaps} gaps")
        if not url.startswith("embedded:"):
            drop_left(store)
