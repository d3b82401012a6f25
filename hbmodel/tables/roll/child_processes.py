"""Calls functions before child processes of `multiprocessing` end, because some of these do not call the functions of
`atexit`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

PRIORITY = 10
"""The priority of the function. It may be any number that is not negative, because `multiprocessing` calls all
functions with such priorities before a child ends.
"""


def _this_process() -> Any:
    """Returns this process as an object of `multiprocessing`, or None if `multiprocessing` did not start it."""
    process = sys.modules.get("multiprocessing.process")
    return None if process is None or process.parent_process() is None else process.current_process()


def is_killed_by_parent() -> bool:
    """Returns whether the parent ends this process by a signal, as a `Pool` ends its workers."""
    current = _this_process()
    return current is not None and bool(current.daemon)


def at_end_of_child(user: object, function: Callable[..., object], *args: object) -> Callable[[], object] | None:
    """Arranges that a function is called before this child of `multiprocessing` ends, if `user` is still alive. A
    forked child does not call the functions of `atexit`.

    Returns:
        A function that undoes this, or None in other processes.
    """
    util = sys.modules.get("multiprocessing.util")
    if util is None or _this_process() is None:
        return None
    cancel: Callable[[], object] = util.Finalize(user, function, args, exitpriority=PRIORITY).cancel
    return cancel
