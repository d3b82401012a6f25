from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hbmodel.store import Delete, Put
from hbmodel.store.gateway.call_batches import check_puts
from hbmodel.store.gateway.ttl_attributes import ttl_attributes
from hbmodel.store.gateway.wire.call_sizes import CALL_SIZES
from hbmodel.store.thrift1.service import PutCell
from hbmodel.store.thrift1.writes import delete_calls, put_calls

times = st.none() | st.integers(1, 3)
puts = st.lists(
    st.builds(
        Put,
        st.sampled_from([b"a", b"b", b"c"]),
        st.dictionaries(st.sampled_from([b"d:x", b"d:y"]), st.binary(max_size=2), min_size=1),
        times,
        st.none() | st.integers(1, 2),
    ),
    max_size=12,
)


def newest(
    cells: list[tuple[bytes, bytes, int, bytes, int | None]],
) -> dict[tuple[bytes, bytes, int], tuple[bytes, int | None]]:
    """What a table holds after writing cells (row, column, timestamp, value, TTL) in order."""
    return {(row, column, time): (value, ttl) for row, column, time, value, ttl in cells}


@pytest.mark.lengthy
@given(puts)
def test_calls_leave_what_the_puts_leave_in_their_order(puts: list[Put]) -> None:
    given = [
        (put.row, column, -1 if put.timestamp is None else put.timestamp, value, put.ttl)
        for put in puts
        for column, value in put.cells.items()
    ]
    called = [
        (row.row, cell.column, -1 if call.timestamp is None else call.timestamp, cell.value, call.ttl)
        for call in put_calls(puts)
        for row in call.rows
        for cell in row.mutations
    ]
    assert newest(called) == newest(given)
    assert len(called) == len(given)


@given(puts)
def test_no_call_mixes_puts_and_deletes(puts: list[Put]) -> None:
    assert all(isinstance(cell, PutCell) for call in put_calls(puts) for row in call.rows for cell in row.mutations)
    deletes = [Delete(put.row, columns=tuple(put.cells), timestamp=put.timestamp) for put in puts]
    assert all(cell.isDelete for call in delete_calls(deletes, []) for row in call.rows for cell in row.mutations)


@given(puts)
def test_calls_leave_the_same_where_the_size_is_known(puts: list[Put]) -> None:
    cells = [
        [
            (row.row, cell.column, cell.value, call.timestamp, call.ttl)
            for call in put_calls(puts, size)
            for row in call.rows
            for cell in row.mutations
        ]
        for size in (None, check_puts("t", puts), CALL_SIZES.write_bytes + 1)
    ]
    assert cells[0] == cells[1] == cells[2]


def test_calls_are_bounded_in_rows() -> None:
    puts = [Put(b"%d" % number, {b"d:x": b""}, 1) for number in range(2 * CALL_SIZES.rows + 1)]
    for size in (None, check_puts("t", puts)):
        assert [len(call.rows) for call in put_calls(puts, size)] == [CALL_SIZES.rows, CALL_SIZES.rows, 1]


def test_calls_are_bounded_in_bytes_but_for_a_single_large_row() -> None:
    large, small = bytes(CALL_SIZES.write_bytes * 2), bytes(CALL_SIZES.write_bytes // 3)
    puts = [Put(b"%d" % number, {b"d:x": value}, 1) for number, value in enumerate([small, large, small, small, small])]
    for size in (None, check_puts("t", puts)):
        assert [len(call.rows) for call in put_calls(puts, size)] == [1, 1, 2, 1]


def test_puts_of_one_time_and_life_share_a_call() -> None:
    calls = list(put_calls([Put(b"%d" % number, {b"d:x": b""}, number % 2) for number in range(10)]))
    assert [(call.timestamp, len(call.rows)) for call in calls] == [(0, 5), (1, 5)]


def test_a_row_put_twice_with_different_lives_keeps_its_order() -> None:
    cells = {b"d:x": b""}
    calls = list(put_calls([Put(b"a", cells, 1, 5), Put(b"b", cells, 1, None), Put(b"b", cells, 1, 5)]))
    assert [(call.ttl, [row.row for row in call.rows]) for call in calls] == [(5, [b"a"]), (None, [b"b"]), (5, [b"b"])]


@pytest.mark.parametrize(
    ("delete", "columns"),
    [
        (Delete(b"r"), [b"d", b"e"]),
        (Delete(b"r", families=[b"e"]), [b"e"]),
        (Delete(b"r", columns=[b"d:x", b"d:"]), [b"d:x", b"d:"]),
        (Delete(b"r", families=[b"e"], columns=[b"d:x"]), [b"e", b"d:x"]),
    ],
)
def test_deletes_name_families_and_columns(delete: Delete, columns: list[bytes]) -> None:
    [call] = delete_calls([delete], [b"d", b"e"])
    assert [cell.column for cell in call.rows[0].mutations] == columns


@pytest.mark.parametrize(("timestamp", "suffix"), [(None, ""), (7, "Ts")])
def test_requests(timestamp: int | None, suffix: str) -> None:
    one, two = Put(b"a", {b"d:x": b""}, timestamp, 1000), Put(b"b", {b"d:x": b""}, timestamp, 1000)
    for puts, api in (([one], "mutateRow"), ([one, two], "mutateRows")):
        [call] = put_calls(puts)
        name, arguments = call.request(b"t")
        assert name == api + suffix
        assert arguments["attributes"] == {b"_ttl": b"\x00\x00\x00\x00\x00\x00\x03\xe8"}
        assert arguments.get("timestamp") == timestamp
        assert arguments.get("row", b"a") == b"a"
    assert ttl_attributes(None) == {}
