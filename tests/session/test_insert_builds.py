"""`insert` and `prepend` during a build or a drop of an index: an acknowledged row has its entries and its claims, and
is put once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

import hbmodel as hb
from hbmodel.tables.registry.registration import ABSENT, READABLE
from tests.support.beds import set_state
from tests.support.lease_clock import LeaseClock
from tests.support.pauses import OPTIONS, TIMES, at_each_call


def declare(
    *, in_qualifier: bool = False, version: bool = False, other: bool = False, immutable: bool = False, **index: Any
) -> tuple[Any, Any]:
    """A model without an index, or with one, and the same model with one more index."""

    def made(**indexes: Any) -> Any:
        types: dict[str, Any] = {
            "room": hb.Key[str],
            "number": hb.Key[int],
            "email": hb.Column[str],
            "text": hb.Column[str],
        }
        body: dict[str, Any] = {
            "room": hb.key(),
            "number": hb.key(hb.UInt32, in_qualifier=in_qualifier),
            "email": hb.column("e"),
            "text": hb.column("t", default="t"),
        }
        if version:
            body["version"], types["version"] = hb.version(), hb.Column[int]
        if other:
            body["by_text"] = hb.index("text")
        return hb.model(table="guests", family="d", immutable=immutable, exists=hb.flag("x"))(
            type("Guest", (), {**body, **indexes, "__annotations__": types})
        )

    return made(), made(by_email=hb.index("email", **index))


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
    "wide, unique": declare(in_qualifier=True, version=True, unique=True),
}

CALLS: Mapping[str, Callable[[hb.Session, Any], Any]] = {
    "insert": lambda session, model: session.insert(model(room="r", number=6, email="bob")),
    "prepend": lambda session, model: session.prepend(model, room="r", email="bob"),
}


def prepare(model: Any) -> Callable[[hb.Store], None]:
    """Makes the tables, and one row."""

    def run(store: hb.Store) -> None:
        hb.create_tables(store, model)
        with hb.Session(store, **OPTIONS) as session:
            session.add(model(room="r", number=7, email="ann"))

    return run


def check(store: hb.Store, model: Any, *, index: bool = True) -> None:
    """The new row is there, on every path."""
    session = hb.Session(store, **OPTIONS)
    first, second = session.query(model).allow_full_scan()
    assert (first.number, first.email, second.number) == (6, "bob", 7)
    assert session.get(model, room="r", number=6) == first
    if not index:
        return
    assert session.query(model).where(model.email == "bob").use_index("by_email").all() == [first]
    report = hb.indexes.verify_index(store, model, "by_email", times=TIMES)
    assert (report.missing, report.unclaimed or 0) == (0, 0)
    if hb.schema.schema_of(model).index("by_email").unique:
        session.add(model(room="s", number=1, email="bob"))
        with pytest.raises(hb.UniqueViolation):
            session.commit()


@pytest.mark.lengthy
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("kind", KINDS)
def test_an_index_is_built_between_two_calls(kind: str, call: str, lease_clock: LeaseClock) -> None:
    old, new = KINDS[kind]

    def build(store: hb.Store) -> None:
        hb.indexes.build_index(store, new, "by_email", times=TIMES)

    for at, store, outcome in at_each_call(lease_clock, prepare(old), lambda session: CALLS[call](session, new), build):
        assert getattr(outcome, "number", outcome) == 6, f"after call {at}"
        check(store, new)


@pytest.mark.lengthy
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind.endswith("second index")])
def test_an_index_is_dropped_between_two_calls(kind: str, call: str, lease_clock: LeaseClock) -> None:
    _, new = KINDS[kind]

    def drop(store: hb.Store) -> None:
        hb.indexes.drop_index(store, new, "by_email", times=TIMES)

    for at, store, outcome in at_each_call(lease_clock, prepare(new), lambda session: CALLS[call](session, new), drop):
        assert getattr(outcome, "number", outcome) == 6, f"after call {at}"
        check(store, new, index=False)


@pytest.mark.lengthy
@pytest.mark.parametrize("kind", ["plain, a second index", "immutable", "wide, a second index", "versioned"])
def test_a_delete_beside_the_build_is_not_undone(kind: str, lease_clock: LeaseClock) -> None:
    old, new = KINDS[kind]

    def build(store: hb.Store) -> None:
        hb.indexes.build_index(store, new, "by_email", times=TIMES)
        with lease_clock.session(store, **OPTIONS) as other:
            if (found := other.get(new, room="r", number=6)) is not None:
                deleted.append(store)
                other.delete(found)

    deleted: list[hb.Store] = []
    for _, store, outcome in at_each_call(
        lease_clock, prepare(old), lambda session: CALLS["insert"](session, new), build
    ):
        # of rows without system cells: a delete of the same millisecond looks like one since
        if isinstance(outcome, hb.UnknownOutcome):
            assert "It is not put again: read the key." in str(outcome)
            assert kind == "immutable"
        else:
            assert outcome.number == 6
        assert len(lease_clock.session(store).query(new).allow_full_scan().all()) == 2 - (store in deleted)
    assert deleted


@pytest.mark.lengthy
@pytest.mark.parametrize("kind", ["unique", "wide, unique"])
@pytest.mark.parametrize("written", [False, True])
def test_a_value_that_another_row_took_meanwhile_is_refused(kind: str, written: bool, lease_clock: LeaseClock) -> None:
    """The index is not built yet, so both rows could be put. The later call to notice gives way, unless its row was
    written since.
    """
    _, new = KINDS[kind]
    ends: set[str] = set()

    def closed(store: hb.Store) -> None:
        prepare(new)(store)
        set_state(store, new, "by_email", ABSENT)

    def take(store: hb.Store) -> None:
        mine = lease_clock.session(store, **OPTIONS).get(new, room="r", number=6)
        if written and mine is not None:
            with lease_clock.session(store, **OPTIONS) as other:
                other.update(mine, text="u")
        set_state(store, new, "by_email", READABLE)
        with lease_clock.session(store, **OPTIONS) as other:
            other.add(new(room="s", number=1, email="bob"))

    for _, store, outcome in at_each_call(lease_clock, closed, lambda session: CALLS["insert"](session, new), take):
        ends.add(type(outcome).__name__)
        rows = [found.room for found in lease_clock.session(store).query(new).allow_full_scan() if found.email == "bob"]
        if isinstance(outcome, hb.PartialWrite):
            assert "The row was put while a unique index was built, and has been written since" in str(outcome)
            assert [type(failure.error) for failure in outcome.failures] == [hb.UniqueViolation]
            assert rows == ["r", "s"]
        else:
            assert isinstance(outcome, hb.UniqueViolation)
            assert rows == ["s"]
    assert ends == ({"UniqueViolation", "PartialWrite"} if written else {"UniqueViolation"})


@pytest.mark.lengthy
@pytest.mark.parametrize("kind", ["plain, a second index", "versioned", "immutable"])
def test_an_undeclared_index_stops_an_insert_and_the_error_says_so(kind: str, lease_clock: LeaseClock) -> None:
    old, new = KINDS[kind]
    ends: set[str] = set()

    def build(store: hb.Store) -> None:
        hb.indexes.build_index(store, new, "by_email", times=TIMES)

    for _, store, outcome in at_each_call(
        lease_clock, prepare(old), lambda session: CALLS["insert"](session, old), build
    ):
        ends.add(type(outcome).__name__)
        if isinstance(outcome, hb.PartialWrite):
            assert "The table was changed during the insert, and the model can no longer write it" in str(outcome)
        elif isinstance(outcome, hb.errors.IndexUnavailable):
            assert len(lease_clock.session(store).query(new).allow_full_scan().all()) == 1
            continue
        check(store, new)
    assert "IndexUnavailable" in ends
    assert kind == "immutable" or "PartialWrite" in ends
