"""One line of a program on the writers' roll: when the thread that keeps it is woken."""

from __future__ import annotations

import threading

import pytest

import hbmodel as hb
from hbmodel.protocol.corrected_clock import SharedOffset
from hbmodel.protocol.roll_line_format import Member, Revisions, RollLine, Writer
from hbmodel.tables.roll.own_line import ROLL_TIMES, OwnLine

OLD, NEW = Revisions.of({"rows": 1}), Revisions.of({"rows": 2})


class CountingCondition(threading.Condition):
    """Counts its notifications."""

    count = 0

    def notify_all(self) -> None:
        self.count += 1
        super().notify_all()


def kept(store: hb.Store, changed: CountingCondition, lock: threading.RLock, *, newest: Revisions) -> OwnLine:
    """A line that is on the roll with the old state; a call that relies on it is in progress."""
    line = RollLine(1, "on", OLD, 60_000, 1_000, (), Writer())
    member = Member(b"id", 60_000, 1_000, sequence=1, held=line, newest=newest, until=60_000, calls=(OLD,))
    return OwnLine(store, "hbmodel", b"row", member, SharedOffset(), ROLL_TIMES, lambda: 0, lock, changed, lambda: None)


@pytest.mark.parametrize(("newest", "wakes"), [(OLD, False), (NEW, True)], ids=["nothing changed", "the state changed"])
def test_the_end_of_the_last_call_of_an_old_state_wakes_the_thread(newest: Revisions, wakes: bool) -> None:
    """A change of the state waits until the line names the new one; other calls end without a wake."""
    lock = threading.RLock()
    changed = CountingCondition(lock)
    with hb.connect("memory:") as store:
        line = kept(store, changed, lock, newest=newest)
        line.ended(OLD, None)
        assert line.member.calls == ()
        assert line.member.behind == wakes
        assert changed.count == wakes
