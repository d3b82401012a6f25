"""Predicates: what comparisons on a model class build, which rows they accept, and what is refused at once."""

from __future__ import annotations

import operator
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.mapping.field_expressions import FieldExpression
from hbmodel.mapping.predicates import And, Comparison, In, Not, Or, Predicate, StartsWith, conjuncts, equalities
from hbmodel.mapping.schema import Field
from tests.support.strategies import KEY_CODECS, changes, instants, plain, values_of

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@hb.model(table="t")
class Thing:
    number: hb.Key[int] = hb.key(hb.codecs.UInt8)
    at: hb.Key[datetime] = hb.key(hb.Datetime("s"))
    name: hb.Column[str | None] = hb.column("n", default=None)
    code: hb.Column[str] = hb.column("o", hb.Text(3), default="")
    data: hb.Column[bytes] = hb.column("d", default=b"")
    price: hb.Column[Decimal | None] = hb.column("p", default=None)
    colour: hb.Column[Colour | None] = hb.column("c", default=None)
    items: hb.Column[list[int] | None] = hb.column("i", hb.Json(list[int]), default=None)
    table: hb.Column[dict[str, int] | None] = hb.column("m", hb.Json(dict[str, int]), default=None)
    back: hb.Column[int | None] = hb.column("b", hb.codecs.Reversed(hb.codecs.UInt8), default=None)
    moment: hb.Column[datetime | None] = hb.column("w", default=None)
    stamp: hb.Column[datetime | None] = hb.column("r", hb.codecs.ReverseStamp, default=None)
    views: hb.Column[int] = hb.counter("v")


@hb.model(table="t")
class Other:
    number: hb.Key[int] = hb.key(hb.codecs.UInt8)
    name: hb.Column[str] = hb.column("n")


def accepts(predicate: Predicate, **values: Any) -> bool:
    return predicate.test()(values)


# --- what is accepted -------------------------------------------------------------------------------------------------

EQUAL: dict[str, Callable[[Any, Any], Any]] = {"==": operator.eq, "!=": operator.ne}
ORDERED: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@pytest.mark.parametrize("symbol", [*EQUAL, *ORDERED])
@pytest.mark.parametrize(
    ("of", "values"),
    [
        ("number", [0, 1, 2, 255]),
        ("name", ["", "\0", "a", "a\0", "ab", "b", "é", "\U0001f600", "\uffff"]),
        ("data", [b"", b"\0", b"a", b"\xff", b"\xff\xff"]),
        ("price", [Decimal("-1e9"), Decimal("-1.5"), Decimal(0), Decimal("0.10"), Decimal("1e9")]),
        ("back", [1, 256 - 1, 128]),
        ("stamp", [NOON, NOON + timedelta(days=1), NOON - timedelta(days=1)]),
        ("at", [NOON, NOON + timedelta(seconds=1)]),
        ("views", [-5, 0, 3]),
    ],
)
def test_comparisons_are_those_of_python(symbol: str, of: str, values: list[Any]) -> None:
    compare = {**EQUAL, **ORDERED}[symbol]
    for bound in values:
        predicate = compare(getattr(Thing, of), bound)
        assert isinstance(predicate, Comparison)
        assert [accepts(predicate, **{of: value}) for value in values] == [compare(value, bound) for value in values]


@pytest.mark.parametrize("symbol", ORDERED)
def test_comparisons_with_an_order_are_false_for_none(symbol: str) -> None:
    predicate = ORDERED[symbol](Thing.price, Decimal(1))
    assert not accepts(predicate, price=None)
    assert accepts(~predicate, price=None)


def test_equality_and_none() -> None:
    assert not accepts(Thing.name == "a", name=None)
    assert accepts(Thing.name != "a", name=None)
    assert accepts(Thing.name == None, name=None)  # noqa: E711
    assert not accepts(Thing.name == None, name="")  # noqa: E711
    assert accepts(Thing.name != None, name="")  # noqa: E711
    assert not accepts(Thing.name != None, name=None)  # noqa: E711
    assert accepts(Thing.name.is_(None), name=None)
    assert not accepts(Thing.name.is_(None), name="")
    assert accepts(~Thing.name.is_(None), name="")


