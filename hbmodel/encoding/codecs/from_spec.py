"""Builds a codec from its description in the registry."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from hbmodel.encoding.codecs.base import JSON, Codec
from hbmodel.encoding.codecs.integers import BITS
from hbmodel.encoding.codecs.library import READERS
from hbmodel.encoding.codecs.text import to_bytes
from hbmodel.errors import DeclarationError

Spec = Mapping[str, Any]


@frozen
class UnknownCodec(Codec[bytes]):
    """Replaces a custom codec of another program if only the description of that codec is known. The values of the
    replacement are the stored bytes. It cannot be used in keys.
    """

    described: Spec = field(eq=lambda spec: json.dumps(spec, sort_keys=True))

    python_type = bytes
    order = None
    raw_order = None
    key = False
    may_be_empty = True

    def encode(self, value: bytes) -> bytes:
        return to_bytes(value)

    def decode(self, data: bytes) -> bytes:
        return data

    @property
    def spec(self) -> dict[str, JSON]:
        return dict(self.described)


def codec_of(spec: Spec) -> Codec[Any]:
    """Returns the codec that a description specifies. For an enumeration, this is the codec of the values of the
    members. For a structured codec, values may have any type.

    If the described codec is not in this library, the result is an `UnknownCodec`.
    """
    read = READERS.get(spec.get("codec", ""))
    if type(bits := spec.get("bits", 64)) is not int or bits not in BITS:
        read = None  # the description is damaged: some codecs would notice this only with the first value
    try:
        codec = None if read is None else read(spec, codec_of)
        hash(codec)  # if a description has lists or objects in place of numbers, the codec may not be hashable
    except (KeyError, TypeError, ValueError, DeclarationError):
        codec = None
    return codec if codec is not None and codec.spec == spec else UnknownCodec(spec)
