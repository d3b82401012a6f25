"""Programs that give ids are killed: a name never has two ids that were used, an id never two names, and none is
given twice.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from uuid import uuid4

import pytest

import hbmodel as hb
from tests.support.beds import ONE_GATEWAY, drop_left
from tests.support.names_writer import NUMBERS, WORDS

PROGRAMS = 4
LENGTHS = [pytest.param(1.5, id="short"), pytest.param(60.0, id="long", marks=pytest.mark.slow)]


@pytest.fixture(params=["file", *ONE_GATEWAY])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of a store that several programs can open."""
    if request.param == "file":
        return f"embedded:{tmp_path / 'ids.db'}"
    hbase = request.getfixturevalue("hbmodel_hbase")
    gateway = hbase.url if request.param == "thrift1" else hbase.thrift2_url
    return f"{gateway}?table_prefix=i{uuid4().hex[:8]}"


def begin(url: str, output: Path) -> subprocess.Popen[bytes]:
    with output.open("ab") as file:
        return subprocess.Popen([sys.executable, "-m", "tests.support.names_writer", url, output.stem], stdout=file)


@pytest.mark.lengthy
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seconds", LENGTHS)
def test_programs_are_killed_while_they_give_ids(url: str, seconds: float, tmp_path: Path) -> None:
    with hb.connect(url) as store:
        hb.create_tables(store, WORDS, NUMBERS)
        outputs = [tmp_path / f"{number}.txt" for number in range(PROGRAMS)]
        programs = [begin(url, output) for output in outputs]
        kills = 0
        try:
            while not all(output.stat().st_size for output in outputs):
                time.sleep(0.05)
            end = time.monotonic() + seconds
            while time.monotonic() < end or kills < 3:
                time.sleep(0.3)
                assert all(program.poll() is None for program in programs)
                at = random.randrange(PROGRAMS)
                programs[at].kill()
                programs[at].communicate()
                outputs.append(tmp_path / f"{PROGRAMS + kills}.txt")
                programs[at] = begin(url, outputs[-1])
                kills += 1
        finally:
            for program in programs:
                program.kill()
                program.communicate()
        lines = [line.split() for output in outputs for line in output.read_text().split("\n")[:-1]]
        taken = Counter(int(number) for name, number in lines if name == "-")
        assert taken
        assert max(taken.values()) == 1, "an id of the sequence was given twice"
        used = {(name, int(number)) for name, number in lines if name != "-"}
        ids = dict(used)
        assert len(ids) == len(used), "a name has two ids"
        assert len(set(ids.values())) == len(ids), "an id has two names"
        names = hb.ids.Names(store)
        assert names.find(WORDS, ids) == ids
        assert [names.name_of(WORDS, number) for number in ids.values()] == list(ids)
        print(
            f"{kills} kills, {len(ids)} names, greatest id {max(ids.values())}, {len(taken)} ids of the sequence "
            f"up to {max(taken)}"
        )
        assert kills
        if not url.startswith("embedded:"):
            drop_left(store)
