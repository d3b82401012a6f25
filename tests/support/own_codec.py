"""A codec that is not one of the library's."""

from __future__ import annotations

from typing import Any

from attrs import frozen

import hbmodel as hb


@frozen
class OneByte(hb.Codec[int]):
    """Numbers up to 255 as one byte. It does not say which number is its largest."""

    python_type = int
    width = 1

    def encode(self, value: int) -> bytes:
        return bytes((value,))

    encode_part = encode

    def decode(self, data: bytes) -> int:
        return data[0]

    def decode_part(self, data: bytes, start: int) -> tuple[int, int]:
        return data[start], start + 1

    @property
    def spec(self) -> dict[str, Any]:
        return {"codec": "one-byte"}
