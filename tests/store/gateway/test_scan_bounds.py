from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hbmodel.store import MAX_ROW_LENGTH
from hbmodel.store.gateway.scanning.scan_bounds import forward_bounds, reversed_bounds
from hbmodel.store.ranges import KeyRange

LONGEST = b"k" * MAX_ROW_LENGTH

# Few bytes, both ends of the alphabet among them, so that keys lie close together.
keys = st.one_of(
    st.lists(st.sampled_from(b"\x00\x01a\xfe\xff"), max_size=4).map(bytes),
    st.sampled_from(
        [
            LONGEST,
            LONGEST + b"\x00",
            LONGEST + b"a",
            LONGEST[:-1] + b"l",
            LONGEST[:-1],
            b"\xff" * MAX_ROW_LENGTH + b"\x00",
        ]
    ),
)
row_keys = keys.filter(lambda key: 0 < len(key) <= MAX_ROW_LENGTH)
ranges = st.builds(KeyRange, keys, st.none() | keys)


def forward(table: set[bytes], start: bytes, stop: bytes) -> list[bytes]:
    """The rows that HBase's forward scan returns."""
    return sorted(row for row in table if row >= start and (not stop or row < stop))


def backward(table: set[bytes], start: bytes, stop: bytes) -> list[bytes]:
    """The rows that HBase's reversed scan returns."""
    return sorted((row for row in table if (not start or row <= start) and (not stop or row > stop)), reverse=True)


@given(st.sets(row_keys), ranges)
def test_forward_bounds_are_exact(table: set[bytes], keys: KeyRange) -> None:
    bounds = forward_bounds(keys)
    assert ([] if bounds is None else forward(table, *bounds)) == sorted(row for row in table if row in keys)


@pytest.mark.lengthy
@given(st.sets(row_keys), ranges)
@example({b"\x00", b"a", b"b"}, KeyRange(b"", b"\x00"))
@example({b"a", b"\x60" + b"\xff" * 9}, KeyRange(b"a", b"b"))
def test_reversed_bounds_hold_the_range_and_little_else(table: set[bytes], keys: KeyRange) -> None:
    bounds = reversed_bounds(keys)
    found = [] if bounds is None else backward(table, *bounds)
    inside = [row for row in found if row in keys]
    assert inside == sorted((row for row in table if row in keys), reverse=True)
    above = [row for row in found if keys.stop is not None and row >= keys.stop]
    assert above == found[: len(above)]
    assert len(above) <= 1


@given(ranges)
def test_bounds_are_what_hbase_takes(keys: KeyRange) -> None:
    for bounds in (forward_bounds(keys), reversed_bounds(keys)):
        if bounds is not None:
            assert all(len(bound) <= MAX_ROW_LENGTH for bound in bounds)
            # HBase takes equal bounds for a request of that one row.
            assert not bounds[0] or bounds[0] != bounds[1]


@pytest.mark.parametrize(
    ("keys", "bounds"),
    [
        (KeyRange(), (b"", b"")),
        (KeyRange(b"a"), (b"a", b"")),
        (KeyRange(b"a", b"b"), (b"a", b"b")),
        (KeyRange(b"a", b"a"), None),
        (KeyRange(b"", b""), None),
        (KeyRange.exactly(LONGEST), (LONGEST, LONGEST[:-1] + b"l")),
        (KeyRange(LONGEST + b"\x00", None), (LONGEST[:-1] + b"l", b"")),
        (KeyRange(b"\xff" * MAX_ROW_LENGTH + b"\x00", None), None),
    ],
)
def test_forward_examples(keys: KeyRange, bounds: tuple[bytes, bytes] | None) -> None:
    assert forward_bounds(keys) == bounds


@pytest.mark.parametrize(
    ("keys", "bounds"),
    [
        (KeyRange(), (b"", b"")),
        (KeyRange(b"b", b"c"), (b"c", b"a" + b"\xff" * 9)),
        (KeyRange(b"a\x00", b"b\x00"), (b"b", b"a")),  # exact: a key that ends in 00 has a predecessor
        (KeyRange.exactly(b"a"), (b"a", b"\x60" + b"\xff" * 9)),
        (KeyRange(b"a", b"a"), None),
        (KeyRange(b"", LONGEST + b"a"), (LONGEST, b"")),
        (KeyRange(LONGEST + b"a", LONGEST + b"b"), None),
    ],
)
def test_reversed_examples(keys: KeyRange, bounds: tuple[bytes, bytes] | None) -> None:
    assert reversed_bounds(keys) == bounds
