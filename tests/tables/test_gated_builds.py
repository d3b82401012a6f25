"""Index builds and drops if every write checks the registry inside its transaction: they never wait for writers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hbmodel as hb
from hbmodel.store.gate import gated
from hbmodel.tables.indexes import index_work
from tests.support.beds import fresh
from tests.support.faulty import Call, RecordingStore


def declare(*indexes: str, in_qualifier: bool = False, version: bool = False, unique: bool = False) -> Any:
    """A model with some of two indexes."""
    types: dict[str, Any] = {
        "group": hb.Key[str],
        "name": hb.Key[str],
        "rank": hb.Column[int],
        "note": hb.Column[str | None],
    }
    body: dict[str, Any] = {
        "group": hb.key(),
        "name": hb.key(in_qualifier=in_qualifier),
        "rank": hb.column("r", hb.codecs.UInt8),
        "note": hb.column("n", default=None),
    }
    if version:
        body["version"], types["version"] = hb.version(), hb.Column[int]
    if "by_rank" in indexes:
        body["by_rank"] = hb.index("rank", unique=unique)
    if "by_note" in indexes:
        body["by_note"] = hb.index("note")
    return hb.model(table="gated", family="d")(type("Thing", (), {**body, "__annotations__": types}))


KINDS: dict[str, dict[str, Any]] = {
    "last write wins": {},
    "versioned": {"version": True},
    "unique": {"version": True, "unique": True},
    "wide": {"in_qualifier": True},
    "wide, versioned": {"in_qualifier": True, "version": True},
}


@pytest.fixture(params=["memory", "file"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory:" if request.param == "memory" else f"embedded:{tmp_path / 'store.db'}"


@pytest.fixture
def store(url: str) -> Iterator[hb.Store]:
    with hb.connect(url) as opened:
        yield opened


def check_index(store: hb.Store, model: Any, names: list[str]) -> None:
    """The index shows these objects, and no row lacks its entry."""
    found = hb.Session(store).query(model).where(model.rank.in_(range(256))).use_index("by_rank").all()
    assert sorted(thing.name for thing in found) == names
    report = hb.indexes.verify_index(store, model, "by_rank")
    assert (report.missing, report.unclaimed or 0) == (0, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_an_index_beside_others_is_built_at_once(store: hb.Store, kind: str) -> None:
    """With the default times; sessions that know the table as it was keep the index from their next write on."""
    old, new = declare("by_note", **KINDS[kind]), declare("by_note", "by_rank", **KINDS[kind])
    hb.create_tables(store, old)
    sessions = [hb.Session(store) for _ in range(4)]
    for number, session in enumerate(sessions):
        session.add(old(group="g", name=f"{number}", rank=number))
        session.commit()
        # so that it knows the new model, without the index
        assert session.get(new, group="g", name=f"{number}") is not None
    hb.create_tables(store, new)
    seen: list[hb.indexes.IndexProgress] = []
    assert hb.indexes.build_index(store, new, "by_rank", progress=seen.append).readable
    assert "waiting" not in {progress.phase for progress in seen}
    put, updated, moved, deleted = sessions
    put.add(new(group="g", name="new", rank=100))
    put.commit()
    updated.update_key(new, group="g", name="1", rank=101)
    updated.commit()
    moved.rekey(moved.get(new, group="g", name="2"), name="moved")
    deleted.delete_key(new, group="g", name="3")
    deleted.commit()
    check_index(store, new, ["0", "1", "moved", "new"])
    put.add(old(group="g", name="x", rank=1))
    with pytest.raises((hb.errors.IndexUnavailable, hb.PartialWrite), match="does not declare"):
        put.commit()
    put.discard()


@pytest.mark.parametrize("kind", ["last write wins", "wide"])
def test_the_first_index_waits_for_nobody(monkeypatch: pytest.MonkeyPatch, store: hb.Store, kind: str) -> None:
    """With the default times, although sessions have read and written the table as one without an index, and go on."""
    old, new = declare(**KINDS[kind]), declare("by_rank", **KINDS[kind])
    hb.create_tables(store, old)
    with hb.Session(store) as session, hb.Session(store) as reader:
        session.add_all(old(group="g", name=f"{number:02}", rank=number) for number in range(100))
        session.commit()
        hb.create_tables(store, new)
        for model in (old, new):
            assert reader.query(model).where(model.group == "g").count() == 100

        def wait(seconds: float, whom: str) -> None:
            raise AssertionError(f"{seconds} s for {whom}")

        monkeypatch.setattr(index_work, "waiting", lambda _: wait)
        assert hb.indexes.build_index(store, new, "by_rank").readable
        session.add(new(group="g", name="new", rank=200))
        session.commit()
        session.delete_key(new, group="g", name="50")
        session.commit()
        left = [f"{number:02}" for number in range(100) if number != 50] + ["new"]
        for model in (old, new):
            assert [thing.name for thing in reader.query(model).where(model.group == "g")] == left
            assert reader.query(model).where(model.group == "g").count() == 100
            assert reader.get(model, group="g", name="50") is None
    check_index(store, new, left)


def test_an_index_is_dropped_once_no_reader_is_left(store: hb.Store) -> None:
    old, new = declare(), declare("by_rank")
    hb.create_tables(store, new)
    session = hb.Session(store, lease=0.2)
    session.add(new(group="g", name="a", rank=1))
    session.commit()
    seen: list[hb.indexes.IndexProgress] = []
    assert hb.indexes.drop_index(
        store, new, "by_rank", times=hb.indexes.IndexTimes(lease=0.2), progress=seen.append
    ) == ["gated.by_rank"]
    assert {(progress.phase, progress.waits_for) for progress in seen} == {("waiting", "readers")}
    assert max(progress.seconds_left or 0 for progress in seen) <= 0.201
    session.add(new(group="g", name="b", rank=2))
    session.commit()
    assert store.tables() == ["gated", "hbmodel"]
    assert [thing.name for thing in hb.Session(store).query(old).allow_full_scan()] == ["a", "b"]


class Late(RecordingStore):
    """The index is built when the first conditional change of a row is on its way, after its last look at the
    registry.
    """

    built = False

    def _do(self, call: Call, apply: Any) -> Any:
        if call.name.startswith("check_and_mutate") and call.table == "gated" and not self.built:
            self.built = True
            with gated(None):  # another program does it
                assert hb.indexes.build_index(
                    self.inner, declare("by_note", "by_rank", **KINDS["wide, versioned"]), "by_rank"
                ).readable
        return super()._do(call, apply)


@pytest.mark.parametrize("count", [1, 3])
def test_an_index_is_built_while_objects_of_one_row_are_on_their_way(store: hb.Store, count: int) -> None:
    old, new = declare("by_note", **KINDS["wide, versioned"]), declare("by_note", "by_rank", **KINDS["wide, versioned"])
    hb.create_tables(store, old)
    hb.create_tables(store, new)
    late = Late(store)
    with hb.Session(late) as session:
        session.add_all(new(group="g", name=f"{number}", rank=number) for number in range(count))
    assert late.built
    check_index(store, new, [f"{number}" for number in range(count)])


@pytest.mark.lengthy
def test_writers_of_other_stores_are_waited_for() -> None:
    old, new = declare("by_note"), declare("by_note", "by_rank")
    with fresh(old, gated=False) as store:
        session = hb.Session(store)
        session.add(old(group="g", name="a", rank=1))
        session.commit()
        hb.create_tables(store, new)
        seen: list[hb.indexes.IndexProgress] = []
        assert hb.indexes.build_index(
            store, new, "by_rank", times=hb.indexes.IndexTimes(lease=0.1, longest_call=0.2), progress=seen.append
        ).readable
        assert {progress.waits_for for progress in seen if progress.phase == "waiting"} == {"writers"}
        seen.clear()
        hb.indexes.drop_index(
            store, new, "by_rank", times=hb.indexes.IndexTimes(lease=0.1, longest_call=0.2), progress=seen.append
        )
        assert list(dict.fromkeys(progress.waits_for for progress in seen)) == ["readers", "writers"]


PROGRAM = """
import sys
import hbmodel as hb
from tests.tables.test_gated_builds import declare

model = declare("by_note", "by_rank")
with hb.connect(sys.argv[1]) as store:
    session = hb.Session(store)
    session.add(model(group="g", name="before", rank=1))
    session.commit()
    stands = session.get(model, group="g", name="before")
    session.add(model(group="g", name="after", rank=2))
    session.update(stands, rank=3)
    print("ready", flush=True)
    sys.stdin.readline()
    session.commit()
"""


@pytest.mark.lengthy
def test_a_program_that_stood_still_meanwhile_keeps_the_index(tmp_path: Path) -> None:
    url = f"embedded:{tmp_path / 'store.db'}"
    old, new = declare("by_note"), declare("by_note", "by_rank")
    with hb.connect(url) as store:
        hb.create_tables(store, old)
        hb.create_tables(store, new)
        command = [sys.executable, "-c", PROGRAM, url]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
            assert program.stdout is not None
            assert program.stdout.readline() == "ready\n"
            assert hb.indexes.build_index(store, new, "by_rank").readable
            program.communicate("go on\n")
        assert program.returncode == 0
        check_index(store, new, ["after", "before"])
        assert hb.Session(store).query(new).where(new.rank == 3).use_index("by_rank").one().name == "before"
