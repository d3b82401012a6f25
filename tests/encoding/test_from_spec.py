"""Codecs made again from what the registry keeps of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import hbmodel as hb
from hbmodel.encoding.codecs import library
from hbmodel.encoding.codecs.from_spec import UnknownCodec, codec_of
from hbmodel.encoding.codecs.text import PaddedBytes
from tests.support.strategies import KEY_CODECS

NO_CODECS = {"ieee", "packed_digits", "__init__", "base", "enums", "from_spec", "codec_of_type", "library"}
"""Modules that register nothing: those that several codecs share, and enumerations, which are stored by the codec of
their values.
"""


@pytest.mark.parametrize(
    "codec",
    [
        *KEY_CODECS,
        hb.codecs.Unterminated(hb.Text, 8),
        hb.Json(list[int]),
        hb.codecs.MsgPack(dict[str, int]),
        hb.ids.dictionary("d", hb.codecs.UInt16),
    ],
    ids=repr,
)
def test_a_codec_is_known_by_its_description(codec: Any) -> None:
    spec = json.loads(json.dumps(codec.spec))
    made = codec_of(spec)
    assert made.spec == spec
    assert not isinstance(made, UnknownCodec)
    assert (made.width, made.order, made.key) == (codec.width, codec.order, codec.key)
    if isinstance(codec, PaddedBytes):
        assert made == hb.Bytes(codec.width), "whether zeros at the end are padding is the program's own"
    elif "EnumOf" not in repr(codec) and codec.key:
        assert made == codec.exact, "whether values are rounded is the program's own"


SOME_BITS = {"codec": "int", "bits": 7, "signed": True}


@pytest.mark.parametrize("spec", [{"codec": "mine"}, SOME_BITS, {"codec": "text", "width": 3, "more": 1}, {}])
def test_of_an_unknown_one_the_bytes_are_the_values(spec: dict[str, Any]) -> None:
    made = codec_of(spec)
    assert made.spec == spec
    assert not made.key
    assert made.decode(made.encode(b"\x00a")) == b"\x00a"


def test_each_module_of_codecs_registers_its_specs() -> None:
    """A codec that is missing here would be read back as bytes."""
    for module in library.MODULES:
        assert module.SPECS.keys() <= library.READERS.keys()
    assert len(library.READERS) == sum(len(module.SPECS) for module in library.MODULES), "two modules register one name"
    listed = {path.stem for path in Path(library.__file__).parent.glob("*.py")} - NO_CODECS
    assert {module.__name__.rpartition(".")[2] for module in library.MODULES} == listed


def test_a_codec_of_another_program_can_be_compared_and_kept_in_sets() -> None:
    one, same, other = (codec_of({"codec": "own", "of": [size]}) for size in (1, 1, 2))
    assert isinstance(one, UnknownCodec)
    assert one == same
    assert len({one, same, other}) == 2


@pytest.mark.parametrize("bits", [True, False, 7, 0, -64, 64.0, 1 << 40, "64", None, [], {}])
@pytest.mark.parametrize(
    "spec",
    [
        {"codec": "float"},
        {"codec": "int", "signed": True},
        {"codec": "java_int"},
        {"codec": "java_float"},
        {"codec": "java_time", "unit": "ms", "signed": False},
        {"codec": "ordered_int"},
        {"codec": "ordered_float"},
        {"codec": "phoenix_unsigned"},
        {"codec": "phoenix_float"},
    ],
    ids=lambda spec: spec["codec"],
)
def test_a_description_with_another_number_of_bits_is_unknown(spec: dict[str, Any], bits: Any) -> None:
    assert isinstance(codec_of({**spec, "bits": bits}), UnknownCodec)


@pytest.mark.parametrize("codec", ["float", "phoenix_float"])
def test_floats_have_32_or_64_bits(codec: str) -> None:
    assert isinstance(codec_of({"codec": codec, "bits": 16}), UnknownCodec)
    assert codec_of({"codec": codec, "bits": 64}).decode(bytes.fromhex("c000000000000000")) is not None


def test_a_description_with_something_else_in_place_of_a_number_is_unknown() -> None:
    assert isinstance(codec_of({"codec": "int", "bits": 64, "signed": {"x": 1}}), UnknownCodec)
