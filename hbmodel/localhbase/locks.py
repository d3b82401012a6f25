"""A lock between processes (and threads) on a file; the system releases the lock when its holder dies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hbmodel.errors import LocalHBaseError
from hbmodel.localhbase.extras import required

POLL_INTERVAL = 0.1
"""Seconds between two attempts to take a lock, or between two checks of a process that starts."""


@contextmanager
def file_lock(path: Path, *, timeout: float, busy: str) -> Iterator[None]:
    """Hold an exclusive lock while the block runs.

    Args:
        path: the lock file; created if absent, never removed (otherwise two processes could hold the lock).
        timeout: seconds to wait for another holder.
        busy: the sentence of the error when the time is over.

    Raises:
        LocalHBaseError: the lock could not be taken in time, or the file cannot be written.
    """
    filelock = required("filelock")
    lock = filelock.FileLock(path)
    try:
        lock.acquire(timeout=timeout, poll_interval=POLL_INTERVAL)
    except filelock.Timeout:
        raise LocalHBaseError(busy, lock=str(path)) from None
    except OSError as error:
        raise LocalHBaseError(
            "The directory is not writable; choose another one.", directory=str(path.parent), cause=error.strerror
        ) from error
    try:
        yield
    finally:
        lock.release()
