"""Programs that write several objects of one row in each commit are killed: every reader sees a commit as a whole or
not at all.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

import hbmodel as hb
from tests.faults.wide_writer import ROWS, Owner, Part, Versioned
from tests.support.beds import ONE_GATEWAY, drop_left

PROGRAMS = 4
LENGTHS = [pytest.param(2.0, id="short"), pytest.param(60.0, id="long", marks=pytest.mark.slow)]


@pytest.fixture(params=["file", *ONE_GATEWAY])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of a store that several programs can open."""
    if request.param == "file":
        return f"embedded:{tmp_path / 'wide.db'}"
    hbase = request.getfixturevalue("hbmodel_hbase")
    gateway = hbase.url if request.param == "thrift1" else hbase.thrift2_url
    return f"{gateway}?table_prefix=k{uuid4().hex[:8]}"


def begin(url: str, seed: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.faults.wide_writer", url, str(seed)], stdout=subprocess.PIPE, text=True
    )


def check(session: hb.Session, model: Any, owner: str) -> int:
    """Reads one row, whose objects are few enough for one call, and returns how many there are."""
    found = session.query(model).where(model.owner == owner).all()
    stamps = {part.stamp for part in found}
    assert len(stamps) <= 1, found
    assert all(part.parts == len(found) for part in found), found
    if model is Part and found:
        row = session.get(Owner, owner=owner)
        assert row is not None
    return len(found)


@pytest.mark.lengthy
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seconds", LENGTHS)
def test_programs_are_killed_while_they_write_rows(url: str, seconds: float) -> None:
    with hb.connect(url) as store:
        hb.create_tables(store, Owner, Part, Versioned)
        session, draw = hb.Session(store), random.Random()
        programs = [begin(url, number) for number in range(PROGRAMS)]
        kills, read = 0, 0
        try:
            for program in programs:  # each has committed once
                assert program.stdout is not None
                assert program.stdout.readline() == "done\n"
            end = time.monotonic() + seconds
            while time.monotonic() < end or not kills:
                for owner in (f"row{number}" for number in range(ROWS)):
                    read += check(session, Part, owner)
                    if store.capabilities.check_and_mutate:
                        read += check(session, Versioned, owner)
                assert all(program.poll() is None for program in programs)
                if draw.random() < 0.2:
                    at = draw.randrange(PROGRAMS)
                    programs[at].kill()
                    programs[at].communicate()
                    programs[at] = begin(url, draw.getrandbits(30))
                    kills += 1
        finally:
            for program in programs:
                program.kill()
                program.communicate()
        assert read > 0
        assert kills > 0
        print(f"{kills} kills, {read} objects read")
        for owner in (f"row{number}" for number in range(ROWS)):
            check(session, Part, owner)
        if not url.startswith("embedded:"):
            drop_left(store)
