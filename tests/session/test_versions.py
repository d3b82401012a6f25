"""Versioned models: conflicts, conditions, retries, and what becomes of a commit that some rows refuse."""

from __future__ import annotations

import copy
import pickle
import random
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

import attrs
import pytest

import hbmodel as hb
from hbmodel.errors import StoreError, StoreUnavailable, UnknownOutcome
from hbmodel.protocol.versioned.versioned_plan import KEPT, KEPT_WHEN_BUSY
from hbmodel.session.commit.session_sizes import SessionSizes
from hbmodel.store import ConditionalChange, Put
from hbmodel.store.clock_tick import let_tick_pass
from hbmodel.tables.registry.registration import ABSENT, READABLE
from hbmodel.tables.registry.registry_table import REGISTRY_TABLE
from tests.support.beds import HBASE, Bed, cells_of, fresh, rows_of, set_state
from tests.support.examples import examples
from tests.support.faulty import MODES, Call, FaultyStore, RecordingStore, failures_of
from tests.support.lease_clock import LeaseClock


@hb.model(table="accounts", family="d")
class Account:
    """With an index."""

    name: hb.Key[str] = hb.key()
    owner: hb.Column[str] = hb.column("o")
    balance: hb.Column[int] = hb.column("b", default=0)
    note: hb.Column[str | None] = hb.column("n", default=None)
    version: hb.Column[int] = hb.version()

    by_owner = hb.index("owner", covers=("balance",))


@hb.model(table="tickets", family="d")
class Ticket:
    """Without an index."""

    name: hb.Key[str] = hb.key()
    state: hb.Column[str] = hb.column("s")
    revision: hb.Column[int] = hb.version()


def stored(bed: Bed) -> hb.Session:
    """A session on a store with one account and one ticket."""
    session = bed.use(Account, Ticket)
    session.add(Account(name="a", owner="ann"))
    session.add(Ticket(name="t", state="open"))
    session.commit()
    return session


def account(session: hb.Session, name: str = "a") -> Account:
    """The account as it is read."""
    found = session.get(Account, name=name)
    assert found is not None
    return found


def owners(session: hb.Session, owner: str) -> list[str]:
    """What the index says."""
    return [found.name for found in session.query(Account).where(Account.owner == owner)]


# --- versions ---------------------------------------------------------------------------------------------------------


def test_every_write_counts_the_version_and_reads_show_it(atomic_bed: Bed) -> None:
    session = atomic_bed.use(Account)
    written = Account(name="a", owner="ann")
    assert written.version == 0
    session.add(written)
    (outcome,) = session.commit()
    assert written.version == outcome.version == account(session).version > 0
    first = written.version
    session.add(written)
    session.commit()
    assert (written.version, account(session).version) == (first + 1, first + 1)
    changed = session.update(written, note="n")  # beside every index
    assert changed.version == first + 2
    session.commit()
    assert account(session) == changed
    assert account(session).version == first + 2
    assert session.query(Account).where(Account.owner == "ann").select(Account.name, Account.version).all() == [
        ("a", first + 2)
    ]
    assert session.query(Account).where(Account.version > first + 1).allow_full_scan().count() == 1
    assert session.query(Account).where(Account.version > first + 2).allow_full_scan().count() == 0


def test_two_programs_that_update_one_row(atomic_bed: Bed) -> None:
    session = stored(atomic_bed)
    one, other = hb.Session(atomic_bed.store), hb.Session(atomic_bed.store)
    mine, theirs = account(one), account(other)
    one.update(mine, balance=1)
    other.update(theirs, owner="bob")
    one.commit()
    with pytest.raises(hb.ConflictError) as caught:
        other.commit()
    assert (caught.value.expected, caught.value.found) == (theirs.version, theirs.version + 1)
    assert account(session) == Account(name="a", owner="ann", balance=1)
    assert (owners(session, "ann"), owners(session, "bob")) == (["a"], [])
    for write in (other.add, other.delete):
        write(theirs)
        with pytest.raises(hb.ConflictError):
            other.commit()
    assert account(session).balance == 1


def test_an_object_that_was_not_read_overwrites_what_is_there(atomic_bed: Bed) -> None:
    session = stored(atomic_bed)
    before = account(session).version
    session.add(Account(name="a", owner="bob"))
    session.commit()
    assert account(session).version == before + 1
    session.update(Account(name="a", owner="unknown"), balance=7)
    session.commit()
    assert account(session) == Account(name="a", owner="bob", balance=7)
    session.delete_key(Account, name="a")
    session.commit()
    assert session.get(Account, name="a") is None
    assert owners(session, "bob") == []


def test_a_row_that_is_not_there(atomic_bed: Bed) -> None:
    session = stored(atomic_bed)
    held = account(session)
    session.delete(held)
    session.delete(held)  # an absent row is no error, whatever version it had
    assert [outcome.action for outcome in session.commit()] == ["deleted", "absent"]
    session.update(held, balance=1)
    with pytest.raises(hb.RowNotFound):
        session.commit()
    session.add(held)
    with pytest.raises(hb.ConflictError) as caught:
        session.commit()
    assert (caught.value.expected, caught.value.found) == (held.version, 0)
    assert "has been deleted since the object was read: to put it as a new row, insert" in caught.value.message
    with pytest.raises(hb.ConflictError, match="has been deleted since"):
        session.insert(held)
    again = session.insert(Account(**hb.asdict(held)))
    assert again == held
    session.delete(again)
    session.commit()
    inserted = session.insert(Account(name="a", owner="cid"))
    assert inserted.version > held.version  # versions never come back
    with pytest.raises(hb.RowExists):
        session.insert(Account(name="a", owner="dan"))
    assert owners(session, "cid") == ["a"]


