"""Chooses TCP ports that are free on the loopback address."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterable, Mapping, Sequence

from hbmodel.errors import LocalHBaseError

ADDRESS = "127.0.0.1"
"""The only address on which a local HBase listens."""

CHOICE = range(20_000, 32_000)
"""Ports to choose from. They are below the ports that systems give to outgoing connections (from 32768 on Linux, from
49152 on macOS and BSD). So no connection can use a chosen port before its server starts.
"""

_ATTEMPTS = 500


def is_free(port: int) -> bool:
    """Returns whether a server could now listen on the port of the loopback address."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # Java sets this option too. Without it, a port whose old connections have not timed out yet would count as
        # used.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((ADDRESS, port))
            probe.listen(1)
        except OSError:
            return False
        return True


def choose_ports(
    names: Sequence[str], *, given: Mapping[str, int], before: Mapping[str, int], choice: range = CHOICE
) -> dict[str, int]:
    """Returns a different port for every name.

    Two starts at the same moment may choose the same port. Then the later server cannot bind to the port, and its start
    chooses again.

    Args:
        given: the ports that the user has chosen; an error is raised if one cannot be used.
        before: the ports of an earlier run; they are used if they are free.
        choice: the ports from which all others are chosen.

    Raises:
        LocalHBaseError: a given port is already used or is given twice, or no free port was found.
    """
    chosen: dict[str, int] = {}
    for name in names:
        if name in given:
            if given[name] in chosen.values():
                raise LocalHBaseError("The same port was given twice; every server needs its own.", port=given[name])
            if not is_free(given[name]):
                raise LocalHBaseError(
                    "The port is taken; name another one, or leave it out to use a free port.",
                    port=given[name],
                    server=name,
                )
            chosen[name] = given[name]
    for name in names:
        if name not in chosen:
            wanted = before.get(name)
            usable = wanted is not None and wanted not in chosen.values() and is_free(wanted)
            chosen[name] = wanted if usable and wanted is not None else _any_free(choice, chosen.values())
    return chosen


def _any_free(choice: range, taken: Iterable[int]) -> int:
    # Uses the system's generator, so that two processes do not try the same ports. Other generators may have the same
    # seed, as in tests.
    draw = random.SystemRandom()
    avoid = set(taken)
    for _ in range(_ATTEMPTS):
        port = draw.choice(choice)
        if port not in avoid and is_free(port):
            return port
    raise LocalHBaseError(
        "No free port was found; stop other servers or name the ports.", lowest=choice.start, highest=choice.stop
    )
