"""A small process that waits for the end of another process, its owner, and then stops the HBase of a directory.

A context manager stops its HBase itself. The watchdog is for an owner that could not do this, because it was killed,
crashed, or ended without closing.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from hbmodel.localhbase import start_and_stop
from hbmodel.localhbase.processes import Process, is_alive

INTERVAL = 0.5
"""The number of seconds between two checks of the owner."""


def watch(directory: Path, owner: Process, *, temporary: bool) -> None:
    """Waits until the owner has ended, and then stops HBase.

    Args:
        temporary: whether to delete the directory, too. If so, no data has to be saved, and the processes are killed at
            once.
    """
    while is_alive(owner):
        time.sleep(INTERVAL)
    start_and_stop.stop(directory, grace=0 if temporary else start_and_stop.STOP_GRACE)
    if temporary:
        start_and_stop.remove(directory)


def main() -> None:
    """Reads the command line, and watches the owner."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("pid", type=int)
    parser.add_argument("created", type=float)
    parser.add_argument("--temporary", action="store_true")
    arguments = parser.parse_args()
    watch(arguments.directory, Process(arguments.pid, arguments.created), temporary=arguments.temporary)


if __name__ == "__main__":
    main()
