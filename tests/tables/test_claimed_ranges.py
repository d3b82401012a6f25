"""Ranges that programs take in turn: one that another program holds is left to it as long as it comes on."""

from __future__ import annotations

import hbmodel as hb
from hbmodel.store import Family
from hbmodel.store.ranges import KeyRange
from hbmodel.tables.claimed_ranges import Counts, SharedRanges

RANGES = [KeyRange(b"", b"m"), KeyRange(b"m")]
LIFE = 100


def test_a_range_is_free_again_once_its_program_has_not_come_on_for_long_enough() -> None:
    now = 1_000
    with hb.connect("memory:") as store:
        store.create_table("r", [Family(b"m")])
        one, other = (SharedRanges(store, "r", b"work", lambda: now, LIFE, owner) for owner in ("one", "other"))
        one.begin(RANGES)
        first, second = one.take(), other.take()
        assert first is not None
        assert second is not None
        assert sorted([first.range, second.range], key=lambda of: of.start) == RANGES
        now += LIFE - 1
        first.advance(b"x", Counts(rows=3))
        assert (one.take(), other.take()) == (None, None)  # both are held, if only just
        now += 1
        left = one.take()  # the second range alone was not come on with
        assert left is not None
        assert left.range == second.range
        assert other.take() is None
        now += LIFE
        assert {claim.range.start: claim.counts.rows for claim in (other.take(), other.take()) if claim} == {
            b"x": 3,
            second.range.start: 0,
        }
