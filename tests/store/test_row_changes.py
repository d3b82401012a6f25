"""Changes gathered by row: each shared row by one mutation or not at all, conditional ones of a row under one
condition.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.errors import CapabilityError, InvalidRequest
from hbmodel.store import ConditionalChange, Delete, Family, Put
from hbmodel.store.row_changes import RowChanges, change_together, combined
from tests.support.beds import HBASE, Bed, cells_of
from tests.support.faulty import RecordingStore

TABLES = (f"row_changes_{number}" for number in count())
BEDS = ("memory", "limited", "embedded", *HBASE)
ROWS = st.sampled_from([b"r", b"s"])
COLUMNS = (b"d:a", b"d:b", b"e:a")


def prepared(bed: Bed) -> str:
    table = next(TABLES)
    if table in bed.store.tables():
        bed.store.delete_table(table)
    bed.store.create_table(table, [Family(b"d"), Family(b"e")])
    bed.store.put(table, [Put(row, {b"d:old": b"1"}, 5) for row in (b"r", b"s")])
    bed.store.calls.clear()
    return table


def names(bed: Bed) -> list[str]:
    return [call.name for call in bed.store.calls if call.writes]


mutations = st.lists(
    st.builds(
        Put, ROWS, st.dictionaries(st.sampled_from(COLUMNS), st.binary(max_size=2), min_size=1), st.integers(10, 12)
    )
    | st.builds(Delete, ROWS, st.just(()), st.lists(st.sampled_from(COLUMNS), min_size=1), st.integers(8, 12))
    | st.builds(Delete, ROWS, st.lists(st.sampled_from([b"d", b"e"]), min_size=1), st.just(()), st.integers(8, 12))
    | st.builds(Delete, ROWS, timestamp=st.integers(8, 9)),
    max_size=8,
)


@pytest.mark.lengthy
@given(mutations)
def test_combined_mutations_do_the_same(drawn: list[Put | Delete]) -> None:
    with hb.connect("memory:") as store:
        for table, made in (("one", drawn), ("other", combined(drawn))):
            store.create_table(table, [Family(b"d"), Family(b"e")])
            store.put(table, [Put(b"r", {b"d:a": b"old", b"e:b": b"old"}, 9)])
            # Deletes first: a put at the time of a delete may win or lose by their order, but not within one mutation.
            for each in sorted(made, key=lambda each: isinstance(each, Put)):
                store.mutate_row(table, [each])
        assert cells_of(store, "one") == cells_of(store, "other")
    assert len({(type(m), m.row, m.timestamp) for m in combined(drawn) if isinstance(m, Put)}) == sum(
        isinstance(m, Put) for m in combined(drawn)
    )


@pytest.mark.parametrize("bed", BEDS, indirect=True)
def test_shared_rows_change_at_once_or_not_at_all(bed: Bed) -> None:
    table = prepared(bed)
    changes = RowChanges(bed.store, table, frozenset([b"r"]))
    for row in (b"r", b"s"):
        changes.add(
            [Put(row, {b"d:a": b"1"}, 10), Put(row, {b"d:b": b"2"}, 11), Delete(row, columns=[b"d:old"], timestamp=9)]
        )
    changes.add([Put(b"t", {b"d:a": b"1"}), Put(b"t", {b"d:b": b"1"})])
    assert changes
    if bed.atomic:
        changes.carry_out()
        assert sorted(names(bed)) == ["mutate_row", "mutate_row", "put"]
        expected = {b"d:a": b"1", b"d:b": b"2"}
        assert cells_of(bed.store, table) == {b"r": expected, b"s": expected, b"t": {b"d:a": b"1", b"d:b": b"1"}}
        assert not changes
        assert changes.wrote
        return
    with pytest.raises(CapabilityError):
        changes.carry_out()
    assert (names(bed), changes.wrote) == ([], False)
    apart = RowChanges(bed.store, table, frozenset())
    apart.add([Put(b"s", {b"d:a": b"1"}, 10), Delete(b"s", columns=[b"d:old"], timestamp=9)])
    apart.carry_out()
    assert names(bed) == ["put", "delete"]  # in this order: what is put may be the marker of what is deleted
    assert cells_of(bed.store, table)[b"s"] == {b"d:a": b"1"}


def test_more_than_a_row_takes_is_refused_before_anything_is_sent() -> None:
    bed = Bed("memory", RecordingStore(hb.connect("memory:")))
    table = prepared(bed)
    large: Sequence[Put] = [Put(b"r", {b"d:%d" % number: bytes(1024 * 1024)}, 10) for number in range(5)]
    changes = RowChanges(bed.store, table, frozenset([b"r"]))
    changes.add([Put(b"s", {b"d:a": b"1"}), *large])
    with pytest.raises(InvalidRequest, match="4 MiB"):
        changes.carry_out()
    conditional = [ConditionalChange(b"r", b"d:old", b"1", [put]) for put in large]
    with pytest.raises(InvalidRequest, match="4 MiB"):
        change_together(bed.store, table, conditional)
    assert (names(bed), changes.wrote) == ([], False)
    assert change_together(bed.store, table, conditional, atomic=False) == [True, True, True, False, False]


@pytest.mark.parametrize("bed", ["memory", "embedded", HBASE[1]], indirect=True)
def test_conditional_changes_of_a_row_go_together(bed: Bed) -> None:
    table = prepared(bed)
    changes = [
        ConditionalChange(b"r", b"d:old", b"1", [Put(b"r", {b"d:a": b"1"}, 10)]),
        ConditionalChange(b"s", b"d:old", b"2", [Put(b"s", {b"d:a": b"1"}, 10)]),
        ConditionalChange(
            b"r", b"d:old", b"1", [Put(b"r", {b"d:b": b"1"}, 10), Delete(b"r", columns=[b"d:old"], timestamp=9)]
        ),
        ConditionalChange(b"r", b"d:old", b"3", [Put(b"r", {b"d:a": b"3"}, 11)]),
        ConditionalChange(b"s", b"d:old", b"2", [Put(b"s", {b"d:b": b"1"}, 10)]),
    ]
    assert change_together(bed.store, table, [changes[0], changes[3]]) == [False, False]  # one row under two conditions
    assert [call for call in bed.store.calls if call.writes] == []
    assert change_together(bed.store, table, changes[:3]) == [True, False, True]
    (call,) = [call for call in bed.store.calls if call.writes]
    assert len(call.items) == 2
    assert cells_of(bed.store, table) == {b"r": {b"d:a": b"1", b"d:b": b"1"}, b"s": {b"d:old": b"1"}}
    apart = prepared(bed)
    assert change_together(bed.store, apart, changes, atomic=False) == [True, False, True, False, False]
