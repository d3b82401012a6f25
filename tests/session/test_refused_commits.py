"""A commit that certainly carried out nothing raises the cause, if all its calls were refused for the same cause."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import pytest
from attrs import evolve

import hbmodel as hb
from hbmodel.errors import ClockError, HbmodelError
from hbmodel.protocol.writes import Outcome
from hbmodel.session.commit.conflict_retries import refusal
from tests.support.beds import fresh


@hb.model(table="members")
class Member:
    name: hb.Key[str] = hb.key()
    email: hb.Column[str] = hb.column("e")
    note: hb.Column[bytes] = hb.column("n", default=b"")
    by_email = hb.index("email", unique=True)
    version: hb.Column[int] = hb.version()


@hb.model(table="plain")
class Plain:
    name: hb.Key[str] = hb.key()
    note: hb.Column[str] = hb.column("n")


def not_found(session: hb.Session, name: str) -> None:
    session.update(Plain(name=f"{name} absent", note=""), note="x")


def taken(session: hb.Session, name: str) -> None:
    session.add(Member(name=f"{name} new", email="taken"))


def in_conflict(session: hb.Session, name: str) -> None:
    found = session.get(Member, name=name)
    assert found is not None
    session.update(stale_version(found), note=b"x")


def stale_version(member: Member) -> Member:
    """The member with a version that its row no longer has."""
    stale = evolve(member)
    object.__setattr__(stale, "version", member.version + 1)
    return stale


def not_satisfied(session: hb.Session, name: str) -> None:
    session.update(Member(name=name, email=""), note=b"x", condition=Member.email == "nobody")


CAUSES: dict[type[HbmodelError], Callable[[hb.Session, str], None]] = {
    hb.RowNotFound: not_found,
    hb.UniqueViolation: taken,
    hb.ConflictError: in_conflict,
    hb.ConditionFailed: not_satisfied,
}


@pytest.fixture
def session() -> hb.Session:
    """A session on a store with three members."""
    store = fresh(Member, Plain)
    made = hb.Session(store)
    made.add_all([Member(name="a", email="1"), Member(name="b", email="2"), Member(name="c", email="taken")])
    made.commit()
    return made


@pytest.mark.parametrize("kind", CAUSES)
def test_calls_that_were_all_refused_for_one_cause_raise_it(session: hb.Session, kind: type[HbmodelError]) -> None:
    before = session.query(Member).allow_full_scan().all()
    for name in "ab":
        CAUSES[kind](session, name)
    with pytest.raises(kind) as caught:
        session.commit()
    error = caught.value
    assert type(error) is kind
    assert [type(outcome.error) for outcome in error.failures] == [kind, kind]
    first = error.failures[0].error
    assert error.message == first.message
    assert {**first.details, "failures": error.failures} == error.details
    assert "failures=2" in str(error)
    assert "failures=2" in repr(error)
    copied = pickle.loads(pickle.dumps(error))
    assert (type(copied), str(copied)) == (kind, str(error))
    assert session.commit() == [], "nothing is pending"
    assert session.query(Member).allow_full_scan().all() == before
    CAUSES[kind](session, "a")
    with pytest.raises(kind) as alone:
        session.commit()
    assert alone.value.failures is None


@pytest.mark.parametrize("kind", CAUSES)
def test_a_call_that_was_carried_out_makes_it_partial(session: hb.Session, kind: type[HbmodelError]) -> None:
    CAUSES[kind](session, "a")
    session.add(Plain(name="written", note=""))
    CAUSES[kind](session, "b")
    with pytest.raises(hb.PartialWrite) as caught:
        session.commit()
    assert [type(outcome.error) for outcome in caught.value.failures] == [kind, kind]
    assert [outcome.key for outcome in caught.value.applied] == [b"written"]
    assert str(caught.value.reason).startswith(f"{kind.__name__}: ")
    assert "; " not in caught.value.reason


def test_a_delete_that_found_nothing_has_an_outcome_of_its_own(session: hb.Session) -> None:
    not_found(session, "a")
    session.delete_key(Member, name="absent")
    with pytest.raises(hb.PartialWrite) as caught:
        session.commit()
    assert [outcome.action for outcome in caught.value.applied] == ["absent"]
    in_conflict(session, "a")
    session.delete_key(Member, name="absent")
    with pytest.raises(hb.ConflictError):  # it may be tried again as a whole
        session.commit()


def test_causes_of_several_classes_are_named_by_the_reason(session: hb.Session) -> None:
    for name in "ab":
        not_satisfied(session, name)
        not_found(session, name)
    with pytest.raises(hb.PartialWrite) as caught:
        session.commit()
    assert caught.value.applied == caught.value.pending == []
    reasons = str(caught.value.reason).split("; ")
    assert sorted(reason.partition(":")[0] for reason in reasons) == ["ConditionFailed", "RowNotFound"]
    assert reasons[0].startswith(f"{type(caught.value.failures[0].error).__name__}: ")


def test_what_the_cause_leaves_open_is_partial() -> None:
    for error in (ClockError("It is ahead."), hb.UnknownOutcome("Read the row."), hb.PartialWrite("It stopped.")):
        failures = [Outcome("failed", b"1", error=error), Outcome("failed", b"2", error=error)]
        assert isinstance(refusal(failures, failures, whole=True), hb.PartialWrite)
    failures = [Outcome("failed", b"1", error=hb.RowNotFound("It is not there.", key=b"1"))]
    assert isinstance(refusal(failures, failures, whole=False), hb.PartialWrite), "other rows of the call may be gone"
    assert isinstance(refusal(failures, failures, whole=True), hb.RowNotFound)


def test_a_bulk_add_says_which_of_a_refused_batch_failed(session: hb.Session) -> None:
    members = [Member(name=f"n{n}", email=str(n) if n < 14 else "taken") for n in range(10, 18)]
    with pytest.raises(hb.PartialWrite) as caught:
        session.bulk_add(members, batch_size=4)
    assert isinstance(caught.value.__cause__, hb.UniqueViolation)
    assert (caught.value.position, caught.value.applied, caught.value.pending) == (4, [], [])
    assert [outcome.key for outcome in caught.value.failures] == [b"n14", b"n15", b"n16", b"n17"]
    with pytest.raises(hb.UniqueViolation) as first:
        session.bulk_add(members[4:], batch_size=4)
    assert len(first.value.failures) == 4
