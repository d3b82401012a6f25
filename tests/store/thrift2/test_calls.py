"""The requests to the second gateway, and the decoding of its answers, without a gateway."""

from __future__ import annotations

import gc
import re
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import thriftpy2
from hypothesis import given
from hypothesis import strategies as st
from thriftpy2.protocol import TBinaryProtocol, TCompactProtocol
from thriftpy2.thrift import TType
from thriftpy2.transport import TMemoryBuffer

from hbmodel.errors import FamilyNotFound, InvalidRequest, StoreError, TableExists, TableNotFound
from hbmodel.localhbase.jars import cache_directory
from hbmodel.store import ConditionalChange, Delete, Family, Put, Scan
from hbmodel.store.filters import ColumnPrefix, KeyOnly
from hbmodel.store.gateway.failures import is_passing, store_error
from hbmodel.store.gateway.scanning.scan_cursor import Cursor
from hbmodel.store.gateway.wire.call_sizes import CALL_SIZES
from hbmodel.store.ranges import KeyRange
from hbmodel.store.thrift2 import service, store
from hbmodel.store.thrift2.family_descriptors import descriptor_of, family_of, name_of, table_name
from hbmodel.store.thrift2.scans import SHORT, Thrift2ScanCalls
from hbmodel.store.thrift2.writes import delete_requests, put_requests, row_mutations

# --- the definition ---------------------------------------------------------------------------------------------------


def plain(spec: Any) -> Any:
    """A field's type with the names of classes in their place."""
    if isinstance(spec, tuple):
        return tuple(plain(part) for part in spec)
    return (
        {"ResultRow": "TResult", "ResultCell": "TColumnValue"}.get(spec.__name__, spec.__name__)
        if isinstance(spec, type)
        else spec
    )


def fields(of: Any) -> dict[int, Any]:
    # Without the last part, whether the field is required: thriftpy2 writes what is there either way.
    return {number: plain(spec)[:-1] for number, spec in of.thrift_spec.items()}


def test_the_definition_agrees_with_the_one_that_hbase_ships(tmp_path: Path) -> None:
    jars = sorted(cache_directory().glob("jars/hbase-thrift-*.jar"))
    if not jars:
        pytest.skip("needs the jars of HBase, which `hbmodel hbase start` fetches")
    path = tmp_path / "shipped.thrift"
    path.write_bytes(zipfile.ZipFile(jars[-1]).read("org/apache/hadoop/hbase/thrift2/hbase.thrift"))
    shipped = thriftpy2.load(str(path))
    ours = service._definition
    compared = 0
    for name, of in vars(ours).items():
        if hasattr(of, "thrift_spec"):
            assert fields(of).items() <= fields(getattr(shipped, name)).items(), name
            compared += 1
        if hasattr(of, "_VALUES_TO_NAMES"):
            assert of._VALUES_TO_NAMES == getattr(shipped, name)._VALUES_TO_NAMES
            compared += 1
    for call in ours.THBaseService.thrift_services:
        for part in ("_args", "_result"):
            mine = fields(getattr(ours.THBaseService, call + part))
            assert mine.items() <= fields(getattr(shipped.THBaseService, call + part)).items(), call + part
            compared += 1
    assert compared > 50


# --- rows -------------------------------------------------------------------------------------------------------------


class Sent:
    """A reply of rows as the gateway writes it: with fields that nobody asked for."""

    cell = type("Cell", (), {"thrift_spec": {
        1: (TType.STRING, "family", False), 2: (TType.STRING, "qualifier", False), 3: (TType.STRING, "value", False),
        4: (TType.I64, "timestamp", False), 6: (TType.BYTE, "type", False),
    }})  # fmt: skip
    row = type("Row", (), {"thrift_spec": {
        1: (TType.STRING, "row", False), 2: (TType.LIST, "columnValues", (TType.STRUCT, cell), False),
        3: (TType.BOOL, "stale", False), 4: (TType.BOOL, "partial", False),
    }})  # fmt: skip
    reply = type("Reply", (), {"thrift_spec": {0: (TType.LIST, "success", (TType.STRUCT, row), False)}})


def made(kind: type[Any], **attributes: object) -> Any:
    one = kind()
    for name, value in attributes.items():
        setattr(one, name, value)
    return one


