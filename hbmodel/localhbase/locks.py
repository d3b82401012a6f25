"""A lock between processes (and threads) on a file; the system lets go of it when its holder dies."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hbmodel.errors import LocalHBaseError

POLL_INTERVAL = 0.1
"""Seconds between two attempts to take a lock, or two looks at a process that starts."""


@contextmanager
def file_lock(path: Path, *, timeout: float, busy: str) -> Iterator[None]:
    """Hold an exclusive lock while the block runs.

    Args:
        path: the lock file; created if absent, never removed (its removal would let two in).
        timeout: seconds to wait for another holder.
        busy: the sentence of the error when the time is over.

    Raises:
        LocalHBaseError: the lock was not had in time, or the file cannot be written.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise LocalHBaseError(
            "The directory cannot be written; choose another one.", directory=str(path.parent), cause=error.strerror
        ) from error
    try:
        deadline = time.monotonic() + timeout
        while not _taken(descriptor):
            if time.monotonic() >= deadline:
                raise LocalHBaseError(busy, lock=str(path))
            time.sleep(POLL_INTERVAL)
        yield
    finally:
        os.close(descriptor)


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
