"""`Session.rekey` during a build or a drop of an index: the object is under its new key, and every index shows it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest

import hbmodel as hb
from tests.support.examples import in_turn
from tests.support.lease_clock import LeaseClock
from tests.support.pauses import OPTIONS, TIMES, at_each_call


def declare(
    *, in_qualifier: bool = False, version: bool = False, other: bool = False, immutable: bool = False, **index: Any
) -> tuple[Any, Any]:
    """A model without an index, or with one, and the same model with one more index."""

    def made(**indexes: Any) -> Any:
        types: dict[str, Any] = {
            "group": hb.Key[str],
            "name": hb.Key[str],
            "rank": hb.Column[int],
            "text": hb.Column[str],
        }
        body: dict[str, Any] = {
            "group": hb.key(),
            "name": hb.key(in_qualifier=in_qualifier),
            "rank": hb.column("m", hb.codecs.UInt8),
            "text": hb.column("t", default="t"),
        }
        if version:
            body["version"], types["version"] = hb.version(), hb.Column[int]
        if other:
            body["by_text"] = hb.index("text")
        return hb.model(table="moving", family="d", immutable=immutable)(
            type("Thing", (), {**body, **indexes, "__annotations__": types})
        )

    return made(), made(by_rank=hb.index("rank", **index))


KINDS: Mapping[str, tuple[Any, Any]] = {
    "plain": declare(),
    "plain, a second index": declare(other=True),
    "immutable": declare(immutable=True),
    "immutable, covering": declare(immutable=True, covers=("text",)),
    "versioned": declare(version=True),
    "versioned, a second index": declare(version=True, other=True),
    "unique": declare(version=True, unique=True),
    "covering": declare(version=True, covers=("text",)),
    "wide": declare(in_qualifier=True),
    "wide, a second index": declare(in_qualifier=True, other=True),
    "wide, versioned": declare(in_qualifier=True, version=True),
    "wide, versioned, a second index": declare(in_qualifier=True, version=True, other=True),
    "wide, covering": declare(in_qualifier=True, version=True, covers=("text",)),
}
MOVES: Mapping[str, dict[str, str]] = {"another name": {"name": "b"}, "another group": {"group": "s"}}


def check(store: hb.Store, model: Any, key: Mapping[str, str], *, index: bool = True) -> None:
    """The only object is under this key and no other, on every path, and can be written."""
    if index:  # a build that meets a unique value under both keys of an object is to be called again
        hb.indexes.build_index(store, model, "by_rank", times=TIMES)
    session = hb.Session(store, **OPTIONS)
    (found,) = session.query(model).allow_full_scan()
    assert {"group": found.group, "name": found.name} == key
    assert session.get(model, **key) == found
    if index:
        assert session.query(model).where(model.rank == 1).use_index("by_rank").all() == [found]
        report = hb.indexes.verify_index(store, model, "by_rank", times=TIMES)
        assert (report.missing, report.unclaimed or 0) == (0, 0)
    if not hb.schema.schema_of(model).immutable:
        session.update(found, rank=2)
        session.commit()
        assert session.get(model, **key).rank == 2


@pytest.mark.lengthy
@pytest.mark.parametrize(("kind", "move"), in_turn([*KINDS], [*MOVES]))
def test_an_index_is_built_between_two_calls(kind: str, move: str, lease_clock: LeaseClock) -> None:
    old, new = KINDS[kind]

    def prepare(store: hb.Store) -> None:
        hb.create_tables(store, old)
        with lease_clock.session(store, **OPTIONS) as session:
            session.add(old(group="r", name="a", rank=1))

    def run(session: hb.Session) -> Any:
        return session.rekey(session.get(new, group="r", name="a"), **MOVES[move])

    for at, store, outcome in at_each_call(
        lease_clock, prepare, run, lambda store: hb.indexes.build_index(store, new, "by_rank", times=TIMES)
    ):
        key = {"group": "r", "name": "a", **MOVES[move]}
        assert not isinstance(outcome, Exception), f"after call {at}: {outcome!r}"
        assert {"group": outcome.group, "name": outcome.name} == key
        check(store, new, key)


@pytest.mark.lengthy
@pytest.mark.parametrize(("kind", "move"), in_turn([*KINDS], [*MOVES]))
def test_an_object_is_put_under_the_old_key_after_an_index_is_built(
    kind: str, move: str, lease_clock: LeaseClock
) -> None:
    """The object has already moved, and the restarted call does not mistake the next object for it."""
    old, new = KINDS[kind]
    place = {"group": "r", "name": "a"}
    put: list[bool] = []

    def prepare(store: hb.Store) -> None:
        put.clear()
        hb.create_tables(store, old)
        with lease_clock.session(store, **OPTIONS) as session:
            session.add(old(**place, rank=1))

    def run(session: hb.Session) -> Any:
        return session.rekey(session.get(new, **place), **MOVES[move])

    def beside(store: hb.Store) -> None:
        hb.indexes.build_index(store, new, "by_rank", times=TIMES)
        with lease_clock.session(store, **OPTIONS) as session:
            if session.get(new, **place) is None:
                session.add(new(**place, rank=2))
                put.append(True)

    for at, store, outcome in at_each_call(lease_clock, prepare, run, beside):
        assert not isinstance(outcome, Exception), f"after call {at}: {outcome!r}"
        # one that met a unique value under both keys is to be called again
        hb.indexes.build_index(store, new, "by_rank", times=TIMES)
        session = lease_clock.session(store, **OPTIONS)
        assert session.get(new, **{**place, **MOVES[move]}).rank == 1
        assert (session.get(new, **place) is not None) == bool(put)
        assert len(session.query(new).where(new.rank.in_([1, 2])).use_index("by_rank").all()) == 1 + len(put)


@pytest.mark.lengthy
@pytest.mark.parametrize(
    ("kind", "move"), in_turn([kind for kind in KINDS if not kind.endswith("second index")], [*MOVES])
)
def test_an_index_is_dropped_between_two_calls(kind: str, move: str, lease_clock: LeaseClock) -> None:
    _, new = KINDS[kind]

    def prepare(store: hb.Store) -> None:
        hb.create_tables(store, new)
        with lease_clock.session(store, **OPTIONS) as session:
            session.add(new(group="r", name="a", rank=1))

    def run(session: hb.Session) -> Any:
        return session.rekey(session.get(new, group="r", name="a"), **MOVES[move])

    for at, store, outcome in at_each_call(
        lease_clock, prepare, run, lambda store: hb.indexes.drop_index(store, new, "by_rank", times=TIMES)
    ):
        assert not isinstance(outcome, Exception), f"after call {at}: {outcome!r}"
        check(store, new, {"group": "r", "name": "a", **MOVES[move]}, index=False)


@pytest.mark.lengthy
@pytest.mark.parametrize("kind", ["plain", "versioned", "wide, a second index", "wide, versioned"])
def test_an_undeclared_index_stops_a_move_and_the_error_says_where(kind: str, lease_clock: LeaseClock) -> None:
    old, new = KINDS[kind]
    seen = set()

    def prepare(store: hb.Store) -> None:
        hb.create_tables(store, old)
        with lease_clock.session(store, **OPTIONS) as session:
            session.add(old(group="r", name="a", rank=1))

    def run(session: hb.Session) -> Any:
        return session.rekey(session.get(old, group="r", name="a"), name="b")

    for at, store, outcome in at_each_call(
        lease_clock, prepare, run, lambda store: hb.indexes.build_index(store, new, "by_rank", times=TIMES)
    ):
        session = lease_clock.session(store, **OPTIONS)
        if isinstance(outcome, hb.errors.IndexUnavailable):
            assert [found.name for found in session.query(new).allow_full_scan()] == ["a"]
        elif isinstance(outcome, hb.PartialWrite):
            seen.add(outcome.message.partition(",")[0])
            assert "does not declare" in str(outcome)
        else:
            assert outcome.name == "b", f"after call {at}: {outcome!r}"
        with suppress(hb.RowNotFound):  # once the move has ended
            session.rekey(new(group="r", name="a", rank=1), name="b")
        check(store, new, {"group": "r", "name": "b"})
    within = kind == "wide, versioned"
    assert within or "The move stopped partway" in seen
    assert kind != "versioned" or "The object is under its new key" in seen