@pytest.mark.parametrize("protocol", [TBinaryProtocol, TCompactProtocol])
def test_rows_are_decoded_with_what_the_port_wants(protocol: Callable[..., Any]) -> None:
    cells = [
        made(Sent.cell, family=b"d", qualifier=b"a:b", value=b"\xff\x00", timestamp=2**62, type=4),
        made(Sent.cell, family=b"e", qualifier=b"", value=b"", timestamp=1, type=4),
    ]
    rows = [
        made(Sent.row, row=b"\x00k", columnValues=cells, stale=False, partial=False),
        made(Sent.row, columnValues=[], stale=False),
    ]
    buffer = TMemoryBuffer()
    protocol(buffer, decode_response=False).write_struct(made(Sent.reply, success=rows))
    reply = service.SERVICE.getMultiple_result()
    protocol(TMemoryBuffer(buffer.getvalue()), decode_response=False).read_struct(reply)
    found, absent = reply.success
    assert found.row == b"\x00k"
    assert {column: (cell.value, cell.timestamp) for column, cell in found.columns.items()} == {
        b"d:a:b": (b"\xff\x00", 2**62),
        b"e:": (b"", 1),
    }
    assert found.columns is found.columns
    assert not any(gc.is_tracked(one) for one in (found, *found.columnValues))
    assert (absent.row, dict(absent.columns)) == (b"", {})


# --- writes -----------------------------------------------------------------------------------------------------------

puts = st.lists(
    st.builds(
        Put,
        st.sampled_from([b"a", b"b", b"c"]),
        st.dictionaries(st.sampled_from([b"d:x", b"d:", b"e:y:z"]), st.binary(max_size=2), min_size=1),
        st.none() | st.integers(0, 3),
        st.none() | st.integers(1, 2),
    ),
    max_size=12,
)


def sent_puts(requests: Iterator[Any]) -> list[list[Any]]:
    return [[arguments["tput"]] if name == "put" else arguments["tputs"] for name, arguments in requests]


def as_put(tput: Any) -> Put:
    ttl = None if tput.attributes is None else int.from_bytes(tput.attributes[b"_ttl"])
    cells = {cell.family + b":" + cell.qualifier: cell.value for cell in tput.columnValues}
    return Put(tput.row, cells, tput.timestamp, ttl)


@given(puts)
def test_puts_are_sent_in_their_order_with_their_own_times_and_lives(puts: list[Put]) -> None:
    calls = sent_puts(put_requests(b"t", puts))
    assert [as_put(tput) for call in calls for tput in call] == puts
    for call in calls:  # of one call no two puts of a row at one time live for different times
        lives: dict[tuple[bytes, int | None], int | None] = {}
        assert all(lives.setdefault((put.row, put.timestamp), put.ttl) == put.ttl for put in map(as_put, call))
    if len({put.ttl for put in puts}) < 2:
        assert len(calls) <= 1


