"""Programs that move objects are killed: every object is found under one of its keys, or two, at any time; the next
call ends the move.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

import hbmodel as hb
from tests.faults.rekey_program import MODELS, OBJECTS, PLACES, Shelved, ShelvedBare, end_move, made
from tests.support.beds import HBASE

PROGRAMS = 2
LENGTHS = [pytest.param(4.0, id="short"), pytest.param(60.0, id="long", marks=pytest.mark.slow)]


@pytest.fixture(params=["file", HBASE[1]])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of a store that several programs can open."""
    if request.param == "file":
        return f"embedded:{tmp_path / 'shelves.db'}"
    return f"{request.getfixturevalue('hbmodel_hbase').thrift2_url}?table_prefix=r{uuid4().hex[:8]}"


def begin(url: str, number: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.faults.rekey_program", url, str(number), str(PROGRAMS)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def shelves(session: hb.Session, model: Any, number: int) -> list[Any]:
    """The copies of an object, in one page: each key is read once, while programs move the object."""
    return session.query(model).where(model.number == number).all()


def check_always(session: hb.Session, model: Any, number: int) -> int:
    """An object is never gone. One read, which is not a snapshot, may miss it if it moves to a shelf that was already
    read, but not repeatedly.
    """
    for _ in range(5):
        found = shelves(session, model, number)
        if found:
            assert len(found) <= 2
            assert all(getattr(one, "title", None) == getattr(made(model, number), "title", None) for one in found)
            return len(found)
    raise AssertionError(f"{model.__name__} {number} is under none of its keys")


def check_at_rest(session: hb.Session, model: Any, number: int) -> int:
    """The same check while no program runs, and by each index; the copies are equal except for their keys
    and versions.
    """
    found = shelves(session, model, number)
    assert len(found) in {1, 2}
    if model is Shelved:
        assert {one.views for one in found} == {number + 1}
    if model is not ShelvedBare:
        by_title = session.query(model).where(model.title == f"n{number}").all()
        assert {one.shelf for one in by_title} == {one.shelf for one in found}
    return len(found)


@pytest.mark.lengthy
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seconds", LENGTHS)
def test_programs_are_killed_while_they_move_objects(url: str, seconds: float) -> None:
    with hb.connect(url) as store:
        hb.create_tables(store, *MODELS)
        session, draw = hb.Session(store), random.Random()
        for model in MODELS:
            session.add_all(made(model, number) for number in range(OBJECTS))
        session.commit()
        for number in range(OBJECTS):
            session.increment(made(Shelved, number), Shelved.views, number + 1)
        programs = [begin(url, number) for number in range(PROGRAMS)]
        kills, seen = 0, Counter[int]()
        try:
            for program in programs:
                assert program.stdout is not None
                assert program.stdout.readline() == "moved\n"
            end = time.monotonic() + seconds
            while time.monotonic() < end or not kills:
                for model in MODELS:
                    seen[check_always(session, model, draw.randrange(OBJECTS))] += 1
                assert all(program.poll() is None for program in programs)
                if draw.random() < 0.3:
                    at = draw.randrange(PROGRAMS)
                    programs[at].kill()
                    programs[at].communicate()
                    programs[at] = begin(url, at)
                    kills += 1
        finally:
            for program in programs:
                program.kill()
                program.communicate()
        assert kills > 0
        left = Counter(check_at_rest(session, model, number) for model in MODELS for number in range(OBJECTS))
        print(f"{kills} kills; objects seen under one key or two: {dict(seen)}, and at the end {dict(left)}")
        for model in MODELS:
            for number in range(OBJECTS):
                if len(shelves(session, model, number)) == 2:
                    end_move(session, model, number)
                assert check_at_rest(session, model, number) == 1
                assert sum(session.get(model, number=number, shelf=shelf) is not None for shelf in range(PLACES)) == 1