@pytest.mark.every_store
def test_versions_do_not_come_back_after_everything_of_a_row_is_cleared_away(atomic_bed: Bed) -> None:
    session = stored(atomic_bed)
    held = account(session)
    session.delete(held)
    session.commit()
    atomic_bed.wipe("accounts")
    let_tick_pass()
    session.add(Account(name="a", owner="new"))
    session.commit()
    session.update(held, balance=9)
    with pytest.raises(hb.ConflictError):
        session.commit()


def test_sessions_set_the_version_of_frozen_objects_too(atomic_bed: Bed) -> None:
    session = atomic_bed.use(Ticket)
    ticket = Ticket(name="t", state="open")
    before = hash(ticket)
    inserted = session.insert(ticket)
    assert inserted is ticket
    assert inserted.revision > 0
    assert hash(inserted) == before, "the version is no part of the value"
    with pytest.raises(hb.errors.FrozenObject):
        ticket.revision = 0
    taken = session.update(inserted, state="taken")
    session.commit()
    assert taken.revision == inserted.revision + 1
    session.update(taken, state="done")  # goes on with the copy, without another read
    (outcome,) = session.commit()
    assert session.get(Ticket, name="t") == Ticket(name="t", state="done")
    session.add(attrs.evolve(taken, state="lost"))
    with pytest.raises(hb.ConflictError) as caught:
        session.commit()
    assert caught.value.found == outcome.version == taken.revision + 1


def test_updates_of_one_row_in_one_commit_follow_each_other(atomic_bed: Bed) -> None:
    session = stored(atomic_bed)
    first = account(session)
    second = session.update(first, balance=1)
    session.update(second, owner="bob")
    session.commit()
    assert account(session) == Account(name="a", owner="bob", balance=1)
    session.update(account(session), balance=2)
    session.update(account(session), balance=3)
    with pytest.raises(hb.PartialWrite) as caught:  # the second holds an object that the first has made stale
        session.commit()
    assert "read it again, or continue with the copy that update() returned" in (caught.value.reason or "")
    assert account(session).balance == 2


@pytest.mark.parametrize("refused", [True, False])
@pytest.mark.parametrize("model", [Account, Ticket])
def test_the_copy_of_a_refused_update_counts_as_read_before(model: Any, refused: bool) -> None:
    """The next version belongs to the program that came first, and a copy with this version would overwrite that
    program's write.
    """
    field = "note" if model is Account else "state"
    with fresh(Account, Ticket) as store:
        session, other = hb.Session(store), hb.Session(store)
        session.add(Account(name="a", owner="ann") if model is Account else Ticket(name="a", state="open"))
        session.commit()
        read = session.get(model, name="a")
        version = hb.schema.schema_of(model).version_field.name  # type: ignore[union-attr]
        mine = session.update(read, **{field: "mine"})
        assert getattr(mine, version) == getattr(read, version) + 1
        other.update(other.get(model, name="a"), **{field: "theirs"})
        other.commit()
        if refused:
            with pytest.raises(hb.ConflictError):
                session.commit()
        else:
            session.discard()
        assert getattr(mine, version) == getattr(read, version)
        for call in (
            lambda: session.update(mine, **{field: "again"}),
            lambda: session.add(mine),
            lambda: session.delete(mine),
        ):
            call()
            with pytest.raises(hb.ConflictError):
                session.commit()
        assert getattr(session.get(model, name="a"), field) == "theirs"


def test_what_builds_on_a_refused_update_is_refused_with_it() -> None:
    with fresh(Account) as store:
        session, other = hb.Session(store), hb.Session(store)
        session.add_all(Account(name=name, owner="ann") for name in "abc")
        session.commit()
        first = session.update(account(session), balance=1)
        second = session.update(first, note="second")
        session.update(second, note="third")
        session.delete(session.update(account(session, "b"), balance=1, condition=Account.owner == "bob"))
        kept = session.update(session.update(account(session, "c"), balance=1), note="kept")
        other.update(other.get(Account, name="a"), note="theirs")
        other.commit()
        with pytest.raises(hb.PartialWrite) as caught:
            session.commit()
        assert [type(each.error).__name__ for each in caught.value.failures] == [
            "ConflictError", "ConflictError", "ConflictError", "ConditionFailed", "ConflictError",
        ]  # fmt: skip
        assert "The update that returned this copy was refused" in str(caught.value.failures[1].error)
        assert account(session) == Account(name="a", owner="ann", note="theirs")
        assert account(session, "b") == Account(name="b", owner="ann")
        assert account(session, "c") == kept
        session.update(second, note="late")
        with pytest.raises(hb.ConflictError):
            session.commit()


def evolved(found: Any) -> Any:
    return hb.evolve(found, note="again")


