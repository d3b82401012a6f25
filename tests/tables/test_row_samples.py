"""Samples of a table's rows, and the estimate of its size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from hbmodel.session.connect import connect
from hbmodel.store import Delete, Family, Put, Row, Scan, Store
from hbmodel.tables.creation.row_samples import sample_rows
from tests.support.faulty import RecordingStore

COLUMN = b"d:v"


@pytest.fixture
def store() -> Iterator[Store]:
    with connect("memory:") as store:
        store.create_table("t", [Family(b"d")])
        yield store


def fill(store: Store, rows: Sequence[bytes]) -> None:
    store.put("t", [Put(row, {COLUMN: b"1"}) for row in rows])


def sampled(store: Store, count: int) -> tuple[list[bytes], float | None]:
    found = sample_rows(store, "t", count, [COLUMN])
    return [row.row for batch in found.batches for row in batch], found.share


@pytest.mark.parametrize("prefix", [b"", b"the same beginning of all keys, longer than a place/"])
@pytest.mark.parametrize("count", [10, 100])
def test_rows_at_even_distances_are_counted_by_their_keys(store: Store, prefix: bytes, count: int) -> None:
    fill(store, [prefix + number.to_bytes(8) for number in range(3000)])
    rows, share = sampled(store, count)
    assert len(set(rows)) == len(rows) <= count
    assert share is not None
    assert count / 3 <= 3000 * share <= 3 * count


def test_a_sample_of_keys_with_a_long_common_beginning_is_of_the_whole_table(store: Store) -> None:
    fill(store, [b"x" * 30 + number.to_bytes(2) for number in range(2000)])
    rows, _ = sampled(store, 200)
    assert rows[-1] > b"x" * 30 + (500).to_bytes(2)


@pytest.mark.lengthy
@pytest.mark.parametrize("count", [1, 2, 10, 100])
def test_clusters_of_keys_do_not_say_how_many_rows_there_are(store: Store, count: int) -> None:
    fill(
        store,
        [
            bytes([bucket]) + user.to_bytes(4) + at.to_bytes(8)
            for bucket in range(4)
            for user in range(5)
            for at in range(100)
        ],
    )
    rows, share = sampled(store, count)
    assert rows
    assert share is None


@pytest.mark.lengthy
@pytest.mark.parametrize("buckets", [4, 16, 256])
@pytest.mark.parametrize("count", [1, 2, 10, 20, 50, 100, 1000, 3000])
def test_times_behind_a_salt_are_never_counted_far_wrong(store: Store, buckets: int, count: int) -> None:
    noon = 1_772_366_400_000_000
    fill(store, [bytes([n % buckets]) + (noon + n * 1_000_000 + 2**63).to_bytes(8) for n in range(3000)])
    for _ in range(5):
        rows, share = sampled(store, count)
        assert share is None or 3000 / 10 <= len(rows) / share <= 3000 * 10


@pytest.mark.parametrize("rows", [0, 1, 5])
def test_a_sample_of_all_rows_is_the_whole_table(store: Store, rows: int) -> None:
    fill(store, [number.to_bytes(8) for number in range(rows)])
    assert sampled(store, 1000) == ([number.to_bytes(8) for number in range(rows)], 1.0)


def test_a_table_whose_rows_are_replaced_while_its_ends_are_read(store: Store) -> None:
    fill(store, [b"z%d" % number for number in range(5)])
    before = [b"a%d" % number for number in range(5)]

    class Replaced(RecordingStore):
        def scan(self, table: str, scans: Sequence[Scan]) -> Sequence[Iterator[Sequence[Row]]]:
            if not self.calls:
                found = super().scan(table, scans)
                [first] = next(iter(found[0]))
                assert first.row == b"z0"
                store.delete(table, [Delete(b"z%d" % number) for number in range(5)])
                fill(store, before)
                return [iter([[first]])]
            return super().scan(table, scans)

    assert sampled(Replaced(store), 1000)[0] == before
