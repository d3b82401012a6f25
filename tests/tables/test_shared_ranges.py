"""Ranges that programs take in turn: one that another program holds is left to it as long as it comes on."""

from __future__ import annotations

import hbmodel as hb
from hbmodel.store import Family
from hbmodel.store.ranges import KeyRange
from hbmodel.tables.indexes.shared_ranges import ClaimLost, Counts, Progress, RangeClaim, SharedRanges

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


def test_work_is_begun_once_and_ends_when_all_ranges_are_done() -> None:
    with hb.connect("memory:") as store:
        store.create_table("r", [Family(b"m")])
        claims = SharedRanges(store, "r", b"work", lambda: 1_000, LIFE, "one")
        seen: list[tuple[int, int] | None] = []
        worked: list[KeyRange] = []
        lost = iter([True, False, False])

        def goes_on(progress: Progress | None) -> bool:
            seen.append(None if progress is None else (progress.done, progress.counts.rows))
            return True

        def through(claim: RangeClaim, progress: Progress) -> None:
            worked.append(claim.range)
            if next(lost):  # another program has taken it, and does it
                claim.finish(Counts(rows=1))
                raise ClaimLost
            claim.finish(Counts(rows=5))

        claims.work_off(lambda: RANGES, goes_on, through)
        assert seen == [None, (0, 0), (1, 1), (2, 6)]
        assert sorted(worked, key=lambda one: one.start) == RANGES
        claims.work_off(lambda: [], goes_on, through)
        assert len(worked) == 2


def test_work_stops_when_it_is_not_to_go_on() -> None:
    with hb.connect("memory:") as store:
        store.create_table("r", [Family(b"m")])
        claims = SharedRanges(store, "r", b"work", lambda: 1_000, LIFE, "one")
        claims.work_off(lambda: RANGES, lambda progress: False, lambda claim, progress: None)
        assert claims.progress() is None
        claims.work_off(lambda: RANGES, lambda progress: progress is None, lambda claim, progress: None)
        progress = claims.progress()
        assert progress is not None
        assert (progress.ranges, progress.done) == (2, 0)
