"""Numbers and bools as the text that other programs write."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.codecs import as_text
from hbmodel.encoding.codecs.from_spec import codec_of
from hbmodel.store import Put
from tests.support.beds import fresh
from tests.support.examples import examples

GOLDEN: list[tuple[hb.Codec[Any], Any, bytes]] = [
    (as_text.Float, 0.5, b"0.5"),
    (as_text.Float, 20.0, b"20.0"),
    (as_text.Float, -0.0, b"-0.0"),
    (as_text.Float, 1e16, b"1e+16"),
    (as_text.Float, 0.1 + 0.2, b"0.30000000000000004"),
    (as_text.Float, -math.inf, b"-inf"),
    (as_text.Float, math.nan, b"nan"),
    (as_text.Decimal, Decimal("1.50"), b"1.50"),
    (as_text.Decimal, Decimal("-3"), b"-3"),
    (as_text.Decimal, Decimal("0.007"), b"0.007"),
    (as_text.Decimal, Decimal("-0.00"), b"-0.00"),
    (as_text.Decimal, Decimal("0.0000001"), b"0.0000001"),
    (as_text.Bool("1", "0"), True, b"1"),
    (as_text.Bool("1", "0"), False, b"0"),
    (as_text.Bool("True", "False"), False, b"False"),
    (as_text.Bool(b"\xff", "no"), True, b"\xff"),
]
DECIMALS = st.builds(
    lambda sign, digits, places: Decimal((sign, digits, -places)),
    st.integers(0, 1),
    st.lists(st.integers(0, 9), min_size=1, max_size=9).map(tuple),
    st.integers(0, 12),
)
VALUES: list[tuple[hb.Codec[Any], st.SearchStrategy[Any]]] = [
    (as_text.Float, st.floats(allow_nan=False)),
    (as_text.Decimal, DECIMALS),
    (as_text.Bool("yes", "no"), st.booleans()),
    (as_text.Bool("Y", "N"), st.booleans()),
]


@pytest.mark.parametrize(("codec", "value", "data"), GOLDEN, ids=repr)
def test_golden_bytes(codec: hb.Codec[Any], value: Any, data: bytes) -> None:
    assert codec.encode(value) == data
    read = codec.decode(data)
    assert type(read) is type(value)
    assert repr(read) == repr(value)


@pytest.mark.parametrize(("codec", "values"), VALUES, ids=repr)
@settings(max_examples=examples(60))
@given(data=st.data())
def test_every_codec_keeps_its_promises(
    codec: hb.Codec[Any], values: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    hb.codecs.check_codec(codec, data.draw(st.lists(values, max_size=6)))


@pytest.mark.parametrize("codec", [codec for codec, _ in VALUES], ids=repr)
def test_the_registry_describes_every_codec(codec: hb.Codec[Any]) -> None:
    assert codec_of(json.loads(json.dumps(codec.spec))) == codec


@given(st.one_of(st.from_regex(r"[-+]?[0-9]{0,4}\.?[0-9]{0,4}([eE][-+]?[0-9]{1,3})?", fullmatch=True), st.text()))
@example("1_0.5")
@example(" 1.5")
@example("\uff11.5")
@example("1E+999999999")
@example("NaN")
@example("sNaN")
@example("yes ")
def test_text_reads_back_byte_for_byte_or_is_refused(text: str) -> None:
    data = text.encode(errors="surrogatepass")
    for codec, _ in VALUES:
        try:
            value = codec.decode(data)
        except hb.DecodingError:
            continue
        assert codec.encode(value) == data


@pytest.mark.parametrize(
    ("codec", "value"),
    [
        (as_text.Float, 2**53 + 1),
        (as_text.Float, "1.5"),
        (as_text.Float, True),
        (as_text.Decimal, Decimal("NaN")),
        (as_text.Decimal, Decimal("Infinity")),
        (as_text.Decimal, 1.5),
        (as_text.Decimal, Decimal("1E+999999999")),
        (as_text.Decimal, Decimal("1E-999999")),
        (as_text.Bool("1", "0"), 1),
        (as_text.Bool("1", "0"), "1"),
    ],
    ids=repr,
)
def test_values_of_other_types_or_sizes_are_refused(codec: hb.Codec[Any], value: Any) -> None:
    with pytest.raises(hb.EncodingError):
        codec.encode(value)


@pytest.mark.parametrize(
    ("data", "advice"),
    [
        *((data, r"hb\.codecs\.as_text\.Decimal") for data in (b"1.50", b"20")),
        *((data, r"hb\.Text") for data in (b".5", b"1e5", b"+1.0", b"1.0E10", b"Infinity", b"NaN", b"1_0.0")),
    ],
)
def test_other_forms_of_floats_are_refused_with_the_codec_that_reads_them(data: bytes, advice: str) -> None:
    with pytest.raises(hb.DecodingError, match=advice):
        as_text.Float.decode(data)
    if data in {b"1.50", b"20"}:
        assert as_text.Decimal.encode(as_text.Decimal.decode(data)) == data


@pytest.mark.parametrize(("true", "false"), [("", "0"), ("1", b""), ("1", 0), (None, "0"), ("x", b"x")])
def test_a_bool_needs_two_different_texts(true: Any, false: Any) -> None:
    with pytest.raises(hb.DeclarationError):
        as_text.Bool(true, false)


def test_bools_of_different_lengths_are_refused_in_keys() -> None:
    with pytest.raises(hb.DeclarationError, match="cannot be part of a key"):

        @hb.model(table="t", family="d")
        class Wrong:
            sold: hb.Key[bool] = hb.key(as_text.Bool("True", "False"))


@hb.model(table="prices", family="d", external=True)
class Price:
    sold: hb.Key[bool] = hb.key(as_text.Bool("1", "0"))
    item: hb.Key[str] = hb.key()
    price: hb.Column[Decimal] = hb.column("p", as_text.Decimal)
    weight: hb.Column[float | None] = hb.column("w", as_text.Float, default=None)
    new: hb.Column[bool | None] = hb.column("n", as_text.Bool("True", "False"), default=None)


def test_queries_compare_values_and_not_texts() -> None:
    store = fresh(Price)
    store.put(
        "prices",
        [
            Put(b"0a", {b"d:p": b"9.50", b"d:w": b"0.5", b"d:n": b"True"}),
            Put(b"0b", {b"d:p": b"10.0", b"d:w": b"1e+16", b"d:n": b"False"}),
            Put(b"1a", {b"d:p": b"9.5"}),
        ],
    )
    query = hb.Session(store).query(Price)
    every = query.allow_full_scan()

    def items(found: Any) -> list[tuple[bool, str]]:
        return [(price.sold, price.item) for price in found]

    assert items(query.where(Price.sold == False)) == [(False, "a"), (False, "b")]  # noqa: E712
    assert items(every.where(Price.price == Decimal("9.5"))) == [(False, "a"), (True, "a")]
    assert items(every.where(Price.price > Decimal(9), Price.price < Decimal("9.9"))) == [(False, "a"), (True, "a")]
    assert items(every.where(Price.price > Decimal("9.9"))) == [(False, "b")]
    assert items(every.where(Price.weight > 1)) == [(False, "b")]
    assert items(every.where(Price.weight.is_(None))) == [(True, "a")]
    assert items(every.where(Price.new == True)) == [(False, "a")]  # noqa: E712
    assert items(every.where(Price.new.in_([False, None]))) == [(False, "b"), (True, "a")]


def test_what_was_read_is_written_with_the_same_bytes() -> None:
    store = fresh(Price)
    cells = {b"d:p": b"9.50", b"d:w": b"0.5", b"d:n": b"True"}
    store.put("prices", [Put(b"0a", cells)])
    session = hb.Session(store)
    (price,) = session.query(Price).allow_full_scan().all()
    session.add(hb.evolve(price, item="b"))
    session.commit()
    (row,) = store.get("prices", [b"0b"])
    assert row is not None
    assert {column: cell.value for column, cell in row.columns.items()} == cells