def test_membership() -> None:
    assert accepts(Thing.number.in_([1, 2]), number=2)
    assert not accepts(Thing.number.in_([1, 2]), number=3)
    assert not accepts(Thing.number.in_([]), number=3)
    assert accepts(Thing.number.in_(iter(range(9))), number=8)
    assert accepts(Thing.name.in_(["a", None]), name=None)
    assert not accepts(Thing.name.in_(["a"]), name=None)
    assert accepts(Thing.colour.in_({Colour.RED, Colour.BLUE}), colour=Colour.BLUE)


def test_between_holds_both_ends() -> None:
    predicate = Thing.number.between(2, 4)
    assert [n for n in range(6) if accepts(predicate, number=n)] == [2, 3, 4]
    assert not any(accepts(Thing.number.between(4, 2), number=n) for n in range(6))


def test_prefixes() -> None:
    assert accepts(Thing.name.startswith("ab"), name="abc")
    assert not accepts(Thing.name.startswith("ab"), name="a")
    assert not accepts(Thing.name.startswith(""), name=None)
    assert accepts(Thing.name.startswith(""), name="")
    assert accepts(Thing.data.startswith(b"\xff"), data=b"\xff\x00")
    assert not accepts(Thing.code.startswith("long"), code="lon")


def test_structured_values_are_equal_or_not() -> None:
    assert accepts(Thing.items == [1, 2], items=[1, 2])
    assert accepts(Thing.items != [1, 2], items=[2])
    assert accepts(Thing.items.in_([[1], [2]]), items=[2])
    assert accepts(Thing.items.in_([[1], None]), items=None)
    assert accepts(Thing.items.is_(None), items=None)
    assert not accepts(Thing.items.is_(None), items=[])
    assert accepts(Thing.items < [2], items=[1])
    with pytest.raises(hb.QueryError, match="Values of this field have no order") as caught:
        _ = Thing.table < {"a": 1}
    assert caught.value.field == "table"


def test_combinations() -> None:
    one, two = Thing.number == 1, Thing.name == "a"
    for number in (1, 2):
        for name in ("a", "b", None):
            values = {"number": number, "name": name}
            first, second = number == 1, name == "a"
            assert accepts(one & two, **values) == (first and second)
            assert accepts(one | two, **values) == (first or second)
            assert accepts(~one, **values) != first
            assert accepts(~(one & two), **values) == (not (first and second))
            assert accepts((one | two) & ~two, **values) == ((first or second) and not second)


@pytest.mark.parametrize("symbol", ORDERED)
@pytest.mark.parametrize("bound", [-1, 0, 255, 256, 10**30])
def test_bounds_need_not_be_storable(symbol: str, bound: int) -> None:
    predicate = ORDERED[symbol](Thing.number, bound)
    assert [accepts(predicate, number=n) for n in (0, 1, 255)] == [ORDERED[symbol](n, bound) for n in (0, 1, 255)]


@pytest.mark.parametrize("symbol", ORDERED)
def test_bounds_may_be_finer_than_what_is_stored(symbol: str) -> None:
    bound = NOON + timedelta(microseconds=1)
    seconds = [NOON + timedelta(seconds=n) for n in (-1, 0, 1)]
    predicate = ORDERED[symbol](Thing.at, bound)
    assert [accepts(predicate, at=at) for at in seconds] == [ORDERED[symbol](at, bound) for at in seconds]


