"""Unique indexes: one row per value, with any writers and any crashes."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.protocol.driver import drive
from hbmodel.protocol.versioned.claim_comparison import claim_existing
from hbmodel.protocol.versioned.unique_values import CLAIMED
from hbmodel.protocol.versioned.versioned_plan import VersionedRowPlanner
from hbmodel.session.commit.session_sizes import SessionSizes
from hbmodel.store import ConditionalChange, Put
from hbmodel.tables.registry.registration import ABSENT
from tests.support.beds import HBASE, Bed, cells_of, fresh, set_state
from tests.support.examples import examples
from tests.support.faulty import Crash, FaultyStore, RecordingStore, failures_of, is_repetition


@hb.model(table="members", family="d")
class Member:
    """Two unique indexes, one of them salted and over two fields."""

    name: hb.Key[str] = hb.key()
    email: hb.Column[str | None] = hb.column("e", default=None)
    team: hb.Column[str] = hb.column("t", default="")
    seat: hb.Column[int | None] = hb.column("s", default=None)
    version: hb.Column[int] = hb.version()

    by_email = hb.index("email", unique=True)
    by_seat = hb.index("team", hb.desc("seat"), unique=True, salt=hb.HashSalt(4, by=("team",)))


def check(store: hb.Store) -> dict[str, str]:
    """Every value is held once, found through the index, and claimed for its row; the names by email."""
    session = hb.Session(store)
    members = session.query(Member).allow_full_scan().all()
    emails = {member.email: member.name for member in members if member.email is not None}
    assert len(emails) == sum(member.email is not None for member in members)
    for email, name in emails.items():
        assert [found.name for found in session.query(Member).where(Member.email == email)] == [name]
    owners = {
        cells[b"d:_u"][9:]
        for cells in cells_of(store, "members.by_email").values()
        if cells.get(b"d:_u", b"")[:1] == CLAIMED
    }
    assert {name.encode() for name in emails.values()} <= owners
    return {str(email): name for email, name in emails.items()}


def test_a_value_that_another_row_holds_is_refused(atomic_bed: Bed) -> None:
    session = atomic_bed.use(Member)
    session.add(Member(name="a", email="x", team="t", seat=1))
    session.commit()

    def committed(member: Member) -> None:
        session.add(member)
        session.commit()

    for write, member in (
        (committed, Member(name="b", email="x")),
        (committed, Member(name="b", team="t", seat=1)),
        (session.insert, Member(name="b", email="x")),
    ):
        with pytest.raises(hb.UniqueViolation) as caught:
            write(member)
        assert caught.value.owner == b"a"
        assert session.get(Member, name="b") is None
    assert (caught.value.index, caught.value.fields, caught.value.value) == ("by_email", ["email"], "x")
    assert "'x'" not in str(caught.value)
    session.add(Member(name="b", email="y", team="t", seat=2))
    session.commit()
    session.update(Member(name="b"), team="t", seat=1)
    with pytest.raises(hb.UniqueViolation) as caught:
        session.commit()
    assert (caught.value.index, caught.value.value) == ("by_seat", ("t", 1))
    assert check(atomic_bed.store) == {"x": "a", "y": "b"}


def test_a_value_that_was_given_up_is_free(atomic_bed: Bed) -> None:
    session = atomic_bed.use(Member)
    session.add_all([Member(name="a", email="x"), Member(name="b", email="y"), Member(name="n"), Member(name="o")])
    session.commit()
    session.update(Member(name="a"), email="z")
    session.commit()
    session.update(Member(name="b"), email="x")
    session.commit()
    session.delete_key(Member, name="b")
    session.commit()
    session.insert(Member(name="c", email="x"))
    session.update(Member(name="a"), email=None)
    session.commit()
    session.update(Member(name="n"), email="z")
    session.commit()
    assert check(atomic_bed.store) == {"x": "c", "z": "n"}


def test_the_calls_of_a_commit_take_values_in_their_order(atomic_bed: Bed) -> None:
    session = atomic_bed.use(Member)
    session.add_all(Member(name=name, email=name) for name in "abc")
    session.commit()
    session.update(Member(name="a"), email="free")
    session.update(Member(name="b"), email="a")  # what a has just given up
    session.delete_key(Member, name="c")
    session.add(Member(name="d", email="c"))
    session.commit()
    assert check(atomic_bed.store) == {"free": "a", "a": "b", "c": "d"}
    session.update(Member(name="b"), email="c")  # which d gives up only later
    session.update(Member(name="d"), email="other")
    session.add_all([Member(name="e", email="new"), Member(name="f", email="new")])
    with pytest.raises(hb.PartialWrite) as caught:
        session.commit()
    assert [(outcome.key, type(outcome.error)) for outcome in caught.value.failures] == [
        (b"b", hb.UniqueViolation), (b"f", hb.UniqueViolation),
    ]  # fmt: skip
    assert check(atomic_bed.store) == {"free": "a", "a": "b", "other": "d", "new": "e"}


def test_other_changes_cost_nothing(atomic_bed: Bed) -> None:
    session = atomic_bed.use(Member)
    session.add_all(Member(name=f"m{n}", email=f"e{n}", team="t", seat=n) for n in range(50))
    session.commit()
    atomic_bed.store.told()
    claims = ["get members.by_email", "check_and_mutate_many members.by_email"]
    for n in range(50):
        session.update(Member(name=f"m{n}"), email=f"f{n}")
    session.commit()
    assert atomic_bed.store.told() == [
        "get members",
        claims[0],
        claims[1],
        "put members.by_email",
        "put members.by_seat",
        "check_and_mutate_many members",
        "delete members.by_email",
        claims[1],
    ]
    session.add(Member(name="m1", email="f1", team="t", seat=1))
    session.commit()
    assert atomic_bed.store.told() == [
        "get members",
        "put members.by_email",
        "put members.by_seat",
        "check_and_mutate_many members",
    ]


def test_the_claim_of_a_program_that_crashed_is_taken_over(atomic_bed: Bed) -> None:
    session = atomic_bed.use(Member)
    session.add(Member(name="a", email="x"))
    session.commit()
    (claim,) = (row for row, cells in cells_of(atomic_bed.store, "members.by_email").items() if b"d:_u" in cells)
    # the one holds another value, the other was never written
    for owner, value in ((b"a", "held"), (b"nobody", "free")):
        other = claim.replace(b"x", value.encode())
        atomic_bed.store.put("members.by_email", [Put(other, {b"d:_u": CLAIMED + b"crashed!" + owner}, 1_000)])
        held = session.get(Member, name="a")
        assert held is not None
        session.add(Member(name=value, email=value))
        session.commit()
        assert session.get(Member, name="nobody") is None
        if owner == b"a":  # was fenced
            session.update(held, seat=3)
            with pytest.raises(hb.ConflictError):
                session.commit()
    assert check(atomic_bed.store) == {"x": "a", "held": "held", "free": "free"}
    session.insert(Member(name="nobody", email="z"))
    assert check(atomic_bed.store)["z"] == "nobody"


@hb.model(table="unique_visits", family="d")
class Visited:
    """Its counters may be ahead of the clock."""

    name: hb.Key[str] = hb.key()
    email: hb.Column[str] = hb.column("e")
    visits: hb.Column[int] = hb.counter("v")
    version: hb.Column[int] = hb.version()

    by_email = hb.index("email", unique=True)


@pytest.mark.parametrize("how", ["add", "repair"])
def test_a_counter_far_ahead_refuses_no_fence(atomic_bed: Bed, how: str) -> None:
    name, free = f"far {how}", f"free {how}"  # on HBase the tombstones of another test would hide them
    session = atomic_bed.use(Visited)
    session.add(Visited(name=name, email="x"))
    session.commit()
    (claim,) = (row for row, cells in cells_of(atomic_bed.store, "unique_visits.by_email").items() if b"d:_u" in cells)
    crashed = {b"d:_u": CLAIMED + b"crashed!" + name.encode()}
    atomic_bed.store.put("unique_visits.by_email", [Put(claim.replace(b"x", free.encode()), crashed, 1_000)])
    ahead, times = (
        time.time_ns() // 1_000_000 + 86_400_000,
        hb.indexes.IndexTimes(longest_call=0.1, clock_bound=0.1, grace=0.7),
    )
    atomic_bed.store.put("unique_visits", [Put(name.encode(), {b"d:v": (7).to_bytes(8, "big")}, ahead)])
    if how == "repair":
        while (report := hb.indexes.repair_index(atomic_bed.store, Visited, "by_email", times=times)).pending:
            time.sleep(0.1)  # the version of the row must be old
        assert report.freed == 1
    session.add(Visited(name="b", email=free))
    session.commit()
    found = session.get(Visited, name=name)
    assert (found.email, found.visits) == ("x", 7)


def test_a_value_that_others_keep_claiming_is_given_up(atomic_bed: Bed) -> None:
    session = atomic_bed.use(Member)

    class Contested(RecordingStore):
        """Another program claims the value before each attempt of this one."""

        def check_and_mutate_many(self, table: str, changes: Sequence[ConditionalChange]) -> Sequence[bool]:
            if table == "members.by_email":
                other = CLAIMED + os.urandom(8) + b"other"
                self.inner.put(
                    table, [Put(change.row, {b"d:_u": other}, time.time_ns() // 1_000_000) for change in changes]
                )
            return super().check_and_mutate_many(table, changes)

    contested = hb.Session(Contested(atomic_bed.store))
    contested.add(Member(name="a", email="x"))
    with pytest.raises(hb.ConflictError, match="Other writes keep claiming the same unique value: try again"):
        contested.commit()
    assert session.get(Member, name="a") is None
    session.insert(Member(name="a", email="x"))


def scenario(session: hb.Session) -> list[hb.Outcome]:
    """Values that are taken, moved and given up."""
    session.update(Member(name="a"), email="p")
    session.add(Member(name="d", email="a"))
    session.delete_key(Member, name="b")
    session.update(Member(name="c"), seat=5)
    return session.commit()


def prepared() -> hb.Store:
    store = hb.connect("memory:")
    hb.create_tables(store, Member)
    with hb.Session(store) as session:
        session.add_all(Member(name=name, email=name) for name in "abc")
    return store


@pytest.mark.lengthy
def test_a_crash_or_failure_at_any_call() -> None:
    with prepared() as store:
        watched = RecordingStore(store)
        scenario(hb.Session(watched))
    end = {"p": "a", "a": "d", "c": "c"}
    met = 0
    for at, mode in failures_of(watched.calls):
        with prepared() as store:
            session = hb.Session(FaultyStore(store, at, mode))
            try:
                scenario(session)
            except hb.HbmodelError:
                session.commit()
            assert check(store) == end, (at, mode)
        if is_repetition(at, mode):
            continue
        with prepared() as store:
            with pytest.raises(Crash):
                scenario(hb.Session(FaultyStore(store, at, mode, crash=True)))
            check(store)
            scenario(hb.Session(store))
            assert check(store) == end, (at, mode)
            met += 1
    assert met > 10


@pytest.mark.every_store
def test_threads_that_want_the_same_values(atomic_bed: Bed) -> None:
    atomic_bed.use(Member)
    won: list[tuple[str, str]] = []
    errors: list[BaseException] = []

    def run(name: str) -> None:
        try:
            session = hb.Session(atomic_bed.store)
            for n in range(6):
                try:
                    session.retry(lambda s, n=n: s.add(Member(name=name, email=f"e{n}")))  # type: ignore[misc]
                    won.append((name, f"e{n}"))
                except (hb.UniqueViolation, hb.ConflictError):
                    pass
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(f"t{n}",)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert won
    found = check(atomic_bed.store)
    assert set(found.values()) <= {name for name, _ in won}


def test_programs_that_do_not_know_that_an_index_is_unique_are_refused() -> None:
    @hb.model(table="members", family="d")
    class Ignorant:
        name: hb.Key[str] = hb.key()
        email: hb.Column[str | None] = hb.column("e", default=None)
        version: hb.Column[int] = hb.version()

        by_email = hb.index("email")

    with fresh(Member) as store:
        session = hb.Session(store)
        session.add(Ignorant(name="a"))
        with pytest.raises(hb.SchemaMismatch, match="index by_email"):
            session.commit()


def test_a_build_claims_what_rows_hold_and_lists_the_others() -> None:
    with fresh(Member) as store:
        set_state(store, Member, "by_email", ABSENT)
        with hb.Session(store) as session:
            session.add_all(
                Member(name=name, email=email) for name, email in (("a", "x"), ("b", "y"), ("c", "x"), ("d", None))
            )
        schema = hb.schema.schema_of(Member)
        set_state(store, Member, "by_email", "building")
        planner = VersionedRowPlanner(schema, [schema.indexes["by_email"]], 1000)
        rows = [row for row in store.get("members", [b"a", b"b", b"c", b"d"]) if row is not None]
        session = hb.Session(store)
        found = drive(store, claim_existing(planner, rows), session._clock)
        assert [(each.key, each.owner, each.value) for each in found] == [(b"c", b"a", "x")]
        assert drive(store, claim_existing(planner, rows[:2]), session._clock) == []
        session.add(Member(name="e", email="y"))
        with pytest.raises(hb.UniqueViolation):
            session.commit()


@hb.model(table="seats", family="d")
class Seat:
    """Objects that share rows."""

    hall: hb.Key[str] = hb.key()
    number: hb.Key[str] = hb.key(in_qualifier=True)
    price: hb.Column[int] = hb.column("p")
    guest: hb.Column[str | None] = hb.column("g", default=None)
    version: hb.Column[int] = hb.version()

    by_guest = hb.index("guest", unique=True)


def in_a_group(session: hb.Session) -> None:
    with session.group(Seat, hall="old") as group:
        group.update(group.get(Seat, number="a"), price=5)
        group.add(Seat(hall="old", number="b", price=3, guest="rome"))


WRITES: Mapping[str, Callable[[hb.Session], object]] = {
    "update": lambda session: session.update_key(Seat, hall="old", number="a", guest="rome"),
    "add of a new object": lambda session: session.add(Seat(hall="old", number="b", price=3, guest="rome")),
    "add over an object": lambda session: session.add(Seat(hall="old", number="a", price=3, guest="rome")),
    "insert": lambda session: session.insert(Seat(hall="old", number="b", price=3, guest="rome")),
    "two objects": lambda session: session.add_all(
        [Seat(hall="old", number="a", price=5, guest="oslo"), Seat(hall="old", number="b", price=3, guest="rome")]
    ),
    "group": in_a_group,
    "rekey": lambda session: session.rekey(Seat(hall="old", number="r", price=1, guest="rome"), number="b"),
}


@pytest.mark.lengthy
@pytest.mark.parametrize("kind", WRITES)
def test_a_program_whose_claim_is_taken_over_cannot_write_its_wide_row(kind: str) -> None:
    """Another program wants the value between any two calls of it."""
    taken = 0
    for at in range(1, 100):
        store = seats(kind == "rekey")
        mine, other = disturbed(store, kind, at)
        held = [
            (seat.hall, seat.number) for seat in hb.Session(store).query(Seat).allow_full_scan() if seat.guest == "rome"
        ]
        assert len(held) == 1, (at, mine, other, held)
        assert (other == "written") == (held == [("new", "a")]), (at, mine, other, held)
        assert hb.indexes.verify_index(store, Seat, "by_guest").unclaimed == 0
        taken += held == [("new", "a")]
        if other is None:
            break
    assert other is None
    assert taken or kind == "rekey"  # there the value is held throughout


def seats(more: bool) -> hb.Store:
    store = hb.connect("memory:")
    hb.create_tables(store, Seat)
    for number, guest in {"a": "oslo", **({"r": "rome"} if more else {})}.items():
        with hb.Session(store) as session:
            session.add(Seat(hall="old", number=number, price=1, guest=guest))
    return store


def disturbed(store: hb.Store, kind: str, at: int) -> tuple[str, str | None]:
    """The outcome of a write, and of another program's write that runs before one of its calls; None if it has fewer
    calls.
    """
    calls = 0
    other: str | None = None

    def second(_: object) -> None:
        nonlocal calls, other
        calls += 1
        if calls == at:
            other = written(store, lambda session: session.add(Seat(hall="new", number="a", price=2, guest="rome")))

    return written(store, WRITES[kind], second), other


def written(
    store: hb.Store, write: Callable[[hb.Session], object], on_call: Callable[[Any], None] | None = None
) -> str:
    """The outcome of a write."""
    session = hb.Session(store, on_call=on_call)
    try:
        write(session)
        session.commit()
    except hb.HbmodelError as error:
        return type(error).__name__
    return "written"


@pytest.mark.parametrize("atomic_bed", ["memory", "embedded", HBASE[1]], indirect=True)
def test_a_fence_leaves_the_objects_of_a_wide_row_as_they_are(atomic_bed: Bed) -> None:
    session = atomic_bed.use(Seat)
    for number in "ab":
        session.add(Seat(hall="old", number=number, price=1, guest=number))
        session.commit()
    held = session.get(Seat, hall="old", number="a")
    assert held is not None
    entry, cells = next(
        (row, cells) for row, cells in cells_of(atomic_bed.store, "seats.by_guest").items() if b"d:_u" in cells
    )
    owner = cells[b"d:_u"][9:]
    crashed = {b"d:_u": CLAIMED + b"crashed!" + owner}
    before = cells_of(atomic_bed.store, "seats")
    atomic_bed.store.put("seats.by_guest", [Put(entry.replace(b"a", b"free"), crashed, 1_000)])
    group = session.group(Seat, hall="old")
    group.update(group.get(Seat, number="b"), price=3)
    other = hb.Session(atomic_bed.store)
    other.add(Seat(hall="new", number="c", price=1, guest="free"))
    other.commit()
    after = cells_of(atomic_bed.store, "seats")
    assert {column for column, value in before[b"old"].items() if after[b"old"][column] != value} == {b"d:\x00"}
    with pytest.raises(hb.ConflictError):  # of the whole row
        group.commit()
    session.update(held, price=2)
    session.commit()
    assert [seat.price for seat in session.query(Seat).where(Seat.hall == "old")] == [2, 1]


@hb.model(table="holders", family="d")
class Holder:
    number: hb.Key[int] = hb.key(hb.codecs.UInt8)
    tag: hb.Column[str | None] = hb.column("t", default=None)
    note: hb.Column[str] = hb.column("n", default="")
    version: hb.Column[int] = hb.version()

    by_tag = hb.index("tag", unique=True)


VALUES = st.sampled_from([None, "a", "b", "c", "d"])
CALLS = st.lists(st.tuples(st.sampled_from(["add", "update", "note", "delete"]), st.integers(0, 4), VALUES), max_size=9)


@pytest.mark.lengthy
@given(st.dictionaries(st.integers(0, 4), VALUES, max_size=5), CALLS, st.sampled_from([1, 2, 5_000]))
@settings(max_examples=examples(300))
def test_values_are_claimed_and_released_in_the_order_of_the_calls(
    begin: dict[int, str | None], calls: Any, most: int
) -> None:
    """Calls that succeed one by one succeed in one commit."""
    with hb.connect("memory:") as store:
        hb.create_tables(store, Holder)
        rows: dict[int, str | None] = {}
        with hb.Session(store) as session:
            for number, tag in begin.items():
                if tag is None or tag not in rows.values():
                    rows[number] = tag
                    session.add(Holder(number=number, tag=tag))
        session = hb.Session(store, sizes=SessionSizes(batch_rows=most))
        for call, number, tag in calls:
            free = tag is None or all(held != tag or other == number for other, held in rows.items())
            if call == "add" and free:
                session.add(Holder(number=number, tag=tag))
                rows[number] = tag
            elif call == "update" and free and number in rows:
                session.update_key(Holder, number=number, tag=tag)
                rows[number] = tag
            elif call == "note" and number in rows:
                session.update_key(Holder, number=number, note="n")
            elif call == "delete" and number in rows:
                session.delete_key(Holder, number=number)
                del rows[number]
        session.commit()
        found = hb.Session(store).query(Holder).use_index("primary").allow_full_scan().all()
        assert {one.number: one.tag for one in found} == rows
        assert hb.indexes.verify_index(store, Holder, "by_tag").sound


@pytest.mark.lengthy
def test_a_chain_of_values_may_be_longer_than_a_write_waits_for_others() -> None:
    with hb.connect("memory:") as store:
        hb.create_tables(store, Holder)
        with hb.Session(store) as session:
            session.add_all(Holder(number=number, tag=f"{number}") for number in range(80))
        session = hb.Session(store)
        for number in reversed(range(80)):
            session.update_key(Holder, number=number, tag=f"{number + 1}")
        session.commit()
        found = hb.Session(store).query(Holder).use_index("primary").allow_full_scan().all()
        assert [one.tag for one in found] == [f"{number + 1}" for number in range(80)]
