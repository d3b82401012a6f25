"""Queries while objects move between layouts whose codecs differ: they are those over the values, whatever the
codecs can store.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.protocol.relocation.migration_phases import MOVING, PREPARED, RETURNING
from hbmodel.store.embedded import EmbeddedStore
from hbmodel.tables.registry.registry_table import Registry
from tests.support.examples import examples

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
SMALL, WIDE = st.integers(0, 300), st.integers(-5, 70_000)
TIMES = st.integers(-3, 6).map(lambda at: START + timedelta(milliseconds=500 * at))

KINDS: Mapping[str, tuple[type[Any], Any, Any, st.SearchStrategy[Any]]] = {
    "narrower": (int, hb.codecs.UInt16, hb.codecs.UInt8, SMALL),
    "wider": (int, hb.codecs.UInt8, hb.UInt32, WIDE),
    "signed": (int, hb.codecs.Int16, hb.codecs.UInt16, WIDE),
    "spread": (int, hb.codecs.UInt16, hb.codecs.Reversed(hb.codecs.UInt16), SMALL),
    "no longer spread": (int, hb.codecs.Reversed(hb.codecs.UInt16), hb.codecs.UInt16, SMALL),
    "finer": (datetime, hb.Datetime("s"), hb.Datetime("ms"), TIMES),
    "coarser": (datetime, hb.Datetime("ms"), hb.Datetime("s"), TIMES),
    "text": (str, hb.Text(3), hb.Text, st.text("ab", min_size=1, max_size=4)),
    "scrambled text": (str, hb.Text, hb.codecs.DigestPrefixed(hb.Text), st.text("ab", min_size=1, max_size=3)),
    "shorter text": (str, hb.Text, hb.Text(2), st.text("ab", min_size=1, max_size=4)),
}
"""The type of a key field and of a column, their codecs before and after, and values that are stored and asked for."""


def half(number: int) -> int:
    return number // 2


def declare(kind: str) -> tuple[type[Any], type[Any]]:
    """The two models of a kind."""
    of, before, after, _ = KINDS[kind]

    def made(codec: Any, name: str, **options: Any) -> Any:
        body: dict[str, Any] = {
            "k": hb.key(codec),
            "number": hb.key(hb.codecs.UInt8),
            "c": hb.column("c", codec, default=None),
        }
        types: dict[str, Any] = {"k": hb.Key[of], "number": hb.Key[int], "c": hb.Column[of | None]}  # type: ignore[valid-type]
        if options:
            body["half"] = hb.computed(half, of=("number",))
        return hb.model(table=name, family="d", immutable=True, **options)(
            type("Thing", (), {**body, "__annotations__": types})
        )

    old = made(before, "before")
    return old, made(after, "after", replaces=old, salt=hb.HashSalt(2))


MODELS = {kind: declare(kind) for kind in KINDS}

Condition = tuple[Any, Callable[[Any], bool]]


def conditions(model: Any, values: st.SearchStrategy[Any]) -> st.SearchStrategy[Condition]:
    """A condition on the later model, and what it means of an object."""

    def compared(name: str, operator: str, value: Any) -> Condition | None:
        field = getattr(model, name)
        try:
            # A bound that the later codec cannot store becomes the nearest one below when it is asked for, also for
            # rows that do not fit.
            if operator in {"<", ">="}:
                field.checked(value)
            match operator:
                case "==":
                    return field == value, lambda one: bool(getattr(one, name) == value)
                case "!=":
                    return field != value, lambda one: bool(getattr(one, name) != value)
                case "<":
                    return field < value, lambda one: getattr(one, name) is not None and getattr(one, name) < value
                case ">=":
                    return field >= value, lambda one: getattr(one, name) is not None and getattr(one, name) >= value
                case "in":
                    return field.in_([value]), lambda one: bool(getattr(one, name) == value)
                case _:
                    return field.startswith(
                        value
                    ), lambda one: getattr(one, name) is not None and getattr(one, name).startswith(value)
        except hb.HbmodelError:
            return None  # no object of the later model has it, so nobody can ask

    operators = ["==", "!=", "<", ">=", "in"]
    of_fields = st.builds(compared, st.sampled_from(["k", "c"]), st.sampled_from(operators), values)
    others: list[Condition] = [
        (model.c.is_(None), lambda one: one.c is None),
        (model.number < 3, lambda one: one.number < 3),
        (model.half == 2, lambda one: one.number // 2 == 2),
        (model.half.in_([0, 3]), lambda one: one.number // 2 in {0, 3}),
    ]
    leaves: st.SearchStrategy[Any] = of_fields.filter(bool) | st.sampled_from(others)
    negated = leaves.flatmap(lambda one: st.sampled_from([one, (~one[0], lambda obj: not one[1](obj))]))
    either = st.tuples(negated, negated).map(
        lambda two: (two[0][0] | two[1][0], lambda obj: two[0][1](obj) or two[1][1](obj))
    )
    return negated | either


def set_phase(store: hb.Store, model: Any, phase: str) -> None:
    registry, schema = Registry(store), hb.schema.schema_of(model)
    assert schema.replaces is not None
    found = registry.read(schema.replaces)
    assert found is not None
    assert registry.change_move(schema.replaces, schema, found, phase)


def drawn(data: st.DataObject, kind: str) -> tuple[list[tuple[Any, int, Any]], list[Condition]]:
    _, _, _, values = KINDS[kind]
    rows = data.draw(
        st.lists(st.tuples(values, st.integers(0, 9), st.none() | values), max_size=8, unique_by=lambda row: row[:2])
    )
    return rows, data.draw(st.lists(conditions(MODELS[kind][1], values), max_size=2))


@pytest.mark.lengthy
@pytest.mark.parametrize("kind", KINDS)
@given(st.data(), st.sampled_from([None, PREPARED, MOVING, RETURNING]), st.integers(1, 3), st.booleans())
@settings(max_examples=examples(60))
def test_queries_are_those_over_the_values(
    kind: str, data: st.DataObject, phase: str | None, size: int, backwards: bool
) -> None:
    old, new = MODELS[kind]
    rows, asked = drawn(data, kind)
    with EmbeddedStore(None) as store:
        hb.create_tables(store, old)
        first, expected = hb.Session(store), []
        for k, number, c in rows:
            try:
                first.add(old(k=k, number=number, c=c))
                first.commit()
            except hb.EncodingError:
                first.discard()
            else:
                expected.append((k, number, c))
        if phase is not None:
            hb.create_tables(store, new)
            set_phase(store, new, MOVING)
            later = hb.Session(store)
            for k, number, c in expected[::2]:  # those are copied, where they fit
                try:
                    later.add(new(k=k, number=number, c=c))
                    later.commit()
                except hb.EncodingError:
                    later.discard()
            set_phase(store, new, phase)
        session = hb.Session(store)
        query = session.query(new).allow_full_scan()
        for predicate, _ in asked:
            query = query.where(predicate)
        wanted = {row for row in expected if all(test(old(k=row[0], number=row[1], c=row[2])) for _, test in asked)}
        found = query.all()
        assert {(one.k, one.number, one.c) for one in found} == wanted
        assert (len(found), query.count(), query.exists()) == (len(wanted), len(wanted), bool(wanted))
        ordered = query.reversed() if backwards else query
        page = ordered.page(size)
        pages: list[Any] = []
        while True:
            pages += page.items
            if page.next_token is None:
                break
            page = ordered.page(size, after=page.next_token)
        assert pages == (found[::-1] if backwards else found)
        assert sorted(query.select(new.number).all()) == sorted((row[1],) for row in wanted)
        assert sorted(query.select(new.half).all()) == sorted((row[1] // 2,) for row in wanted)
        for k, number, c in expected:
            one: Any = session.get(new, k=k, number=number)
            assert (one.k, one.c) == (k, c)


@pytest.mark.parametrize("phase", [None, MOVING])
def test_a_key_that_the_earlier_table_cannot_have_is_not_there(phase: str | None) -> None:
    old, new = MODELS["wider"]
    with EmbeddedStore(None) as store:
        hb.create_tables(store, old, new)
        if phase is not None:
            set_phase(store, new, phase)
        session = hb.Session(store)
        assert session.get(new, k=70_000, number=1) is None
        assert session.get_many(new, [{"k": 300, "number": 1}, (5, 1)]) == [None, None]
        for wrong in (2**40, "text"):
            with pytest.raises(hb.EncodingError, match="field='k'"):
                session.get(new, k=wrong, number=1)


def declare_moved(**indexes: Any) -> tuple[Any, Any]:
    @hb.model(table="mails", family="d", immutable=True)
    class Mail:
        number: hb.Key[int] = hb.key(hb.UInt32)
        text: hb.Column[str] = hb.column("t")

    types: dict[str, Any] = {"number": hb.Key[int], "text": hb.Column[str]}
    body: dict[str, Any] = {"number": hb.key(hb.UInt32, desc=True), "text": hb.column("t"), "__annotations__": types}
    body["length"] = hb.computed(length, of=("text",))
    return Mail, hb.model(table="mails_2", family="d", immutable=True, replaces=Mail)(
        type("Mail2", (), {**body, **indexes})
    )


def length(text: str) -> int:
    return len(text)


def filled(store: hb.Store, old: Any, numbers: Sequence[int]) -> None:
    hb.create_tables(store, old)
    with hb.Session(store) as session:
        session.add_all(old(number=number, text="x" * number) for number in numbers)


def test_an_index_that_only_the_later_model_has_is_read_once_it_is_there() -> None:
    old, new = declare_moved(by_length=hb.index("length"))
    with EmbeddedStore(None) as store:
        filled(store, old, range(1, 6))
        session = hb.Session(store)
        query = session.query(new).where(new.length > 2)
        with pytest.raises(hb.FullScanRefused):
            query.use_index("by_length").all()
        assert [one.number for one in query.use_index("by_length").allow_full_scan()] == [3, 4, 5]
        with pytest.raises(hb.errors.OrderNotAvailable, match="gives this order: sort the items yourself"):
            query.order_by(new.length).allow_full_scan().all()
        hb.create_tables(store, new)
        set_phase(store, new, MOVING)
        session = hb.Session(store)
        assert [
            one.number for one in session.query(new).where(new.length > 2).order_by(new.length).allow_full_scan()
        ] == [3, 4, 5]


def test_objects_beside_a_bound_wait_where_the_order_differs() -> None:
    old, new = declare_moved()
    with EmbeddedStore(None) as store:
        filled(store, old, range(1, 6))
        hb.create_tables(store, new)
        query = hb.Session(store).query(new).allow_full_scan()
        assert [one.number for one in query.after((3,))] == [4, 5], "the order is still that of the earlier table"
        set_phase(store, new, MOVING)
        with pytest.raises(hb.CapabilityError, match="not possible while objects move to a table with another order"):
            hb.Session(store).query(new).allow_full_scan().after((3,)).all()


class Colour(IntEnum):
    RED = 1
    BLUE = 2


def test_members_of_an_enumeration_are_compared_with_numbers_by_their_bytes() -> None:
    @hb.model(table="walls", family="d", immutable=True)
    class Wall:
        number: hb.Key[int] = hb.key(hb.codecs.UInt8)
        colour: hb.Column[Colour] = hb.column("c")

    @hb.model(table="walls_2", family="d", immutable=True, replaces=Wall)
    class Painted:
        number: hb.Key[int] = hb.key(hb.codecs.UInt8, desc=True)
        colour: hb.Column[int] = hb.column("c")

    with EmbeddedStore(None) as store:
        hb.create_tables(store, Wall)
        with hb.Session(store) as session:
            session.add_all(
                Wall(number=number, colour=Colour.BLUE if number % 2 else Colour.RED) for number in range(4)
            )
        query = hb.Session(store).query(Painted).allow_full_scan()
        assert query.where(Painted.colour == 2).count() == 2
        assert query.where(Painted.colour.in_([1])).count() == 2
        assert [one.number for one in query.where(Painted.colour != 2)] == [0, 2]
