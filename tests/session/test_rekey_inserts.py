"""`Session.rekey` of an object whose `insert` has not returned yet: the object is under one key in the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

import hbmodel as hb
from tests.support.beds import Bed, fresh
from tests.support.faulty import Call, RecordingStore


@hb.model(table="rekeyed_early", family="d")
class Early:
    """No index."""

    name: hb.Key[str] = hb.key()
    size: hb.Column[int] = hb.column("s")


@hb.model(table="rekeyed_early_flag", family="d", exists=hb.flag("e"))
class EarlyFlag:
    """An existence flag."""

    name: hb.Key[str] = hb.key()
    size: hb.Column[int | None] = hb.column("s", default=None)


@hb.model(table="rekeyed_early_wide", family="d", row=b"r")
class EarlyWide:
    """Objects of one row."""

    name: hb.Key[str] = hb.key(in_qualifier=True)
    size: hb.Column[int] = hb.column("s")


@hb.model(table="rekeyed_early_indexed", family="d")
class EarlyIndexed:
    """An index; the last write wins."""

    name: hb.Key[str] = hb.key()
    size: hb.Column[int] = hb.column("s")

    by_size = hb.index("size")


@hb.model(table="rekeyed_early_versioned", family="d")
class EarlyVersioned:
    """A version."""

    name: hb.Key[str] = hb.key()
    size: hb.Column[int] = hb.column("s")
    version: hb.Column[int] = hb.version()


MODELS = (Early, EarlyFlag, EarlyWide, EarlyIndexed, EarlyVersioned)


class Meanwhile(RecordingStore):
    """After its first conditional change somebody else acts; then that is carried out `again`, as if its answer had
    been lost.
    """

    def __init__(self, store: hb.Store, act: Callable[[], Any], again: bool) -> None:
        super().__init__(store)
        self.act: Callable[[], Any] | None = act
        self.again = again

    def _do(self, call: Call, apply: Callable[[Sequence[Any]], Any]) -> Any:
        answer = super()._do(call, apply)
        if call.name.startswith("check_and_mutate") and self.act is not None:
            act, self.act = self.act, None
            act()
            return apply(call.items) if self.again else answer
        return answer


def names(store: hb.Store, model: Any) -> list[str]:
    """The keys of all objects."""
    return [found.name for found in hb.Session(store).query(model).allow_full_scan()]


@pytest.mark.parametrize("model", MODELS)
def test_an_insert_does_not_put_an_object_again_that_has_moved(atomic_bed: Bed, model: Any) -> None:
    session = atomic_bed.use(model)
    lost = model is EarlyIndexed or (model is EarlyVersioned and not atomic_bed.store.capabilities.final_refusals)
    for again in (False, True)[: 1 + lost]:  # where answers can be lost, and a refusal says nothing
        name = f"a{again}"
        act = partial(hb.Session(atomic_bed.store).rekey, model(name=name, size=1), name=f"b{name}")
        found = hb.Session(Meanwhile(atomic_bed.store, act, again)).insert(model(name=name, size=1))
        assert found.name == name
        assert [one for one in names(atomic_bed.store, model) if one.endswith(name)] == [f"b{name}"]
        assert session.insert(model(name=name, size=2)).name == name


def test_an_object_that_expires_is_not_put_again(atomic_bed: Bed) -> None:
    atomic_bed.use(Early)
    act = partial(hb.Session(atomic_bed.store).rekey, Early(name="x", size=1), name="y")
    hb.Session(Meanwhile(atomic_bed.store, act, False)).insert(Early(name="x", size=1), ttl=timedelta(hours=1))
    assert "x" not in names(atomic_bed.store, Early)


@pytest.mark.parametrize("model", MODELS)
def test_the_key_that_an_object_has_left_can_be_deleted_at_once(atomic_bed: Bed, model: Any) -> None:
    """The trace that a move leaves for inserts has a time in the future, but no write has to wait for that time."""
    atomic_bed.use(model)
    session = hb.Session(atomic_bed.store, clock_bound=2)
    session.rekey(session.insert(model(name="c", size=1)), name="d")
    session.delete_key(model, name="c")
    session.commit()
    session.add(model(name="c", size=2))
    session.commit()
    session.delete_key(model, name="c")
    session.commit()
    assert names(atomic_bed.store, model) == ["d"]


def test_an_insert_that_was_changed_and_moved_meanwhile_is_in_doubt() -> None:
    store = fresh(EarlyIndexed)

    def act() -> None:
        session = hb.Session(store)
        session.update(EarlyIndexed(name="a", size=0), size=5)
        session.commit()
        session.rekey(EarlyIndexed(name="a", size=0), name="b")

    with pytest.raises(hb.UnknownOutcome, match="Another program has moved an object from this key during the insert"):
        hb.Session(Meanwhile(store, act, True)).insert(EarlyIndexed(name="a", size=1))
    assert names(store, EarlyIndexed) == ["b"]


def test_an_insert_whose_row_is_deleted_and_put_by_another_program_meanwhile_is_in_doubt(atomic_bed: Bed) -> None:
    atomic_bed.use(Early)

    def act() -> None:
        session = hb.Session(atomic_bed.store)
        session.delete_key(Early, name="a")
        session.commit()
        session.add(Early(name="a", size=2))
        session.commit()

    with pytest.raises(hb.UnknownOutcome, match="The row was put, but reading it back did not show it"):
        hb.Session(Meanwhile(atomic_bed.store, act, False)).insert(Early(name="a", size=1))
    assert hb.Session(atomic_bed.store).get(Early, name="a") == Early(name="a", size=2)


def test_an_insert_whose_row_is_deleted_meanwhile_is_in_doubt(atomic_bed: Bed) -> None:
    atomic_bed.use(Early)

    def act() -> None:
        session = hb.Session(atomic_bed.store)
        session.delete_key(Early, name="a")
        session.commit()

    with pytest.raises(hb.UnknownOutcome, match="It is not put again: read the key"):
        hb.Session(Meanwhile(atomic_bed.store, act, False)).insert(Early(name="a", size=1))
    assert "a" not in names(atomic_bed.store, Early)
