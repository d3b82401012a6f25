"""A lock on a file between processes (and threads), which the system releases when its holder ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hbmodel.errors import LocalHBaseError
from hbmodel.localhbase.extras import required

POLL_INTERVAL = 0.1
"""The number of seconds between two attempts to take a lock, or between two checks of a starting process."""


@contextmanager
def file_lock(path: Path, *, timeout: float, busy: str) -> Iterator[None]:
    """Holds an exclusive lock while its block runs.

    Args:
        path: the lock file. It is created if it does not exist, and never removed, because otherwise two processes
            could hold the lock.
        timeout: the maximum number of seconds to wait for another holder.
        busy: the message of the error when the time is over.

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
