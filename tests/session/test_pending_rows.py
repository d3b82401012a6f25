"""Calls that run at once, on rows that pending calls write."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.session.commit.pending_rows import PendingRows
from tests.support.beds import Bed, fresh
from tests.support.examples import examples


@hb.model(table="waiting_posts")
class Post:
    """A post with a counter."""

    topic: hb.Key[str] = hb.key()
    number: hb.Key[int] = hb.key(hb.UInt32)
    size: hb.Column[int] = hb.column("s", hb.UInt32, default=0)
    views: hb.Column[int] = hb.counter("v")
    length: hb.Column[int] = hb.column("l", hb.UInt32)


FIRST = Post(topic="a", number=5, length=1)

Call = Callable[[hb.Session], Any]

PENDING: dict[str, Call] = {
    "add()": lambda s: s.add(FIRST),
    "update()": lambda s: s.update(FIRST, size=1),
    "delete()": lambda s: s.delete(FIRST),
}
AT_ONCE: dict[str, Call] = {
    "increment": lambda s: s.increment(FIRST, Post.views),
    "insert": lambda s: s.insert(FIRST),
    "rekey": lambda s: s.rekey(FIRST, number=9),
    "rekey to it": lambda s: s.rekey(Post(topic="a", number=1, length=1), number=5),
    "prepend": lambda s: s.prepend(Post, topic="a", length=2),
}


@pytest.mark.parametrize("at_once", AT_ONCE)
@pytest.mark.parametrize("pending", PENDING)
def test_a_call_that_runs_at_once_names_the_pending_call(atomic_bed: Bed, pending: str, at_once: str) -> None:
    session = atomic_bed.use(Post)
    session.add(FIRST)
    session.commit()
    PENDING[pending](session)
    atomic_bed.store.calls.clear()
    if (pending, at_once) in {
        ("update()", "increment"),
        ("update()", "prepend"),
    }:  # neither changes what the other does
        AT_ONCE[at_once](session)
        session.commit()
        found = session.get(Post, topic="a", number=5)
        assert found is not None
        assert (found.size, found.views) == (1, int(at_once == "increment"))
        return
    with pytest.raises(hb.SessionError, match=r"runs at once.*call commit\(\) first") as caught:
        AT_ONCE[at_once](session)
    assert caught.value.pending == pending
    assert caught.value.table == "waiting_posts"
    assert not [call for call in atomic_bed.store.calls if call.writes and call.table == "waiting_posts"]
    session.commit()
    if at_once == "rekey to it":
        session.discard()
        return
    with suppress(hb.RowExists, hb.RowNotFound):  # from the rows as they are now
        AT_ONCE[at_once](session)


def test_calls_on_other_rows_go_through(atomic_bed: Bed) -> None:
    session = atomic_bed.use(Post)
    session.add(FIRST)
    other = Post(topic="b", number=5, length=1)
    session.insert(other)
    assert session.increment(other, Post.views) == 1
    assert session.rekey(other, number=6).number == 6
    assert session.prepend(Post, topic="b", length=3).number == 5
    session.bulk_add([Post(topic="c", number=1, length=1)])
    session.commit()
    assert session.query(Post).allow_full_scan().count() == 4


@hb.model(table="waiting_kinds", kind=b"p")
class Pet:
    """One of two models whose objects share rows."""

    owner: hb.Key[int] = hb.key(hb.UInt32)
    number: hb.Key[int] = hb.key(hb.UInt32, in_qualifier=True)
    size: hb.Column[int] = hb.column("s", hb.UInt32)


@hb.model(table="waiting_kinds", kind=b"t")
class Toy:
    """The other one."""

    owner: hb.Key[int] = hb.key(hb.UInt32)
    number: hb.Key[int] = hb.key(hb.UInt32, in_qualifier=True)
    size: hb.Column[int] = hb.column("s", hb.UInt32)


@hb.model(table="waiting_families", family="a")
class One:
    """One of two models in families of one table."""

    number: hb.Key[int] = hb.key(hb.UInt32)
    size: hb.Column[int] = hb.column("s", hb.UInt32)


@hb.model(table="waiting_families", family="b")
class Two:
    """The other one."""

    number: hb.Key[int] = hb.key(hb.UInt32)
    size: hb.Column[int] = hb.column("s", hb.UInt32)


def test_other_models_of_the_table_do_not_matter() -> None:
    with fresh(Pet, Toy, One, Two) as store:
        session = hb.Session(store)
        session.add(Pet(owner=1, number=1, size=1))
        session.insert(Toy(owner=1, number=1, size=2))
        assert session.prepend(Toy, owner=1, size=3).number == 0
        session.add(One(number=1, size=1))
        session.insert(Two(number=1, size=2))
        session.rekey(Two(number=1, size=2), number=2)
        for refused in (Pet(owner=1, number=1, size=1), One(number=1, size=1)):
            with pytest.raises(hb.SessionError, match="runs at once"):
                session.insert(refused)
        session.commit()
        assert [session.query(model).allow_full_scan().count() for model in (Pet, Toy, One, Two)] == [1, 2, 1, 1]


def test_an_update_in_the_prefix_does_not_matter() -> None:
    with fresh(Post) as store:
        session = hb.Session(store)
        session.insert(FIRST)
        session.update(FIRST, size=3)
        assert session.prepend(Post, topic="a", length=2).number == 4
        session.commit()


def test_a_commit_and_a_discard_free_the_rows() -> None:
    with fresh(Post) as store:
        session = hb.Session(store)
        session.add(FIRST)
        with pytest.raises(hb.SessionError):
            session.insert(FIRST)
        session.discard()
        session.insert(FIRST)
        session.delete(FIRST)
        with pytest.raises(hb.SessionError):
            session.insert(FIRST)
        session.commit()
        session.insert(FIRST)


@pytest.mark.lengthy
@settings(max_examples=examples(100))
@given(
    st.lists(st.tuples(st.sampled_from(["add", "update", "delete", "look", "commit", "discard"]), st.integers(0, 2)))
)
def test_the_rows_are_those_of_the_pending_calls(steps: list[tuple[str, int]]) -> None:
    with fresh(Post) as store:
        session = hb.Session(store)
        posts = [Post(topic="a", number=number, length=1) for number in range(3)]
        session.add_all(posts)
        session.commit()
        pending: dict[int, str] = {}
        for step, number in steps:
            if step in {"add", "update", "delete"}:
                getattr(session, step)(posts[number], **({"size": 1} if step == "update" else {}))
                if step != "update" or number not in pending:
                    pending[number] = f"{step}()"
            elif step == "commit":
                with suppress(hb.RowNotFound, hb.PartialWrite):
                    session.commit()
                pending.clear()
            elif step == "discard":
                session.discard()
                pending.clear()
            else:
                try:
                    session.insert(posts[number])
                except hb.SessionError as error:
                    found: str | None = error.pending
                except hb.RowExists:
                    found = None
                else:
                    found = None
                assert found == pending.get(number)


def test_a_session_that_only_collects_writes_looks_up_nothing() -> None:
    with fresh(Post) as store:
        session = hb.Session(store)
        session.add_all(Post(topic="a", number=number, length=1) for number in range(10))
        rows = session._work._rows
        assert isinstance(rows, PendingRows)
        assert rows.taken == 0
        session.insert(Post(topic="b", number=1, length=1))
        assert rows.taken == 10
        session.commit()
        assert rows.taken == 0
