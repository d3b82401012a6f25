"""Layouts of object keys: the same bytes as row key and qualifier apart, round trips, order, and slices of their
ranges.
"""

from __future__ import annotations

import json
import pickle
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hbmodel.encoding.codecs as c
from hbmodel.encoding.codegen import Code
from hbmodel.encoding.key_layout import Bounds, KeyField, KeyLayout
from hbmodel.encoding.object_key_layout import ObjectKeyLayout
from hbmodel.encoding.object_keys import ObjectKeyForm
from hbmodel.encoding.qualifier_layout import QualifierLayout
from hbmodel.encoding.salts import HashSalt, RandomSalt, RowSalt
from hbmodel.errors import DeclarationError, DecodingError, EncodingError, IncompleteKey, QueryError, RowKeyError
from hbmodel.store.ranges import KeyRange, key_successor
from tests.encoding.test_key_layout_ranges import questions
from tests.support.strategies import as_read, declared_order, key_tuples, key_values, place_layouts, plain

HOUR = timedelta(hours=1)
PETS = ObjectKeyLayout((KeyField("owner", c.Text), KeyField("name", c.Text)), rows=1)
READINGS = ObjectKeyLayout((KeyField("sensor", c.UInt16), KeyField("at", c.Datetime("s"))), rows=2, split=HOUR)
NOON = datetime(2026, 11, 22, 12, 0, 5, tzinfo=UTC)

examples = place_layouts().flatmap(lambda layout: st.tuples(st.just(layout), key_values(layout)))


def form_of(layout: ObjectKeyLayout, kind: bytes = b"") -> ObjectKeyForm:
    return ObjectKeyForm(row=None if layout.rows else b"pets", kind=kind)


def packed_by_generated_code(layout: ObjectKeyLayout, values: tuple[Any, ...]) -> bytes | None:
    """The result of the generated code for a whole key; None if it leaves the values to plain code."""
    code = Code("def whole(values):")
    names = [f"v{at}" for at in range(len(layout.names))]
    code.add(f"{', '.join(names)}, = values")
    conditions, joined = layout.join_code(code, names)
    code.add(f"return {joined} if {' and '.join(conditions) or 'True'} else None")
    found: bytes | None = code.build()(values)
    return found


@pytest.mark.lengthy
@given(examples, st.sampled_from([b"", b"p", b"\x00", b"\xff"]))
def test_a_place_key_holds_the_row_key_and_the_qualifier_prefix(
    example: tuple[ObjectKeyLayout, tuple[Any, ...]], kind: bytes
) -> None:
    layout, values = example
    first, behind = layout.parts_of(values)
    row, prefix = form_of(layout, kind).cut(layout.pack(values))
    assert row == (b"pets" if layout.row is None else layout.row.pack(first))
    assert prefix == QualifierLayout(kind, layout.columns).encode(behind)


@pytest.mark.lengthy
@given(examples, st.binary(max_size=2))
def test_round_trip(example: tuple[ObjectKeyLayout, tuple[Any, ...]], salt: bytes) -> None:
    layout, values = example
    key = layout.pack(values)
    assert layout.unpack(salt + key, len(salt)) == tuple(map(as_read, values))
    assert layout.pack_leading(values[:-1]) == layout.pack_parts(values)[:-1]
    assert [layout.pack_field(at, value) for at, value in enumerate(values)] == layout.pack_parts(values)
    assert packed_by_generated_code(layout, values) in {None, key}


