"""Spreads many writes, each of one row, over the free connections."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hbmodel.errors import StoreClosed, StoreUnavailable, UnknownOutcome
from hbmodel.store.gateway.pipeline import Exchange
from hbmodel.store.gateway.pool import Lease
from hbmodel.store.gateway.retry import Idempotence, RetryingCaller
from hbmodel.store.gateway.scanning.scan_calls import Request
from hbmodel.store.gateway.wire.connection import ThriftConnection

SPREAD_FROM = 16
"""The number of writes for which it is useful to use one more connection."""

AHEAD = 500
"""The maximum number of writes that are sent on one connection before the first reply is read. The replies to so many
writes fit into any socket's buffers.
"""


def spread(caller: RetryingCaller, connections: int, requests: Sequence[Request], table: str) -> list[Any]:
    """Carries out writes that must not be repeated, because a repetition would take effect again. Returns the replies
    in the order of the requests.

    A gateway carries out the requests of one connection sequentially. The replies are short, so many requests are sent
    ahead.

    Raises:
        UnknownOutcome: any of the writes may have been carried out.
        StoreUnavailable: none of the writes was carried out.
    """
    parts = min(connections, len(requests) // SPREAD_FROM) or 1
    if parts == 1:
        return caller.run(Idempotence.ANEW, Exchange(requests), table=table)
    size = -(-len(requests) // parts)
    own, *others = (Exchange(requests[begin : begin + size], AHEAD) for begin in range(0, len(requests), size))
    begun: list[Lease[ThriftConnection] | None] = []
    done = False
    try:
        for exchange in others:
            begun.append(caller.begin(exchange))
        caller.run(Idempotence.ANEW, own, table=table)
        done = True
        for exchange in others:
            caller.run(Idempotence.ANEW, exchange, begun.pop(0), table=table)
    except (StoreUnavailable, StoreClosed) as error:
        if done or any(begun):
            raise UnknownOutcome(error.message, **error.details) from error
        raise
    finally:
        for lease in begun:
            if lease is not None:
                lease.drop()
                lease.release()
    return [reply for exchange in (own, *others) for reply in exchange.replies]
