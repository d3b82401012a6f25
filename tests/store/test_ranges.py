"""Byte ranges: prefix successors with carry, exact membership, and set operations."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hbmodel.store.ranges import KeyRange, key_successor, merge_ranges, prefix_successor

keys = st.lists(st.one_of(st.sampled_from([0, 1, 0xFE, 0xFF]), st.integers(0, 255)), max_size=4).map(bytes)
ranges = st.builds(KeyRange, keys, st.one_of(st.none(), keys))


@pytest.mark.parametrize(
    ("prefix", "successor"),
    [
        (b"a", b"b"),
        (b"ab", b"ac"),
        (b"a\xff", b"b"),
        (b"a\xff\xff", b"b"),
        (b"\x00", b"\x01"),
        (b"\xfe\xff", b"\xff"),
        (b"\xff", None),
        (b"\xff\xff", None),
        (b"", None),
    ],
)
def test_prefix_successor_carries_and_never_wraps(prefix: bytes, successor: bytes | None) -> None:
    assert prefix_successor(prefix) == successor


@given(keys, keys)
def test_a_prefix_range_holds_exactly_what_starts_with_it(prefix: bytes, key: bytes) -> None:
    assert (key in KeyRange.prefix(prefix)) == key.startswith(prefix)
    assert prefix + key in KeyRange.prefix(prefix)


@given(keys, keys)
def test_an_exact_range_holds_one_key(one: bytes, other: bytes) -> None:
    assert (other in KeyRange.exactly(one)) == (other == one)


@given(keys, keys)
def test_no_key_lies_between_a_key_and_its_successor(key: bytes, other: bytes) -> None:
    assert (other > key) == (other >= key_successor(key))


@pytest.mark.parametrize(
    ("found", "empty"),
    [
        (KeyRange(), False),
        (KeyRange(b"a"), False),
        (KeyRange(b"", b""), True),
        (KeyRange(b"b", b"b"), True),
        (KeyRange(b"b", b"a"), True),
        (KeyRange(b"a", b"a\x00"), False),
    ],
)
def test_empty(found: KeyRange, empty: bool) -> None:
    assert found.empty is empty


@given(ranges, keys)
def test_an_empty_range_holds_nothing(found: KeyRange, key: bytes) -> None:
    assert not (found.empty and key in found)
    assert found.empty or found.start in found


@given(ranges, ranges, keys)
def test_intersection_holds_what_both_hold(left: KeyRange, right: KeyRange, key: bytes) -> None:
    both = left.intersect(right)
    assert (key in both) == (key in left and key in right)
    assert both == right.intersect(left)


@given(ranges, keys, keys)
def test_after_and_before_cut_at_a_key(found: KeyRange, cut: bytes, key: bytes) -> None:
    assert (key in found.after(cut)) == (key in found and key > cut)
    assert (key in found.before(cut)) == (key in found and key < cut)


@given(st.lists(ranges, max_size=6), keys)
def test_merged_ranges_hold_the_same_keys(found: list[KeyRange], key: bytes) -> None:
    assert any(key in r for r in merge_ranges(found)) == any(key in r for r in found)


@given(st.lists(ranges, max_size=6))
def test_merged_ranges_are_sorted_and_apart(found: list[KeyRange]) -> None:
    merged = merge_ranges(found)
    assert not any(r.empty for r in merged)
    for left, right in pairwise(merged):
        assert left.stop is not None
        assert left.stop < right.start


def test_merging_joins_neighbours_and_drops_empty_ranges() -> None:
    assert merge_ranges([KeyRange(b"c", b"d"), KeyRange(b"a", b"b"), KeyRange(b"b", b"c"), KeyRange(b"x", b"x")]) == [
        KeyRange(b"a", b"d")
    ]
    assert merge_ranges([KeyRange(b"b"), KeyRange(b"a", b"c"), KeyRange(b"d", b"e")]) == [KeyRange(b"a")]
    assert merge_ranges([KeyRange(b"a", b"z"), KeyRange(b"b", b"c")]) == [KeyRange(b"a", b"z")]
    assert merge_ranges([]) == []