@pytest.mark.lengthy
@given(examples, st.data())
def test_damaged_keys_are_read_exactly_or_refused(
    example: tuple[ObjectKeyLayout, tuple[Any, ...]], data: st.DataObject
) -> None:
    layout, values = example
    stored = bytearray(layout.pack(values))
    at = data.draw(st.integers(0, len(stored)))
    stored[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
    try:
        found = layout.unpack(bytes(stored))
    except DecodingError:
        return
    assert layout.pack(found) == bytes(stored)


@pytest.mark.lengthy
@given(place_layouts(ordered=True).flatmap(lambda layout: st.tuples(st.just(layout), key_tuples(layout))))
def test_keys_sort_as_declared(example: tuple[ObjectKeyLayout, list[tuple[Any, ...]]]) -> None:
    layout, tuples = example
    by_values = sorted(tuples, key=declared_order(layout))
    assert sorted(map(layout.pack, tuples)) == list(map(layout.pack, by_values))
    for left, right in pairwise(by_values):
        assert (layout.pack(left) == layout.pack(right)) == ([*map(plain, left)] == [*map(plain, right)])


@pytest.mark.lengthy
@given(questions(place_layouts()), st.data())
def test_slices_of_ranges_hold_the_cells_of_exactly_the_objects_within(
    question: tuple[ObjectKeyLayout, list[tuple[Any, ...]], tuple[Any, ...], Bounds | None], data: st.DataObject
) -> None:
    layout, tuples, leading, bounds = question
    form = form_of(layout, data.draw(st.sampled_from([b"", b"p", b"\xff"])))
    qualifiers = QualifierLayout(form.kind, layout.columns)
    try:
        places = layout.range_of(layout.pack_leading(leading), bounds)
    except QueryError:  # bytes do not tell these values apart
        return
    if data.draw(st.booleans()):  # as a query goes on behind an object
        places = places.after(layout.pack(data.draw(st.sampled_from(tuples))))
    pieces = form.slices(places, qualifiers.prefix_end)
    for values in tuples:
        place = layout.pack(values)
        row, prefix = form.cut(place)
        qualifier = prefix + (b"" if qualifiers.raw else data.draw(st.binary(max_size=2)))
        if not row or not qualifier:  # HBase has no such row, and the qualifier is the row version's
            continue
        held = [p for p in pieces if row in p.rows and p.first <= qualifier and (p.stop is None or qualifier < p.stop)]
        assert len(held) == (place in places)


@pytest.mark.lengthy
@given(examples, st.sampled_from([b"", b"p", b"\xff"]), st.data())
def test_the_prefix_of_an_object_ends_before_the_alias(
    example: tuple[ObjectKeyLayout, tuple[Any, ...]], kind: bytes, data: st.DataObject
) -> None:
    layout, values = example
    if layout.columns is None and not kind:
        return
    qualifiers = QualifierLayout(kind, layout.columns)
    _, behind = layout.parts_of(values)
    alias = b"" if qualifiers.raw else data.draw(st.one_of(st.binary(max_size=4), st.just(b"_v")))
    qualifier = qualifiers.encode(behind, alias)
    if not qualifier:
        return
    assert qualifiers.prefix_end(qualifier) == len(qualifiers.encode(behind))
    stored, found = qualifiers.decode(qualifier)
    assert found == alias
    assert layout.split is not None or qualifiers.encode(stored, found) == qualifier  # an offset alone is no time


@pytest.mark.lengthy
@given(place_layouts(), st.sampled_from([b"", b"p"]), st.binary(max_size=12))
def test_any_bytes_have_an_end_of_their_prefix_or_none(layout: ObjectKeyLayout, kind: bytes, qualifier: bytes) -> None:
    if layout.columns is None and not kind:
        return
    qualifiers = QualifierLayout(kind, layout.columns)
    end = qualifiers.prefix_end(qualifier)
    assert end is None or (qualifier.startswith(kind) and end <= len(qualifier))
    try:
        values, alias = qualifiers.decode(qualifier)
    except DecodingError:
        return
    assert layout.split is not None or qualifiers.encode(values, alias) == qualifier


@pytest.mark.lengthy
@given(examples, st.data())
def test_objects_of_a_row_have_its_bucket(
    example: tuple[ObjectKeyLayout, tuple[Any, ...]], data: st.DataObject
) -> None:
    """The salt hashes the row key's own bytes, so what reads the table without object keys computes the same bucket."""
    layout, values = example
    if layout.row is None:
        return
    by = tuple(data.draw(st.lists(st.sampled_from(layout.row.names), unique=True)))
    declared = HashSalt(7, by=by)
    first, _ = layout.parts_of(values)
    wanted = declared.bind(layout.row).bucket_of(layout.row.pack_parts(first))
    bound = RowSalt.of(declared, layout).bind(layout)
    parts = layout.pack_parts(values)
    assert bound.bucket_of(parts) == wanted
    assert bound.bucket_of_fields(dict(zip(layout.names, parts, strict=True))) == wanted
    assert bound.spec == {**declared.bind(layout.row).spec}


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize(("middle", "value"), [(c.UInt32, 1), (c.Bytes, b"x"), (c.Delimited("|"), "x")])
def test_a_qualifier_that_ends_within_its_fields_is_of_no_object(middle: c.Codec[Any], value: Any, raw: bool) -> None:
    fields = (KeyField("number", c.UInt32), KeyField("middle", middle), KeyField("name", c.Text))
    qualifiers = QualifierLayout(b"p", ObjectKeyLayout(fields, raw=raw).columns)
    whole = qualifiers.encode((1, value, "ann"))
    least = len(qualifiers.encode((1, value, ""))) if raw else len(whole)
    for length in range(len(whole) + 1):
        assert qualifiers.prefix_end(whole[:length]) == (length if length >= least else None)


def test_golden_bytes() -> None:
    assert PETS.pack_parts(("a\x00n", "flu")) == [b"a\x00\xffn\x00\x01", b"flu\x00\x01"]
    assert PETS.unpack(b"a\x00\xffn\x00\x01flu\x00\x01") == ("a\x00n", "flu")
    raw = ObjectKeyLayout(PETS.fields, rows=1, raw=True)
    assert raw.pack(("ann", "flu")) == b"ann\x00\x01flu"
    classic = ObjectKeyLayout((KeyField("name", c.Delimited("|")),))
    assert classic.pack(("rex",)) == b"rex|"
    parent = ObjectKeyLayout((KeyField("owner", c.Text),), rows=1)
    assert parent.pack(("ann",)) == b"ann\x00\x01"


@pytest.mark.parametrize(
    ("codec", "every", "desc", "row", "prefix"),
    [
        (c.Datetime("s"), HOUR, False, "800000006b02d940", "0005"),
        (c.Datetime("s"), HOUR, True, "7fffffff94fd26bf", "fffa"),
        (c.Datetime("s"), timedelta(seconds=256), False, "800000006b02d900", "45"),
        (c.Datetime("s"), timedelta(seconds=257), False, "800000006b02d941", "0004"),
        (c.Datetime("ms"), HOUR, False, "800001a20320a200", "00001388"),
        (c.Timestamp, timedelta(days=1), False, "800660d2288d2000", "0000000a0f37fb40"),
    ],
)
def test_golden_split_fields(codec: Any, every: timedelta, desc: bool, row: str, prefix: str) -> None:
    layout = ObjectKeyLayout((KeyField("at", codec, desc),), rows=1, split=every)
    assert [part.hex() for part in ObjectKeyForm().cut(layout.pack((NOON,)))] == [row, prefix]
    assert layout.unpack(layout.pack((NOON,))) == (NOON,)


@pytest.mark.parametrize(
    ("units", "width"), [(2, 1), (256, 1), (257, 2), (1 << 16, 2), ((1 << 16) + 1, 4), ((1 << 32) + 1, 8)]
)
def test_offsets_have_the_least_width_that_holds_the_largest(units: int, width: int) -> None:
    layout = ObjectKeyLayout((KeyField("at", c.Timestamp),), rows=1, split=timedelta(0, 0, units))
    assert layout.columns is not None
    assert layout.columns.fields[0].codec.width == width
    first = datetime.min.replace(tzinfo=UTC)
    for value in (
        first,
        first + timedelta(0, 0, units - 1),
        first + timedelta(0, 0, units),
        datetime.max.replace(tzinfo=UTC),
    ):
        assert layout.unpack(layout.pack((value,))) == (value,)


def test_bounds_on_a_split_field_are_head_middle_and_tail() -> None:
    places = READINGS.range_of(READINGS.pack_leading((7,)), Bounds(NOON, True, NOON + timedelta(hours=3), False))
    pieces = ObjectKeyForm(kind=b"r").slices(places)
    row = READINGS.row
    assert row is not None
    assert [(p.first, p.stop) for p in pieces] == [(b"r\x00\x05", b"s"), (b"r", b"s"), (b"r", b"r\x00\x05")]
    assert pieces[0].row == row.pack((7, NOON))
    assert pieces[1].rows == KeyRange(key_successor(row.pack((7, NOON))), row.pack((7, NOON + timedelta(hours=3))))
    assert pieces[2].row == row.pack((7, NOON + timedelta(hours=3)))


@pytest.mark.parametrize("stored", ["0007800000006a2fc141" + "0001" + "0005", "0007800000006a2fc140" + "0001" + "0e10"])
def test_parts_that_are_of_no_bucket_are_refused(stored: str) -> None:
    place = ObjectKeyForm().join(*[bytes.fromhex(part) for part in (stored[:20], stored[24:])])
    with pytest.raises(DecodingError, match="The row or the offset of a split field does not match its"):
        READINGS.unpack(place)


@pytest.mark.parametrize(
    ("of", "split"),
    [
        (KeyField("at", c.Date), HOUR),
        (KeyField("at", c.Int64), HOUR),
        (KeyField("at", c.ReverseStamp), HOUR),
        (KeyField("at", c.Datetime("s"), nullable=True), HOUR),
        (KeyField("at", c.Datetime("s")), timedelta(milliseconds=2500)),
        (KeyField("at", c.Datetime("s")), timedelta(seconds=1)),
        (KeyField("at", c.Datetime("s")), -HOUR),
        (KeyField("at", c.Datetime("s")), 3600),
    ],
)
def test_what_cannot_be_split(of: KeyField, split: Any) -> None:
    with pytest.raises(DeclarationError):
        ObjectKeyLayout((of,), rows=1, split=split)


def test_errors_name_the_field() -> None:
    with pytest.raises(EncodingError, match="field='sensor'"):
        READINGS.pack((-1, NOON))
    with pytest.raises(EncodingError, match="field='at'"):
        READINGS.pack((7, NOON.replace(tzinfo=None)))
    with pytest.raises(DecodingError, match="field='sensor'"):
        READINGS.unpack(b"\x07\x00\x01")
    with pytest.raises(DecodingError):
        PETS.unpack(b"ann\x00\x01flu\x00\x01x")
    with pytest.raises(DecodingError, match="A field of variable length contains an unescaped zero byte"):
        ObjectKeyLayout(PETS.fields, rows=2).unpack(b"ann\x00\xff\x00\xff\x01flu\x00\x01x")


def test_the_number_of_values_must_be_that_of_the_fields() -> None:
    with pytest.raises(IncompleteKey):
        PETS.pack(("ann",))
    with pytest.raises(RowKeyError):
        PETS.pack(("ann", "flu", "x"))


def test_a_salt_of_a_wide_model() -> None:
    with pytest.raises(DeclarationError, match="A wide model cannot have a random salt"):
        RowSalt.of(RandomSalt(4), PETS)
    with pytest.raises(DeclarationError, match="The salt of a wide model must be computed from fields of"):
        RowSalt.of(HashSalt(4, by=("name",)), PETS)


def test_layouts_are_values() -> None:
    for layout in (PETS, READINGS, ObjectKeyLayout(PETS.fields, rows=1, raw=True)):
        again = pickle.loads(pickle.dumps(layout))
        assert again == layout
        assert hash(again) == hash(layout)
        assert again.spec == layout.spec
        json.dumps(layout.spec)
    assert (
        len(
            {
                str(layout.spec)
                for layout in (PETS, ObjectKeyLayout(PETS.fields), ObjectKeyLayout(PETS.fields, rows=1, raw=True))
            }
        )
        == 3
    )
    assert KeyLayout(PETS.fields) != PETS
    assert PETS.spec["fields"] == [
        {"name": "owner", "codec": {"codec": "text"}, "desc": False, "nullable": False},
        {"name": "name", "codec": {"codec": "text"}, "desc": False, "nullable": False, "part": "column"},
    ]
    assert READINGS.spec["fields"][1]["split"] == 3_600_000_000  # type: ignore[index, call-overload]
