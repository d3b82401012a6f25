"""Describes in words for which other programs a call waits."""

from __future__ import annotations

from collections.abc import Sequence

from hbmodel.tables.roll.other_programs import Awaited

SHORTEN = "if such a program was killed, `hbmodel writers TABLE --forget` can shorten the wait"
"""What the user can do about a wait for programs that are on the writers' roll."""

EVERY = 60.0
"""The number of seconds after which a wait is mentioned again."""

SHORT = 5.0
"""A wait of at most this many seconds is not logged. The command line mentions it only if it can name the programs."""


def wait_text(seconds: float, whom: Awaited, writers: Sequence[str]) -> str:
    """Returns a description of a wait, without a full stop.

    Args:
        seconds: the maximum remaining time of the wait, in seconds.
        whom: the programs for which the call waits.
        writers: descriptions of the writers, if they are known.
    """
    if not writers:
        return f"waiting at most {seconds:.0f} s for {whom} that may follow an earlier state of the registry"
    return f"waiting for {writers[0]}" + (f", and {len(writers) - 1} more" if len(writers) > 1 else "")
