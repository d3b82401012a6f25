"""Booleans."""

from __future__ import annotations

from attrs import frozen

from hbmodel.encoding.codecs.base import JSON, DefaultCodecs, FixedWidth, Source, SpecReaders, wrong_type
from hbmodel.errors import DecodingError


@frozen
class BoolCodec(FixedWidth[bool]):
    """A bool as 00 or 01."""

    python_type = bool
    width = 1

    def encode(self, value: bool) -> bytes:
        if value is True:
            return b"\x01"
        if value is False:
            return b"\x00"
        raise wrong_type(bool, value)

    encode_part = encode

    def decode(self, data: bytes) -> bool:
        if data == b"\x01":
            return True
        if data == b"\x00":
            return False
        raise DecodingError("A stored bool is 00 or 01.")

    @property
    def source(self) -> Source | None:
        return Source(
            bool, "{values}[{v}]", "(b'\\x01' if {v} else b'\\x00')", scope={"values": {b"\x00": False, b"\x01": True}}
        )

    @property
    def spec(self) -> dict[str, JSON]:
        return {"codec": "bool"}


Bool = BoolCodec()

DEFAULTS: DefaultCodecs = {bool: Bool}
SPECS: SpecReaders = {"bool": lambda spec, codec_of: Bool}
