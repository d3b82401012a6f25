"""Who writes a table, by the writers' roll."""

from __future__ import annotations

import os
import socket

import hbmodel as hb
from hbmodel.store import Put
from hbmodel.tables.registry.registry_rows import registry_row
from hbmodel.tables.roll.own_line import RollTimes
from tests.support.beds import fresh
from tests.support.waiting import comes_true
from tests.tables.test_renewed_lines import ONE, PLAIN, QUIET, add, session_of

SHORT = {"lease": 0.01, "longest_call": 0.01, "clock_bound": 0.2, "grace": 1}


def test_the_programs_on_the_roll_are_listed() -> None:
    with fresh(ONE, gated=False) as store:
        assert hb.tables.table_writers(store, "rolled") == []
        writing, resting = session_of(store, QUIET), session_of(store, RollTimes(idle=0.01))
        add(writing, "a", ONE)
        add(resting, "b", ONE)
        assert comes_true(
            lambda: {writer.state for writer in hb.tables.table_writers(store, "rolled")} == {"writing", "resting"}
        )
        found = {writer.state: writer for writer in hb.tables.table_writers(store, "rolled")}
        one = found["writing"]
        assert (one.table, one.family, one.kind, one.host, one.pid) == (
            "rolled",
            "d",
            "",
            socket.gethostname(),
            os.getpid(),
        )
        assert one.until is not None
        assert (one.until - one.seen).total_seconds() == 60 + 1200 + 60
        assert f"process {os.getpid()} on {socket.gethostname()}: writing, seen " in str(one)
        assert ", calls until " in str(one)
        assert found["resting"].until is None
        assert "calls" not in str(found["resting"])
        assert hb.tables.table_writers(store, "other") == []


def test_a_program_that_ended_without_a_word_is_said_to_have_ended() -> None:
    with fresh(ONE, gated=False) as store:
        add(session_of(store, QUIET, **SHORT), "a", ONE)
        assert comes_true(
            lambda: (
                [w.state for w in hb.tables.table_writers(store, "rolled", times=hb.indexes.IndexTimes(**SHORT))]
                == ["ended"]
            )
        )


def test_a_line_of_a_newer_version_is_listed_as_unknown() -> None:
    with fresh(PLAIN, gated=False) as store:
        store.put(
            "hbmodel",
            [Put(b"\x02" + registry_row(hb.schema.schema_of(PLAIN)) + b"\x00" + b"x" * 16, {b"m:w": b'{"form":2}'})],
        )
        (writer,) = hb.tables.table_writers(store, "rolled")
        assert (writer.state, writer.until) == ("unknown", None)
        assert str(writer).startswith("rolled: ?, process 0 on ?: unknown, seen ")
