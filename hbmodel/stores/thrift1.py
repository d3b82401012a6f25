"""The `Store` on HBase's first Thrift gateway (`hbase://`): happybase's service definition on pooled thriftpy2 connections."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, NoReturn, Self

from hbmodel.errors import CapabilityError, FamilyNotFound, InvalidRequest, StoreError, StoreUnavailable, TableNotFound, UnknownOutcome
from hbmodel.ranges import KeyRange
from hbmodel.store import Capabilities, Delete, Family, Put, Region, Row, Scan, check_row
from hbmodel.stores.calls import Backoff, Caller, Effect, Exchange
from hbmodel.stores.connection import PROTOCOLS, TRANSPORTS, Endpoint, Protocol, ThriftConnection, Transport
from hbmodel.stores.gateway_failures import is_passing
from hbmodel.stores.pool import Pool
from hbmodel.stores.read_requests import check_filter, distinct_columns
from hbmodel.stores.request_checks import check_column, check_family, check_put, check_read_columns, check_timestamp
from hbmodel.stores.shell_line import create_line
from hbmodel.stores.store_url import count, one_of, parse_store_url, positive
from hbmodel.stores.table_requests import check_new_table, check_table_name
from hbmodel.stores.thrift1_families import descriptor_of, family_of
from hbmodel.stores.thrift1_scan import Batches, Cursor, Lane
from hbmodel.stores.thrift1_service import FAILURES, SERVICE, Mutation
from hbmodel.stores.thrift1_writes import MAX_BYTES, MAX_ROWS, WriteCall, attributes, delete_calls, put_calls

DEFAULT_PORT = 9090

FAMILIES_KEPT = 60.0
"""Seconds for which the families of a table are remembered; a row is deleted by deleting them all."""

CLOCK_TICK = 0.002
"""Seconds between the answer to a delete at the server's time and its acknowledgement: such a tombstone hides puts of its own
millisecond, so one that follows at once would vanish."""

ADMINISTRATION_TIMEOUT = 120.0
"""Seconds to wait, at least, for a table to be created or dropped."""


class Thrift1Store:
    """Tables behind a Thrift gateway of the first kind (`hbase thrift start`).

    What the gateway cannot do raises CapabilityError: conditional or mixed atomic changes of a row, split keys, family
    settings beyond its column descriptor. A gateway of the second kind (`hbase+thrift2://`) can.

    Rows are handed out as thriftpy2 decodes them (`TRowResult`, `TCell`).

    Args:
        host: where the gateway listens.
        port: its TCP port.
        timeout: seconds that a request may go without a sign of life from the gateway.
        connect_timeout: seconds that opening a connection may take.
        pool_size: how many calls may be under way at once; connections that scans hold are counted apart.
        transport: `"buffered"`, or `"framed"` for a gateway started so (`-framed`, `-hsha`, `-nonblocking`).
        protocol: `"binary"`, or `"compact"` for a gateway started with `-compact` (decoded in Python, so much slower).
        table_prefix: put before every table name, with the separator; tables without it are not listed.
        table_prefix_separator: `_`, as in happybase.
        attempts: how often a call is tried that may be repeated.
    """

    token_key: bytes | str | None = None
    """Carried for sessions: seals their continuation tokens."""

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = DEFAULT_PORT,
        *,
        timeout: float = 30.0,
        connect_timeout: float = 5.0,
        pool_size: int = 4,
        transport: Transport = "buffered",
        protocol: Protocol = "binary",
        table_prefix: str | None = None,
        table_prefix_separator: str = "_",
        attempts: int = 5,
    ) -> None:
        if timeout <= 0 or connect_timeout <= 0 or pool_size < 1 or attempts < 1:
            raise InvalidRequest("Timeouts, pool size and attempts must be positive.")
        if transport not in TRANSPORTS or protocol not in PROTOCOLS:
            raise InvalidRequest("There is no such transport or protocol.", transport=transport, protocol=protocol)
        self._endpoint = Endpoint(host, port, timeout, connect_timeout, transport, protocol)
        self._prefix = "" if table_prefix is None else table_prefix + table_prefix_separator
        self._backoff = Backoff(attempts)
        self._pool: Pool[ThriftConnection] = Pool(partial(ThriftConnection, self._endpoint, SERVICE, FAILURES), pool_size, timeout)
        self._caller = Caller(self._pool, self._backoff, FAILURES)
        self._known_families: dict[str, tuple[float, list[bytes]]] = {}

    @classmethod
    def from_url(cls, url: str) -> Self:
        """A store from `hbase://host:port?timeout=30&pool=4&transport=framed&protocol=compact&table_prefix=...`.

        The options are the constructor's, `pool` being its `pool_size`. Nothing is connected yet.

        Raises:
            StoreURLError: the URL cannot be understood; `option` names an option that is unknown or bad.
        """
        return cls(**parse_store_url(url, "hbase", _URL_OPTIONS))

    @property
    def capabilities(self) -> Capabilities:
        """What this gateway can do."""
        return _CAPABILITIES

    # --- reading ------------------------------------------------------------------------------------------------------

    def get(self, table: str, rows: Sequence[bytes], columns: Sequence[bytes] = ()) -> list[Row | None]:
        """Reads rows; see `Store.get`. Long lists are split into several calls, of which some are sent ahead."""
        for row in rows:
            check_row(table, row)
        check_read_columns(table, columns)
        name = self._name(table)
        if not rows:
            return []
        wanted = distinct_columns(columns) or None
        exchange = Exchange(
            ("getRowsWithColumns", {"tableName": name, "rows": keys, "columns": wanted, "attributes": {}}) for keys in _portions(rows)
        )
        replies = self._caller.run(Effect.NONE, exchange, table=table)
        # The gateway leaves absent rows out.
        found: dict[bytes, Row] = {row.row: row for reply in replies for row in reply}
        return [found.get(row) for row in rows]

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
        name = self._name(table)
        cursors = [Cursor(name, scan) for scan in scans]
        live = [cursor for cursor in cursors if not cursor.finished]
        if not live:
            return [Batches(None, cursor) for cursor in cursors]
        leases = self._pool.lease_streams(len(live))
        lanes = [Lane(lease, live[first :: len(leases)], self._backoff, self._endpoint.timeout) for first, lease in enumerate(leases)]
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
        """Writes rows; see `Store.put`. One call per timestamp and TTL, of at most 1,000 rows and about 1 MiB."""
        for put in puts:
            check_put(table, put)
        if not puts:
            return
        timed = all(put.timestamp is not None for put in puts)
        self._write(table, put_calls(puts), timed)

    def delete(self, table: str, deletes: Sequence[Delete]) -> None:
        """Deletes; see `Store.delete`. A whole row goes by the families that the table had up to a minute ago.

        After a delete at the server's time it waits a tick of the clock, so that a put that follows is not hidden.
        """
        for delete in deletes:
            check_row(table, delete.row)
            check_timestamp(table, delete.timestamp)
            for family in delete.families:
                check_family(table, family)
            for column in delete.columns:
                check_column(table, column)
        if not deletes:
            return
        timed = all(delete.timestamp is not None for delete in deletes)
        whole_rows = not all(delete.families or delete.columns for delete in deletes)
        families = self._family_names(table) if whole_rows else []
        try:
            self._write(table, delete_calls(deletes, families), timed)
        except FamilyNotFound:
            known = self._known_families.pop(table, None)
            if not (whole_rows and timed) or known is None or self._family_names(table) == families:
                raise
            self._write(table, delete_calls(deletes, self._family_names(table)), timed)
        if not timed:
            time.sleep(CLOCK_TICK)

    def mutate_row(self, table: str, mutations: Sequence[Put | Delete]) -> NoReturn:
        """Not possible here: this gateway's mutateRow applies deletes, then puts, and not atomically."""
        raise CapabilityError(
            "The first Thrift gateway cannot put and delete in a row atomically; embedded: and hbase+thrift2: stores can.", table=table
        )

    def check_and_put(self, table: str, row: bytes, column: bytes, expected: bytes | None, put: Put) -> bool:
        """Puts one cell if another (or the same) is as expected; see `Store.check_and_put`."""
        check_row(table, row)
        check_column(table, column)
        check_put(table, put)
        if put.row != row or len(put.cells) != 1 or put.timestamp is not None:
            raise InvalidRequest("A check-and-put writes one cell of the checked row, without a timestamp.", table=table, key=row)
        [(target, value)] = put.cells.items()
        arguments = {
            "tableName": self._name(table),
            "row": row,
            "column": column,
            "value": expected or None,
            "mput": Mutation(column=target, value=value),
            "attributes": attributes(put.ttl),
        }
        return bool(self._call(Effect.ANEW, "checkAndPut", arguments, table=table, key=row))

    def check_and_mutate(
        self, table: str, row: bytes, column: bytes, expected: bytes | None, mutations: Sequence[Put | Delete]
    ) -> NoReturn:
        """Not possible here."""
        raise CapabilityError(
            "The first Thrift gateway cannot check and change a whole row; embedded: and hbase+thrift2: stores can.", table=table, key=row
        )

    def increment(self, table: str, row: bytes, column: bytes, amount: int) -> int:
        """Adds to a counter; see `Store.increment`."""
        check_row(table, row)
        check_column(table, column)
        if not -(2**63) <= amount < 2**63:
            raise InvalidRequest("An increment must fit in eight bytes.", table=table, key=row)
        arguments = {"tableName": self._name(table), "row": row, "column": column, "value": amount}
        return int(self._call(Effect.ANEW, "atomicIncrement", arguments, table=table, key=row))

    # --- tables -------------------------------------------------------------------------------------------------------

    def tables(self) -> list[str]:
        """Names of all tables, sorted; with a prefix, of those that have it, without it."""
        names = [name.decode() for name in self._call(Effect.NONE, "getTableNames", {})]
        return sorted(name.removeprefix(self._prefix) for name in names if name.startswith(self._prefix))

    def families(self, table: str) -> list[Family]:
        """The column families of a table, sorted by name, as far as the gateway tells: no block size, no configuration."""
        descriptors = self._call(Effect.NONE, "getColumnDescriptors", {"tableName": self._name(table)}, table=table)
        families = sorted((family_of(descriptor) for descriptor in descriptors.values()), key=lambda family: family.name)
        self._known_families[table] = (time.monotonic() + FAMILIES_KEPT, [family.name for family in families])
        return families

    def create_table(self, table: str, families: Sequence[Family], split_keys: Sequence[bytes] = ()) -> None:
        """Creates a table; see `Store.create_table`.

        Raises:
            CapabilityError: the gateway has no place for split keys, a block size or a configuration; `shell` is the line
                that does it in HBase's own shell.
        """
        name = self._prefix + table
        check_new_table(name if table else "", families, split_keys)
        if split_keys or any(family.configuration or family.block_size is not None for family in families):
            raise CapabilityError(
                "The first Thrift gateway cannot create a table with split keys, block sizes or family configuration; "
                "run this line in `hbase shell`, or use an hbase+thrift2: store.",
                table=table,
                shell=create_line(name, families, split_keys),
            )
        self._known_families.pop(table, None)
        self._administrate("createTable", table, columnFamilies=[descriptor_of(family) for family in families])

    def delete_table(self, table: str) -> None:
        """Disables and drops a table; one that is disabled already is dropped."""
        self._known_families.pop(table, None)
        try:
            self._administrate("disableTable", table)
        except StoreError as error:
            if "TableNotEnabledException" not in (error.reason or ""):
                raise
        self._administrate("deleteTable", table)

    def regions(self, table: str) -> list[Region]:
        """The regions of a table in key order."""
        found = self._call(Effect.NONE, "getTableRegions", {"tableName": self._name(table)}, table=table)
        if not found:  # the gateway's answer for a table that does not exist
            raise TableNotFound("There is no such table.", table=table)
        regions = [Region(KeyRange(region.startKey, region.endKey or None), region.name) for region in found]
        return sorted(regions, key=lambda region: region.range.start)

    # --- the store itself ---------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Closes the connections. Closing twice is allowed."""
        self._pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Thrift1Store({self._endpoint.host!r}, {self._endpoint.port})"

    def _name(self, table: str) -> bytes:
        name = self._prefix + table
        check_table_name(name if table else "")
        return name.encode()

    def _call(self, effect: Effect, api: str, arguments: dict[str, Any], **details: object) -> Any:
        return self._caller.run(effect, lambda connection: connection.call(api, **arguments), **details)

    def _administrate(self, api: str, table: str, **arguments: Any) -> None:
        def call(connection: ThriftConnection) -> None:
            connection.limit(max(self._endpoint.timeout, ADMINISTRATION_TIMEOUT))
            try:
                connection.call(api, tableName=self._name(table), **arguments)
            finally:
                connection.limit(self._endpoint.timeout)

        self._caller.run(Effect.ANEW, call, table=table)

    def _write(self, table: str, calls: Iterator[WriteCall], timed: bool) -> None:
        name = self._name(table)
        exchange = Exchange(call.request(name) for call in calls)

        def write(connection: ThriftConnection) -> None:
            # A write into a missing or disabled table ends, for a batch after many seconds, in a message that does not say so.
            if exchange.repeats:
                self._check_table(connection, table)
            try:
                exchange(connection)
            except FAILURES as failure:
                if is_passing(failure):
                    with suppress(StoreUnavailable, UnknownOutcome):  # which would tell of this question only
                        self._check_table(connection, table)
                raise

        self._caller.run(Effect.SAME if timed else Effect.ANEW, write, table=table)

    def _check_table(self, connection: ThriftConnection, table: str) -> None:
        """Raises what is wrong with a table, if anything is."""
        connection.settle()
        if not connection.call("isTableEnabled", tableName=self._name(table)):
            raise StoreError("The table is disabled.", table=table)

    def _family_names(self, table: str) -> list[bytes]:
        known = self._known_families.get(table)
        if known is not None and time.monotonic() < known[0]:
            return known[1]
        return [family.name for family in self.families(table)]


_CAPABILITIES = Capabilities(check_and_mutate=False, mutate_row=False, presplit=False, family_configuration=False, put_ttl_mixed=False)

_URL_OPTIONS: dict[str, tuple[str, Any]] = {
    "timeout": ("timeout", positive),
    "connect_timeout": ("connect_timeout", positive),
    "pool": ("pool_size", count),
    "transport": ("transport", one_of("buffered", "framed")),
    "protocol": ("protocol", one_of("binary", "compact")),
    "table_prefix": ("table_prefix", str),
    "table_prefix_separator": ("table_prefix_separator", str),
    "attempts": ("attempts", count),
}


# --- requests and answers -------------------------------------------------------------------------------------------------


def _portions(rows: Sequence[bytes]) -> Iterable[list[bytes]]:
    portion: list[bytes] = []
    size = 0
    for row in rows:
        if portion and (len(portion) == MAX_ROWS or size + len(row) > MAX_BYTES):
            yield portion
            portion, size = [], 0
        portion.append(row)
        size += len(row)
    if portion:
        yield portion
