"""Each committed value of a column that keeps versions is a version of its own, in order, no matter how quickly commits
follow each other.
"""

from __future__ import annotations

from typing import Any

import pytest

import hbmodel as hb
from hbmodel.session import bindings
from tests.session.test_cell_versions import KEPT, MODELS, Flagged, Plain, Two, Versioned, Wide
from tests.support.beds import Bed, fresh

KEY = {"group": 0, "number": 0}
WRITES = 20


@hb.model(table="kept_counted", family="d")
class Counted:
    group: hb.Key[int] = hb.key(hb.codecs.UInt8)
    number: hb.Key[int] = hb.key(hb.codecs.UInt8)
    name: hb.Column[str] = hb.column("n", versions=KEPT)
    visits: hb.Column[int] = hb.counter("v")


@hb.model(table="kept_one", family="d")
class One:
    """Keeps the newest version only."""

    group: hb.Key[int] = hb.key(hb.codecs.UInt8)
    number: hb.Key[int] = hb.key(hb.codecs.UInt8)
    name: hb.Column[str] = hb.column("n")


@hb.model(table="kept_by_family", family=hb.family("d", max_versions=KEPT))
class ByFamily:
    group: hb.Key[int] = hb.key(hb.codecs.UInt8)
    number: hb.Key[int] = hb.key(hb.codecs.UInt8)
    name: hb.Column[str] = hb.column("n")


def values(session: hb.Session, model: Any, name: str = "name") -> list[Any]:
    """The versions of a column, oldest first."""
    found = session.versions(model, getattr(model, name), **KEY)
    assert len({version.time for version in found}) == len(found)
    return [version.value for version in reversed(found)]


def write(session: hb.Session, model: Any, texts: list[str]) -> None:
    """A commit for each text: puts and updates by turns."""
    for place, text in enumerate(texts):
        if place % 2:
            session.update_key(model, **KEY, name=text)
        else:
            session.add(model(**KEY, name=text))
        session.commit()


TEXTS = [f"{number}" for number in range(WRITES)]


@pytest.mark.parametrize("model", [Plain, Wide])
def test_commits_that_follow_each_other_at_once(bed: Bed, model: Any) -> None:
    session = bed.use(model)
    write(session, model, TEXTS)
    assert values(session, model) == TEXTS


@pytest.mark.parametrize("model", [each for each in (*MODELS, ByFamily) if each is not Flagged])
def test_commits_of_every_model(model: Any) -> None:
    session = hb.Session(fresh(model))
    write(session, model, TEXTS)
    assert values(session, model) == TEXTS


def test_updates_of_a_versioned_model() -> None:
    session = hb.Session(fresh(Versioned))
    obj = Versioned(**KEY, name="first")
    session.insert(obj)
    for text in TEXTS:
        session.update_key(Versioned, **KEY, name=text)
        session.commit()
    assert values(session, Versioned) == ["first", *TEXTS]


def test_writes_of_one_commit(bed: Bed) -> None:
    """Updates of one object in one commit follow each other; of several puts, only the last one is sent."""
    session = bed.use(Two)
    session.add(Two(**KEY, name="dropped", amount=0))
    session.add(Two(**KEY, name="put", amount=1))
    for number in range(2, 5):
        session.update_key(Two, **KEY, name=f"{number}", amount=number)
    session.commit()
    assert values(session, Two) == ["put", "2", "3", "4"]
    assert values(session, Two, "amount") == [1, 2, 3, 4]


def test_sessions_by_turns(bed: Bed) -> None:
    """A commit that begins after another one has ended has a later time, even from another program."""
    first = bed.use(Plain)
    second = hb.Session(bed.store)
    for place, text in enumerate(TEXTS):
        session = (first, second)[place % 2]
        session.add(Plain(**KEY, name=text))
        session.commit()
    assert values(first, Plain) == TEXTS


def test_an_insert_and_a_load(atomic_bed: Bed) -> None:
    session = atomic_bed.use(Flagged)
    inserted = session.insert(Flagged(**KEY, amount=1))
    assert session.bulk_add([Flagged(**KEY, amount=2)]) == 1
    session.update(inserted, amount=3)
    session.commit()
    assert values(session, Flagged, "amount") == [1, 2, 3]


@pytest.mark.parametrize("model", [Plain, Two, ByFamily, Counted])
def test_a_store_whose_puts_may_share_a_time_is_given_time(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks: list[None] = []
    monkeypatch.setattr(bindings, "let_tick_pass", lambda: ticks.append(None))
    session = hb.Session(fresh(model, apart=False))
    session.add(model(**KEY, name="x"))
    assert ticks == []
    session.commit()
    session.bulk_add([model(**KEY, name="y")])
    assert len(ticks) == 2
    if model is Counted:
        session.increment(model(**KEY, name=""), Counted.visits)
        assert len(ticks) == 2
    session.get(model, **KEY)
    session.commit()
    assert len(ticks) == 2


@pytest.mark.parametrize(("model", "apart"), [(One, False), (Versioned, False), (Plain, True)])
def test_others_are_not_waited_for(model: Any, apart: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks: list[None] = []
    monkeypatch.setattr(bindings, "let_tick_pass", lambda: ticks.append(None))
    session = hb.Session(fresh(model, apart=apart))
    write(session, model, TEXTS[:4])
    assert ticks == []