def test_calls_are_bounded_in_rows_and_bytes_but_for_a_single_large_row() -> None:
    many = [Put(b"%d" % number, {b"d:x": b""}, 1) for number in range(2 * CALL_SIZES.rows + 1)]
    assert [len(call) for call in sent_puts(put_requests(b"t", many))] == [CALL_SIZES.rows, CALL_SIZES.rows, 1]
    large, third = (
        Put(b"l", {b"d:x": bytes(CALL_SIZES.write_bytes * 2)}),
        Put(b"s", {b"d:x": bytes(CALL_SIZES.write_bytes // 3)}),
    )
    assert [len(call) for call in sent_puts(put_requests(b"t", [third, large, third, third, third]))] == [1, 1, 2, 1]
    names = [name for name, _ in delete_requests(b"t", [Delete(put.row) for put in many])]
    assert names == ["deleteMultiple", "deleteMultiple", "deleteSingle"]


def test_deletes_give_their_time_where_the_gateway_looks_for_it() -> None:
    [(name, arguments)] = delete_requests(b"t", [Delete(b"r", timestamp=5)])
    assert name == "deleteSingle"
    assert (arguments["tdelete"].timestamp, arguments["tdelete"].columns) == (5, None)
    [(name, arguments)] = delete_requests(
        b"t", [Delete(b"r", families=[b"d"], timestamp=5), Delete(b"r", columns=[b"d:", b"e:x:y"])]
    )
    assert name == "deleteMultiple"
    families, columns = arguments["tdeletes"]
    assert families.deleteType == service.TDeleteType.DELETE_FAMILY
    assert [(column.family, column.qualifier, column.timestamp) for column in families.columns] == [(b"d", None, 5)]
    assert columns.deleteType == service.TDeleteType.DELETE_COLUMNS
    assert [(column.family, column.qualifier, column.timestamp) for column in columns.columns] == [
        (b"d", b"", None),
        (b"e", b"x:y", None),
    ]


def test_families_and_columns_of_one_row_go_in_one_atomic_call() -> None:
    both = Delete(b"r", families=[b"d"], columns=[b"e:a"], timestamp=5)
    (name, arguments), (other, _) = delete_requests(b"t", [both, Delete(b"s")])
    assert (name, other) == ("mutateRow", "deleteSingle")
    assert [mutation.deleteSingle.deleteType for mutation in arguments["trowMutations"].mutations] == [
        service.TDeleteType.DELETE_FAMILY,
        service.TDeleteType.DELETE_COLUMNS,
    ]


def test_changes_of_a_row_keep_their_order() -> None:
    change = row_mutations(
        [Delete(b"r", timestamp=4), Put(b"r", {b"d:a": b"1"}, 5, ttl=6), Delete(b"r", columns=[b"d:b"])]
    )
    assert change.row == b"r"
    assert [(mutation.put is not None, mutation.deleteSingle is not None) for mutation in change.mutations] == [
        (False, True),
        (True, False),
        (False, True),
    ]
    assert as_put(change.mutations[1].put) == Put(b"r", {b"d:a": b"1"}, 5, ttl=6)


@pytest.mark.parametrize(
    ("times", "answers", "waits"),
    [
        ([None, 5], [True, True], 1),
        ([None, None], [False, True], 1),
        ([None, 5], [False, True], 0),  # what was not carried out has deleted nothing
        ([5, 5], [True, True], 0),
    ],
)
def test_after_many_changes_it_waits_if_one_of_them_has_deleted_at_the_servers_time(
    monkeypatch: pytest.MonkeyPatch, times: list[int | None], answers: list[bool], waits: int
) -> None:
    waited: list[bool] = []
    monkeypatch.setattr(store, "spread", lambda *_: answers)
    monkeypatch.setattr(store, "let_tick_pass", lambda: waited.append(True))
    changes = [ConditionalChange(b"k", b"d:a", None, [Delete(b"k", timestamp=timestamp)]) for timestamp in times]
    with store.Thrift2Store("127.0.0.1", 1) as nobody:
        assert nobody.check_and_mutate_many("t", changes) == answers
    assert len(waited) == waits


# --- scans ------------------------------------------------------------------------------------------------------------


def whole(scan: Scan) -> tuple[str, dict[str, Any]]:
    reading = Cursor(b"t", scan).reading()
    assert reading is not None
    request = Thrift2ScanCalls().whole(reading)
    assert request is not None
    return request


def test_a_short_scan_says_how_short_it_is() -> None:
    name, arguments = whole(Scan(KeyRange(b"a", b"b"), columns=[b"d", b"e:x"], limit=20))
    scan = arguments["tscan"]
    assert (name, arguments["table"], arguments["numRows"]) == ("getScannerResults", b"t", 20)
    assert (scan.startRow, scan.stopRow, scan.caching, scan.limit, scan.readType) == (
        b"a",
        b"b",
        20,
        20,
        service.TReadType.PREAD,
    )
    assert [(column.family, column.qualifier) for column in scan.columns] == [(b"d", None), (b"e", b"x")]
    assert scan.reversed is None


@pytest.mark.parametrize("scan", [Scan(limit=SHORT + 1), Scan(limit=5, filter=KeyOnly()), Scan()])
def test_what_may_pass_over_much_is_read_as_the_server_sees_fit(scan: Scan) -> None:
    _, arguments = whole(scan)
    assert arguments["tscan"].readType is None
    assert arguments["tscan"].limit == arguments["numRows"] == (scan.limit or scan.batch_size)


@pytest.mark.parametrize(
    ("filter", "sent"),
    [
        (None, b"ColumnPaginationFilter (7, 0)"),
        (ColumnPrefix(b"a"), b"(ColumnPrefixFilter('a')) AND ColumnPaginationFilter (7, 0)"),
    ],
)
def test_the_first_cells_of_one_row_are_a_get(filter: ColumnPrefix | None, sent: bytes) -> None:
    one = KeyRange.exactly(b"a")
    name, arguments = whole(Scan(one, columns=[b"d"], filter=filter, limit=1, cells=7, before=5))
    (get,) = arguments["tgets"]
    assert (name, arguments["table"], get.row, get.filterString) == ("getMultiple", b"t", b"a", sent)
    assert [(column.family, column.qualifier) for column in get.columns] == [(b"d", None)]
    assert (get.timeRange.minStamp, get.timeRange.maxStamp) == (0, 5)


@pytest.mark.parametrize(
    "scan",
    [
        Scan(KeyRange.exactly(b"a"), limit=1),
        Scan(KeyRange.exactly(b"a"), limit=2, cells=7),
        Scan(KeyRange.prefix(b"a"), limit=1, cells=7),
    ],
)
def test_more_than_the_first_cells_of_one_row_is_a_scan(scan: Scan) -> None:
    assert whole(scan)[0] == "getScannerResults"


def test_a_reversed_scan_that_may_begin_outside_asks_for_one_more() -> None:
    for stop, rows in ((b"b", 21), (b"b\x00", 20), (None, 20)):
        _, arguments = whole(Scan(KeyRange(b"a", stop), reversed=True, limit=20))
        assert (arguments["numRows"], arguments["tscan"].reversed) == (rows, True)


# --- tables -----------------------------------------------------------------------------------------------------------


@given(st.sampled_from(["t", "ns:t", "a.b-c_d", "hbase:meta"]))
def test_names_have_two_parts(name: str) -> None:
    assert name_of(table_name(name.encode())) == name


def test_the_default_namespace_is_not_written() -> None:
    assert name_of(table_name(b"default:t")) == "t"
    assert (table_name(b"t").ns, table_name(b"t").qualifier) == (b"default", b"t")


families = st.builds(
    Family,
    st.just(b"d"),
    st.integers(1, 100),
    st.none() | st.integers(1, 10**6),
    st.sampled_from(["NONE", "GZ", "SNAPPY"]),
    st.sampled_from(["NONE", "ROW", "ROWCOL"]),
    st.integers(1024, 10**6),
    st.booleans(),
    st.dictionaries(st.text(min_size=1, max_size=3), st.text(max_size=3), max_size=2),
)


@given(families)
def test_every_setting_of_a_family_has_a_place(family: Family) -> None:
    descriptor = descriptor_of(family)
    configuration = descriptor.configuration or {}
    # as it is decoded
    descriptor.configuration = {name.encode(): value.encode() for name, value in configuration.items()}
    assert family_of(descriptor) == family


def test_settings_that_are_left_open_are_left_to_hbase() -> None:
    assert descriptor_of(Family(b"d")).attributes == {}
    bare = service.TColumnFamilyDescriptor(name=b"d")
    assert family_of(bare) == Family(b"d", 1, None, "NONE", "ROW", 65_536, False)


# --- failures ---------------------------------------------------------------------------------------------------------


def failure(message: str, can_retry: bool = False) -> Exception:
    return service.TIOError(message=message.encode(), canRetry=can_retry)


@pytest.mark.parametrize(
    ("message", "kind", "said"),
    [
        ("ns:t", TableNotFound, "no such table"),
        ("Failed 1 action: ns:t: 1 time, servers with issues: null", TableNotFound, "no such table"),
        ("Failed 3 actions: ns:t: 3 times, servers with issues: host,1,2", TableNotFound, "no such table"),
        ("ns:t is disabled.", StoreError, "disabled"),
        ("Failed 1 action: ns:t is disabled.: 1 time, servers with issues: null", StoreError, "disabled"),
        ("org.apache.hadoop.hbase.TableExistsException: ns:t\n\tat x", TableExists, "already"),
        (
            "Failed 1 action: x.NoSuchColumnFamilyException: y\n\tat z: 1 time, servers with issues: h",
            FamilyNotFound,
            "family",
        ),
        ("x.DoNotRetryIOException: Field is not a long, it's 1 bytes wide\n\tat y", InvalidRequest, "eight bytes"),
        ("other", StoreError, "refused"),
    ],
)
def test_what_failures_mean(message: str, kind: type[StoreError], said: str) -> None:
    for can_retry in (False, message.startswith("Failed")):
        caught = store_error(failure(message, can_retry), "ns:t", table="t")
        assert type(caught) is kind
        assert re.search(said, caught.message)
        assert caught.table == "t"
        assert not is_passing(failure(message), "ns:t")


def test_the_gateway_says_whether_it_makes_sense_to_try_again() -> None:
    assert is_passing(failure("Failed 1 action: ConnectException: 1 time, servers with issues: h", can_retry=True), "t")
    assert is_passing(failure("anything", can_retry=True), "t")
    assert not is_passing(failure("anything"), "t")
    assert not is_passing(failure("Failed 1 action: t: 1 time, servers with issues: null", can_retry=True), "t")
    assert is_passing(failure("Failed 1 action: t: 1 time, servers with issues: null", can_retry=True), "other")
