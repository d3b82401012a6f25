"""The base class of the stores on HBase's two Thrift gateways, which checks arguments and orders the calls."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from attrs import frozen

from hbmodel.errors import StoreError, StoreUnavailable, UnknownOutcome
from hbmodel.store.checks.reads import check_scans, wanted_columns
from hbmodel.store.checks.rows import (
    check_conditional_put,
    check_delete,
    check_get,
    check_increment,
    check_rows,
    check_versions,
)
from hbmodel.store.checks.tables import OWN_NAMESPACE, check_family, check_namespace, check_new_table
from hbmodel.store.clock_tick import deletes_now, let_tick_pass
from hbmodel.store.gateway.call_batches import check_puts, in_batches
from hbmodel.store.gateway.client import GatewayClient
from hbmodel.store.gateway.failures import is_passing
from hbmodel.store.gateway.pipeline import Exchange
from hbmodel.store.gateway.pool import Lease
from hbmodel.store.gateway.retry import IN_DOUBT, Idempotence
from hbmodel.store.gateway.scanning.scan_calls import Request
from hbmodel.store.gateway.scanning.scan_starter import ScanStarter
from hbmodel.store.gateway.spread_writes import spread
from hbmodel.store.gateway.table_names import name_in_port, name_in_store
from hbmodel.store.gateway.wire.connection import ThriftConnection
from hbmodel.store.port import BegunPut, Capabilities, carry_out
from hbmodel.store.values import Cell, ConditionalChange, ConditionalPut, Delete, Family, Get, Put, Region, Row, Scan

ADMINISTRATION_TIMEOUT = 120.0
"""The minimum timeout, in seconds, for the creation or the drop of a table."""

_UNKNOWN_TABLES = (
    "HBase may or may not have carried out the change of its tables, and may still be working on it: look at them with "
    "store.tables() or hb.diff(), and call again if the change is missing."
)

_WITHOUT_VALUE = (
    "HBase answered without the counter's new value. This happens if the gateway repeats an increment that was "
    "carried out before a region server failed."
)


class GatewayStore(GatewayClient):
    """A store on a Thrift gateway. The arguments are those of `GatewayClient`."""

    @property
    @abstractmethod
    def capabilities(self) -> Capabilities:
        """The capabilities of the gateway."""

    # --- reading ------------------------------------------------------------------------------------------------------

    def get(self, table: str, rows: Sequence[bytes], columns: Sequence[bytes] = ()) -> list[Row | None]:
        """Reads rows; see `Store.get`. Long lists are split into several calls, some of which are sent ahead."""
        size = check_rows(table, rows)
        wanted = wanted_columns(table, columns)
        name = self._name(table)
        if not rows:
            return []
        overhead, sizes = self._question_overhead(wanted), self._sizes
        if len(rows) <= sizes.rows and size + len(rows) * overhead <= sizes.read_bytes:
            return self._found(
                rows, (self._call(Idempotence.NONE, self._get_request(name, rows, wanted), table=table),)
            )
        question_batches = in_batches(rows, lambda row: len(row) + overhead, sizes.read_bytes, sizes.rows)
        exchange = Exchange(self._get_request(name, batch, wanted) for batch in question_batches)
        return self._found(rows, self._caller.run(Idempotence.NONE, exchange, table=table))

    @abstractmethod
    def _get_request(self, name: bytes, rows: Sequence[bytes], columns: Sequence[bytes]) -> Request:
        """Returns the call that reads rows."""

    @abstractmethod
    def _question_overhead(self, columns: Sequence[bytes]) -> int:
        """Returns how many bytes each row adds to a call of `_get_request`, without its key."""

    @abstractmethod
    def _found(self, rows: Sequence[bytes], replies: Iterable[Any]) -> list[Row | None]:
        """Returns the result of `get`, made from the replies to its calls."""

    def get_each(self, table: str, gets: Sequence[Get]) -> Sequence[Row | None]:
        """Reads different columns of each row; see `Store.get_each`."""
        for get in gets:
            check_get(table, get)
        return self._get_each(table, gets) if gets else []

    @abstractmethod
    def _get_each(self, table: str, gets: Sequence[Get]) -> Sequence[Row | None]:
        """Carries out reads that have been checked."""

    def versions(self, table: str, row: bytes, columns: Sequence[bytes], limit: int) -> Sequence[Sequence[Cell]]:
        """Reads more than the newest version of some cells; see `VersionsStore`."""
        check_versions(table, row, columns, limit)
        return self._versions(table, row, columns, limit) if columns else []

    @abstractmethod
    def _versions(self, table: str, row: bytes, columns: Sequence[bytes], limit: int) -> Sequence[Sequence[Cell]]:
        """Carries out a read that has been checked."""

    def scan(self, table: str, scans: Sequence[Scan]) -> list[Iterator[Sequence[Row]]]:
        """Starts scans; see `Store.scan`. They are spread over the free connections. The first requests are sent at
        once.

        If a connection breaks, or the gateway drops a scanner, the scan continues after the last row that was received.
        The iterators have a `close()`.
        """
        check_scans(table, scans)
        return self._scan(self._name(table), scans, table)

    def _scan(self, name: bytes, scans: Sequence[Scan], called: str) -> list[Iterator[Sequence[Row]]]:
        """Starts scans that have been checked; see `ScanStarter.start`."""
        starter = ScanStarter(
            self.SCAN_CALLS, self.SERVICE, self._pool, self._caller, self._backoff, self._wire, self._sizes
        )
        return starter.start(name, scans, called)

    # --- writing ------------------------------------------------------------------------------------------------------

    def put(self, table: str, puts: Sequence[Put]) -> None:
        """Writes rows; see `Store.put`. Long lists are split into calls of at most 1,000 rows and about 1 MiB."""
        size = check_puts(table, puts)
        if puts:
            self._carry_out(table, Exchange(self._put_requests(self._name(table), puts, size)), _timed(puts))

    def begin_put(self, table: str, puts: Sequence[Put]) -> BegunPut:
        """Begins a put; see `PipelinedStore.begin_put`.

        The put is sent at once if the pool has a connection to spare and all timestamps are given. A put with given
        timestamps may safely be sent again.
        """
        size, timed = check_puts(table, puts), _timed(puts)
        if not puts:
            return _BegunPut(lambda: None, None)
        exchange = Exchange(self._put_requests(self._name(table), puts, size))
        begun = self._caller.begin(exchange) if timed else None
        return _BegunPut(partial(self._carry_out, table, exchange, timed, begun), begun)

    @abstractmethod
    def _put_requests(self, name: bytes, puts: Sequence[Put], size: int) -> Iterator[Request]:
        """Yields the calls that write rows. `size` is the sum of the `put_size` of the puts."""

    def delete(self, table: str, deletes: Sequence[Delete]) -> None:
        """Deletes rows or cells; see `Store.delete`.

        After a delete at the server's time, this method waits for the next tick of the clock, so that the delete does
        not hide a put that follows it.
        """
        for delete in deletes:
            check_delete(table, delete)
        if not deletes:
            return
        timed = _timed(deletes)
        self._delete(table, deletes, timed)
        if not timed:
            let_tick_pass()

    @abstractmethod
    def _delete(self, table: str, deletes: Sequence[Delete], timed: bool) -> None:
        """Carries out deletes that have been checked."""

    @abstractmethod
    def mutate_row(self, table: str, mutations: Sequence[Put | Delete]) -> None:
        """Applies puts and deletes of one row atomically; see `Store.mutate_row`."""

    def check_and_put(self, table: str, row: bytes, column: bytes, expected: bytes | None, put: Put) -> bool:
        """Puts one cell if another cell, or the same cell, has the expected value; see `Store.check_and_put`."""
        check_conditional_put(table, row, column, put)
        request = self._check_and_put_request(self._name(table), column, expected or b"", put)
        return bool(self._call(Idempotence.ANEW, request, table=table, key=row))

    def change_and_get(
        self, table: str, change: ConditionalChange | ConditionalPut, columns: Sequence[bytes]
    ) -> tuple[bool, Sequence[Row | None] | None]:
        """Changes a row on a condition, and reads it in the same round trip; see `ChangeAndGetStore`.

        A gateway carries out the requests of one connection sequentially, so the read is after the change. There is no
        read over HTTP, nor after a delete at the server's time, because such a delete must be followed by a clock tick.
        """
        mutations = (change.put,) if isinstance(change, ConditionalPut) else change.mutations
        if self._wire.transport == "http" or deletes_now(mutations):
            return carry_out(self, table, change), None
        if isinstance(change, ConditionalPut):
            row = change.put.row
            check_conditional_put(table, row, change.column, change.put)
            request = self._check_and_put_request(self._name(table), change.column, change.expected or b"", change.put)
        else:
            row, request = change.row, self._check_and_mutate_request(table, change)
        check_rows(table, [row])
        api, arguments = request
        lost: tuple[type[Exception], ...] = (StoreUnavailable, UnknownOutcome, *self._failures)
        read, what = self._get_request(self._name(table), [row], wanted_columns(table, columns))

        def both(connection: ThriftConnection) -> tuple[bool, Sequence[Row | None] | None]:
            connection.send(api, **arguments)
            try:
                connection.send(read, **what)
            except StoreUnavailable as error:
                raise UnknownOutcome(error.message, **error.details) from error
            applied = bool(connection.receive())
            try:
                return applied, self._found([row], (connection.receive(),))
            except lost:
                return applied, None

        return self._caller.run(Idempotence.ANEW, both, table=table, key=row)

    @abstractmethod
    def _check_and_mutate_request(self, table: str, change: ConditionalChange) -> Request:
        """Returns the call for a conditional change, after checking the change. Raises `CapabilityError` if the gateway
        has no such call.
        """

    def check_and_put_each(self, table: str, puts: Sequence[ConditionalPut]) -> list[bool]:
        """Puts one cell in each of many rows if another cell of the row, or the same cell, has the expected value; see
        `ConditionalPutsStore`.
        """
        for each in puts:
            check_conditional_put(table, each.put.row, each.column, each.put)
        name = self._name(table)
        requests = [self._check_and_put_request(name, each.column, each.expected or b"", each.put) for each in puts]
        return [bool(reply) for reply in spread(self._caller, self._pool.size, requests, table)] if requests else []

    @abstractmethod
    def _check_and_put_request(self, name: bytes, column: bytes, expected: bytes, put: Put) -> Request:
        """Returns the call that puts one cell if `column` holds exactly `expected`. If `expected` is empty, the cell
        must be absent or empty.
        """

    @abstractmethod
    def check_and_mutate(
        self, table: str, row: bytes, column: bytes, expected: bytes | None, mutations: Sequence[Put | Delete]
    ) -> bool:
        """Applies mutations of one row if a column has the expected value; see `Store.check_and_mutate`."""

    @abstractmethod
    def check_and_mutate_many(self, table: str, changes: Sequence[ConditionalChange]) -> Sequence[bool]:
        """Applies mutations of many rows, each on its condition; see `Store.check_and_mutate_many`."""

    def increment(self, table: str, row: bytes, column: bytes, amount: int) -> int:
        """Adds to a counter; see `Store.increment`."""
        check_increment(table, row, column, amount)
        request = self._increment_request(self._name(table), row, column, amount)
        value = self._counted(self._call(Idempotence.ANEW, request, table=table, key=row))
        if value is None:
            # HBase has carried out the increment, but a value that is read now may include increments by other
            # programs.
            raise UnknownOutcome(IN_DOUBT, table=table, key=row, reason=_WITHOUT_VALUE)
        return value

    @abstractmethod
    def _increment_request(self, name: bytes, row: bytes, column: bytes, amount: int) -> Request:
        """Returns the call that adds to a counter."""

    @abstractmethod
    def _counted(self, reply: Any) -> int | None:
        """Returns the counter's new value from the reply to the call, or None if the reply has no value or an older
        value.
        """

    def _write(self, table: str, requests: Iterator[Request], timed: bool) -> None:
        self._carry_out(table, Exchange(requests), timed)

    def _carry_out(
        self, table: str, exchange: Exchange, timed: bool, begun: Lease[ThriftConnection] | None = None
    ) -> None:
        def write(connection: ThriftConnection) -> None:
            # A write to a missing or disabled table fails with a message that does not give this reason, and a batch
            # fails only after many seconds. So the table is checked before a write is repeated.
            if exchange.repeats:
                self._check_table(connection, table)
            try:
                exchange(connection)
            except self._failures as failure:
                if is_passing(failure, self._name(table).decode()):
                    with suppress(StoreUnavailable, UnknownOutcome):  # these errors concern only this check
                        self._check_table(connection, table)
                raise

        self._caller.run(Idempotence.SAME if timed else Idempotence.ANEW, write, begun, table=table)

    def _check_table(self, connection: ThriftConnection, table: str) -> None:
        """Raises an error if a table is missing or disabled."""
        connection.settle()
        if not connection.call("isTableEnabled", tableName=self._designation(self._name(table))):
            raise StoreError("The table is disabled: enable it in `hbase shell`.", table=table)

    # --- tables -------------------------------------------------------------------------------------------------------

    def tables(self) -> list[str]:
        """Returns the names of all tables, sorted. If the store has a prefix, only tables with the prefix are included,
        without it.
        """
        return sorted(own for name in self._table_names() if (own := name_in_port(self._prefix, name)) is not None)

    @abstractmethod
    def _table_names(self) -> Iterable[str]:
        """Yields the names of all tables, with their namespaces, except the default namespace."""

    def families(self, table: str) -> list[Family]:
        """Returns the column families of a table, sorted by name, with the options that the gateway reports."""
        return sorted(self._found_families(table), key=lambda family: family.name)

    @abstractmethod
    def _found_families(self, table: str) -> Iterable[Family]:
        """Yields the column families of a table."""

    def create_table(self, table: str, families: Sequence[Family], split_keys: Sequence[bytes] = ()) -> None:
        """Creates a table; see `Store.create_table`. The order of the split keys does not matter.

        Raises:
            CapabilityError: the gateway cannot create such a table; `shell` is the command that creates it in `hbase
                shell`.
        """
        name = name_in_store(self._prefix, table)
        check_new_table(name if table else "", families, split_keys)
        self._administrate(self._create_table_request(name, table, families, split_keys), table=table)

    @abstractmethod
    def _create_table_request(
        self, name: str, table: str, families: Sequence[Family], split_keys: Sequence[bytes]
    ) -> Request:
        """Returns the call that creates a table."""

    def add_family(self, table: str, family: Family) -> None:
        """Adds a column family; see `Store.add_family`.

        The `shell` of a `CapabilityError` is the command that does the same in `hbase shell`.
        """
        check_family(table, family)
        self._administrate(self._add_family_request(table, family), table=table)

    @abstractmethod
    def _add_family_request(self, table: str, family: Family) -> Request:
        """Returns the call that adds a column family."""

    def modify_family(self, table: str, family: Family) -> None:
        """Changes options of a column family; see `Store.modify_family`, and `add_family`.

        If another program changes the same family at the same time, its change may be lost.
        """
        check_family(table, family)
        self._administrate(self._modify_family_request(table, family), table=table, family=family.name)

    @abstractmethod
    def _modify_family_request(self, table: str, family: Family) -> Request:
        """Returns the call that changes a column family."""

    def namespaces(self) -> list[str]:
        """Returns the names of all namespaces, sorted."""
        return sorted(set(self._namespace_names()) - {OWN_NAMESPACE})

    @abstractmethod
    def _namespace_names(self) -> Iterable[str]:
        """Yields the names of all namespaces, with or without HBase's own."""

    def create_namespace(self, namespace: str) -> None:
        """Creates a namespace; see `Store.create_namespace`, and `add_family`."""
        check_namespace(namespace)
        self._administrate(self._create_namespace_request(namespace), namespace=namespace)

    @abstractmethod
    def _create_namespace_request(self, namespace: str) -> Request:
        """Returns the call that creates a namespace."""

    def delete_namespace(self, namespace: str) -> None:
        """Deletes a namespace without tables; see `Store.delete_namespace`."""
        check_namespace(namespace)
        self._administrate(self._delete_namespace_request(namespace), namespace=namespace)

    @abstractmethod
    def _delete_namespace_request(self, namespace: str) -> Request:
        """Returns the call that deletes a namespace."""

    def delete_table(self, table: str) -> None:
        """Disables and drops a table. A table that is already disabled is only dropped."""
        designation = self._designation(self._name(table))
        try:
            self._administrate(("disableTable", {"tableName": designation}), table=table)
        except StoreError as error:
            if "TableNotEnabledException" not in (error.reason or ""):
                raise
        self._administrate(("deleteTable", {"tableName": designation}), table=table)

    def regions(self, table: str) -> list[Region]:
        """Returns the regions of a table in key order."""
        return sorted(self._found_regions(table), key=lambda region: region.range.start)

    @abstractmethod
    def _found_regions(self, table: str) -> Iterable[Region]:
        """Yields the regions of a table."""

    @abstractmethod
    def _designation(self, name: bytes) -> Any:
        """Returns the argument that names a table in calls about tables."""

    def _administrate(self, request: Request, **details: object) -> None:
        api, arguments = request

        def call(connection: ThriftConnection) -> None:
            connection.limit(max(self._wire.timeout, ADMINISTRATION_TIMEOUT))
            try:
                connection.call(api, **arguments)
            finally:
                connection.limit(self._wire.timeout)

        try:
            self._caller.run(Idempotence.ANEW, call, **details)
        except UnknownOutcome as error:
            raise UnknownOutcome(_UNKNOWN_TABLES, **error.details) from error.__cause__


@frozen
class _BegunPut:
    """A `BegunPut` with the function that ends the put, and with the connection on which the put was begun, if any."""

    end: Callable[[], None]
    lease: Lease[ThriftConnection] | None

    def abandon(self) -> None:
        """Closes the connection, without reading the answer on it."""
        if self.lease is not None:
            self.lease.drop()
            self.lease.release()


def _timed(mutations: Iterable[Put | Delete]) -> bool:
    """Returns whether applying the mutations again leaves the same cells."""
    return None not in [mutation.timestamp for mutation in mutations]
