"""Tests that sessions that a test leaves do not log anything during another test."""

from __future__ import annotations

import gc
import logging

import pytest

import hbmodel as hb
from tests.support.left_sessions import discard_left


@hb.model(table="left_sessions", family="d")
class Left:
    name: hb.Key[str] = hb.key()
    number: hb.Column[int] = hb.column("n")


@pytest.mark.lengthy
def test_a_session_that_is_left_is_discarded(caplog: pytest.LogCaptureFixture) -> None:
    gc.collect()  # frees sessions that other tests have left
    with hb.connect("memory:") as store, caplog.at_level(logging.WARNING, "hbmodel"):
        hb.create_tables(store, Left)
        for discards in (False, True):
            caplog.clear()
            session = hb.Session(store)
            session.add(Left(name="a", number=1))
            if discards:
                discard_left()
                assert repr(session).endswith("0 pending)")
            del session
            gc.collect()
            assert ["not committed" in record.message for record in caplog.records] == ([] if discards else [True])
