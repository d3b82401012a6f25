"""Fields and schemas: the bytes of column values, names of columns, and the description that the registry keeps."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.errors import DecodingError
from hbmodel.mapping.schema import REQUIRED, Field
from tests.support.strategies import KEY_CODECS, as_read, values_of


@hb.model(table="ns:shop", family="d", salt=hb.HashSalt(4, by=("shop",)), exists=hb.flag("e"))
class Sale:
    shop: hb.Key[int] = hb.key(hb.codecs.UInt16)
    at: hb.Key[datetime | None] = hb.key(desc=True)
    price: hb.Column[Decimal] = hb.column("p")
    note: hb.Column[str | None] = hb.column("n", default=None, family="x")
    seen: hb.Column[int] = hb.counter("c")

    by_price = hb.index(hb.desc("price"), covers=("note",), salt=hb.HashSalt(2))


def column(codec: hb.Codec[Any], nullable: bool, **options: Any) -> Field:
    return Field("a", "column", codec, nullable, family=b"d", qualifier=b"a", **options)


# --- column values ----------------------------------------------------------------------------------------------------

# codec, value, cell of a column, cell of a column that may not be None if it differs
CELLS: list[tuple[hb.Codec[Any], Any, bytes, bytes | None]] = [
    (hb.Text, None, b"", None),
    (hb.Text, "", b"\x00", None),
    (hb.Text, "\0", b"\x00\x00", None),
    (hb.Text, "\0a", b"\x00\x00a", None),
    (hb.Text, "\x01", b"\x01", None),
    (hb.Text, "aé", b"a\xc3\xa9", None),
    (hb.Bytes, b"", b"\x00", None),
    (hb.Bytes, b"\xff\x00", b"\xff\x00", None),
    (hb.Text(3), "", b"\x00\x00\x00", None),
    (hb.codecs.Int8, None, b"", None),
    (hb.codecs.Int8, -128, b"\x00", None),
    (hb.codecs.Bool, False, b"\x00", None),
    (hb.codecs.JavaLong, -1, b"\xff" * 8, None),
    (hb.Json(list[int]), [1], b"[1]", None),
    (hb.Json(Any), None, b"", b"null"),
]


@pytest.mark.parametrize(("codec", "value", "cell", "other"), CELLS)
def test_cells(codec: hb.Codec[Any], value: Any, cell: bytes, other: bytes | None) -> None:
    assert column(codec, True).encode_cell(value) == cell
    assert column(codec, True).decode_cell(cell) == value
    if value is not None or other is not None:
        assert column(codec, False).encode_cell(value) == (cell if other is None else other)
        assert column(codec, False).decode_cell(cell if other is None else other) == value


def test_cells_of_other_programs_are_not_escaped() -> None:
    for value in (b"", b"\0", b"\0a"):
        for nullable in (False, True):
            external = attrs.evolve(column(hb.Bytes, nullable), strict=True, unescaped=nullable)
            assert external.encode_cell(value) == value
            assert external.decode_cell(value) == value


@given(st.data())
def test_cells_read_back(data: st.DataObject) -> None:
    codec = data.draw(st.sampled_from(KEY_CODECS))
    value = data.draw(st.one_of(st.none(), values_of(codec)))
    of = column(codec, True)
    cell = of.encode_cell(value)
    assert of.decode_cell(cell) == as_read(value)
    assert (cell == b"") == (value is None)
    if value is not None:
        assert column(codec, False).decode_cell(column(codec, False).encode_cell(value)) == as_read(value)


@given(st.data())
def test_cells_keep_the_order_of_their_codec(data: st.DataObject) -> None:
    """None sorts first; the escape of nullable text does not disturb the order. The server compares such cells."""
    codec = data.draw(st.sampled_from([codec for codec in KEY_CODECS if codec.raw_order == "ascending"]))
    values = data.draw(st.lists(values_of(codec), min_size=2, max_size=2))
    of = column(codec, True)
    raw = [codec.encode(value) for value in values]
    cells = [of.encode_cell(value) for value in values]
    assert (raw[0] < raw[1]) == (cells[0] < cells[1])
    assert of.encode_cell(None) < min(cells)


def test_a_cell_that_is_not_nullable_must_hold_something_its_codec_reads() -> None:
    with pytest.raises(DecodingError):
        column(hb.codecs.Int8, False).decode_cell(b"")


# --- fields -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("of", "required", "default"),
    [
        (column(hb.Text, False), True, None),
        (column(hb.Text, True), True, None),
        (column(hb.Text, True, default=None), False, None),
        (column(hb.Text, False, default="x"), False, "x"),
        (column(hb.Text, False, default=""), False, ""),
        (column(hb.Json(list[int]), False, default=attrs.Factory(list)), False, []),
        (Field("c", "counter", hb.codecs.JavaLong, default=0), False, 0),
        (Field("c", "counter", hb.codecs.JavaLong), False, 0),
        (Field("k", "key", hb.Text), False, REQUIRED),
    ],
)
def test_defaults(of: Field, required: bool, default: Any) -> None:
    assert of.required == required
    if not required:
        assert of.default_value() == default


def test_a_factory_makes_a_default_each_time() -> None:
    of = column(hb.Json(list[int]), False, default=attrs.Factory(list))
    assert of.default_value() is not of.default_value()


# --- schemas ----------------------------------------------------------------------------------------------------------


def test_names_of_columns() -> None:
    schema = hb.schema.schema_of(Sale)
    assert [f.column for f in schema.columns] == [b"d:p", b"x:n", b"d:c"]
    assert schema.exists_column == b"d:e"
    assert (schema.liveness_column, schema.version_column) == (b"d:_l", b"d:_v")
    assert schema.family_names == (b"d", b"x")
    assert [f.name for f in schema.key_fields] == ["shop", "at"]


def test_what_is_not_there_is_named() -> None:
    schema = hb.schema.schema_of(Sale)
    assert schema.field("price").name == "price"
    assert schema.index("by_price").name == "by_price"
    with pytest.raises(hb.errors.UnknownField, match="The model has no such field") as field:
        schema.field("colour")
    assert (field.value.table, field.value.field, field.value.known) == (
        "ns:shop",
        "colour",
        ["at", "note", "price", "seen", "shop"],
    )
    with pytest.raises(hb.errors.UnknownIndex, match="The model has no such index") as index:
        schema.index("by_colour")
    assert (index.value.index, index.value.known) == ("by_colour", ["by_price"])


def test_the_layout_that_the_registry_keeps() -> None:
    """A public, versioned contract: what is written here is in registries, so it may grow but not change."""
    assert json.loads(json.dumps(hb.schema.schema_of(Sale).layout_spec)) == {
        "format": 1,
        "key": [
            {"name": "shop", "codec": hb.codecs.UInt16.spec, "desc": False, "nullable": False},
            {"name": "at", "codec": hb.codecs.Timestamp.spec, "desc": True, "nullable": True},
        ],
        "salt": {"salt": "hash", "buckets": 4, "by": ["shop"]},
        "columns": {
            "d:p": {
                "name": "price",
                "kind": "column",
                "codec": hb.codecs.DecimalNumber.spec,
                "nullable": False,
                "null": "marker",
            },
            "x:n": {"name": "note", "kind": "column", "codec": hb.Text.spec, "nullable": True, "null": "marker"},
            "d:c": {
                "name": "seen",
                "kind": "counter",
                "codec": hb.codecs.JavaLong.spec,
                "nullable": False,
                "null": "marker",
            },
        },
        "exists": "e",
    }


def test_the_description_of_an_index_that_the_registry_keeps() -> None:
    index = hb.schema.schema_of(Sale).indexes["by_price"]
    assert json.loads(json.dumps(index.spec)) == {
        "fields": [
            {"name": "price", "codec": hb.codecs.DecimalNumber.spec, "desc": True, "nullable": False},
            {"name": "shop", "codec": hb.codecs.UInt16.spec, "desc": False, "nullable": False},
            {"name": "at", "codec": hb.codecs.Timestamp.spec, "desc": True, "nullable": True},
        ],
        "declared": ["price"],
        "tail": 0,
        "salt": {"salt": "hash", "buckets": 2, "by": ["price", "shop", "at"]},
        "covers": ["note"],
    }


def test_a_qualifier_of_any_bytes_is_told_apart_in_the_layout() -> None:
    @hb.model(table="t")
    class Odd:
        k: hb.Key[int] = hb.key()
        a: hb.Column[int] = hb.column("é")
        b: hb.Column[int] = hb.column("Ã©")

    assert len(hb.schema.schema_of(Odd).layout_spec["columns"]) == 2


def test_a_schema_is_equal_to_itself_alone() -> None:
    first, second = hb.schema.schema_of(Sale), attrs.evolve(hb.schema.schema_of(Sale))
    assert first == first  # noqa: PLR0124
    assert first != second
    assert len({first, second}) == 2


def test_times_come_back_in_utc_from_their_cell() -> None:
    of = column(hb.codecs.Timestamp, True)
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    assert of.decode_cell(of.encode_cell(noon)).tzinfo is UTC
