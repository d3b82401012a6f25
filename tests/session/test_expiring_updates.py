"""Updates of indexed rows that expire, concurrent with deletes and moves by another session: an object that is gone
does not return.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Any

import pytest

import hbmodel as hb
from tests.support.beds import fresh

HOUR = timedelta(hours=1)

Act = Callable[[hb.Session, Any], object]


@hb.model(table="updated_own", family="d")
class Own:
    """An index that also covers a column; its rows get their own TTL."""

    name: hb.Key[str] = hb.key()
    tag: hb.Column[str] = hb.column("t")
    note: hb.Column[str | None] = hb.column("n", default=None)

    by_tag = hb.index("tag", covers=("note",))


@hb.model(table="updated_family", family=hb.family("d", ttl=timedelta(days=3)))
class Fading:
    """The same in a family with a TTL."""

    name: hb.Key[str] = hb.key()
    tag: hb.Column[str] = hb.column("t")
    note: hb.Column[str | None] = hb.column("n", default=None)

    by_tag = hb.index("tag", covers=("note",))


@hb.model(table="updated_wide", family="d", row=b"r")
class RegistryKey:
    """The same as objects of a wide row."""

    name: hb.Key[str] = hb.key(in_qualifier=True)
    tag: hb.Column[str] = hb.column("t")
    note: hb.Column[str | None] = hb.column("n", default=None)

    by_tag = hb.index("tag", covers=("note",))


UPDATES: Mapping[str, dict[str, Any]] = {"note": {"note": "n"}, "tag": {"tag": "b"}, "ttl": {"note": "n", "ttl": HOUR}}
OTHERS: Mapping[str, Act] = {
    "delete": lambda session, obj: (session.delete(obj), session.commit()),
    "rekey": lambda session, obj: session.rekey(obj, name="z"),
    "update": lambda session, obj: (session.update(obj, note="other"), session.commit()),
}


class Interrupted:
    """A session in whose call number `at` a second session does something.

    Attributes:
        store: the store of both.
        obj: the object that they write.
        ended: whether the second session has found the object; None before its turn.
    """

    def __init__(self, model: Any, ttl: timedelta | None, other: str, at: int) -> None:
        self.store, self.obj = fresh(model), model(name="k", tag="a")
        base = hb.Session(self.store)
        base.add(self.obj, ttl=ttl)
        base.commit()
        self._second, self._other, self._left = hb.Session(self.store), OTHERS[other], at
        self._session = hb.Session(self.store, on_call=self._interrupt)
        self.ended: bool | None = None

    def _interrupt(self, call: hb.store.Call) -> None:
        self._left -= 1
        if self._left == 0:
            self.ended = _found(self._other, self._second, self.obj)

    def run(self, first: Act) -> bool:
        """Whether the first session has found the object."""
        return _found(first, self._session, self.obj)


def _found(act: Act, session: hb.Session, obj: Any) -> bool:
    try:
        act(session, obj)
    except hb.RowNotFound:
        return False
    return True


def beside(model: Any, ttl: timedelta | None, first: Act, other: str) -> Iterator[tuple[hb.Store, bool, bool]]:
    """The store after the calls of two sessions, the second at each call of the first; whether each has found the
    object.
    """
    for at in itertools.count(1):
        interrupted = Interrupted(model, ttl, other, at)
        done = interrupted.run(first)
        if interrupted.ended is None:
            return
        yield interrupted.store, done, interrupted.ended


def _updated(session: hb.Session, obj: Any, name: str) -> None:
    session.update(obj, **UPDATES[name])
    session.commit()


@pytest.mark.lengthy
@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize(("model", "ttl"), [(Own, HOUR), (Own, None), (Fading, None), (RegistryKey, HOUR)])
@pytest.mark.parametrize("other", ["delete", "rekey"])
def test_an_update_does_not_bring_back_what_is_deleted_or_moved(
    model: Any, ttl: timedelta | None, update: str, other: str
) -> None:
    met = set()
    for store, done, ended in beside(model, ttl, lambda session, obj: _updated(session, obj, update), other):
        session = hb.Session(store)
        found = {obj.name: obj for obj in session.query(model).allow_full_scan()}
        assert ended
        assert found.keys() == ({"z"} if other == "rekey" else set())
        assert {obj.name for tag in "ab" for obj in session.query(model).where(model.tag == tag)} == found.keys()
        met.add(done)
    assert met == {False, True}


@pytest.mark.lengthy
@pytest.mark.parametrize(("model", "ttl"), [(Own, HOUR), (Fading, None), (RegistryKey, HOUR)])
@pytest.mark.parametrize("other", ["delete", "update"])
def test_a_delete_or_a_move_beside_another_call_leaves_no_piece(model: Any, ttl: timedelta | None, other: str) -> None:
    for first in ("delete", "rekey"):
        for store, done, _ in beside(model, ttl, OTHERS[first], other):
            session = hb.Session(store)
            found = [obj.name for obj in session.query(model).allow_full_scan()]
            assert len(found) <= 1
            assert found != ["k"] or not done
            assert [obj.name for obj in session.query(model).where(model.tag == "a")] == found


def test_several_updates_and_deletes_of_one_commit_begin_again_where_rows_have_changed() -> None:
    store = fresh(Own)
    base, second = hb.Session(store), hb.Session(store)
    base.add_all([Own(name=name, tag="a") for name in "abcd"], ttl=HOUR)
    base.commit()
    reads = itertools.count()

    def interrupt(call: hb.store.Call) -> None:
        if call.operation == "get" and next(reads) == 0:
            second.delete_key(Own, name="a")
            second.update_key(Own, name="b", tag="c")
            second.delete_key(Own, name="c")
            second.commit()

    session = hb.Session(store, on_call=interrupt)
    for name in "ab":
        session.update_key(Own, name=name, note="n")
    for name in "cd":
        session.delete_key(Own, name=name)
    with pytest.raises(hb.PartialWrite) as caught:
        session.commit()
    assert [type(outcome.error) for outcome in caught.value.failures] == [hb.RowNotFound]
    assert base.query(Own).allow_full_scan().all() == [Own(name="b", tag="c", note="n")]
    assert base.query(Own).where(Own.tag == "a").all() == []
