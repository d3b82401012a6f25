"""Calls that are made at once, and interrupts while an error is handled."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from hbmodel.errors import UnknownOutcome
from hbmodel.protocol.corrected_clock import SharedOffset
from hbmodel.protocol.operations import Increment, Protocol
from hbmodel.session.calls import sending
from hbmodel.session.calls.sending import Sending
from hbmodel.store.embedded import EmbeddedStore
from hbmodel.tables.roll.renewed_lines import Calls, OwnLines
from tests.support.faulty import RecordingStore

SENT = Increment("counted", b"row", b"d:n", 1)


class Lost(RecordingStore):
    """A store that loses the answer of each increment."""

    lost = False

    def increment(self, table: str, row: bytes, column: bytes, amount: int) -> int:
        self.lost = True
        raise UnknownOutcome("lost")


def protocol() -> Protocol[None]:
    yield SENT


def interrupt(run: Callable[[], object], begun: Callable[[], bool], after: int) -> bool:
    """Runs a function that fails. After `begun` returns True, interrupts it in `Sending` once this number of lines was
    executed there. Returns whether it was interrupted.
    """
    left = after

    def traced(frame: Any, event: str, argument: Any) -> Any:
        nonlocal left
        if frame.f_code.co_filename != sending.__file__:
            return None
        if event == "line" and begun():
            left -= 1
            if left < 0:
                raise KeyboardInterrupt
        return traced

    before = sys.gettrace()
    sys.settrace(traced)
    try:
        run()
    except KeyboardInterrupt:
        return True
    except UnknownOutcome:
        return False
    finally:
        sys.settrace(before)
    raise AssertionError("the function does not fail")


@pytest.mark.parametrize(
    "run",
    [
        lambda by, store: by.perform(store, SENT),
        lambda by, store: by.drive(store, protocol(), None, lambda: None),
    ],
    ids=["a change", "a protocol"],
)
def test_an_interrupt_while_an_error_is_handled_hides_no_change(run: Callable[[Sending, Lost], object]) -> None:
    interrupted, goes_on = 0, True
    while goes_on:
        with EmbeddedStore(None) as inner, Lost(inner) as store:
            calls = Calls(OwnLines(1, 1, SharedOffset()), store, "hbmodel", [])
            by = Sending(calls)
            assert calls.nothing_sent
            goes_on = interrupt(lambda: run(by, store), lambda: store.lost, interrupted)  # noqa: B023
            assert not calls.nothing_sent
            interrupted += goes_on
    assert interrupted
