"""Which of a row's entries a query returns the row at."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from hbmodel.protocol.indexed.entry_verifier import EntryScope
from hbmodel.store.ranges import KeyRange, merge_ranges

KEYS = st.binary(min_size=1, max_size=3).map(lambda key: bytes(byte % 4 for byte in key))
RANGES = st.builds(lambda low, high: KeyRange(min(low, high), max(low, high)), KEYS, KEYS) | st.builds(KeyRange, KEYS)


@given(st.lists(RANGES, max_size=4), st.lists(KEYS, max_size=5, unique=True), st.sampled_from([0, 1]), st.booleans())
def test_it_is_the_first_by_its_key_without_the_salt(
    ranges: Sequence[KeyRange], entries: Sequence[bytes], width: int, tested: bool
) -> None:
    kept = merge_ranges([of for of in ranges if not of.empty])
    scope = EntryScope(kept[::-1], width, (lambda entry: entry[-1] != 1) if tested else None)
    inside = [entry for entry in entries if any(entry in of for of in ranges) and not (tested and entry[-1] == 1)]
    assert [entry for entry in entries if entry in scope] == inside
    first = scope.first(entries)
    if first is None:
        assert not inside
    else:
        assert first in inside
        assert first[width:] == min(entry[width:] for entry in inside)
