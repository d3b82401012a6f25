"""The gateways that a store may use, with their addresses, and the choice of the gateway for the next connection."""

from __future__ import annotations

import itertools
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from ipaddress import AddressValueError, IPv6Address
from typing import TypeVar

from hbmodel.errors import CertificateRefused, InvalidRequest, StoreUnavailable
from hbmodel.store.jitter import jitter

FIRST_REST = 2.0
"""The number of seconds for which a gateway is avoided after it failed. The time is doubled each time the gateway fails
again without having answered since.
"""

LONGEST_REST = 30.0
"""The maximum time for which a gateway is avoided, in seconds."""

_ADDRESS = re.compile(r"(?:\[(?P<bracketed>[^\[\]]+)\]|(?P<plain>[^:\[\]]+))(?::(?P<port>\d{1,5}))?")
_NOT_IN_A_HOST = re.compile(r"[\s\x00-\x1f\x7f/?#@,\\&=;+'\"]")

C = TypeVar("C")


class Gateway:
    """One gateway's address, and its latest failures and answers.

    There are no locks: the recorded failures and answers are only hints, so races are harmless. And a forked child must
    not inherit a lock that is held.

    Args:
        now: a monotonic clock, in seconds; the gateway's connections use the same clock.
    """

    def __init__(self, host: str, port: int, now: Callable[[], float] = time.monotonic) -> None:
        self.host = host
        self.port = port
        self._now = now
        self.failed_at = float("-inf")
        """The time at which a connection to the gateway last failed, on the clock `now`."""
        self.rests_until = float("-inf")
        """The time until which other gateways are preferred."""
        self.alone = True
        """Whether the store has no other gateway."""
        self.answered = False
        """Whether the gateway has ever answered a request."""
        self._failures = 0

    @property
    def resting(self) -> bool:
        """Whether other gateways are preferred to this one for now."""
        return self._now() < self.rests_until

    def failed(self, *, answered: bool) -> None:
        """Records that a connection could not be opened, or broke.

        Args:
            answered: whether the gateway had answered on that connection.
        """
        self.failed_at = self._now()
        if not self.resting:  # connections that break together with the first one are not counted
            self._failures = 1 if answered else self._failures + 1
            rest = min(LONGEST_REST, FIRST_REST * 2 ** min(self._failures - 1, 10))
            # The time is shortened at random, so that clients do not all reconnect at once.
            self.rests_until = self.failed_at + rest * jitter.uniform(0.5, 1.0)

    def connected(self) -> None:
        """Records that the gateway accepted a connection."""
        self.rests_until = float("-inf")

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Gateways:
    """All gateways of a store, which are equivalent.

    Connections are opened to them in turn, starting with a random one, so that the clients of a cluster are spread over
    its gateways.
    """

    def __init__(self, gateways: Sequence[Gateway]) -> None:
        self._gateways = jitter.sample(gateways, len(gateways))
        self._turns = itertools.count()
        for gateway in gateways:
            gateway.alone = len(gateways) == 1
        self._names = ",".join(str(gateway) for gateway in gateways)

    @property
    def answered(self) -> bool:
        """Whether any of the gateways has ever answered a request."""
        return any(gateway.answered for gateway in self._gateways)

    def connect(self, connect: Callable[[Gateway], C]) -> C:
        """Returns a connection to the next gateway that accepts one. Gateways that failed recently are tried last,
        ordered by the time until which they are avoided.

        Args:
            connect: opens a connection, or raises StoreUnavailable with a `reason`.

        Raises:
            StoreUnavailable: no gateway accepted a connection; `tried` has the reason of each gateway.
            CertificateRefused: no gateway accepted a connection, each because of a certificate.
        """
        refusals: list[tuple[Gateway, StoreUnavailable]] = []
        for gateway in self._in_order():
            try:
                connection = connect(gateway)
            except StoreUnavailable as error:
                gateway.failed(answered=False)
                refusals.append((gateway, error))
            else:
                gateway.connected()
                return connection
        if len(refusals) == 1:
            raise refusals[0][1]
        tried = [f"{gateway}: {error.reason or error.message}" for gateway, error in refusals]
        last = refusals[-1][1]
        if all(isinstance(error, CertificateRefused) for _, error in refusals):
            raise CertificateRefused(
                "No HBase gateway can be used: its certificate was refused, or it refused the client's certificate. "
                "See `tried`.",
                tried=tried,
            ) from last
        raise StoreUnavailable("None of the HBase gateways accepts a connection: see `tried`.", tried=tried) from last

    def _in_order(self) -> Iterator[Gateway]:
        # Children that were forked at the same moment start at different gateways.
        first = (next(self._turns) + os.getpid()) % len(self._gateways)
        ordered = self._gateways[first:] + self._gateways[:first]
        resting = [gateway for gateway in ordered if gateway.resting]
        yield from (gateway for gateway in ordered if gateway not in resting)
        yield from sorted(resting, key=lambda gateway: gateway.rests_until)

    def __str__(self) -> str:
        return self._names


def gateways(hosts: str | Iterable[str], port: int) -> Gateways:
    """Returns the gateways at some addresses. An address is `"a"`, `"a:9090"`, `"::1"` or `"[::1]:9090"`; a text may
    contain several, separated by commas.

    Args:
        port: the port for addresses without a port.

    Raises:
        InvalidRequest: one of the texts is not an address, or there are no addresses.
    """
    texts = [text for entry in ([hosts] if isinstance(hosts, str) else hosts) for text in entry.split(",")]
    named = {(gateway.host, gateway.port): gateway for text in texts for gateway in [_gateway(text.strip(), port)]}
    if not named:
        raise InvalidRequest("A store needs the address of at least one gateway.")
    return Gateways(list(named.values()))


def _gateway(text: str, port: int) -> Gateway:
    if _is_ipv6(text):
        return _checked(text, port)
    matched = _ADDRESS.fullmatch(text)
    if matched is None or (matched["bracketed"] and not _is_ipv6(matched["bracketed"])):
        # The error does not quote the text, because a text that is not an address may contain a password.
        raise InvalidRequest("A gateway's address must have the form host, host:port or [IPv6 address]:port.")
    return _checked(matched["bracketed"] or matched["plain"], port if matched["port"] is None else int(matched["port"]))


def _is_ipv6(text: str) -> bool:
    try:
        IPv6Address(text)
    except AddressValueError:
        return False
    return True


def _checked(host: str, port: int) -> Gateway:
    if _NOT_IN_A_HOST.search(host):
        raise InvalidRequest("A gateway's host name contains an invalid character.")
    if not 0 < port < 2**16:
        raise InvalidRequest("A port must be a number from 1 to 65,535.", port=port)
    return Gateway(host, port)
