"""Values of fields as people write them on a command line."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.encoding.codecs.from_spec import codec_of
from hbmodel.errors import EncodingError
from hbmodel.mapping.value_text import json_of_value, text_of_value, value_of_text
from tests.support.strategies import KEY_CODECS, values_of

CODECS = [codec for codec in KEY_CODECS if "EnumOf" not in repr(codec)]


@given(st.data())
def test_what_json_has_of_a_value_is_read_back(data: st.DataObject) -> None:
    codec = data.draw(st.sampled_from(CODECS))
    value = codec.decode(codec.encode(data.draw(values_of(codec))))
    shown = json_of_value(value)
    json.dumps(shown, allow_nan=False)
    if isinstance(value, bytes):
        shown = f'"{shown}"'
    text = shown if isinstance(shown, str) else json.dumps(shown)
    assert value_of_text(codec, text, "f") == value
    assert text_of_value(value)


@pytest.mark.parametrize(
    ("codec", "text"),
    [
        (hb.codecs.Int8, "many"),
        (hb.codecs.Int8, "2.5"),
        (hb.codecs.Bool, "yes"),
        (hb.codecs.Timestamp, "2026-03-01T00:00:00"),
        (hb.codecs.Date, "1. 3. 2026"),
        (hb.codecs.UUID128, "x"),
        (hb.codecs.IPv4, "::1"),
        (hb.codecs.DecimalNumber, "x"),
        (hb.codecs.Duration, "1 h"),
        (hb.Json(list[int]), "["),
    ],
)
def test_what_is_no_value_is_refused(codec: Any, text: str) -> None:
    with pytest.raises(EncodingError, match="The text is not a value of the field") as caught:
        value_of_text(codec, text, "f")
    assert caught.value.field == "f"


def test_what_would_not_print_well_is_quoted() -> None:
    assert [text_of_value(value) for value in ("a b", "", " a", "null", "a\n", None, [1, b"\0"], {"k": 1.5})] == [
        "a b", '""', '" a"', '"null"', '"a\\n"', "null", '[1, "\\\\x00"]', '{"k": 1.5}',
    ]  # fmt: skip
    assert json_of_value(codec_of({"codec": "float", "bits": 64}).decode(hb.Float64.encode(float("inf")))) == "inf"
