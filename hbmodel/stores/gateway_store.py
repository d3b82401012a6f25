"""What the stores on HBase's two Thrift gateways have in common: addresses, connections, checks, and the order of calls."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from copy import copy
from functools import partial
from types import TracebackType
from typing import Any, ClassVar, Self

from hbmodel.errors import InvalidRequest, StoreError, StoreUnavailable, StoreURLError, UnknownOutcome
from hbmodel.store import Capabilities, Delete, Family, Put, Region, Row, Scan, check_row
from hbmodel.stores.calls import Backoff, Caller, Effect, Exchange
from hbmodel.stores.connection import PROTOCOLS, TRANSPORTS, Protocol, ThriftConnection, Transport, Wire
from hbmodel.stores.gateway_failures import is_passing
from hbmodel.stores.gateways import Gateway, gateways
from hbmodel.stores.pool import Pool
from hbmodel.stores.portions import MAX_QUESTION_BYTES, in_portions
from hbmodel.stores.read_requests import check_filter, distinct_columns
from hbmodel.stores.request_checks import check_column, check_delete, check_put, check_puts, check_read_columns
from hbmodel.stores.scan_cursor import Cursor, Request, ScanCalls
from hbmodel.stores.scan_lane import Batches, Lane
from hbmodel.stores.store_url import count, not_negative, one_of, parse_store_url, positive
from hbmodel.stores.table_requests import check_table_name, name_in_port, name_in_store

CLOCK_TICK = 0.002
"""Seconds between the answer to a delete at the server's time and its acknowledgement: such a tombstone hides puts of its own
millisecond, so one that follows at once would vanish."""

ADMINISTRATION_TIMEOUT = 120.0
"""Seconds to wait, at least, for a table to be created or dropped."""


class GatewayStore(ABC):
    """Tables behind a Thrift gateway.

    Args:
        host: where the gateway listens: a name, an address, `host:port` or `[IPv6]:port`; or several gateways of one HBase, in
            a list or separated by commas. Calls go to those that can be reached.
        port: the TCP port of those that name none; None stands for the one that such a gateway has by default.
        timeout: seconds that a request may go without a sign of life from the gateway.
        connect_timeout: seconds that opening a connection may take.
        pool: how many calls may be under way at once; connections that scans hold are counted apart.
        transport: `"buffered"`, or `"framed"` for a gateway started so (`-framed`, `-hsha`, `-nonblocking`).
        protocol: `"binary"`, or `"compact"` for a gateway started with `-compact` (decoded in Python, so much slower).
        table_prefix: put before every table name, with the separator; tables without it are not listed. It follows a table's
            namespace (`ns:prefix_name`); one with a namespace of its own (`ns:prefix`) is for tables that name none.
        table_prefix_separator: `_`, as in happybase.
        retry_for: seconds from the first failure in which a call that may be repeated is tried again, a scan without a row of
            progress; at least five times in all, and no longer than that before the first connection.
        attempts: bounds how often such a call is tried; 1 never repeats one.
    """

    SCHEME: ClassVar[str]
    """What its URLs begin with."""

    DEFAULT_PORT: ClassVar[int]
    """Where such a gateway listens unless told otherwise."""

    SERVICE: ClassVar[Any]
    """The Thrift service."""

    SCAN_CALLS: ClassVar[ScanCalls]
    """How ranges of rows are read."""

    token_key: bytes | str | None = None
    """Carried for sessions: seals their continuation tokens."""

    def __init__(
        self,
        host: str | Iterable[str] = "127.0.0.1",
        port: int | None = None,
        *,
        timeout: float = 30.0,
        connect_timeout: float = 5.0,
        pool: int = 4,
        transport: Transport = "buffered",
        protocol: Protocol = "binary",
        table_prefix: str | None = None,
        table_prefix_separator: str = "_",
        retry_for: float = 30.0,
        attempts: int | None = None,
    ) -> None:
        if timeout <= 0 or connect_timeout <= 0 or pool < 1 or (attempts is not None and attempts < 1) or retry_for < 0:
            raise InvalidRequest("Timeouts, pool size and attempts must be positive, and retry_for not negative.")
        if transport not in TRANSPORTS or protocol not in PROTOCOLS:
            raise InvalidRequest("There is no such transport or protocol.", transport=transport, protocol=protocol)
        self._gateways = gateways(host, self.DEFAULT_PORT if port is None else port)
        self._wire = Wire(timeout, connect_timeout, transport, protocol)
        self._prefix = "" if table_prefix is None else table_prefix + table_prefix_separator
        self._backoff = Backoff(attempts, retry_for=retry_for)
        self._failures = self.SCAN_CALLS.failures
        self._pool: Pool[ThriftConnection] = Pool(partial(self._gateways.connect, self._connected), pool, timeout)
        self._caller = Caller(self._pool, self._backoff, self._failures, self._prefix)
        self._known_families: dict[str, tuple[float, list[bytes]]] = {}

    def _connected(self, gateway: Gateway) -> ThriftConnection:
        return ThriftConnection(gateway, self._wire, self.SERVICE, self._failures)

    def telling_repeats(self, repeated: Callable[[], None]) -> Self:
        """A view on the same connections that calls `repeated` each time it tries a request again; see `RepeatingStore`."""
        view = copy(self)
        view._caller = self._caller.telling(repeated)
        return view

    @classmethod
    def from_url(cls, url: str) -> Self:
        """A store from `<scheme>://host:port,host:port?timeout=30&pool=4&transport=framed&protocol=compact&table_prefix=...`.

        The options are the constructor's. Nothing is connected yet.

        Raises:
            StoreURLError: the URL cannot be understood; `option` names an option that is unknown or bad.
        """
        arguments = parse_store_url(url, cls.SCHEME, _URL_OPTIONS)
        try:
            return cls(**arguments)
        except InvalidRequest as error:
            raise StoreURLError(error.message, **error.details) from None

    @property
    @abstractmethod
    def capabilities(self) -> Capabilities:
        """What this gateway can do."""

    # --- reading ------------------------------------------------------------------------------------------------------

    def get(self, table: str, rows: Sequence[bytes], columns: Sequence[bytes] = ()) -> list[Row | None]:
        """Reads rows; see `Store.get`. Long lists are split into several calls, of which some are sent ahead."""
        for row in rows:
            check_row(table, row)
        check_read_columns(table, columns)
        name = self._name(table)
        if not rows:
            return []
        wanted = distinct_columns(columns)
        overhead = self._question_overhead(wanted)
        portions = in_portions(rows, lambda row: len(row) + overhead, MAX_QUESTION_BYTES)
        exchange = Exchange(self._get_request(name, portion, wanted) for portion in portions)
        return self._found(rows, self._caller.run(Effect.NONE, exchange, table=table))

    @abstractmethod
    def _get_request(self, name: bytes, rows: Sequence[bytes], columns: Sequence[bytes]) -> Request:
        """The call that reads rows."""

    @abstractmethod
    def _question_overhead(self, columns: Sequence[bytes]) -> int:
        """Bytes that such a call takes for each row, beside its key."""

    @abstractmethod
    def _found(self, rows: Sequence[bytes], replies: Iterable[Any]) -> list[Row | None]:
        """The answer from the replies to those calls."""

    def scan(self, table: str, scans: Sequence[Scan]) -> list[Iterator[Sequence[Row]]]:
        """Starts scans; see `Store.scan`. They are spread over the connections that are free; first requests go out at once.

        A scan whose connection breaks, or whose scanner the gateway forgets, goes on behind the last row received. The
        iterators have a `close()`.
        """
        for scan in scans:
            check_read_columns(table, scan.columns)
            if scan.batch_size < 1 or (scan.limit is not None and scan.limit < 0):
                raise InvalidRequest("A scan needs a positive batch size and no negative limit.", table=table)
            if scan.filter is not None:
                check_filter(scan.filter, reversed=scan.reversed)
        return self._scan(self._name(table), scans, table)

    def _scan(self, name: bytes, scans: Sequence[Scan], called: str) -> list[Iterator[Sequence[Row]]]:
        cursors = [Cursor(name, scan, called) for scan in scans]
        live = [cursor for cursor in cursors if not cursor.finished]
        if not live:
            return [Batches(None, cursor) for cursor in cursors]
        leases = self._pool.lease_streams(len(live))
        lanes = [
            Lane(self.SCAN_CALLS, lease, live[first :: len(leases)], self._backoff, self._wire.timeout, self._caller.repeated)
            for first, lease in enumerate(leases)
        ]
        batches = [Batches(next((lane for lane in lanes if cursor in lane.cursors), None), cursor) for cursor in cursors]
        try:
            for lane in lanes:
                lane.start()
            for lane in lanes:
                lane.ask()
        except BaseException:
            for each in batches:
                each.close()
            raise
        return list(batches)

    # --- writing ------------------------------------------------------------------------------------------------------

    def put(self, table: str, puts: Sequence[Put]) -> None:
        """Writes rows; see `Store.put`. Long lists are split into calls of at most 1,000 rows and about 1 MiB."""
        check_puts(table, puts)
        if puts:
            self._write(table, self._put_requests(self._name(table), puts), timed=all(put.timestamp is not None for put in puts))

    @abstractmethod
    def _put_requests(self, name: bytes, puts: Sequence[Put]) -> Iterator[Request]:
        """The calls that write rows."""

    def delete(self, table: str, deletes: Sequence[Delete]) -> None:
        """Deletes; see `Store.delete`.

        After a delete at the server's time it waits a tick of the clock, so that a put that follows is not hidden.
        """
        for delete in deletes:
            check_delete(table, delete)
        if not deletes:
            return
        timed = all(delete.timestamp is not None for delete in deletes)
        self._delete(table, deletes, timed)
        if not timed:
            time.sleep(CLOCK_TICK)

    @abstractmethod
    def _delete(self, table: str, deletes: Sequence[Delete], timed: bool) -> None:
        """Carries out deletes that were checked."""

    @abstractmethod
    def mutate_row(self, table: str, mutations: Sequence[Put | Delete]) -> None:
        """Applies puts and deletes of one row atomically; see `Store.mutate_row`."""

    def check_and_put(self, table: str, row: bytes, column: bytes, expected: bytes | None, put: Put) -> bool:
        """Puts one cell if another (or the same) is as expected; see `Store.check_and_put`."""
        check_row(table, row)
        check_column(table, column)
        check_put(table, put)
        if put.row != row or len(put.cells) != 1 or put.timestamp is not None:
            raise InvalidRequest("A check-and-put writes one cell of the checked row, without a timestamp.", table=table, key=row)
        request = self._check_and_put_request(self._name(table), column, expected or b"", put)
        return bool(self._call(Effect.ANEW, request, table=table, key=row))

    @abstractmethod
    def _check_and_put_request(self, name: bytes, column: bytes, expected: bytes, put: Put) -> Request:
        """The call that puts one cell if `column` holds exactly `expected`; empty expects an absent or empty cell."""

    @abstractmethod
    def check_and_mutate(self, table: str, row: bytes, column: bytes, expected: bytes | None, mutations: Sequence[Put | Delete]) -> bool:
        """Applies mutations of one row if a column is as expected; see `Store.check_and_mutate`."""

    def increment(self, table: str, row: bytes, column: bytes, amount: int) -> int:
        """Adds to a counter; see `Store.increment`."""
        check_row(table, row)
        check_column(table, column)
        if not -(2**63) <= amount < 2**63:
            raise InvalidRequest("An increment must fit in eight bytes.", table=table, key=row)
        request = self._increment_request(self._name(table), row, column, amount)
        return self._counted(self._call(Effect.ANEW, request, table=table, key=row))

    @abstractmethod
    def _increment_request(self, name: bytes, row: bytes, column: bytes, amount: int) -> Request:
        """The call that adds to a counter."""

    @abstractmethod
    def _counted(self, reply: Any) -> int:
        """The counter's new value from the reply to that call."""

    def _write(self, table: str, requests: Iterator[Request], timed: bool) -> None:
        exchange = Exchange(requests)

        def write(connection: ThriftConnection) -> None:
            # A write into a missing or disabled table ends, for a batch after many seconds, in a message that does not say so.
            if exchange.repeats:
                self._check_table(connection, table)
            try:
                exchange(connection)
            except self._failures as failure:
                if is_passing(failure, self._name(table).decode()):
                    with suppress(StoreUnavailable, UnknownOutcome):  # which would tell of this question only
                        self._check_table(connection, table)
                raise

        self._caller.run(Effect.SAME if timed else Effect.ANEW, write, table=table)

    def _check_table(self, connection: ThriftConnection, table: str) -> None:
        """Raises what is wrong with a table, if anything is."""
        connection.settle()
        if not connection.call("isTableEnabled", tableName=self._designation(self._name(table))):
            raise StoreError("The table is disabled.", table=table)

    # --- tables -------------------------------------------------------------------------------------------------------

    def tables(self) -> list[str]:
        """Names of all tables, sorted; with a prefix, of those that have it, without it."""
        return sorted(own for name in self._table_names() if (own := name_in_port(self._prefix, name)) is not None)

    @abstractmethod
    def _table_names(self) -> Iterable[str]:
        """The names of all tables, with their namespaces but for the default one."""

    @abstractmethod
    def families(self, table: str) -> list[Family]:
        """The column families of a table, sorted by name."""

    @abstractmethod
    def create_table(self, table: str, families: Sequence[Family], split_keys: Sequence[bytes] = ()) -> None:
        """Creates a table; see `Store.create_table`."""

    def delete_table(self, table: str) -> None:
        """Disables and drops a table; one that is disabled already is dropped."""
        designation = self._designation(self._name(table))
        try:
            self._administrate(("disableTable", {"tableName": designation}), table=table)
        except StoreError as error:
            if "TableNotEnabledException" not in (error.reason or ""):
                raise
        self._administrate(("deleteTable", {"tableName": designation}), table=table)

    @abstractmethod
    def regions(self, table: str) -> list[Region]:
        """The regions of a table in key order."""

    @abstractmethod
    def _designation(self, name: bytes) -> Any:
        """The argument by which calls about tables name one."""

    def _administrate(self, request: Request, **details: object) -> None:
        api, arguments = request

        def call(connection: ThriftConnection) -> None:
            connection.limit(max(self._wire.timeout, ADMINISTRATION_TIMEOUT))
            try:
                connection.call(api, **arguments)
            finally:
                connection.limit(self._wire.timeout)

        self._caller.run(Effect.ANEW, call, **details)

    # --- the store itself ---------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Closes the connections. Closing twice is allowed."""
        self._pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self._gateways)!r})"

    def _name(self, table: str) -> bytes:
        name = name_in_store(self._prefix, table)
        check_table_name(name if table else "")
        return name.encode()

    def _call(self, effect: Effect, request: Request, **details: object) -> Any:
        api, arguments = request
        return self._caller.run(effect, lambda connection: connection.call(api, **arguments), **details)


_URL_OPTIONS: dict[str, Callable[[str], Any]] = {
    "timeout": positive,
    "connect_timeout": positive,
    "pool": count,
    "transport": one_of("buffered", "framed"),
    "protocol": one_of("binary", "compact"),
    "table_prefix": str,
    "table_prefix_separator": str,
    "retry_for": not_negative,
    "attempts": count,
}