COPIES: dict[str, Callable[[Any], Any]] = {
    "hb.evolve": evolved,
    "attrs.evolve": lambda found: attrs.evolve(found, note="again"),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda found: pickle.loads(pickle.dumps(found)),
    "twice": lambda found: evolved(evolved(found)),
}


@pytest.mark.parametrize("when", ["in the same commit", "once it is refused", "once it is discarded"])
@pytest.mark.parametrize("made", COPIES.values(), ids=COPIES)
def test_a_copy_of_the_copy_of_a_refused_update_counts_as_read_before_too(
    made: Callable[[Any], Any], when: str
) -> None:
    with fresh(Account) as store:
        session, other = hb.Session(store), hb.Session(store)
        session.add(Account(name="a", owner="ann"))
        session.commit()
        mine = made(session.update(account(session), balance=1))
        other.update(account(other), owner="bob")
        other.commit()
        if when == "once it is refused":
            with pytest.raises(hb.ConflictError):
                session.commit()
        elif when == "once it is discarded":
            session.discard()
        for call in (lambda: session.update(mine, balance=2), lambda: session.add(mine), lambda: session.delete(mine)):
            call()
            with pytest.raises(hb.ConflictError):
                session.commit()
        assert account(session) == Account(name="a", owner="bob")


@pytest.mark.parametrize("frozen", [False, True])
def test_a_copy_of_the_copy_of_an_update_has_the_version_of_the_row(frozen: bool) -> None:
    with fresh(Account, Ticket) as store:
        session = hb.Session(store)
        session.add(Ticket(name="a", state="1") if frozen else Account(name="a", owner="1"))
        session.commit()
        model, field = (Ticket, "state") if frozen else (Account, "owner")
        first = session.update(session.get(model, name="a"), **{field: "2"})
        early = hb.evolve(first, **{field: "3"})  # type: ignore[arg-type]
        second = session.update(early, **{field: "4"})
        session.commit()
        session.add(hb.evolve(second, **{field: "5"}))  # type: ignore[arg-type]
        session.commit()
        found = session.get(model, name="a")
        assert getattr(found, field) == "5"
        session.add(early)
        with pytest.raises(hb.ConflictError):
            session.commit()


BEFORE: dict[str, Callable[[hb.Session, Any], Any]] = {
    "update": lambda session, copied: (session.update(copied, note="mine"), session.commit()),
    "add": lambda session, copied: (session.add(copied), session.commit()),
    "delete": lambda session, copied: (session.delete(copied), session.commit()),
    "load": lambda session, copied: session.bulk_add([copied]),
    "rekey": lambda session, copied: session.rekey(copied, name="b"),
}


@pytest.mark.parametrize("theirs", [True, False])
@pytest.mark.parametrize("call", BEFORE.values(), ids=BEFORE)
def test_another_commit_gets_the_copy_of_an_update_that_waits(
    call: Callable[[hb.Session, Any], Any], theirs: bool
) -> None:
    """It must not mistake the version of the copy for the version of the row: another program may have
    written the row.
    """
    with fresh(Account) as store:
        session, other = hb.Session(store), hb.Session(store)
        session.add(Account(name="a", owner="ann"))
        session.commit()
        mine = session.update(account(session), balance=1)
        if theirs:
            other.update(account(other), owner="bob")
            other.commit()
            with pytest.raises(hb.ConflictError):
                call(other, mine)
            assert account(session) == Account(name="a", owner="bob")
        else:
            call(other, mine)  # the row is as the update has found it
        with pytest.raises((hb.ConflictError, hb.RowNotFound)):
            session.commit()


def test_updates_that_build_on_one_another_in_two_sessions() -> None:
    with fresh(Account) as store:
        session, other = hb.Session(store), hb.Session(store)
        session.add(Account(name="a", owner="ann"))
        session.commit()
        read = account(session)
        mine = session.update(read, balance=1)
        theirs = other.update(mine, note="other")
        again = other.update(theirs, owner="eve")
        other.commit()
        assert [each.version - read.version for each in (theirs, again)] == [1, 2]
        assert account(session) == Account(name="a", owner="eve", note="other")
        with pytest.raises(hb.ConflictError):
            session.commit()
        session.update(mine, balance=2)
        with pytest.raises(hb.ConflictError):
            session.commit()
        assert len(session.query(Account).where(Account.version == again.version).allow_full_scan().all()) == 1


class Disturbed(FaultyStore):
    """Between the calls another program counts the balance of an account; calls fail, and answers are lost.

    Args:
        store: that does the work.
        drawn: decides.
        others: how often the other program comes between, of 1.
        failing: how often a call fails.
    """

    def __init__(self, store: hb.Store, drawn: random.Random, others: float, failing: float) -> None:
        super().__init__(store)
        self.drawn, self.others, self.failing = drawn, others, failing
        self.beside = hb.Session(store)
        self.counted = dict.fromkeys("ab", 0)

    def _do(self, call: Call, apply: Callable[[Sequence[Any]], Any]) -> Any:
        if self.drawn.random() < self.others:
            name = self.drawn.choice("ab")
            self.beside.retry(
                lambda session: session.update(found := account(session, name), balance=found.balance + 1)
            )
            self.counted[name] += 1
        if self.drawn.random() >= self.failing:
            return apply(call.items)
        if call.writes and self.drawn.random() < 0.5:
            apply(call.items)
            raise UnknownOutcome("The connection broke, on purpose.")
        raise StoreUnavailable("The gateway is away, on purpose.")


