"""Versions that are raised without a change of any column: verified entries have the new version, or are no longer
verified.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hbmodel as hb
from hbmodel.protocol.versioned.unique_values import CLAIMED, claim_of
from hbmodel.protocol.writes import put_object
from hbmodel.store import Put
from tests.support.beds import HBASE, drop_left
from tests.support.faulty import Call, RecordingStore

TIMES = hb.indexes.IndexTimes(lease=0.2, longest_call=0.1, grace=1.3, clock_bound=0.25)


@pytest.fixture(params=["memory", "file", HBASE[1]])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[hb.Store]:
    kind = request.param
    if kind.startswith("thrift"):
        url = f"{request.getfixturevalue('hbmodel_hbase').thrift2_url}?table_prefix=answers"
    else:
        url = "memory:" if kind == "memory" else f"embedded:{tmp_path / 'store.db'}"
    with hb.connect(url) as made:
        if not made.capabilities.check_and_mutate:
            pytest.fail("the second gateway has it")
        yield made
        drop_left(made)


def declare(table: str, *, maps: bool = False, unique: bool = False) -> Any:
    """A versioned model with an index that has every column."""
    types: dict[str, Any] = {
        "k": hb.Key[str],
        "x": hb.Column[str],
        "y": hb.Column[str | None],
        "version": hb.Column[int],
    }
    body: dict[str, Any] = {
        "k": hb.key(),
        "x": hb.column("x"),
        "y": hb.column("y", default=None),
        "version": hb.version(),
        "by_x": hb.index("x", covers=("y",)),
    }
    if maps:
        types["m"], body["m"] = hb.Map[str, int], hb.map_column("m", factory=dict)
    if unique:
        body["by_y"] = hb.index("y", unique=True)
    return hb.model(table=table, family="d")(type("Thing", (), {**body, "__annotations__": types}))


def check(store: hb.Store, model: Any, version: int | None = None, *, key: str = "k") -> None:
    """The query that the entries answer shows the version of the row, and what it returns can be written."""
    session = hb.Session(store)
    query = session.query(model).where(model.x == "a").use_index("by_x")
    (stands,) = (one for one in session.get_many(model, [(key,)]) if one is not None)
    assert version is None or stands.version > version
    assert query.explain().covering == "verified"
    assert query.one().version == stands.version
    assert query.select(model.version).one() == (stands.version,)
    session.update(query.one(), y="new")
    assert session.commit()[0].action == "put"


class Died(Exception):
    """Ends a program in the middle of a call."""


class Dying(RecordingStore):
    """Ends the program after its first conditional change of a row."""

    def _do(self, call: Call, apply: Any) -> Any:
        done = super()._do(call, apply)
        if call.name.startswith("check_and_mutate"):
            raise Died
        return done


def test_entries_of_a_map_column(store: hb.Store) -> None:
    model = declare("of_maps", maps=True)
    hb.create_tables(store, model)
    session = hb.Session(store)
    session.add(model(k="k", x="a"))
    session.commit()
    session.put_entries(session.get(model, k="k"), model.m, {"z": 5})
    session.commit()
    check(store, model)
    session.remove_entries(session.get(model, k="k"), model.m, ["z"])
    session.commit()
    check(store, model)


def test_a_move_to_another_key_that_is_refused(store: hb.Store) -> None:
    model = declare("of_moves")
    hb.create_tables(store, model)
    session = hb.Session(store)
    session.add_all([model(k="k", x="a"), model(k="taken", x="b")])
    session.commit()
    before = session.get(model, k="k")

    with pytest.raises(hb.RowExists):
        session.rekey(before, k="taken")
    check(store, model)


def test_a_mark_of_a_move_that_died_and_is_taken_away(store: hb.Store) -> None:
    """Between the two a repair verifies the entry as the row is then."""
    model = declare("of_marks")
    hb.create_tables(store, model)
    session = hb.Session(store)
    session.add(model(k="k", x="a"))
    session.commit()
    version = session.get(model, k="k").version

    dying = hb.Session(Dying(store))
    with pytest.raises(Died):
        dying.rekey(dying.get(model, k="k"), k="taken")
    session.insert(model(k="taken", x="b"))
    marked = session.get(model, k="k").version
    assert marked > version
    assert session.query(model).where(model.x == "a").one().version == marked
    with pytest.raises(hb.RowExists):
        session.rekey(session.get(model, k="k"), k="taken")
    check(store, model, marked)


@pytest.mark.lengthy
def test_fences_of_a_unique_value_whose_index_is_dropped_later(store: hb.Store) -> None:
    model, later = declare("of_fences", unique=True), declare("of_fences")
    hb.create_tables(store, model)
    session = hb.Session(store)
    session.add(model(k="k", x="a", y="mine"))
    session.commit()
    version = session.get(model, k="k").version
    schema = hb.schema.schema_of(model)
    (index,) = (index for index in schema.indexes.values() if index.unique)
    (entry,) = put_object(schema, model(k="k", x="a", y="left")).entries["by_y"]
    claim = claim_of(index, entry)
    assert claim is not None
    store.put(
        index.table, [Put(claim.key, {schema.claim_column: CLAIMED + bytes(8) + hb.row_key(model, k="k")}, timestamp=1)]
    )
    session.add(model(k="other", x="b", y="left"))  # takes the value over from a writer that crashed
    session.commit()
    hb.indexes.drop_index(store, model, "by_y", times=TIMES)
    check(store, later, version)


@pytest.mark.lengthy
def test_a_unique_index_that_is_built_and_repaired_beside_one_whose_entries_answer(store: hb.Store) -> None:
    """Its sweeps read the columns of the unique index alone; a fence of the repair has the other entries answer for
    the new version.
    """
    later, model = declare("of_builds"), declare("of_builds", unique=True)
    hb.create_tables(store, later)
    with hb.Session(store, lease=0.2) as session:
        session.add_all([later(k="k", x="a", y="same"), later(k="l", x="b", y="same"), later(k="m", x="b", y="own")])
    hb.create_tables(store, model)
    assert hb.indexes.build_index(store, model, "by_y", times=TIMES).duplicates == 1
    with hb.Session(store, lease=0.2) as session:
        session.update_key(model, k="l", y="other")
    assert hb.indexes.build_index(store, model, "by_y", times=TIMES).readable
    with pytest.raises(hb.UniqueViolation), hb.Session(store, lease=0.2) as session:
        session.add(model(k="n", x="b", y="own"))
    schema = hb.schema.schema_of(model)
    (index,) = (index for index in schema.indexes.values() if index.unique)
    (entry,) = put_object(schema, model(k="k", x="a", y="left")).entries["by_y"]
    claim = claim_of(index, entry)
    assert claim is not None
    store.put(
        index.table, [Put(claim.key, {schema.claim_column: CLAIMED + bytes(8) + hb.row_key(model, k="k")}, timestamp=1)]
    )
    version = hb.Session(store).get_many(model, [("k",)])[0].version
    time.sleep(TIMES.grace + 0.1)
    assert hb.indexes.repair_index(store, model, "by_y", times=TIMES).freed == 1
    hb.indexes.drop_index(store, model, "by_y", times=TIMES)
    check(store, later, version)
