"""The `Store` on HBase's first Thrift gateway (`hbase://`): happybase's service definition on pooled thriftpy2
connections.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NoReturn

from hbmodel.errors import CapabilityError, FamilyNotFound, StoreError, TableNotFound
from hbmodel.store.checks.rows import NO_TABLE
from hbmodel.store.filters import ColumnPrefix
from hbmodel.store.gateway.pipeline import Exchange
from hbmodel.store.gateway.retry import Idempotence
from hbmodel.store.gateway.scanning.scan_calls import Request
from hbmodel.store.gateway.store import GatewayStore
from hbmodel.store.gateway.ttl_attributes import ttl_attributes
from hbmodel.store.port import Capabilities
from hbmodel.store.ranges import KeyRange
from hbmodel.store.shell_commands import alter_line, create_line, create_namespace_line
from hbmodel.store.thrift1.family_descriptors import KnownFamilies, descriptor_of, family_of
from hbmodel.store.thrift1.gets import Questions
from hbmodel.store.thrift1.scans import Thrift1ScanCalls
from hbmodel.store.thrift1.service import SERVICE, Mutation, in_order
from hbmodel.store.thrift1.writes import delete_calls, put_calls
from hbmodel.store.values import Cell, ConditionalChange, Delete, Family, Get, Put, Region, Row, Scan

# The maximum number of reads by prefix that have an open scanner in the gateway at the same time.
_SCANS_AT_ONCE = 100

# The number of bytes that Thrift's binary protocol adds to a row key in a list.
_KEY_OVERHEAD = 4


class Thrift1Store(GatewayStore):
    """A store on a Thrift1 gateway (`hbase thrift start`). The arguments are those of `GatewayStore`.

    Calls that the gateway does not support raise CapabilityError: conditional changes of a row, atomic changes with
    both puts and deletes, split keys, and family settings that its column descriptor lacks. A Thrift2 gateway
    (`hbase+thrift2://`) supports all of them.

    Rows are returned as the objects that Thrift's decoder makes (`ResultRow`, `ResultCell`), without a conversion.
    """

    SCHEME = "hbase"
    DEFAULT_PORT = 9090
    SERVICE = SERVICE
    SCAN_CALLS = Thrift1ScanCalls()

    @property
    def capabilities(self) -> Capabilities:
        return _CAPABILITIES

    def _add_shared_state(self) -> None:
        self._known_families = KnownFamilies()

    def _get_request(self, name: bytes, rows: Sequence[bytes], columns: Sequence[bytes]) -> Request:
        return "getRowsWithColumns", {
            "tableName": name,
            "rows": rows,
            "columns": list(columns) or None,
            "attributes": {},
        }

    def _question_overhead(self, columns: Sequence[bytes]) -> int:
        return _KEY_OVERHEAD

    def _found(self, rows: Sequence[bytes], replies: Iterable[Any]) -> list[Row | None]:
        # The gateway's answer contains no absent rows.
        rows_by_key: dict[bytes, Row] = {row.row: row for reply in replies for row in in_order(reply)}
        return [rows_by_key.get(row) for row in rows]

    def _get_each(self, table: str, gets: Sequence[Get]) -> Sequence[Row | None]:
        rows_read: list[Row | None] = [None] * len(gets)
        plain = [place for place, get in enumerate(gets) if not get.prefix]
        if plain:
            questions = Questions([gets[place] for place in plain], self._sizes)
            exchange = Exchange(questions.requests(self._name(table)))
            answers = questions.answers(self._caller.run(Idempotence.NONE, exchange, table=table))
            for place, row in zip(plain, answers, strict=True):
                rows_read[place] = row
        by_prefix = [place for place, get in enumerate(gets) if get.prefix]
        for start in range(0, len(by_prefix), _SCANS_AT_ONCE):
            places = by_prefix[start : start + _SCANS_AT_ONCE]
            for place, batches in zip(
                places, self.scan(table, [_scan_of(gets[place]) for place in places]), strict=True
            ):
                for batch in batches:
                    rows_read[place] = batch[0]
        return rows_read

    def _versions(self, table: str, row: bytes, columns: Sequence[bytes], limit: int) -> Sequence[Sequence[Cell]]:
        arguments = {"tableName": self._name(table), "row": row, "numVersions": limit, "attributes": {}}
        exchange = Exchange(("getVer", {**arguments, "column": column}) for column in columns)
        return self._caller.run(Idempotence.NONE, exchange, table=table)

    # --- writing ------------------------------------------------------------------------------------------------------

    def _put_requests(self, name: bytes, puts: Sequence[Put], size: int) -> Iterator[Request]:
        # A call has one timestamp and one TTL, so there is a separate call for each pair of timestamp and TTL.
        return (call.request(name) for call in put_calls(puts, size, self._sizes))

    def _delete(self, table: str, deletes: Sequence[Delete], timed: bool) -> None:
        whole_rows = not all(delete.families or delete.columns for delete in deletes)
        families = self._family_names(table) if whole_rows else []
        try:
            self._write(table, self._delete_requests(table, deletes, families), timed)
        except FamilyNotFound:
            known = self._known_families.forget(table)
            if not (whole_rows and timed and known) or self._family_names(table) == families:
                raise
            self._write(table, self._delete_requests(table, deletes, self._family_names(table)), timed)

    def _delete_requests(self, table: str, deletes: Sequence[Delete], families: Sequence[bytes]) -> Iterator[Request]:
        name = self._name(table)
        return (call.request(name) for call in delete_calls(deletes, families, self._sizes))

    def mutate_row(self, table: str, mutations: Sequence[Put | Delete]) -> NoReturn:
        raise CapabilityError(
            "The Thrift1 gateway cannot put and delete in a row atomically; embedded: and hbase+thrift2: stores can.",
            table=table,
        )

    def _check_and_put_request(self, name: bytes, column: bytes, expected: bytes, put: Put) -> Request:
        [(target, value)] = put.cells.items()
        return "checkAndPut", {
            "tableName": name,
            "row": put.row,
            "column": column,
            "value": expected or None,
            "mput": Mutation(column=target, value=value),
            "attributes": ttl_attributes(put.ttl),
        }

    def check_and_mutate(
        self, table: str, row: bytes, column: bytes, expected: bytes | None, mutations: Sequence[Put | Delete]
    ) -> NoReturn:
        self._check_and_mutate_request(table, ConditionalChange(row, column, expected, mutations))

    def _check_and_mutate_request(self, table: str, change: ConditionalChange) -> NoReturn:
        raise CapabilityError(
            "The Thrift1 gateway cannot check and change a whole row; embedded: and hbase+thrift2: stores can.",
            table=table,
            key=change.row,
        )

    def check_and_mutate_many(self, table: str, changes: Sequence[ConditionalChange]) -> NoReturn:
        raise CapabilityError(
            "The Thrift1 gateway cannot check and change a whole row; embedded: and hbase+thrift2: stores can.",
            table=table,
        )

    def _increment_request(self, name: bytes, row: bytes, column: bytes, amount: int) -> Request:
        return "atomicIncrement", {"tableName": name, "row": row, "column": column, "value": amount}

    def _counted(self, reply: Any) -> int:
        return int(reply)

    # --- tables -------------------------------------------------------------------------------------------------------

    def _table_names(self) -> Iterable[str]:
        return (name.decode() for name in self._call(Idempotence.NONE, ("getTableNames", {})))

    def _found_families(self, table: str) -> Iterable[Family]:
        # The gateway reports neither block sizes nor configurations.
        descriptors = self._call(
            Idempotence.NONE, ("getColumnDescriptors", {"tableName": self._name(table)}), table=table
        )
        families = [family_of(descriptor) for descriptor in descriptors.values()]
        self._known_families.remember(table, families)
        return families

    def _create_table_request(
        self, name: str, table: str, families: Sequence[Family], split_keys: Sequence[bytes]
    ) -> Request:
        if split_keys or any(family.configuration or family.block_size is not None for family in families):
            raise CapabilityError(
                "The Thrift1 gateway cannot create a table with split keys, block sizes or family configuration; run "
                "this line in `hbase shell`, or use an hbase+thrift2: store.",
                table=table,
                shell=create_line(name, families, split_keys),
            )
        self._known_families.forget(table)
        return "createTable", {
            "tableName": self._name(table),
            "columnFamilies": [descriptor_of(family) for family in families],
        }

    def _add_family_request(self, table: str, family: Family) -> NoReturn:
        self._refuse_to_alter(table, family)

    def _modify_family_request(self, table: str, family: Family) -> NoReturn:
        self._refuse_to_alter(table, family)

    def _refuse_to_alter(self, table: str, family: Family) -> NoReturn:
        name = self._name(table).decode()
        raise CapabilityError(
            "The Thrift1 gateway cannot alter a table; run this line in `hbase shell`, or use an hbase+thrift2: store.",
            table=table,
            shell=alter_line(name, family),
        )

    def _namespace_names(self) -> Iterable[str]:
        """Yields the names of all namespaces.

        The gateway has no call that lists namespaces, so they are read from HBase's system table `hbase:namespace`.

        Raises:
            CapabilityError: the system table cannot be read, or does not exist, as in HBase 3.
        """
        [batches] = self._scan(_NAMESPACES, [Scan(columns=[b"info"])], _NAMESPACES.decode())
        try:
            return [row.row.decode() for batch in batches for row in batch]
        except StoreError as error:
            if type(error) not in {StoreError, TableNotFound}:
                raise
            raise CapabilityError(
                "The Thrift1 gateway cannot list the namespaces of this HBase; an hbase+thrift2: store can.",
                reason=str(error),
            ) from None

    def _create_namespace_request(self, namespace: str) -> NoReturn:
        raise CapabilityError(
            "The Thrift1 gateway cannot create a namespace; run this line in `hbase shell`, or use an "
            "hbase+thrift2: store.",
            namespace=namespace,
            shell=create_namespace_line(namespace),
        )

    def _delete_namespace_request(self, namespace: str) -> NoReturn:
        raise CapabilityError(
            "The Thrift1 gateway cannot delete a namespace; an hbase+thrift2: store can.", namespace=namespace
        )

    def delete_table(self, table: str) -> None:
        self._known_families.forget(table)
        super().delete_table(table)

    def _found_regions(self, table: str) -> Iterable[Region]:
        regions = self._call(Idempotence.NONE, ("getTableRegions", {"tableName": self._name(table)}), table=table)
        if not regions:  # the gateway answers this for a table that does not exist
            raise TableNotFound(NO_TABLE, table=table)
        return [Region(KeyRange(region.startKey, region.endKey or None), region.name) for region in regions]

    def _designation(self, name: bytes) -> bytes:
        return name

    def _family_names(self, table: str) -> list[bytes]:
        known = self._known_families.names(table)
        return [family.name for family in self.families(table)] if known is None else known


_CAPABILITIES = Capabilities(
    check_and_mutate=False,
    mutate_row=False,
    presplit=False,
    family_configuration=False,
    put_ttl_mixed=False,
    alter=False,
    namespaces=False,
    one_call_scans=False,
    one_call_gets=False,
)

_NAMESPACES = b"hbase:namespace"


def _scan_of(get: Get) -> Scan:
    return Scan(
        KeyRange.exactly(get.row), columns=get.columns, filter=ColumnPrefix(get.prefix), limit=1, before=get.before
    )