@pytest.mark.lengthy
@given(data=st.data())
def test_times_compare_as_instants(data: st.DataObject) -> None:
    """In the gap and the fold of a clock change Python compares times of one zone by the clock and those of two as
    never equal.
    """
    name = data.draw(st.sampled_from(["moment", "at", "stamp"]))
    of, codec = getattr(Thing, name), hb.schema.schema_of(Thing).by_name[name].codec
    first = datetime(1970, 1, 1) if name == "stamp" else datetime.min
    bound, other = data.draw(st.one_of(changes(), instants(first))), data.draw(changes())
    value = data.draw(values_of(codec))
    for stored in (codec.decode(codec.encode(value)), codec.floor(bound)):
        for compare in ORDERED.values():
            assert accepts(compare(of, bound), **{name: stored}) == compare(stored, bound.astimezone(UTC))
        assert accepts(of.between(bound, other), **{name: stored}) == (
            bound.astimezone(UTC) <= stored <= other.astimezone(UTC)
        )
        assert accepts(of == value, **{name: stored}) == (stored == value.astimezone(UTC))
        assert accepts(of.in_([value]), **{name: stored}) == (stored == value.astimezone(UTC))


ANYTHING: hb.Codec[Any] = hb.Json(Any)


@given(data=st.data())
def test_whatever_can_be_built_can_be_evaluated(data: st.DataObject) -> None:
    """Values of any codec that keeps an order, or changes another's bytes, compare; of the others, those that Python
    compares.
    """
    codec = data.draw(st.sampled_from([*KEY_CODECS, hb.Json(list[int])]))
    values = st.lists(st.integers(0, 3), max_size=3) if codec == hb.Json(list[int]) else values_of(codec)
    of: FieldExpression[Any] = FieldExpression(Field("f", "column", codec, nullable=True))
    bound, value = data.draw(values), data.draw(st.one_of(values, st.none()))
    for compare in ORDERED.values():
        expected = value is not None and compare(plain(value), plain(bound))
        assert accepts(compare(of, bound), f=None if value is None else codec.decode(codec.encode(value))) == expected


def test_structured_values_that_have_no_common_order_are_refused() -> None:
    of: FieldExpression[Any] = FieldExpression(Field("f", "column", ANYTHING))
    assert accepts(of < [2], f=[1])
    with pytest.raises(hb.QueryError, match="A stored value and the value of the predicate have no order") as caught:
        accepts(of < [2], f=["a"])
    assert caught.value.field == "f"


def test_values_compare_as_they_are_stored() -> None:
    """Another time zone, numpy's integers and a Decimal with more digits are the same stored values."""
    east = timezone(timedelta(hours=3))
    predicate = Thing.at == NOON.astimezone(east)
    assert isinstance(predicate, Comparison)
    assert predicate.value == NOON
    assert predicate.value.tzinfo is UTC
    number = Thing.number == np.uint8(3)
    assert isinstance(number, Comparison)
    assert type(number.value) is int
    assert accepts(number, number=3)
    assert accepts(Thing.price == Decimal("1.50"), price=Decimal("1.5"))
    assert accepts(Thing.number.in_(np.array([1, 3])), number=3)


# --- what predicates are made of --------------------------------------------------------------------------------------


def test_equalities_on_one_field_are_gathered() -> None:
    """Only `In` can be turned into key ranges; `|` of different fields cannot."""
    gathered = (Thing.number == 1) | (Thing.number == 2) | Thing.number.in_([3, 4])
    assert isinstance(gathered, In)
    assert list(gathered.values) == [1, 2, 3, 4]
    apart = (Thing.number == 1) | (Thing.name == "a") | (Thing.number == 2)
    assert isinstance(apart, Or)
    assert len(apart.parts) == 3


def test_conjunctions_are_taken_apart() -> None:
    one, two, three = Thing.number == 1, Thing.name == "a", Thing.code == "x"
    assert conjuncts((one & two) & three) == conjuncts(one & (two & three)) == (one, two, three)
    assert conjuncts(one) == (one,)
    assert conjuncts(None) == ()
    assert conjuncts(Thing.number.between(1, 2))[0].names() == {"number"}


