"""Decides which failed calls to a gateway are retried, and which error is raised if retries do not help."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from enum import Enum
from typing import TypeVar

from attrs import frozen

from hbmodel.errors import CertificateRefused, HbmodelError, StoreClosed, StoreUnavailable, UnknownOutcome
from hbmodel.store.gate import may_pass
from hbmodel.store.gateway.failures import is_passing, reason_of, store_error
from hbmodel.store.gateway.pipeline import Exchange
from hbmodel.store.gateway.pool import Lease, Pool
from hbmodel.store.gateway.table_names import name_in_store
from hbmodel.store.gateway.wire.connection import ThriftConnection
from hbmodel.store.jitter import jitter

logger = logging.getLogger("hbmodel")

T = TypeVar("T")


class Idempotence(Enum):
    """The effect of carrying out the same request a second time."""

    NONE = "a read"
    SAME = "a write that leaves the same cells however often it is applied: all its timestamps are given"
    ANEW = "a write that counts each time, or whose timestamp the server gives"


IN_DOUBT = "The write may or may not have been applied, fully or in part: read the rows to find out."

UNREACHED = "HBase cannot be reached: see `reason`, and check the address and that HBase and its gateway are running."

LEAST_TRIES = 5
"""The minimum number of tries, even if the time for retries is over. If a gateway does not answer, each try takes a
large part of that time.
"""

FIRST_TRIES = 2
"""The minimum number of tries as long as no gateway has ever answered. There are then at most `LEAST_TRIES` tries."""


@frozen
class Backoff:
    """The time during which a request is retried, and the waits between tries.

    Attributes:
        attempts: the maximum number of tries in all; None means no limit.
        first: seconds before the second try; each further wait is twice the previous one.
        cap: the longest wait.
        retry_for: seconds from the first failure during which a request is retried; there are at least `LEAST_TRIES`
            tries. The default is several times the time that a gateway takes to restart.
        sleep: the function that waits for a number of seconds.
        now: a monotonic clock, in seconds.

    The waits are shortened by up to half at random, so that many clients of one gateway do not reconnect at the same
    time ("equal jitter", Brooker, Exponential Backoff And Jitter, 2015).
    """

    attempts: int | None = None
    first: float = 0.1
    cap: float = 2.0
    retry_for: float = 30.0
    sleep: Callable[[float], None] = time.sleep
    now: Callable[[], float] = time.monotonic

    def waits(self, reached: Callable[[], bool] = lambda: True) -> Iterator[float]:
        """Yields the waits between tries, in seconds. The caller uses one wait after each failure. `retry_for` counts
        from the time when the first wait is taken.

        Args:
            reached: whether a gateway has ever answered. If none has, the address or an option is probably wrong, so
                the error is raised sooner than for a gateway that restarts.
        """
        end = self.now() + self.retry_for
        tries, wait = 1, min(self.cap, self.first)
        while tries != self.attempts:
            least, most_tries = (LEAST_TRIES, None) if reached() else (FIRST_TRIES, LEAST_TRIES)
            if tries == most_tries or (tries >= least and self.now() >= end):
                return
            yield wait * jitter.uniform(0.5, 1.0)
            tries, wait = tries + 1, min(self.cap, wait * 2)


class RetryingCaller:
    """Carries out calls on pooled connections, and retries them.

    Args:
        failures: the exceptions that a connection passes on from the gateway.
        prefix: the prefix that the store's tables have in HBase.
    """

    def __init__(
        self,
        pool: Pool[ThriftConnection],
        backoff: Backoff,
        failures: tuple[type[Exception], ...],
        prefix: str = "",
        repeated: Callable[[], None] = lambda: None,
    ) -> None:
        self._pool = pool
        self._backoff = backoff
        self._failures = failures
        self._prefix = prefix
        self.repeated = repeated

    def on_retry(self, repeated: Callable[[], None]) -> RetryingCaller:
        """Returns a caller with the same connections, and with another function that is called when a request is
        retried.
        """
        return RetryingCaller(self._pool, self._backoff, self._failures, self._prefix, repeated)

    def begin(self, exchange: Exchange) -> Lease[ThriftConnection] | None:
        """Sends the first requests of an exchange, if a connection is free for it.

        Returns:
            The lease to pass to `run`, or None if there is no such connection, or nothing could be sent on it.

        Raises:
            StoreClosed: the store was closed.
            InvalidRequest: an argument does not fit its Thrift type.
        """
        lease = self._pool.lease_spare()
        if lease is None:
            return None
        try:
            exchange.begin(lease.connection())
        except (StoreUnavailable, UnknownOutcome):
            lease.drop()
            lease.release()
            return None
        except BaseException:
            lease.drop()
            lease.release()
            raise
        return lease

    def run(
        self,
        idempotence: Idempotence,
        call: Callable[[ThriftConnection], T],
        begun: Lease[ThriftConnection] | None = None,
        /,
        **details: object,
    ) -> T:
        """Calls `call` with a connection until it succeeds, as often as its idempotence allows.

        A request that was certainly not sent is always sent again. A request whose reply was lost, or which failed
        because of a passing condition in HBase, is repeated unless its idempotence is `ANEW`.

        Args:
            idempotence: the effect of a repetition.
            call: makes requests on the given connection; replies that it does not read are skipped. When it is called
                again, it may continue after the requests that were acknowledged.
            begun: the lease of the connection on which `call` was begun; it is tried first.
            **details: details of the call for errors (`table`, `key`, ...).

        Raises:
            StoreUnavailable: the call was certainly not carried out, or it is a read. A write that may be repeated is
                not sent again if its gate no longer allows it.
            StoreClosed: as for `StoreUnavailable`.
            CertificateRefused: as for `StoreUnavailable`, and trying again would not help.
            UnknownOutcome: the call may have been carried out.
            StoreError: HBase refused the call.
        """
        doubtful = False
        waits: Iterator[float] | None = None
        connection: ThriftConnection | None = None
        where: dict[str, object] = {}
        lease = self._pool.lease() if begun is None else begun
        try:
            while True:
                # An error refers to this frame. If the frame kept the error, only the garbage collector could free the
                # data that was read.
                cause: Exception | None = None
                try:
                    connection = lease.connection()
                    return call(connection)
                except (StoreUnavailable, UnknownOutcome) as error:
                    lease.drop()
                    doubtful = doubtful or isinstance(error, UnknownOutcome)
                    cause = error
                    reason, where = error.reason or error.message, whereabouts(error)
                except self._failures as failure:
                    name = name_in_store(self._prefix, str(details.get("table", "")))
                    if not is_passing(failure, name):
                        # without Java's stack trace in every traceback
                        raise store_error(failure, name, **details) from None
                    doubtful = True
                    reason = reason_of(failure)
                    if connection is not None:
                        where = {"gateway": str(connection.gateway)}
                        if not connection.gateway.alone:  # another gateway may have a better connection to HBase
                            lease.drop()
                if (doubtful and idempotence is Idempotence.ANEW) or isinstance(cause, CertificateRefused):
                    break
                if waits is None:
                    waits = self._backoff.waits(self._pool.reached)
                wait = next(waits, None)
                if wait is None:
                    break
                logger.warning(
                    "A call to HBase is retried in %.2f s: %s %s",
                    wait,
                    reason,
                    where.get("gateway") or where.get("tried") or "",
                )
                lease.release()  # now other threads can try too, even if there are few connections
                self._backoff.sleep(wait)
                self.repeated()
                if idempotence is not Idempotence.NONE and not may_pass():
                    break
                try:
                    lease = self._pool.lease()
                except StoreUnavailable as error:
                    cause, reason, where = error, error.message, {}
                    break
        except StoreClosed as error:
            if not doubtful or idempotence is Idempotence.NONE:
                raise
            cause, reason, where = error, error.message, {}
        finally:
            lease.release()
        raise _given_up(
            doubtful and idempotence is not Idempotence.NONE, cause, {**details, **where, "reason": reason}
        ) from cause


def _given_up(doubtful: bool, cause: Exception | None, details: dict[str, object]) -> HbmodelError:
    if doubtful:
        return UnknownOutcome(IN_DOUBT, **details)
    if isinstance(cause, CertificateRefused):
        return CertificateRefused(cause.message, **details)
    return StoreUnavailable(UNREACHED, **details)


def whereabouts(error: HbmodelError) -> dict[str, object]:
    """Returns the details of a connection's error that contain gateways, for the error that is finally raised."""
    return {"gateway": error.gateway, "tried": error.tried}
