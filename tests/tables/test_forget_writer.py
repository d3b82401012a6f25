"""Forgetting the line of a program that has certainly ended."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest

import hbmodel as hb
from hbmodel.errors import DeclarationError, StoreError
from hbmodel.protocol.roll_line_format import NOTHING, LateCalls, RollLine, Writer
from hbmodel.store import Put
from hbmodel.tables.registry.read_roll import LINE, line_key
from hbmodel.tables.registry.registry_rows import registry_row
from hbmodel.tables.registry.registry_table import Registry
from tests.support.beds import fresh
from tests.support.faulty import RecordingStore
from tests.support.waiting import comes_true
from tests.tables.test_renewed_lines import ONE, QUIET, add, kinds, session_of

HOUR = 3_600_000
LEASE, CALL = 10 * HOUR, 100 * HOUR
"""The lease and the longest call of the lines: so long that no test depends on how fast it runs."""

SHORT = 3600
"""The longest call through a gateway that gives up each call after an hour, in seconds."""

ENDED: Mapping[str, Any] = {"dead_for": 1.5 * HOUR / 1000, "longest_call": SHORT}
"""Arguments that allow to forget a program that has put its line two hours ago, or earlier."""


def put_line(
    store: hb.Store,
    age: int,
    *,
    id_: bytes = b"a" * 16,
    kind: Any = "on",
    late: int | None = None,
    host: str = "one",
    pid: int = 7,
) -> None:
    """Puts a line of a program that was killed `age` ms ago."""
    calls = () if late is None else (LateCalls(NOTHING, late),)
    line = RollLine(1, kind, NOTHING, LEASE, CALL, calls, Writer(host, pid, "job.py"))
    key = line_key(registry_row(hb.schema.schema_of(ONE)), id_)
    stamp = Registry(store, "hbmodel").server_time() - age
    store.put("hbmodel", [Put(key, {LINE: line.encode()}, stamp)])


def forget(store: hb.Store, writer: str = "one:7", **options: Any) -> hb.tables.TableWriter:
    return hb.tables.forget_writer(store, "rolled", writer, **options)


class RenewedMeanwhile(RecordingStore):
    """A store in which the program puts its line again just before the line is marked."""

    def check_and_put(self, *arguments: Any, **options: Any) -> bool:
        put_line(self.inner, 0, pid=8)
        return super().check_and_put(*arguments, **options)


def stays(store: hb.Store, **options: Any) -> StoreError:
    """The error of a refused call, which has changed nothing."""
    before = kinds(store)
    with pytest.raises(StoreError) as caught:
        forget(store, **options)
    assert kinds(store) == before
    return caught.value


def test_a_build_does_not_wait_for_a_line_that_was_forgotten() -> None:
    with fresh(ONE, gated=False) as store:
        put_line(store, LEASE + 2 * HOUR)
        (listed,) = hb.tables.table_writers(store, "rolled")
        assert listed.until is not None
        forgotten = forget(store, **ENDED)
        assert (forgotten.line, forgotten.pid, forgotten.state, forgotten.until) == (listed.line, 7, "ended", None)
        assert kinds(store) == ["gone"]
        hb.indexes.build_index(store, ONE, "by_rank")
        assert forget(store, **ENDED).state == "ended"


def test_the_id_that_is_listed_names_the_line() -> None:
    with fresh(ONE, gated=False) as store:
        put_line(store, LEASE + 2 * HOUR)
        (listed,) = hb.tables.table_writers(store, "rolled")
        assert listed.line == "61" * 16
        assert str(listed).endswith(f", line {listed.line}")
        assert listed.as_json["line"] == listed.line
        assert forget(store, listed.line, **ENDED).state == "ended"


def test_a_program_that_may_be_alive_is_not_forgotten() -> None:
    with fresh(ONE, gated=False) as store:
        put_line(store, 2 * HOUR)
        error = stays(store, longest_call=SHORT)
        assert "may still be running" in error.message
        assert (error.table, error.process) == ("rolled", "job.py, process 7 on one")
        assert forget(store, dead_for=1.5 * HOUR / 1000, longest_call=SHORT).state == "ended"


def test_a_request_that_was_sent_may_still_arrive() -> None:
    """Only the lease is saved if calls may take as long as the program's line says."""
    with fresh(ONE, gated=False) as store:
        put_line(store, 2 * HOUR)
        error = stays(store, dead_for=HOUR / 1000)
        assert "may still be carried out" in error.message
        assert error.reason is not None
        assert error.reason.startswith("for another ")
        put_line(store, CALL + HOUR, id_=b"b" * 16, pid=8)
        assert forget(store, "one:8", dead_for=(CALL + HOUR / 2) / 1000).state == "ended"


