"""Builds a codec from its description in the registry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from attrs import field, frozen

from hbmodel.encoding.codecs.addresses import IPAddress, IPv4, IPv6
from hbmodel.encoding.codecs.base import JSON, Codec
from hbmodel.encoding.codecs.booleans import Bool
from hbmodel.encoding.codecs.decimals import DecimalNumber
from hbmodel.encoding.codecs.dictionary import Dictionary
from hbmodel.encoding.codecs.floats import Float64
from hbmodel.encoding.codecs.integers import IntCodec
from hbmodel.encoding.codecs.java import JavaIntCodec, JavaUTF, ReverseStampCodec, ReverseStampInt
from hbmodel.encoding.codecs.number_text import DecimalText, Delimited, HexText
from hbmodel.encoding.codecs.structured import Json, MsgPack
from hbmodel.encoding.codecs.text import Bytes, Text, to_bytes
from hbmodel.encoding.codecs.times import Date, Datetime, Duration
from hbmodel.encoding.codecs.unordered import DigestPrefixed, Reversed, ReversedDigits
from hbmodel.encoding.codecs.uuids import UUID128
from hbmodel.errors import DeclarationError

Spec = Mapping[str, Any]


@frozen
class UnknownCodec(Codec[bytes]):
    """A custom codec of some program, of which only the description is known: its values are the stored bytes. Not for keys.

    Args:
        described: the program's description of it.
    """

    described: Spec = field(eq=lambda spec: sorted(spec.items()))

    python_type = bytes
    order = None
    raw_order = None
    key = False
    may_be_empty = True

    def encode(self, value: bytes) -> bytes:
        """The bytes, unchanged."""
        return to_bytes(value)

    def decode(self, data: bytes) -> bytes:
        """The bytes, unchanged."""
        return data

    @property
    def spec(self) -> dict[str, JSON]:
        """The program's description."""
        return dict(self.described)


def _int(spec: Spec) -> Codec[Any]:
    return IntCodec(spec["bits"], spec["signed"])


def _ip(spec: Spec) -> Codec[Any]:
    known: dict[int | None, Codec[Any]] = {None: IPAddress, 4: IPv4, 6: IPv6}
    return known[spec.get("version")]


def _dictionary(spec: Spec) -> Codec[Any]:
    return Dictionary(spec["name"], codec_of(spec["ids"]))


def _digest_prefixed(spec: Spec) -> Codec[Any]:
    return DigestPrefixed(codec_of(spec["of"]), spec["length"], spec["algorithm"], spec["hex"])


_KNOWN: Final[Mapping[str, Callable[[Spec], Codec[Any]]]] = {
    "int": _int,
    "float": lambda _: Float64,
    "decimal": lambda _: DecimalNumber,
    "bool": lambda _: Bool,
    "uuid": lambda _: UUID128,
    "date": lambda _: Date,
    "datetime": lambda spec: Datetime(spec["unit"]),
    "duration": lambda _: Duration,
    "text": lambda spec: Text(spec["width"]) if "width" in spec else Text,
    "bytes": lambda spec: Bytes(spec["width"]) if "width" in spec else Bytes,
    "ip": _ip,
    "java_int": lambda spec: JavaIntCodec(spec["bits"]),
    "java_utf": lambda _: JavaUTF,
    "reverse_long": lambda _: ReverseStampInt,
    "reverse_stamp": lambda spec: ReverseStampCodec(spec["unit"]),
    "decimal_text": lambda spec: DecimalText(spec["width"]),
    "hex_text": lambda spec: HexText(spec["width"]),
    "delimited": lambda spec: Delimited(bytes.fromhex(spec["delimiter"])),
    "reversed": lambda spec: Reversed(codec_of(spec["of"])),
    "reversed_digits": lambda spec: ReversedDigits(spec["width"]),
    "digest_prefixed": _digest_prefixed,
    "dictionary": _dictionary,
    "json": lambda _: Json(Any),
    "msgpack": lambda _: MsgPack(Any),
}


def codec_of(spec: Spec) -> Codec[Any]:
    """The codec that writes the bytes of a description: for an enumeration the codec of its values, for a structured one any type.

    A description of a codec that is not in this library gives an `UnknownCodec`.
    """
    make = _KNOWN.get(spec.get("codec", ""))
    try:
        made = None if make is None else make(spec)
    except (KeyError, TypeError, ValueError, DeclarationError):
        made = None
    return made if made is not None and made.spec == spec else UnknownCodec(spec)
