"""Codecs that spread adjacent values over a table and give up their order: reversed bytes or digits, and digests."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, TypeVar

from attrs import Factory, evolve, field, frozen

from hbmodel.encoding.codecs.base import (
    JSON,
    Codec,
    FixedWidth,
    SpecReaders,
    declared_codec,
    declared_width,
    wrong_width,
)
from hbmodel.encoding.codecs.padded_and_delimited import digits_of, number_of
from hbmodel.errors import DeclarationError, DecodingError

V = TypeVar("V")


def _separator(separator: Any) -> bytes:
    if not isinstance(separator, str | bytes):
        raise DeclarationError("The separator after a digest must be text or bytes.", found=repr(separator))
    try:
        return separator.encode() if isinstance(separator, str) else bytes(separator)
    except UnicodeEncodeError:
        raise DeclarationError("The separator after a digest is not valid text.", found=repr(separator)) from None


def _fixed(codec: Any) -> Any:
    if declared_codec(codec).width is None:
        raise DeclarationError("Only a codec of fixed width can be reversed.", codec=repr(codec))
    return codec


@frozen
class Reversed(FixedWidth[V]):
    """The bytes of a fixed-width codec in reverse order, so that consecutive numbers are stored far apart.

    Args:
        codec: the codec to reverse, e.g. `UInt64`.
    """

    codec: Codec[V] = field(converter=_fixed)
    python_type: type | tuple[type, ...] = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: self.codec.python_type, takes_self=True)
    )
    width: int = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: self.codec.width, takes_self=True)
    )
    key: bool = field(init=False, eq=False, repr=False, default=Factory(lambda self: self.codec.key, takes_self=True))

    order = None
    raw_order = None

    def encode(self, value: V) -> bytes:
        return self.codec.encode(value)[::-1]

    encode_part = encode

    def decode(self, data: bytes) -> V:
        return self.codec.decode(data[::-1])

    def floor(self, value: V) -> V | None:
        return self.codec.floor(value)

    @property
    def exact(self) -> Reversed[V]:
        return evolve(self, codec=self.codec.exact)

    def order_key(self, value: V) -> Any:
        return self.codec.order_key(value)

    @property
    def spec(self) -> dict[str, JSON]:
        return {"codec": "reversed", "of": self.codec.spec}


@frozen
class ReversedDigits(FixedWidth[int]):
    """A non-negative number as decimal text of `width` digits in reverse order: 42 as `24000000`."""

    width: int = field(converter=declared_width)

    python_type = int
    order = None
    raw_order = None

    def encode(self, value: int) -> bytes:
        return digits_of(value, self.width)[::-1]

    encode_part = encode

    def decode(self, data: bytes) -> int:
        return number_of(data[::-1], self.width)

    @property
    def spec(self) -> dict[str, JSON]:
        return {"codec": "reversed_digits", "width": self.width}


def digest_function(algorithm: str) -> Callable[[bytes], Any]:
    """Returns the constructor of a digest of fixed length.

    Raises:
        DeclarationError: `hashlib` has no digest of fixed length with that name.
    """
    try:
        size = hashlib.new(algorithm, usedforsecurity=False).digest_size
    except (ValueError, TypeError):
        size = 0
    if not size:
        raise DeclarationError(
            "There is no digest of fixed length with that name: use one of hashlib's, such as md5.", found=algorithm
        )

    def digest(data: bytes) -> Any:
        return hashlib.new(algorithm, data, usedforsecurity=False)

    return digest


@frozen
class DigestPrefixed(Codec[V]):
    """The first bytes of a digest of the value's raw form, followed by the value itself, so that it can be read back.

    Args:
        codec: the codec of the value.
        length: how many bytes (or hex digits) of the digest are stored.
        algorithm: the name of a digest in `hashlib`.
        hex: whether the digest is written as lower-case hex digits.
        separator: text or bytes between the digest and the value, such as `|`; none by default.
    """

    codec: Codec[V] = field(converter=declared_codec)
    length: int = field(default=4, converter=declared_width)
    algorithm: str = "md5"
    hex: bool = False
    separator: bytes = field(default=b"", converter=_separator)
    python_type: type | tuple[type, ...] = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: self.codec.python_type, takes_self=True)
    )
    _lead: int = field(  # the number of bytes before the value
        init=False,
        eq=False,
        repr=False,
        default=Factory(lambda self: self.length + len(self.separator), takes_self=True),
    )
    width: int | None = field(
        init=False,
        eq=False,
        repr=False,
        default=Factory(
            lambda self: None if self.codec.width is None else self._lead + self.codec.width, takes_self=True
        ),
    )
    key: bool = field(init=False, eq=False, repr=False, default=Factory(lambda self: self.codec.key, takes_self=True))
    _new: Callable[[bytes], Any] = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: digest_function(self.algorithm), takes_self=True)
    )

    order = None
    raw_order = None

    def __attrs_post_init__(self) -> None:
        if self._lead > len(self._digest(b"")):
            raise DeclarationError(
                "The digest is shorter than this length: give a smaller length, or another algorithm.",
                algorithm=self.algorithm,
                length=self.length,
            )

    def _digest(self, raw: bytes) -> bytes:
        digest = self._new(raw)
        data: bytes = digest.hexdigest().encode() if self.hex else digest.digest()
        return data[: self.length] + self.separator

    def _checked(self, value: V, digest: bytes) -> V:
        if self._digest(self.codec.encode(value)) != digest:
            raise DecodingError("A stored digest does not match the value after it.", algorithm=self.algorithm)
        return value

    def encode(self, value: V) -> bytes:
        raw = self.codec.encode(value)
        return self._digest(raw) + raw

    def decode(self, data: bytes) -> V:
        lead = self._lead
        if len(data) < lead:
            raise wrong_width(lead, len(data))
        return self._checked(self.codec.decode(data[lead:]), data[:lead])

    def encode_part(self, value: V) -> bytes:
        return self._digest(self.codec.encode(value)) + self.codec.encode_part(value)

    def decode_part(self, data: bytes, start: int) -> tuple[V, int]:
        begin = start + self._lead
        if begin > len(data):
            raise wrong_width(self._lead, len(data) - start)
        value, end = self.codec.decode_part(data, begin)
        return self._checked(value, data[start:begin]), end

    def floor(self, value: V) -> V | None:
        return self.codec.floor(value)

    @property
    def exact(self) -> DigestPrefixed[V]:
        return evolve(self, codec=self.codec.exact)

    def order_key(self, value: V) -> Any:
        return self.codec.order_key(value)

    @property
    def spec(self) -> dict[str, JSON]:
        return {
            "codec": "digest_prefixed",
            "algorithm": self.algorithm,
            "length": self.length,
            "hex": self.hex,
            **({"separator": self.separator.hex()} if self.separator else {}),
            "of": self.codec.spec,
        }


SPECS: SpecReaders = {
    "reversed": lambda spec, codec_of: Reversed(codec_of(spec["of"])),
    "reversed_digits": lambda spec, codec_of: ReversedDigits(spec["width"]),
    "digest_prefixed": lambda spec, codec_of: DigestPrefixed(
        codec_of(spec["of"]),
        spec["length"],
        spec["algorithm"],
        spec["hex"],
        separator=bytes.fromhex(spec.get("separator", "")),
    ),
}