@pytest.mark.lengthy
def test_whatever_becomes_of_updates_no_change_of_another_program_is_lost() -> None:
    """Calls on copies, and on copies of copies, in two sessions; any call may be refused, dropped or continued."""
    for seed in range(examples(300)):
        drawn = random.Random(seed)
        plain = fresh(Account)
        hb.Session(plain).bulk_add([Account(name=name, owner="ann") for name in "ab"])
        store = Disturbed(plain, drawn, drawn.choice((0.05, 0.2)), drawn.choice((0, 0, 0.05)))
        sessions = [hb.Session(store, sizes=SessionSizes(batch_rows=drawn.choice((1, 2, 100)))) for _ in range(2)]
        held = {name: [account(hb.Session(plain), name)] for name in "ab"}
        for _ in range(drawn.randrange(4, 25)):
            session, found = drawn.choice(sessions), held[drawn.choice("ab")]
            of, resend = drawn.choice(found), drawn.random() < 0.5
            calls: list[Callable[[], Any]] = [
                lambda session=session, of=of, found=found: found.append(account(session, of.name)),
                lambda session=session, of=of, found=found: found.append(session.update(of, note="mine")),
                lambda of=of, found=found: found.append(hb.evolve(of, owner="bob")),
                lambda session=session, of=of: session.add(of),
                lambda session=session, of=of: session.bulk_add([of]),
                lambda session=session, resend=resend: session.commit(resend=resend),
                lambda session=session: session.discard(),
            ]  # fmt: skip
            with suppress(StoreError, hb.ConflictError, hb.PartialWrite):
                drawn.choices(calls, (2, 4, 2, 2, 1, 3, 1))[0]()
        for session in sessions:
            with suppress(StoreError, hb.ConflictError, hb.PartialWrite):
                session.commit(resend=True)
            session.discard()
        left = {name: account(hb.Session(plain), name).balance for name in "ab"}
        assert left == store.counted, seed


@pytest.mark.parametrize("wrong", ["abc", None, 1.5, True, -1, 2**63])
def test_a_version_that_is_none_is_refused(wrong: Any) -> None:
    with fresh(Account) as store:
        session = hb.Session(store)
        held = session.insert(Account(name="a", owner="ann"))
        object.__setattr__(held, "version", wrong)
        for call in (
            lambda: session.add(held), lambda: session.update(held, balance=1), lambda: session.delete(held),
            lambda: session.insert(held), lambda: session.rekey(held, name="b"), lambda: session.bulk_add([held]),
        ):  # fmt: skip
            with pytest.raises(hb.EncodingError) as caught:
                call()
            assert caught.value.field == "version"


