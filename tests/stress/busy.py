"""Processes that compute without end, until the one that started them ends: each reads a pipe that is closed then,
however it ends.
"""

from __future__ import annotations

import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Runs this number of them."""
    with ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(subprocess.Popen([sys.executable, "-m", __name__], stdin=subprocess.PIPE))
        yield


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one that started it
    while not select.select([sys.stdin], [], [], 0)[0]:
        sum(range(100_000))


if __name__ == "__main__":
    main()
