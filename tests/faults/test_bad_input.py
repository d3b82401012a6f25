"""Every failure raises an error of the documented tree that names the cause, and nothing is half-written silently."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

import hbmodel as hb
from tests.support.beds import Bed, fresh
from tests.support.examples import examples
from tests.support.models import DAY, Flagged, Hit, Order, Person, Sample, Token, Visit, day, order
from tests.support.scenarios import check_exact

KEY = {"customer": 1, "at": day(1), "number": 1}


# --- sizes ------------------------------------------------------------------------------------------------------------

MUCH = "x" * (10 * 1024 * 1024)


@pytest.mark.parametrize("how", ["add", "insert", "load", "update"])
@pytest.mark.parametrize("model", [Visit, Token])
def test_a_value_that_no_cell_can_hold_is_refused_before_anything_is_sent(model: Any, how: str) -> None:
    with fresh(model) as store:
        session = hb.Session(store)
        session.add(model(name="a", page="p"))
        large = model(name="b", page="p", note=MUCH)
        calls: dict[str, Callable[[], object]] = {
            "add": lambda: session.add(large),
            "insert": lambda: session.insert(large),
            "load": lambda: session.bulk_add([large]),
            "update": lambda: session.update(large, note=MUCH),
        }
        store.told()
        with pytest.raises(hb.EncodingError, match="10 MiB") as caught:
            calls[how]()
        assert caught.value.field == "note"
        assert len(str(caught.value)) < 300
        assert store.told() == []
        assert [outcome.action for outcome in session.commit()] == ["put"]


@pytest.mark.lengthy
def test_the_key_of_an_entry_counts_where_a_column_is_covered() -> None:
    page = "p" * 30_000
    largest = Visit(name="a", page=page, note="x" * (10 * 1024 * 1024 - len("d:n") - 20 - len(page) - 2 - len("a")))
    with fresh(Visit) as store:
        session = hb.Session(store)
        session.add(largest)
        session.commit()
        assert session.get(Visit, name="a") == largest
        with pytest.raises(hb.EncodingError) as caught:
            session.add(evolve(largest, note=largest.note + "x"))
        assert caught.value.field == "note"
        session.update(largest, note=largest.note + "x")  # whose page is known to the commit only
        session.update(Visit(name="b", page=""), page="fails, too")
        with pytest.raises(hb.PartialWrite) as partial:
            session.commit()
        assert [type(outcome.error) for outcome in partial.value.failures] == [hb.EncodingError, hb.RowNotFound]
        assert session.get(Visit, name="a") == largest
        check_exact(store, Visit)


# --- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("customer", "1"),
        ("customer", 1.0),
        ("customer", True),
        ("customer", None),
        ("customer", -1),
        ("customer", 65_536),
        ("at", datetime(2026, 1, 1)),
        ("at", date(2026, 1, 1)),
        ("at", "2026-01-01"),
        ("number", 2**32),
        ("number", b"1"),
    ],
)
def test_a_key_value_that_cannot_be_stored_is_named_before_any_call(field: str, value: Any) -> None:
    with fresh(Order) as store:
        session = hb.Session(store)
        key = KEY | {field: value}
        wrong = Order(**key, state="s")
        for call in (
            lambda: session.get(Order, **key),
            lambda: session.get_many(Order, [tuple(key.values())]),
            lambda: session.add(wrong),
            lambda: session.insert(wrong),
            lambda: session.update(wrong, state="t"),
            lambda: session.delete(wrong),
            lambda: session.delete_key(Order, **key),
            lambda: session.increment(wrong, Order.views),
            lambda: session.bulk_add([wrong]),
            lambda: session.query(Order).where(getattr(Order, field) == value),
        ):
            with pytest.raises(hb.EncodingError) as caught:
                call()
            assert caught.value.field == field
        assert store.told() == []
        assert session.commit() == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("state", None),
        ("state", b"s"),
        ("state", 5),
        ("state", "\ud800"),
        ("amount", 1.5),
        ("amount", 1),
        ("amount", Decimal("NaN")),
        ("note", 0),
    ],
)
def test_a_column_value_that_cannot_be_stored_is_named_before_any_call(field: str, value: Any) -> None:
    with fresh(Order) as store:
        session = hb.Session(store)
        wrong = Order(**{**KEY, "state": "s", field: value})  # type: ignore[arg-type]
        for call in (
            lambda: session.add(wrong),
            lambda: session.insert(wrong),
            lambda: session.update(order(1), **{field: value}),
        ):
            with pytest.raises(hb.EncodingError) as caught:
                call()
            assert (caught.value.field, caught.value.table) == (field, "orders")
        assert store.told() == []
        assert session.commit() == []


junk = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(st.characters()),
    st.binary(),
    st.decimals(),
    st.datetimes(),
    st.dates(),
    st.timedeltas(),
    st.uuids(),
    st.complex_numbers(),
    st.lists(st.integers(), max_size=2),
    st.just(object()),
    st.just(int),
    st.sampled_from(
        [math.nan, "\ud800", bytearray(b"x"), memoryview(b"x"), {}, range(3), Order, Order.state, lambda: None]
    ),
)


@pytest.mark.lengthy
@settings(deadline=None, max_examples=examples(150))
@given(st.sampled_from(["customer", "at", "number", "state", "amount", "note"]), junk)
def test_junk_is_either_stored_or_refused_with_an_error_of_the_tree(field: str, value: Any) -> None:
    with fresh(Order) as store:
        session = hb.Session(store)
        obj = Order(**{**KEY, "state": "s", field: value})  # type: ignore[arg-type]
        key = {name: getattr(obj, name) for name in KEY}
        changes = {field: value}
        calls: list[Callable[[], Any]] = [
            lambda: session.add(obj),
            lambda: session.insert(obj),
            lambda: session.update(obj, **changes),
            lambda: session.delete(obj),
            lambda: session.get(Order, **key),
            lambda: session.increment(obj, Order.views, value),
            lambda: session.query(Order).where(getattr(Order, field) == value).allow_full_scan().all(),
            lambda: session.query(Order).where(getattr(Order, field).in_([value])).allow_full_scan().all(),
            lambda: session.query(Order).where(getattr(Order, field) < value).allow_full_scan().all(),
            lambda: session.query(Order).where(getattr(Order, field).between(value, value)).allow_full_scan().all(),
            lambda: session.query(Order).where(value).allow_full_scan().all(),
            lambda: session.query(Order).select(value).allow_full_scan().all(),
            lambda: session.query(Order).order_by(value).all(),
            lambda: session.query(Order).limit(value).allow_full_scan().all(),
            lambda: session.query(Order).allow_full_scan().page(value),
            lambda: session.query(Order).allow_full_scan().page(1, after=value),
            lambda: session.query(value),
            lambda: session.query(Order).use_index(value).allow_full_scan().all(),
            lambda: session.get_many(Order, [value]),
            lambda: session.add(value),
            session.commit,
        ]
        for call in calls:
            with suppress(hb.HbmodelError):
                call()


# --- names ------------------------------------------------------------------------------------------------------------


def test_names_that_a_model_does_not_have(bed: Bed) -> None:
    session = bed.use(Order, Sample)
    with pytest.raises(hb.errors.UnknownField) as unknown:
        session.get(Order, **KEY, colour="red")
    assert unknown.value.field == "colour"
    with pytest.raises(hb.errors.IncompleteKey, match=r"Give every field of the row key\.") as incomplete:
        session.get(Order, customer=1)
    assert incomplete.value.missing == ["at", "number"]
    with pytest.raises(hb.errors.IncompleteKey):
        session.delete_key(Order, number=1)
    with pytest.raises(hb.HbmodelError):
        session.get_many(Order, [(1, day(1))])
    with pytest.raises(hb.errors.UnknownField):
        session.update(order(1), colour="red")
    with pytest.raises(hb.SessionError, match="A key field cannot be updated") as key_field:
        session.update(order(1), number=2)
    assert key_field.value.field == "number"
    with pytest.raises(hb.SessionError) as counter:
        session.update(order(1), views=2)
    assert counter.value.field == "views"
    with pytest.raises(hb.SessionError):
        session.update(order(1))
    with pytest.raises(hb.SessionError, match=r"hb\.counter"):
        session.increment(order(1), Order.number)
    for counter_of in (Sample.seen, "views", 5):
        with pytest.raises(hb.errors.UnknownField, match=r"increment\(\) takes a counter as an attribute of the model"):
            session.increment(order(1), counter_of)  # type: ignore[arg-type]
    with pytest.raises(hb.errors.UnknownField):
        session.query(Order).where(Sample.level == 1)
    with pytest.raises(hb.errors.UnknownIndex) as index:
        session.query(Order).use_index("by_colour")
    assert index.value.known == ["by_amount", "by_state"]
    assert session.commit() == []
    assert bed.store.told() == []


def test_what_is_no_model() -> None:
    with fresh(Order) as store:
        session = hb.Session(store)
        for call in (
            lambda: session.add("text"),
            lambda: session.add(Order),
            lambda: session.get(dict, a=1),
            lambda: session.query(int),
            lambda: session.delete(None),
            lambda: hb.create_tables(store, Order, str),
        ):
            with pytest.raises(hb.DeclarationError, match=r"not a model|object of a model"):
                call()
        with pytest.raises(hb.SessionError, match="connect"):
            hb.Session("memory:")  # type: ignore[arg-type]


def test_immutable_rows_cannot_change(bed: Bed) -> None:
    session = bed.use(Hit)
    hit = Hit(at=DAY, serial=1, page="/")
    with pytest.raises(hb.SessionError, match="immutable"):
        session.update(hit, page="b")
    assert session.commit() == []


@pytest.mark.parametrize("amount", [1.5, "1", None, True, 2**63, -(2**63) - 1])
def test_an_amount_that_is_no_whole_number_of_64_bits(bed: Bed, amount: Any) -> None:
    session = bed.use(Order)
    session.add(order(1))
    session.commit()
    with pytest.raises(hb.EncodingError, match="A counter can be incremented by whole numbers of 64 bits") as caught:
        session.increment(order(1), Order.views, amount)
    assert caught.value.field == "views"
    assert session.increment(order(1), Order.views, 1) == 1


# --- keys -------------------------------------------------------------------------------------------------------------


def test_row_keys_and_entries_of_impossible_length(bed: Bed) -> None:
    session = bed.use(Flagged, Person, Order)
    for name in ("", "n" * 32_768):
        for call in (
            lambda name=name: session.add(Flagged(name=name)),
            lambda name=name: session.get(Flagged, name=name),
            lambda name=name: session.delete_key(Flagged, name=name),
            lambda name=name: session.update(Flagged(name=name), text="t"),
        ):
            with pytest.raises(hb.errors.KeyTooLong) as caught:
                call()
            assert caught.value.table == "flagged"
    session.add(Flagged(name="n" * 32_767))
    session.commit()
    assert session.get(Flagged, name="n" * 32_767) is not None
    assert session.query(Flagged).where(Flagged.name == "n" * 32_768).all() == []
    with pytest.raises(hb.errors.KeyTooLong) as index:
        session.add(order(1, "s" * 32_767))
    assert (index.value.index, index.value.table) == ("by_state", "orders.by_state")
    longest = "s" * (32_767 - 2 - 8 - 2 - 4)  # beside its terminator, the moment, the customer and the number
    session.add(order(1, longest))
    session.commit()
    assert [o.number for o in session.query(Order).where(Order.state == longest)] == [1]
    with pytest.raises(hb.errors.KeyTooLong):
        session.add(order(1, longest + "s"))
    # Only the commit knows the rest of the entry: the row is refused then, whole.
    session.add(Person(name="ann", street="s" * 20_000))
    session.commit()
    session.update(Person(name="ann"), city="c" * 20_000)
    with pytest.raises(hb.errors.KeyTooLong) as late:
        session.commit()
    assert late.value.index == "by_place"
    assert session.get(Person, name="ann") == Person(name="ann", street="s" * 20_000)


# --- queries ----------------------------------------------------------------------------------------------------------


def test_a_full_scan_must_be_asked_for(bed: Bed) -> None:
    session = bed.use(Order)
    every = session.query(Order)
    for query in (
        every,
        every.where(Order.note == "n"),
        every.where(Order.number == 1),
        every.where(Order.note == "n").limit(1),
    ):
        short: list[Any] = (
            [query.first, query.last] if query.terms.predicate is not None and query.terms.limit is None else []
        )
        short += [query.exists] if query.terms.predicate is not None else []
        for read in (query.all, query.count, query.explain, lambda query=query: query.page(3), *short):
            with pytest.raises(hb.FullScanRefused) as caught:
                read()
            assert (caught.value.table, caught.value.leading) == ("orders", "customer")
    assert "scan orders" not in bed.store.told()


def test_a_token_edited_by_a_character_is_refused(bed: Bed) -> None:
    session = bed.use(Order)
    session.add_all(order(n) for n in range(4))
    session.commit()
    query = session.query(Order).where(Order.state == "new")
    token = query.page(2).next_token
    assert token is not None
    bed.store.told()
    for at in range(len(token)):
        for other in ("A" if token[at] != "A" else "B", "é", "=", ""):
            with pytest.raises(hb.TokenError):
                query.page(2, after=token[:at] + other + token[at + 1 :])
    for text in ("", "x", token + "A", token[:-1], token * 2, token.swapcase()):
        with pytest.raises(hb.TokenError):
            query.page(2, after=text)
    assert bed.store.told() == []
    assert [o.number for o in query.page(2, after=token).items] == [1, 0]


def test_a_token_of_another_query_is_refused(bed: Bed) -> None:
    session = bed.use(Order, Person)
    session.add_all(order(n) for n in range(4))
    session.add_all(Person(name=str(n), city="new") for n in range(4))
    session.commit()
    query = session.query(Order).where(Order.state == "new")
    token = query.page(2).next_token
    for other in (
        session.query(Order).where(Order.state == "other"),
        query.where(Order.at > day(0)),
        query.limit(3),
        query.offset(1),
        query.reversed(),
        query.order_by(Order.at),
        session.query(Order).where(Order.customer == 1),
        session.query(Order).allow_full_scan(),
        session.query(Person).where(Person.city == "new"),
    ):
        with pytest.raises(hb.TokenError):
            other.page(2, after=token)
