"""The versions of one cell: versions that a chain drops early must not change the result of any read, now or after
compactions.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hbmodel.errors import StoreError
from hbmodel.store import Delete, Family, Put
from hbmodel.store.embedded import cells
from hbmodel.store.embedded.cells import StoredCell
from tests.support.reference_store import ReferenceStore

PUTS = st.tuples(st.integers(0, 6), st.none() | st.integers(1, 8))
EVENTS = st.lists(PUTS | st.integers(0, 6) | st.sampled_from(["compact", "tick", "tick"]), max_size=14)


def length(chain: StoredCell | None) -> int:
    return 0 if chain is None else 1 + length(chain.older)


@given(st.integers(1, 3), EVENTS)
def test_a_chain_shows_what_all_versions_would(
    max_versions: int, events: list[tuple[int, int | None] | int | str]
) -> None:
    reference = ReferenceStore([Family(b"d", max_versions=max_versions)])
    chain: StoredCell | None = None
    tombstone = -1
    for number, event in enumerate(events):
        if isinstance(event, tuple):
            timestamp, ttl = event
            reference.put("", [Put(b"r", {b"d:a": b"%d" % number}, timestamp, ttl)])
            if timestamp > tombstone:
                chain = cells.with_version(chain, b"%d" % number, timestamp, ttl, max_versions)
        elif isinstance(event, int):
            reference.delete("", [Delete(b"r", timestamp=event)])
            chain = cells.masked(chain, event)
            tombstone = max(tombstone, event)
        elif event == "compact":
            reference.compact()
            chain = None if chain is None else cells.compacted(chain, reference.now, 0, max_versions)
            tombstone = -1
        else:
            reference.now += 1
        for now in range(reference.now, 16):
            reference_later = ReferenceStore(reference.families, now, reference.cells, reference.tombstones)
            expected = reference_later.read(b"r", ())
            found = cells.visible(chain, now, 0)
            assert (None if found is None else (found.value, found.timestamp)) == (
                None if expected is None else (expected.columns[b"d:a"].value, expected.columns[b"d:a"].timestamp)
            )


@given(st.integers(1, 3), st.lists(PUTS, min_size=1, max_size=30))
def test_a_chain_stays_short(max_versions: int, puts: list[tuple[int, int | None]]) -> None:
    """At most `max_versions` for each different end of life."""
    chain = None
    for timestamp, ttl in puts:
        chain = cells.with_version(chain, b"", timestamp, ttl, max_versions)
    ends = {None if ttl is None else timestamp + ttl for timestamp, ttl in puts}
    assert length(chain) <= max_versions * len(ends)


@given(
    st.dictionaries(
        st.binary(max_size=8), st.tuples(st.binary(max_size=60), st.integers(0, 2**63 - 2)), min_size=1, max_size=30
    )
)
def test_segments_come_back_whole_and_in_order(stored: dict[bytes, tuple[bytes, int]]) -> None:
    row = {column: StoredCell(value, timestamp) for column, (value, timestamp) in sorted(stored.items())}
    pieces = list(cells.encode_segments(b"", row, 100))
    assert all(len(data) <= 100 or len(piece) == 1 for _, piece, data in pieces)
    assert [first for first, _, _ in pieces] == [b"", *(next(iter(piece)) for _, piece, _ in pieces[1:])]
    joined: cells.Cells = {}
    for _, piece, data in pieces:
        assert cells.decode_cells(data) == piece
        joined |= piece
    assert list(joined.items()) == list(row.items())


def test_bytes_that_are_no_segment() -> None:
    for data in (b"", b"\xc1", b"\x81\xa1x\x01"):
        with pytest.raises(StoreError, match="The embedded store's file is damaged: the cells of a row"):
            cells.decode_cells(data)


def test_the_end_of_the_first_life() -> None:
    assert cells.earliest_end({b"d:a": StoredCell(b"", 5)}) is None
    assert cells.earliest_end({b"d:a": StoredCell(b"", 5, 2**63)}) is None
    assert (
        cells.earliest_end({b"d:a": StoredCell(b"", 5), b"d:b": StoredCell(b"", 7, 10), b"d:c": StoredCell(b"", 1, 30)})
        == 17
    )