def test_without_the_time_of_its_death_the_program_counts_as_alive_until_its_lease_ends() -> None:
    with fresh(ONE, gated=False) as store:
        put_line(store, CALL + HOUR)
        assert "may still be carried out" in stays(store).message
        put_line(store, LEASE + 2 * HOUR)
        assert "send a call that it began before" in stays(store, longest_call=SHORT).message
        assert "may still be carried out" in stays(store, longest_call=2 * CALL / 1000).message
        assert forget(store, **ENDED).state == "ended"


@pytest.mark.parametrize("far", [10**15, 10**18, 10**30])
def test_a_damaged_line_with_a_time_that_no_calendar_has_is_listed_and_not_forgotten(far: int) -> None:
    with fresh(ONE, gated=False) as store:
        put_line(store, LEASE + 2 * HOUR, kind="rest", late=far)
        (listed,) = hb.tables.table_writers(store, "rolled")
        assert (listed.state, listed.until) == ("resting", datetime.max.replace(tzinfo=UTC))
        assert json.loads(json.dumps(listed.as_json))["until"].startswith("9999-12-31")
        assert "until 9999-12-31" in str(stays(store, longest_call=SHORT).reason)


def test_a_call_of_unknown_outcome_counts_from_when_it_was_sent() -> None:
    with fresh(ONE, gated=False) as store:
        put_line(store, 0, kind="rest", late=CALL - HOUR // 2)
        assert "may still be carried out" in stays(store, longest_call=SHORT).message
        put_line(store, 0, kind="rest", late=CALL - 2 * HOUR)
        assert "may still be carried out" in stays(store).message
        assert forget(store, longest_call=SHORT).state == "ended"


def test_a_program_that_has_put_its_line_since_is_not_dead() -> None:
    with fresh(ONE, gated=False) as store:
        put_line(store, HOUR)
        assert "since the time" in stays(store, dead_for=2 * HOUR / 1000, longest_call=SHORT).message


def test_a_line_for_which_nothing_waits_stays() -> None:
    with fresh(ONE, gated=False) as store:
        put_line(store, HOUR, kind="rest")
        assert forget(store).state == "resting"
        assert kinds(store) == ["rest"]


def test_two_lines_of_a_process_number_are_not_told_apart() -> None:
    """A container that was started again may have the host name and the process number of the one before."""
    with fresh(ONE, gated=False) as store:
        put_line(store, LEASE + 2 * HOUR)
        put_line(store, HOUR, id_=b"b" * 16)
        with pytest.raises(DeclarationError) as caught:
            forget(store, **ENDED)
        assert [text[-32:] for text in caught.value.found] == ["61" * 16, "62" * 16]
        assert kinds(store) == ["on", "on"]
        assert forget(store, "61" * 16, **ENDED).state == "ended"
        assert kinds(store) == ["gone", "on"]
        assert "may still be running" in stays(store, longest_call=SHORT).message  # a line that is gone is no candidate


@pytest.mark.parametrize("writer", ["two:7", "one:8", "62" * 16, "one", ":", ""])
def test_a_line_that_is_not_there_is_an_error(writer: str) -> None:
    with fresh(ONE, gated=False) as store:
        put_line(store, LEASE + 2 * HOUR)
        with pytest.raises(DeclarationError) as caught:
            forget(store, writer)
        assert caught.value.option == "writer"


@pytest.mark.parametrize("dead_for", ["an hour", -1, float("nan"), True])
def test_the_time_since_its_death_is_a_number_of_seconds(dead_for: Any) -> None:
    with fresh(ONE, gated=False) as store:
        with pytest.raises(DeclarationError) as caught:
            forget(store, dead_for=dead_for)
        assert caught.value.option == "dead_for"


def test_a_line_of_a_newer_version_stays() -> None:
    with fresh(ONE, gated=False) as store:
        store.put("hbmodel", [Put(line_key(registry_row(hb.schema.schema_of(ONE)), b"x" * 16), {LINE: b'{"form":2}'})])
        with pytest.raises(StoreError, match="newer version"):
            forget(store, b"x".hex() * 16, dead_for=0)


def test_a_program_that_puts_its_line_meanwhile_is_not_forgotten() -> None:
    with fresh(ONE, gated=False) as store:
        put_line(store, LEASE + 2 * HOUR)
        with pytest.raises(StoreError, match="has put its line"):
            forget(RenewedMeanwhile(store, gated=False), **ENDED)
        assert kinds(store) == ["on"]


def test_a_program_whose_line_was_forgotten_by_mistake_takes_another_one() -> None:
    with fresh(ONE, gated=False) as store, session_of(store, QUIET, lease=0.01, longest_call=60) as session:
        add(session, "a", ONE)
        (listed,) = hb.tables.table_writers(store, "rolled")

        def forgotten() -> bool:
            """False until the lease of a few milliseconds is over."""
            times = hb.indexes.IndexTimes(clock_bound=0)
            with suppress(StoreError):
                return forget(store, listed.line, dead_for=0, longest_call=0, times=times).state == "ended"
            return False

        assert comes_true(forgotten)
        add(session, "b", ONE)
        assert sorted(kinds(store)) == ["gone", "on"]
