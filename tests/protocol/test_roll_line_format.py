"""Lines of the writers' roll: their contents, the calls that they stand for, and what a program may do at
which time.
"""

from __future__ import annotations

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from hbmodel.protocol.roll_line_format import KINDS, NOTHING, LateCalls, Member, Revisions, RollLine, Writer

CELLS = st.dictionaries(st.sampled_from(["m:rows", "m:move", "m:i.by_ü", "m:i.b"]), st.integers(0, 1 << 45))
REVISIONS = CELLS.map(Revisions.of)
LATE = st.lists(st.builds(LateCalls, REVISIONS, st.integers(0, 1 << 31)), max_size=3).map(tuple)
TEXT = st.text(max_size=5)
LINES = st.builds(
    RollLine, st.integers(1), st.sampled_from(KINDS), REVISIONS, st.integers(0, 1 << 31), st.integers(0, 1 << 31), LATE,
    st.builds(Writer, TEXT, st.integers(0), TEXT),
)  # fmt: skip

OLD, NEW = Revisions.of({"m:rows": 3}), Revisions.of({"m:rows": 4, "m:i.a": 1})


@pytest.mark.lengthy
@given(LINES)
def test_a_line_is_read_as_it_was_written(line: RollLine) -> None:
    assert RollLine.decode(line.encode()) == line


def test_the_bytes_of_a_line() -> None:
    """A public, versioned form: programs of other versions read it."""
    line = RollLine(7, "on", OLD, 60_000, 1_200_000, (LateCalls(NOTHING, 5),), Writer("host7", 4711, "load.py"))
    assert line.encode() == (
        b'{"form":1,"host":"host7","kind":"on","late":[[{},5]],"lease":60000,"longest_call":1200000,"pid":4711,'
        b'"program":"load.py","revisions":{"m:rows":3},"sequence":7}'
    )


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"x",
        b"[]",
        b"{}",
        b'{"form":2}',
        RollLine(1, "on", OLD, 1, 1).encode().replace(b'"on"', b'"asleep"'),
        RollLine(1, "on", OLD, 1, 1).encode().replace(b'"lease":1', b'"lease":1e999'),
        b"[" * 100_000,
    ],
)
def test_a_line_of_another_form_is_not_read(value: bytes) -> None:
    assert RollLine.decode(value) is None


@given(REVISIONS, REVISIONS)
def test_the_lowest_revisions_are_reached_by_both(one: Revisions, other: Revisions) -> None:
    lowest = one.lowest(other)
    assert lowest == other.lowest(one)
    assert one.reach(lowest)
    assert other.reach(lowest)
    assert all(lowest.at(cell) == min(one.at(cell), other.at(cell)) for cell, _ in lowest.cells)
    assert one.reach(other) == (one.lowest(other) == other)


def test_a_line_is_waited_for_until_the_last_call_of_an_older_state_must_have_landed() -> None:
    line = RollLine(1, "on", OLD, 60, 1200)
    assert line.waits_until(1000, 30, "m:rows", 4) == 1000 + 60 + 1200 + 30
    assert line.waits_until(1000, 30, "m:rows", 3) is None
    assert line.waits_until(1000, 30, "m:i.a", 1) == 2290  # it has not seen the cell at all
    assert not line.over(1000, 2290, 30, "m:rows", 4)
    assert line.over(1000, 2291, 30, "m:rows", 4)
    assert not line.over(1000, 2290, 30)
    assert line.over(1000, 2291, 30)


def test_calls_of_unknown_outcome_are_waited_for_though_the_program_rests() -> None:
    resting = RollLine(2, "rest", NEW, 60, 1200, (LateCalls(OLD, 700), LateCalls(NEW, 900)))
    assert resting.waits_until(1000, 30, "m:rows", 4) == 1730
    assert resting.waits_until(1000, 30, "m:rows", 5) == 1930
    assert resting.waits_until(1000, 30) == 1930
    assert evolve(resting, kind="gone").waits_until(1000, 30) is None
    assert evolve(resting, late=()).over(1000, 0, 30)


def on(member: Member, revisions: Revisions, now: int) -> Member:
    return member.put(now).answered().read(revisions)


MEMBER = Member(b"i", 60, 1200)


def test_a_lease_begins_with_the_put_and_is_there_after_the_read() -> None:
    sent = MEMBER.put(100)
    assert not sent.may_call(100)
    assert not sent.answered().may_call(100)
    member = sent.answered().read(OLD)
    assert member.may_call(160)
    assert not member.may_call(161)
    assert member.held is not None
    assert member.held.revisions == NOTHING  # nothing was read when it was put
    assert member.behind
    again = on(member, OLD, 140)
    assert again.may_call(200)
    assert not again.behind


def test_a_lease_of_no_length_allows_no_call() -> None:
    assert not on(evolve(MEMBER, lease=0), OLD, 100).may_call(100)


def test_a_line_names_the_oldest_state_by_which_a_call_is_under_way() -> None:
    member = on(on(MEMBER, OLD, 100), OLD, 110).began().saw(NEW)
    assert member.oldest == OLD
    assert not member.behind
    answered = member.ended(OLD, 120, unknown=False)
    assert answered.oldest == NEW
    assert answered.behind
    line = answered.put(121).sent
    assert line is not None
    assert (line.line.revisions, line.line.late) == (NEW, ())


def test_a_call_of_unknown_outcome_is_listed_once_the_line_names_a_later_state() -> None:
    member = on(MEMBER, OLD, 100).began().ended(OLD, 150, unknown=True)
    same = member.put(160).sent
    assert same is not None
    assert same.line.late == ()  # the line itself stands for it
    later = member.saw(NEW).put(160).sent
    assert later is not None
    assert later.line.late == (LateCalls(OLD, 1190),)
    rest = member.put(160, "rest").sent
    assert rest is not None
    assert rest.line.late == (LateCalls(OLD, 1190),)
    assert not member.may_end(1350)
    assert member.may_end(1351)
    over = member.saw(NEW).put(1351).sent
    assert over is not None
    assert over.line.late == ()


def test_a_put_whose_answer_is_lost_counts_only_if_its_line_is_found() -> None:
    first = MEMBER.put(100)
    assert first.sent is not None
    found = first.found(first.sent.line, b"j")
    assert (found.id, found.held) == (b"i", first.sent.line)
    assert found.read(OLD).may_call(150)
    absent = first.found(None, b"j")
    assert (absent.id, absent.held, absent.until) == (b"j", None, None)
    held = on(MEMBER, OLD, 100)
    assert held.held is not None
    second = held.put(130)
    gone = second.found(evolve(held.held, kind="gone"), b"j")
    assert (gone.id, gone.until) == (b"j", None)
    before = second.found(held.held, b"j")
    assert (before.id, before.held, before.sent) == (b"i", held.held, None)
    assert before.may_call(160)
    assert not before.may_call(161)  # the lease is the one that it had


def test_nothing_begins_after_a_line_is_put_at_rest() -> None:
    member = on(MEMBER, OLD, 100).put(120, "rest")
    assert not member.may_call(120)
    assert not member.answered().may_call(120)
    assert on(member.answered(), NEW, 130).may_call(190)


def test_calls_under_way_remain_counted_under_another_id() -> None:
    member = on(MEMBER, OLD, 100).began().renewed(b"j")
    assert member.calls == (OLD,)
    assert on(member, NEW, 130).oldest == OLD
