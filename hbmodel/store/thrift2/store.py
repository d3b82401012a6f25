"""The `Store` on HBase's second Thrift gateway (`hbase+thrift2://`), with pooled thriftpy2 connections."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from hbmodel.errors import FamilyNotFound, StoreError, TableNotFound
from hbmodel.store.checks.reads import distinct_columns
from hbmodel.store.checks.rows import (
    NO_FAMILY,
    NO_TABLE,
    check_conditional_change,
    check_conditional_changes,
    check_row_change,
)
from hbmodel.store.clock_tick import deletes_now, let_tick_pass
from hbmodel.store.filters import And, ColumnPrefix, FirstCellOnly, KeyOnly
from hbmodel.store.gateway.call_batches import in_batches
from hbmodel.store.gateway.filter_language import filter_string
from hbmodel.store.gateway.pipeline import Exchange
from hbmodel.store.gateway.retry import Idempotence
from hbmodel.store.gateway.scanning.scan_calls import Request
from hbmodel.store.gateway.spread_writes import spread
from hbmodel.store.gateway.store import GatewayStore
from hbmodel.store.port import EVERYTHING_POSSIBLE, Capabilities
from hbmodel.store.ranges import KeyRange
from hbmodel.store.thrift2.family_descriptors import changed, descriptor_of, family_of, name_of, table_name
from hbmodel.store.thrift2.scans import Thrift2ScanCalls
from hbmodel.store.thrift2.service import (
    SERVICE,
    GetColumn,
    GetRow,
    TColumnIncrement,
    TCompareOp,
    TIncrement,
    TNamespaceDescriptor,
    TTableDescriptor,
    time_range,
)
from hbmodel.store.thrift2.writes import column_of, delete_requests, put_requests, row_mutations
from hbmodel.store.values import Cell, ConditionalChange, Delete, Family, Get, Put, Region, Row, Scan

# The number of bytes that Thrift's binary protocol adds to the row key of a get, and to each column of the get.
_GET_OVERHEAD = 16
_COLUMN_OVERHEAD = 16

_META = b"hbase:meta"

STALE = 3 * 24 * 3600 * 1000
"""If the reply to an increment contains a cell that is at least this many ms old, the cell holds an older value of the
counter, because an increment gets the server's time. Such replies occur if the gateway repeats an increment that was
carried out before a region server failed. HBase then reads the row in its state before all writes. It finds either no
cell, or a cell from a file that is at least five days old, for whose cells the order of writes is no longer stored
(HBase 2.6.1).
"""


class Thrift2Store(GatewayStore):
    """A store on a Thrift2 gateway (`hbase thrift2 start`). The arguments are those of `GatewayStore`.

    It supports everything in the `Store` port. Rows are returned as the objects that Thrift's decoder makes
    (`ResultRow`, `ResultCell`), without a conversion.
    """

    SCHEME = "hbase+thrift2"
    DEFAULT_PORT = 9090
    SERVICE = SERVICE
    SCAN_CALLS = Thrift2ScanCalls()

    @property
    def capabilities(self) -> Capabilities:
        return EVERYTHING_POSSIBLE

    def _get_request(self, name: bytes, rows: Sequence[bytes], columns: Sequence[bytes]) -> Request:
        wanted = _columns(*columns) or None
        return "getMultiple", {"table": name, "tgets": [GetRow(row, wanted) for row in rows]}

    def _get_each(self, table: str, gets: Sequence[Get]) -> Sequence[Row | None]:
        name = self._name(table)

        def size(get: Get) -> int:
            return len(get.row) + len(get.prefix) + self._question_overhead(get.columns)

        question_batches = in_batches(gets, size, self._sizes.read_bytes, self._sizes.rows)
        exchange = Exchange(
            ("getMultiple", {"table": name, "tgets": [_get_row(get) for get in batch]}) for batch in question_batches
        )
        return self._found((), self._caller.run(Idempotence.NONE, exchange, table=table))

    def _question_overhead(self, columns: Sequence[bytes]) -> int:
        return _GET_OVERHEAD + sum(_COLUMN_OVERHEAD + len(column) for column in columns)

    def _found(self, rows: Sequence[bytes], replies: Iterable[Any]) -> list[Row | None]:
        # For an absent row, the answer contains an empty result.
        return [row if row.columnValues else None for reply in replies for row in reply]

    def _versions(self, table: str, row: bytes, columns: Sequence[bytes], limit: int) -> Sequence[Sequence[Cell]]:
        get = GetRow(row, _get_columns(distinct_columns(columns)), maxVersions=limit)
        ((result,),) = self._caller.run(
            Idempotence.NONE, Exchange([("getMultiple", {"table": self._name(table), "tgets": [get]})]), table=table
        )
        by_column: dict[bytes, list[Cell]] = {}
        for cell in result.columnValues:
            by_column.setdefault(cell.family + b":" + cell.qualifier, []).append(cell)
        return [by_column.get(column, []) for column in columns]

    # --- writing ------------------------------------------------------------------------------------------------------

    def _put_requests(self, name: bytes, puts: Sequence[Put], size: int) -> Iterator[Request]:
        return put_requests(name, puts, size, self._sizes)

    def _delete(self, table: str, deletes: Sequence[Delete], timed: bool) -> None:
        self._write(table, delete_requests(self._name(table), deletes, self._sizes), timed)

    def mutate_row(self, table: str, mutations: Sequence[Put | Delete]) -> None:
        """Applies puts and deletes of one row atomically; see `Store.mutate_row`.

        The call is repeated only if all timestamps are given. After a delete at the server's time, this method waits
        for the next tick of the clock, as `delete` does.
        """
        if not mutations:
            return
        check_row_change(table, mutations[0].row, mutations)
        request = "mutateRow", {"table": self._name(table), "trowMutations": row_mutations(mutations)}
        self._write(table, iter([request]), timed=all(mutation.timestamp is not None for mutation in mutations))
        if deletes_now(mutations):
            let_tick_pass()

    def _check_and_put_request(self, name: bytes, column: bytes, expected: bytes, put: Put) -> Request:
        return _check_and_mutate(name, column, expected, [put])

    def check_and_mutate(
        self, table: str, row: bytes, column: bytes, expected: bytes | None, mutations: Sequence[Put | Delete]
    ) -> bool:
        request = self._check_and_mutate_request(table, ConditionalChange(row, column, expected, mutations))
        applied = bool(self._call(Idempotence.ANEW, request, table=table, key=row))
        if applied and deletes_now(mutations):
            let_tick_pass()
        return applied

    def _check_and_mutate_request(self, table: str, change: ConditionalChange) -> Request:
        check_conditional_change(table, change.row, change.column, change.mutations)
        return _check_and_mutate(self._name(table), change.column, change.expected or b"", change.mutations)

    def check_and_mutate_many(self, table: str, changes: Sequence[ConditionalChange]) -> list[bool]:
        check_conditional_changes(table, changes)
        if not changes:
            return []
        name = self._name(table)
        requests = [
            _check_and_mutate(name, change.column, change.expected or b"", change.mutations) for change in changes
        ]
        applied = [bool(reply) for reply in spread(self._caller, self._pool.size, requests, table)]
        if any(done and deletes_now(change.mutations) for done, change in zip(applied, changes, strict=True)):
            let_tick_pass()
        return applied

    def _increment_request(self, name: bytes, row: bytes, column: bytes, amount: int) -> Request:
        family, _, qualifier = column.partition(b":")
        columns = [TColumnIncrement(family=family, qualifier=qualifier, amount=amount)]
        return "increment", {"table": name, "tincrement": TIncrement(row=row, columns=columns)}

    def _counted(self, reply: Any) -> int | None:
        cells = reply.columnValues
        if not cells or cells[0].timestamp < time.time() * 1000 - STALE:
            return None
        return int.from_bytes(cells[0].value, signed=True)

    # --- tables -------------------------------------------------------------------------------------------------------

    def _table_names(self) -> Iterable[str]:
        return (
            name_of(table_name)
            for table_name in self._call(Idempotence.NONE, ("getTableNamesByPattern", {"includeSysTables": False}))
        )

    def _found_families(self, table: str) -> Iterable[Family]:
        return map(family_of, self._descriptors(table))

    def _descriptors(self, table: str) -> list[Any]:
        request = "getTableDescriptor", {"table": table_name(self._name(table))}
        return list(self._call(Idempotence.NONE, request, table=table).columns)

    def _create_table_request(
        self, name: str, table: str, families: Sequence[Family], split_keys: Sequence[bytes]
    ) -> Request:
        descriptor = TTableDescriptor(
            tableName=table_name(name.encode()), columns=[descriptor_of(family) for family in families]
        )
        return "createTable", {"desc": descriptor, "splitKeys": sorted(split_keys) or None}

    def _add_family_request(self, table: str, family: Family) -> Request:
        return "addColumnFamily", {"tableName": table_name(self._name(table)), "column": descriptor_of(family)}

    def _modify_family_request(self, table: str, family: Family) -> Request:
        """Returns the call that changes a column family.

        The gateway would reset every option that is missing from the call to HBase's default. So the live descriptor is
        read, and sent back with the changes. If another program changes the family between the read and the call, its
        change is lost.
        """
        live = next((descriptor for descriptor in self._descriptors(table) if descriptor.name == family.name), None)
        if live is None:
            raise FamilyNotFound(NO_FAMILY, table=table, family=family.name)
        return "modifyColumnFamily", {"tableName": table_name(self._name(table)), "column": changed(live, family)}

    def _namespace_names(self) -> Iterable[str]:
        return (
            descriptor.name.decode() for descriptor in self._call(Idempotence.NONE, ("listNamespaceDescriptors", {}))
        )

    def _create_namespace_request(self, namespace: str) -> Request:
        return "createNamespace", {"namespaceDesc": TNamespaceDescriptor(name=namespace)}

    def _delete_namespace_request(self, namespace: str) -> Request:
        return "deleteNamespace", {"name": namespace}

    def _found_regions(self, table: str) -> Iterable[Region]:
        """Yields the regions of a table, with their names.

        The gateway reports where regions begin and end, but not their names, so the names are read from HBase's
        catalogue. If the program may not read the catalogue, or the catalogue currently differs from the gateway's
        answer, a region gets only the known part of its name: `table,start row`.
        """
        name = self._name(table)
        locations = self._call(Idempotence.NONE, ("getAllRegionLocations", {"table": name}), table=table)
        if not locations:  # the gateway answers this for a table that does not exist
            raise TableNotFound(NO_TABLE, table=table)
        names = self._region_names(table)
        for location in locations:
            start: bytes = location.regionInfo.startKey
            if not location.regionInfo.replicaId:
                yield Region(KeyRange(start, location.regionInfo.endKey or None), names.get(start, name + b"," + start))

    def _region_names(self, table: str) -> dict[bytes, bytes]:
        """Returns the names of a table's regions by their start rows.

        The names are the row keys of the catalogue, of the form `table,start row,number.hash.`. A region that was split
        stays in the catalogue for a while. The region that now begins at the same row has a higher number, so it comes
        later in the scan, and its name replaces the old one.
        """
        name = self._name(table)
        # The catalogue is ordered by table, then start row, then number, and the bounds of a scan must have all three.
        scan = Scan(KeyRange(name + b",,", name + b"-,,"), columns=[b"info:regioninfo"], filter=_KEYS)
        [batches] = self._scan(_META, [scan], table)
        names: dict[bytes, bytes] = {}
        try:
            for batch in batches:
                names.update((row.row[len(name) + 1 :].rpartition(b",")[0], row.row) for row in batch)
        except StoreError as error:
            if type(error) is not StoreError:
                raise
            return {}  # HBase refused to read its catalogue
        return names

    def _designation(self, name: bytes) -> Any:
        return table_name(name)


_KEYS = And([FirstCellOnly(), KeyOnly()])


@lru_cache(1000)
def _columns(*columns: bytes) -> Sequence[Any]:
    return [column_of(column) for column in columns]


def _get_row(get: Get) -> GetRow:
    chosen = filter_string(ColumnPrefix(get.prefix)) if get.prefix else None
    return GetRow(get.row, _get_columns(distinct_columns(get.columns)) or None, chosen, time_range(get.before))


def _get_columns(columns: Sequence[bytes]) -> list[GetColumn]:
    parts = [column.partition(b":") for column in columns]
    return [GetColumn(family, qualifier if colon else None) for family, colon, qualifier in parts]


# --- requests ---------------------------------------------------------------------------------------------------------


def _check_and_mutate(name: bytes, column: bytes, expected: bytes, mutations: Sequence[Put | Delete]) -> Request:
    family, _, qualifier = column.partition(b":")
    return "checkAndMutate", {
        "table": name,
        "row": mutations[0].row,
        "family": family,
        "qualifier": qualifier,
        "compareOp": TCompareOp.EQUAL,
        "value": expected,  # an empty value matches an absent or empty cell; without a value the gateway fails
        "rowMutations": row_mutations(mutations),
    }