def test_what_is_negated_twice_is_itself() -> None:
    one = Thing.number == 1
    assert ~~one is one
    assert isinstance(~one, Not)


def test_equalities_of_a_predicate() -> None:
    field = hb.schema.schema_of(Thing).by_name["number"]
    assert equalities(Thing.number == 1) == (field, (1,))
    assert equalities(Thing.number.in_([1, 2])) == (field, (1, 2))
    assert equalities(Thing.number > 1) is None
    assert equalities(~(Thing.number == 1)) is None


def test_names_are_those_of_the_fields() -> None:
    predicate = (Thing.number == 1) & ~((Thing.name == "a") | Thing.code.startswith("x"))
    assert predicate.names() == {"number", "name", "code"}


# --- canonical forms --------------------------------------------------------------------------------------------------


def test_equal_predicates_have_one_canonical_form() -> None:
    one, two = Thing.number == 1, Thing.name == "a"
    assert (one & two).canonical() == (two & one).canonical()
    assert (one | two).canonical() == (two | one).canonical()
    assert Thing.number.in_([1, 2]).canonical() == Thing.number.in_([2, 1, 1]).canonical()
    assert (Thing.at == NOON).canonical() == (Thing.at == NOON.astimezone(timezone(timedelta(hours=3)))).canonical()


def test_different_predicates_have_different_canonical_forms() -> None:
    forms = [
        Thing.number == 1,
        Thing.number == 2,
        Thing.number != 1,
        Thing.number < 1,
        Thing.number <= 1,
        Thing.number.in_([]),
        Thing.number.in_([1]),
        Thing.number.in_([1, 2]),
        ~(Thing.number == 1),
        Thing.name == "1",
        Thing.name == "",
        Thing.name.is_(None),
        ~Thing.name.is_(None),
        Thing.name.startswith("1"),
        Thing.name.startswith(""),
        Thing.code == "1",
        (Thing.number == 1) & (Thing.name == "1"),
        (Thing.number == 1) | (Thing.name == "1"),
        ~((Thing.number == 1) | (Thing.name == "1")),
        Thing.data == b"1",
    ]
    assert len({repr(predicate.canonical()) for predicate in forms}) == len(forms)


@given(st.text(max_size=5), st.text(max_size=5))
def test_canonical_forms_tell_values_apart(left: str, right: str) -> None:
    assert ((Thing.name == left).canonical() == (Thing.name == right).canonical()) == (left == right)
    assert (Thing.name.startswith(left).canonical() == Thing.name.startswith(right).canonical()) == (left == right)