def test_the_version_is_part_of_an_object_and_not_of_its_value() -> None:
    with pytest.raises(TypeError):
        Account(name="a", owner="ann", version=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    one, other = Account(name="a", owner="ann"), Account(name="a", owner="ann")
    object.__setattr__(other, "version", 7)
    assert one == other
    assert attrs.evolve(other, balance=1).version == 7
    assert copy.deepcopy(other).version == pickle.loads(pickle.dumps(other)).version == 7
    assert "version=7" in repr(other)


# --- conditions -------------------------------------------------------------------------------------------------------


def test_a_condition_is_asked_of_the_row_as_it_is_when_it_is_written(atomic_bed: Bed) -> None:
    session = stored(atomic_bed)
    known = Account(name="a", owner="?")
    session.update(known, balance=5, condition=(Account.owner == "ann") & (Account.balance == 0))
    session.commit()
    session.update(known, balance=6, condition=Account.balance == 0)
    with pytest.raises(hb.ConditionFailed):
        session.commit()
    session.delete(known, condition=Account.note == "x")
    with pytest.raises(hb.ConditionFailed):
        session.commit()
    session.update(known, balance=6, condition=Account.version == account(session).version)
    session.commit()
    session.delete(known, condition=Account.balance == 6)
    session.commit()
    assert session.get(Account, name="a") is None
    session.update(known, balance=6, condition=Account.balance == 6)
    with pytest.raises(hb.RowNotFound):
        session.commit()


@hb.model(table="plain_accounts")
class Plain:
    name: hb.Key[str] = hb.key()
    owner: hb.Column[str] = hb.column("o")


def test_a_bound_of_a_version_may_be_out_of_range() -> None:
    with fresh(Account) as store:
        session = hb.Session(store)
        session.add(Account(name="a", owner="ann"))
        session.commit()
        for condition, applied in (
            (Account.version < 2**80, True),
            (Account.version > 2**80, False),
            (Account.version >= -(2**80), True),
            (Account.version <= -1, False),
        ):
            session.update_key(Account, name="a", owner="bob", condition=condition)
            if applied:
                session.commit()
            else:
                with pytest.raises(hb.errors.ConditionFailed):
                    session.commit()
                session.discard()
            assert session.query(Account).allow_full_scan().where(condition).count() == applied
        with pytest.raises(hb.EncodingError, match="at most 63 bits"):
            session.query(Account).where(Account.version == 2**80)


def test_conditions_that_cannot_be_asked() -> None:
    with fresh(Plain, Account) as store:
        session = hb.Session(store)
        for call in (
            lambda: session.update(Plain(name="a", owner="b"), owner="c", condition=Plain.owner == "b"),
            lambda: session.delete(Plain(name="a", owner="b"), condition=Plain.owner == "b"),
        ):
            with pytest.raises(hb.SessionError, match="condition needs a versioned model"):
                call()
        held = Account(name="a", owner="b")
        with pytest.raises(hb.SessionError, match="condition"):
            session.update(held, owner="c", condition="owner")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        with pytest.raises(hb.errors.UnknownField):
            session.update(held, owner="c", condition=Ticket.state == "b")
        with pytest.raises(hb.SessionError, match="version"):
            session.update(held, version=1)
        assert repr(session).endswith("0 pending)")


# --- several rows -----------------------------------------------------------------------------------------------------


def test_a_commit_of_rows_of_which_some_are_in_conflict(atomic_bed: Bed) -> None:
    session = atomic_bed.use(Account)
    session.add_all(Account(name=f"a{n}", owner="ann") for n in range(6))
    session.commit()
    held = session.query(Account).where(Account.owner == "ann").all()
    for found in held[:3]:
        hb_session = hb.Session(atomic_bed.store)
        hb_session.update(found, note="theirs")
        hb_session.commit()
    copies = [session.update(found, owner="bob") for found in held]
    with pytest.raises(hb.PartialWrite) as caught:
        session.commit()
    assert [outcome.key for outcome in caught.value.applied] == [b"a3", b"a4", b"a5"]
    assert [(outcome.key, type(outcome.error)) for outcome in caught.value.failures] == [
        (key, hb.ConflictError) for key in (b"a0", b"a1", b"a2")
    ]
    assert caught.value.pending == []
    assert (sorted(owners(session, "ann")), sorted(owners(session, "bob"))) == (["a0", "a1", "a2"], ["a3", "a4", "a5"])
    assert [account(session, found.name).version for found in copies[3:]] == [found.version for found in copies[3:]]
    for found in held[:2]:
        session.update(found, owner="cid")
    with pytest.raises(hb.ConflictError) as all_of_them:  # nothing is written, so it may be tried again as a whole
        session.commit()
    assert len(all_of_them.value.failures) == 2
    assert "failures=2" in str(all_of_them.value)


def told_of_models(bed: Bed) -> list[str]:
    """The calls since the last look, without those of the registry's table: a slow commit renews its writer's line."""
    return [call for call in bed.store.told() if not call.endswith(f" {REGISTRY_TABLE}")]


@pytest.mark.lengthy
def test_a_commit_of_many_rows_costs_one_call_per_table_and_phase(atomic_bed: Bed) -> None:
    session = atomic_bed.use(Account, Ticket)
    session.add_all(Account(name=f"a{n:04}", owner="ann") for n in range(1000))
    session.commit()
    entries = "put accounts.by_owner"  # put before the rows, verified after them
    told = told_of_models(atomic_bed)
    assert told == ["get accounts", entries, "check_and_mutate_many accounts", entries], told
    held = session.query(Account).where(Account.owner == "ann").all()
    atomic_bed.store.told()
    for found in held:
        session.update(found, owner="bob")
    session.commit()
    writes = [entries, "check_and_mutate_many accounts", entries, "delete accounts.by_owner"]
    told = told_of_models(atomic_bed)
    assert told == ["get accounts", *writes], told
    session.add_all(Ticket(name=f"t{n:04}", state="open") for n in range(1000))
    session.commit()
    told = told_of_models(atomic_bed)
    assert told == ["get tickets", "check_and_mutate_many tickets"], told


def test_load_overwrites_and_the_last_of_a_repeated_key_wins(atomic_bed: Bed) -> None:
    session = stored(atomic_bed)
    assert session.bulk_add((Account(name="ab"[n % 2], owner=f"o{n}") for n in range(10)), batch_size=3) == 10
    assert (account(session, "a").owner, account(session, "b").owner) == ("o8", "o9")
    assert [name for n in range(10) for name in owners(session, f"o{n}")] == ["a", "b"]


# --- retries ----------------------------------------------------------------------------------------------------------


def count_on(session: hb.Session) -> int:
    """Adds one to the balance."""
    found = account(session)
    session.update(found, balance=found.balance + 1)
    return found.balance + 1


@pytest.mark.every_store
@pytest.mark.lengthy
def test_threads_that_count_by_retrying_lose_nothing(atomic_bed: Bed) -> None:
    stored(atomic_bed)
    threads, each = 16, 8 if atomic_bed.real else 15
    errors: list[BaseException] = []
    unknown: list[UnknownOutcome] = []  # in HBase, if a thread does not run for long while the others write

    def run() -> None:
        try:
            with hb.Session(atomic_bed.store) as session:
                for _ in range(each):
                    try:
                        session.retry(count_on, attempts=1000)
                    except UnknownOutcome as error:
                        unknown.append(error)
        except BaseException as error:
            errors.append(error)

    running = [threading.Thread(target=run) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert errors == []
    assert len(unknown) <= (threads if atomic_bed.real else 0)
    assert threads * each - len(unknown) <= account(hb.Session(atomic_bed.store)).balance <= threads * each


def test_what_a_retried_function_leaves_pending_when_it_fails_is_dropped() -> None:
    with fresh(Account) as store:
        session = hb.Session(store)
        session.add(Account(name="a", owner="ann"))
        session.commit()

        def sold_out(session: hb.Session) -> None:
            session.update(account(session), note="taken")
            raise LookupError("sold out")

        with pytest.raises(LookupError, match="sold out"):
            session.retry(sold_out)
        session.add(Account(name="b", owner="bob"))
        session.commit()
        assert account(session).note is None


def test_a_retry_runs_its_function_again_and_gives_up_in_the_end() -> None:
    with fresh(Account) as store:
        session, other = hb.Session(store), hb.Session(store)
        session.add(Account(name="a", owner="ann"))
        with pytest.raises(hb.SessionError, match="Commit or discard pending calls"):
            session.retry(count_on)
        session.commit()
        runs = 0

        def disturbed(session: hb.Session) -> str:
            nonlocal runs
            runs += 1
            found = account(session)
            if runs < 4:
                other.update(account(other), note=str(runs))
                other.commit()
            session.update(found, balance=found.balance + 1)
            return "done"

        assert session.retry(disturbed) == "done"
        assert (runs, account(session).balance, account(session).note) == (4, 1, "3")
        runs = -100
        with pytest.raises(hb.ConflictError):
            session.retry(disturbed, attempts=3)
        assert runs == -97
        assert repr(session).endswith("0 pending)")
        assert account(session).balance == 1
        with pytest.raises(hb.SessionError, match="attempts must be a number of at least 1"):
            session.retry(count_on, attempts=0)
        runs = 100
        assert session.retry(count_on, attempts=1) == 2


@pytest.mark.lengthy
def test_a_retry_leaves_nothing_pending_that_failed_for_good() -> None:
    """Whichever call to the store fails: nothing is written and pending, or the session can finish it, and the next
    retry goes through.
    """
    with fresh(Account) as inner:
        with hb.Session(inner) as session:
            session.add_all(Account(name=name, owner=f"o{name}") for name in "ab")
        for mode in MODES:
            at, done = 0, False
            while not done:
                before = account(hb.Session(inner)).balance
                store = FaultyStore(inner, at, mode)
                session = hb.Session(store)
                try:
                    session.retry(count_on)
                    done = at >= len(store.calls)
                except hb.HbmodelError as error:
                    unclear = isinstance(error, hb.PartialWrite | hb.UnknownOutcome)
                    assert repr(session).endswith(f"{int(unclear)} pending)")
                    if unclear:
                        with pytest.raises(hb.SessionError, match="Commit or discard pending calls"):
                            session.retry(count_on)
                        session.commit()
                    else:
                        assert account(hb.Session(inner)).balance == before
                        session.retry(count_on)
                assert account(hb.Session(inner)).balance == before + 1
                at += 1
            assert at > 3


@pytest.mark.parametrize(
    "error", [hb.errors.KeyTooLong, hb.SchemaMismatch, hb.errors.IndexUnavailable, hb.StoreUnavailable]
)
def test_a_retry_whose_commit_is_refused_can_be_made_again(
    error: type[hb.HbmodelError], monkeypatch: pytest.MonkeyPatch
) -> None:
    with fresh(Account) as store:
        session = hb.Session(store)
        session.add(Account(name="a", owner="ann"))
        session.commit()

        def refuse(*_: object, **options: object) -> None:
            raise error("Refused, on purpose.")

        with monkeypatch.context() as patched:
            patched.setattr(session._work._runner, "run", refuse)
            with pytest.raises(error):
                session.retry(count_on)
        assert repr(session).endswith("0 pending)")
        assert session.retry(count_on) == 1
        with pytest.raises(hb.errors.SessionClosed):
            session.retry(hb.Session.close)


# --- lost answers -----------------------------------------------------------------------------------------------------


def scenario(session: hb.Session) -> list[hb.Outcome]:
    """Writes of every kind, two of them refused."""
    held = [account(session, name) for name in "abcd"]
    session.update(held[0], owner="bob")
    session.update(held[1], note="n")
    session.delete(held[2])
    session.update(attrs.evolve(held[3]), balance=1, condition=Account.balance == 7)
    session.add(Account(name="e", owner="eve"))
    stale = attrs.evolve(held[3], note="stale")
    object.__setattr__(stale, "version", stale.version - 1)
    session.add(stale)
    return session.commit()


def prepared() -> hb.Store:
    store = hb.connect("memory:")
    hb.create_tables(store, Account)
    with hb.Session(store) as session:
        session.add_all(Account(name=name, owner="ann") for name in "abcd")
    return store


def check_end(store: hb.Store) -> None:
    session = hb.Session(store)
    found = {name: session.get(Account, name=name) for name in "abcde"}
    assert found == {
        "a": Account(name="a", owner="bob"), "b": Account(name="b", owner="ann", note="n"), "c": None,
        "d": Account(name="d", owner="ann"), "e": Account(name="e", owner="eve"),
    }  # fmt: skip
    assert {owner: sorted(owners(session, owner)) for owner in ("ann", "bob", "eve")} == {
        "ann": ["b", "d"],
        "bob": ["a"],
        "eve": ["e"],
    }


@pytest.mark.lengthy
def test_a_commit_that_stopped_goes_on_and_says_what_became_of_each() -> None:
    with prepared() as store:
        watched = RecordingStore(store)
        with pytest.raises(hb.PartialWrite):
            scenario(hb.Session(watched))
    commits = [failure for failure in failures_of(watched.calls) if failure[0] > 4]  # behind the registry and the reads
    assert len(commits) > 12
    for at, mode in commits:
        with prepared() as store:
            session = hb.Session(FaultyStore(store, at, mode))
            with pytest.raises(hb.HbmodelError) as caught:
                scenario(session)
            if not isinstance(caught.value, hb.PartialWrite) or caught.value.pending:
                with pytest.raises(hb.PartialWrite) as caught:
                    session.commit()
            assert len(caught.value.applied) == 4, (at, mode)
            assert [type(failure.error) for failure in caught.value.failures] == [hb.ConditionFailed, hb.ConflictError]
            check_end(store)


def test_a_call_whose_answer_is_lost_is_settled_by_its_nonce() -> None:
    with fresh(Account) as store:
        session = hb.Session(store)
        session.add(Account(name="a", owner="ann"))
        session.commit()
        store.told()
        held = account(session)
        session.update(held, owner="bob")
        watched = RecordingStore(store)
        faulty = hb.Session(watched)
        faulty.update(held, balance=1)
        mutate = watched.check_and_mutate_many

        def lose(table: str, changes: Any) -> Any:
            mutate(table, changes)
            other = hb.Session(store.inner)
            for n in range(KEPT):
                other.update(Account(name="a", owner="?"), note=str(n))
                other.commit()
            watched.check_and_mutate_many = mutate  # type: ignore[method-assign]
            raise hb.UnknownOutcome("lost", table=table)

        watched.check_and_mutate_many = lose  # type: ignore[method-assign]
        with pytest.raises(hb.PartialWrite):
            faulty.commit()
        (outcome,) = faulty.commit()
        assert outcome.action == "put"
        assert outcome.version == held.version + 1
        assert account(session) == Account(name="a", owner="ann", balance=1, note="2")
        with pytest.raises(hb.ConflictError):
            session.commit()


class Doubtful(RecordingStore):
    """A gateway, which may repeat a call by itself."""

    @property
    def capabilities(self) -> hb.store.Capabilities:
        return attrs.evolve(super().capabilities, final_refusals=False)


def test_an_outcome_that_no_nonce_tells_any_more_is_unknown() -> None:
    with fresh(Account) as inner:
        store = Doubtful(inner)
        session = hb.Session(store)
        session.add(Account(name="a", owner="ann"))
        session.commit()
        held = account(session)
        mutate = store.check_and_mutate_many

        def lose(table: str, changes: list[ConditionalChange]) -> Any:
            store.check_and_mutate_many = mutate  # type: ignore[method-assign]
            mutate(table, changes)
            other = hb.Session(store.inner)
            for n in range(KEPT_WHEN_BUSY + 1):
                other.update(Account(name="a", owner="?"), note=str(n))
                other.commit()
            return [False]  # as a gateway says whose own repetition met what the first call has done

        store.check_and_mutate_many = lose  # type: ignore[method-assign]
        session.update(held, balance=1)
        with pytest.raises(hb.UnknownOutcome, match="The write may or may not have been applied, because its row"):
            session.commit()


# --- tables -----------------------------------------------------------------------------------------------------------


def test_a_versioned_model_without_indexes_has_its_two_system_cells_and_no_more(atomic_bed: Bed) -> None:
    session = atomic_bed.use(Ticket)
    session.add(Ticket(name="t", state="open"))
    session.commit()
    cells = cells_of(atomic_bed.store, "tickets")[b"t"]
    assert cells.keys() == {b"d:s", b"d:_v", b"d:_l"}
    assert (len(cells[b"d:_v"]), cells[b"d:_v"][:1], cells[b"d:_l"]) == (17, b"\x02", b"\x01")
    session.delete_key(Ticket, name="t")
    session.commit()
    cells = cells_of(atomic_bed.store, "tickets")[b"t"]
    assert cells.keys() == {b"d:_v", b"d:_l"}
    assert (len(cells[b"d:_v"]), cells[b"d:_l"][:1]) == (25, b"\x00")


def test_programs_that_do_not_know_the_version_are_refused() -> None:
    @hb.model(table="tickets", family="d")
    class Ignorant:
        name: hb.Key[str] = hb.key()
        state: hb.Column[str] = hb.column("s")

    with fresh(Ticket) as store:
        session = hb.Session(store)
        session.add(Ignorant(name="t", state="open"))
        with pytest.raises(hb.SchemaMismatch, match="version: declared nothing, live yes"):
            session.commit()
        assert rows_of(store, "tickets") == {}
    with fresh(Ignorant) as store, pytest.raises(hb.SchemaMismatch, match="version: declared yes, live nothing"):
        hb.create_tables(store, Ticket)


def test_a_versioned_model_needs_a_registered_table() -> None:
    with hb.connect("memory:") as store:
        session = hb.Session(store)
        session.add(Ticket(name="t", state="open"))
        with pytest.raises(hb.SchemaMismatch, match="create_tables"):
            session.commit()


def test_rows_that_were_there_before_have_no_version_until_they_are_written(atomic_bed: Bed) -> None:
    store = atomic_bed.store
    atomic_bed.use(Plain)  # the registry
    if "old_tickets" not in store.tables():
        store.create_table("old_tickets", [hb.store.Family(b"d")])

    @hb.model(table="old_tickets", family="d")
    class Old:
        name: hb.Key[str] = hb.key()
        state: hb.Column[str] = hb.column("s")
        version: hb.Column[int] = hb.version()

    store.put("old_tickets", [Put(name, {b"d:s": b"open"}) for name in (b"a", b"b", b"c")])
    let_tick_pass()
    hb.create_tables(store, Old)
    session = hb.Session(store)
    old = [session.get(Old, name=name) for name in "abc"]
    assert [(found.state, found.version) for found in old if found is not None] == [("open", 0)] * 3
    session.update(old[0], state="taken")
    session.delete(old[1])
    session.commit()
    taken = session.get(Old, name="a")
    assert taken is not None
    assert (taken.state, taken.version > 0) == ("taken", True)
    assert [found.name for found in session.query(Old).allow_full_scan()] == ["a", "c"]
    session.insert(Old(name="b", state="new"))
    with pytest.raises(hb.RowExists):
        session.insert(Old(name="c", state="new"))


def test_indexes_that_become_live_during_a_commit_get_their_entries(lease_clock: LeaseClock) -> None:
    for write in ("add", "update", "insert"):
        with fresh(Account) as store:
            set_state(store, Account, "by_owner", ABSENT)
            session = lease_clock.session(store)
            if write == "update":
                session.add(Account(name="a", owner="ann"))
                session.commit()
            mutate = store.check_and_mutate_many

            def switch(table: str, changes: list[ConditionalChange]) -> Any:
                store.check_and_mutate_many = mutate  # type: ignore[method-assign]  # noqa: B023
                applied = mutate(table, changes)  # noqa: B023
                set_state(store.inner, Account, "by_owner", READABLE)
                lease_clock.move(61)
                return applied

            store.check_and_mutate_many = switch  # type: ignore[method-assign]
            if write == "insert":
                session.insert(Account(name="a", owner="bob"))
            else:
                session.add(Account(name="a", owner="bob")) if write == "add" else session.update(
                    account(session), owner="bob"
                )
                (outcome,) = session.commit()
                assert outcome.version == account(session).version
            assert owners(session, "bob") == ["a"]


@pytest.mark.every_store
@pytest.mark.parametrize("bed", ["limited", HBASE[0]], indirect=True)
def test_the_first_gateway_cannot_write_versioned_models(bed: Bed) -> None:
    session = bed.use(Account)
    held = Account(name="a", owner="ann")
    for call in (
        lambda: session.add(held), lambda: session.update(held, balance=1), lambda: session.delete(held),
        lambda: session.bulk_add([held]), lambda: session.insert(held),
    ):  # fmt: skip
        with pytest.raises(hb.CapabilityError, match="check-and-mutate"):
            call()
    assert session.get(Account, name="a") is None
    assert rows_of(bed.store, "accounts") == rows_of(bed.store, "accounts.by_owner") == {}


def test_lives_are_refused() -> None:
    with fresh(Account) as store:
        session = hb.Session(store)
        held, life = Account(name="a", owner="ann"), timedelta(seconds=1)
        for call in (
            lambda: session.add(held, ttl=life), lambda: session.update(held, balance=1, ttl=life),
            lambda: session.insert(held, ttl=life), lambda: session.bulk_add([held], ttl=life),
        ):  # fmt: skip
            with pytest.raises(
                hb.CapabilityError,
                match=r"Store the time of expiry in a column, .* delete them "
                r"with query\.delete\(\)",
            ):
                call()


def test_models_with_counters_take_no_ttl() -> None:
    @hb.model(table="counted_visits", family="d")
    class Visits:
        page: hb.Key[str] = hb.key()
        title: hb.Column[str] = hb.column("t")
        seen: hb.Column[int] = hb.counter("s")

    with (
        fresh(Visits) as store,
        pytest.raises(hb.CapabilityError, match="Declare the counters in a model of their own"),
    ):
        hb.Session(store).add(Visits(page="a", title="A"), ttl=timedelta(seconds=1))


def test_counters_of_versioned_rows_are_not_counted_by_the_version(atomic_bed: Bed) -> None:
    @hb.model(table="versioned_pages", family="d")
    class Page:
        name: hb.Key[str] = hb.key()
        text: hb.Column[str] = hb.column("t")
        views: hb.Column[int] = hb.counter("v")
        version: hb.Column[int] = hb.version()

    session = atomic_bed.use(Page)
    page = Page(name="p", text="x")
    with pytest.raises(hb.RowNotFound):
        session.increment(page, Page.views)
    session.add(page)
    session.commit()
    assert session.increment(page, Page.views, 3) == 3
    session.update(page, text="y")
    session.commit()
    found = session.get(Page, name="p")
    assert found is not None
    assert (found.text, found.views, found.version) == ("y", 3, page.version + 1)


def test_a_store_that_is_away_leaves_a_commit_pending() -> None:
    with fresh(Account) as store:
        failing = FaultyStore(store, 0, "before", times=99)
        session = hb.Session(failing)
        session.add(Account(name="a", owner="ann"))
        with pytest.raises(StoreUnavailable):
            session.commit()
        failing.at = None
        assert [outcome.action for outcome in session.commit()] == ["put"]