# --- what is refused at once ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "field"),
    [
        (lambda: Thing.number == "1", "number"),
        (lambda: Thing.number == 256, "number"),
        (lambda: Thing.number == True, "number"),  # noqa: E712
        (lambda: Thing.number == 1.5, "number"),
        (lambda: Thing.number.in_([1, "2"]), "number"),  # type: ignore[list-item]
        (lambda: Thing.number < "1", "number"),  # type: ignore[operator]
        (lambda: Thing.number.between(1, "9"), "number"),  # type: ignore[arg-type]
        (lambda: Thing.at > datetime(2026, 1, 1), "at"),
        (lambda: Thing.at > 3, "at"),  # type: ignore[operator]
        (lambda: Thing.name > b"a", "name"),  # type: ignore[operator]
        (lambda: Thing.price > Decimal("NaN"), "price"),
        (lambda: Thing.views > True, "views"),
        (lambda: Thing.at == datetime(2026, 1, 1), "at"),
        (lambda: Thing.at == NOON + timedelta(microseconds=1), "at"),
        (lambda: Thing.name == "\ud800", "name"),
        (lambda: Thing.name.startswith("\ud800"), "name"),
        (lambda: Thing.code.startswith("\ud800"), "code"),
        (lambda: Thing.code == "long", "code"),
        (lambda: Thing.code == "a\0", "code"),
        (lambda: Thing.colour == "red", "colour"),
        (lambda: Thing.items == {1}, "items"),
        (lambda: Thing.number == None, "number"),  # noqa: E711
        (lambda: Thing.number != None, "number"),  # noqa: E711
        (lambda: Thing.number.is_(None), "number"),
        (lambda: Thing.number.in_([1, None]), "number"),  # type: ignore[list-item]
        (lambda: Thing.views.is_(None), "views"),
    ],
)
def test_values_that_the_field_cannot_hold(build: Callable[[], Predicate], field: str) -> None:
    with pytest.raises(hb.EncodingError) as caught:
        build()
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Thing.name < None, r"None has no order: use \.is_\(None\) or ~field\.is_\(None\)"),
        (lambda: Thing.name >= None, r"None has no order: use \.is_\(None\) or ~field\.is_\(None\)"),
        (lambda: Thing.name == Thing.code, "values only, not with another field"),  # type: ignore[operator]
        (lambda: Thing.name < Thing.code, "values only, not with another field"),  # type: ignore[operator]
        (lambda: Thing.number < Thing.at, "values only, not with another field"),  # type: ignore[operator]
        (lambda: Thing.name.in_([Thing.code]), "values only, not with another field"),  # type: ignore[list-item]
        (lambda: Thing.name.in_("ab"), "in_ takes a collection of values"),
        (lambda: Thing.number.in_(3), "in_ takes a collection of values"),  # type: ignore[arg-type]
        (lambda: Thing.name.is_("a"), "takes None only"),  # type: ignore[arg-type]
        (lambda: Thing.number.startswith("1"), "needs a text field and text"),  # type: ignore[misc]
        (lambda: Thing.name.startswith(b"1"), "needs a text field and text"),  # type: ignore[arg-type]
        (lambda: Thing.data.startswith("1"), "needs a text field and text"),  # type: ignore[arg-type]
        (lambda: Thing.colour.startswith("r"), "needs a text field and text"),  # type: ignore[misc]
        (lambda: bool(Thing.name == "a"), "combine predicates with"),
        (lambda: 1 < Thing.number < 3, "combine predicates with"),
        (lambda: Thing.number == 1 and Thing.name == "a", "combine predicates with"),
        (lambda: operator.not_(Thing.number == 1), "combine predicates with"),
        (lambda: (Thing.number == 1) & True, "put each comparison in parentheses"),  # type: ignore[operator]
        (lambda: (Thing.number == 1) | Thing.name, "put each comparison in parentheses"),  # type: ignore[operator]
        (lambda: "a" in [Thing.name], "combine predicates with"),
    ],
)
def test_what_makes_no_predicate(build: Callable[[], object], message: str) -> None:
    with pytest.raises(hb.QueryError, match=message):
        build()


def test_a_forgotten_pair_of_parentheses_is_noticed() -> None:
    with pytest.raises((hb.QueryError, hb.EncodingError, TypeError)):
        _ = Thing.number == 1 & Thing.number == 2  # type: ignore[operator]


def test_values_never_show_in_an_error() -> None:
    with pytest.raises(hb.EncodingError, match="A value is longer than the fixed width of its codec") as caught:
        _ = Thing.code == "secret"
    assert "secret" not in str(caught.value)


def test_predicates_are_abstract() -> None:
    with pytest.raises(TypeError, match="abstract"):
        Predicate()  # type: ignore[abstract]


def test_fields_of_different_models_are_different() -> None:
    assert repr(Thing.number == 1) == "number == ..."
    assert repr((Thing.name.startswith("secret") | ~(Thing.number > 1)) & Thing.number.in_([1, 2])) == (
        "((name starts with ... | ~(number > ...)) & number in ...)"
    )
    assert hash(Thing.number) != hash(Other.number)
    assert isinstance(Thing.name.startswith("a") & (Thing.number == 1), And)
    assert isinstance(Thing.name.startswith("a"), StartsWith)
