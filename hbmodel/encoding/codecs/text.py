"""Text (UTF-8) and bytes: of any length, with an order-preserving terminator if another field follows, or of fixed
width.
"""

from __future__ import annotations

from attrs import field, frozen

from hbmodel.encoding.codecs.base import (
    JSON,
    Codec,
    DefaultCodecs,
    FixedWidth,
    Source,
    SpecReaders,
    T,
    declared_width,
    wrong_type,
    wrong_width,
)
from hbmodel.errors import DecodingError, EncodingError, QueryError

TERMINATOR = b"\x00\x01"
ESCAPED_ZERO = b"\x00\xff"


def escape(data: bytes) -> bytes:
    """Replaces each byte 00 with 00 FF. If the terminator 00 01 is appended to the result, the original order is
    preserved.
    """
    return data.replace(b"\x00", ESCAPED_ZERO)


def terminated(data: bytes) -> bytes:
    """Returns the escaped data with the terminator."""
    return (escape(data) if b"\x00" in data else data) + TERMINATOR


def unescape_part(data: bytes, start: int) -> tuple[bytes, int]:
    """Decodes escaped data up to the terminator. Returns the original data, and the position after the terminator."""
    # Every 00 inside is followed by FF, so the first 00 01 is the terminator.
    end = data.find(TERMINATOR, start)
    if end < 0:
        raise DecodingError("A field of variable length has no terminator.")
    part = data[start:end]
    if b"\x00" in part:
        plain = part.replace(ESCAPED_ZERO, b"\x00")
        if len(part) - len(plain) != part.count(b"\x00"):
            raise DecodingError("A field of variable length contains an unescaped zero byte.")
        return plain, end + 2
    return part, end + 2


def to_utf8(value: str) -> bytes:
    """Returns the UTF-8 bytes of a str. A lone surrogate is an error."""
    if not isinstance(value, str):
        raise wrong_type(str, value)
    try:
        return str.encode(value)
    except UnicodeEncodeError:
        raise EncodingError("Text with a lone surrogate cannot be encoded as UTF-8: remove the surrogate.") from None


def from_utf8(data: bytes) -> str:
    """Decodes strict UTF-8."""
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError:
        raise DecodingError("Stored bytes are not UTF-8.") from None


def to_bytes(value: bytes) -> bytes:
    """Checks that a value is plain bytes. Mutable buffers are refused."""
    if type(value) is bytes:
        return value
    if not isinstance(value, bytes):
        raise wrong_type(bytes, value)
    return bytes(value)


def pad(data: bytes, width: int) -> bytes:
    """`data` padded with 00 to `width`."""
    if len(data) > width:
        raise EncodingError(
            "A value is longer than the fixed width of its codec: shorten it, or declare a wider codec for a new "
            "table.",
            width=width,
            found=len(data),
        )
    if data.endswith(b"\x00"):
        raise EncodingError(
            "A value that ends in a zero byte cannot be stored, because the zero looks like padding: use hb.Text or "
            "hb.Bytes(n)."
        )
    return data.ljust(width, b"\x00")


def unpad(data: bytes, width: int) -> bytes:
    """`data` without the padding of `pad`."""
    if len(data) != width:
        raise wrong_width(width, len(data))
    return data.rstrip(b"\x00")


def fixed_prefix(data: bytes, width: int) -> bytes | None:
    """`data` as a prefix of values padded to `width`, or None if `data` is longer than `width`."""
    if data.endswith(b"\x00"):
        # The padding of shorter values may begin with these bytes too.
        raise QueryError(
            "Padded values cannot be searched by a prefix that ends in a zero byte: search without "
            "the zero, or by a range."
        )
    return data if len(data) <= width else None


class _Terminated(Codec[T]):
    # Text and bytes have the same raw and part forms. They differ only in the conversion of values to bytes.
    __slots__ = ()

    may_be_empty = True

    def encode_part(self, value: T) -> bytes:
        return terminated(self.encode(value))

    def decode_part(self, data: bytes, start: int) -> tuple[T, int]:
        part, end = unescape_part(data, start)
        return self.decode(part), end

    def part_end(self, data: bytes, start: int) -> int:
        return unescape_part(data, start)[1]

    def encode_prefix(self, prefix: T) -> bytes:
        return escape(self.encode(prefix))

    def raw_prefix(self, prefix: T) -> bytes:
        return self.encode(prefix)


@frozen
class TextCodec(_Terminated[str]):
    """Text as UTF-8. The order of the bytes is the order of the code points, by which Python compares text.

    The raw form is the bytes unchanged. In the part form, 00 becomes 00 FF, and the terminator 00 01 follows. For a
    fixed width, call the codec with the width: `Text(8)`.
    """

    python_type = str

    def __call__(self, width: int) -> FixedText:
        """Text of a fixed width, counted in bytes of UTF-8 and not in characters."""
        return FixedText(width)

    def encode(self, value: str) -> bytes:
        return to_utf8(value)

    def decode(self, data: bytes) -> str:
        return from_utf8(data)

    @property
    def source(self) -> Source | None:
        return Source(
            str, "{v}.decode()", "{v}.encode()", part="{escaped}({v}.encode())", scope={"escaped": terminated}
        )

    @property
    def spec(self) -> dict[str, JSON]:
        return {"codec": "text"}


@frozen
class BytesCodec(_Terminated[bytes]):
    """Bytes. The raw form is the bytes unchanged. In the part form, 00 becomes 00 FF, and the terminator 00 01 follows.
    For values of one fixed length, call the codec with the length: `Bytes(8)`.
    """

    python_type = bytes

    def __call__(self, width: int) -> FixedBytes:
        """Bytes of exactly this length."""
        return FixedBytes(width)

    def encode(self, value: bytes) -> bytes:
        return to_bytes(value)

    def decode(self, data: bytes) -> bytes:
        return data

    @property
    def source(self) -> Source | None:
        return Source(bytes, "{v}", "{v}", part="{escaped}({v})", scope={"escaped": terminated})

    @property
    def spec(self) -> dict[str, JSON]:
        return {"codec": "bytes"}


@frozen
class FixedText(FixedWidth[str]):
    """Text as UTF-8, padded with 00 to `width` bytes. Text that is longer or ends in 00 is refused."""

    width: int = field(converter=declared_width)

    python_type = str

    def encode(self, value: str) -> bytes:
        return pad(to_utf8(value), self.width)

    def decode(self, data: bytes) -> str:
        return from_utf8(unpad(data, self.width))

    def encode_prefix(self, prefix: str) -> bytes | None:
        return fixed_prefix(to_utf8(prefix), self.width)

    @property
    def spec(self) -> dict[str, JSON]:
        return {"codec": "text", "width": self.width}


@frozen
class FixedBytes(FixedWidth[bytes]):
    """Exactly `width` bytes, unchanged: digests, packed numbers, the ids of other programs. Values of a different
    length are refused.
    """

    width: int = field(converter=declared_width)

    python_type = bytes

    def encode(self, value: bytes) -> bytes:
        data = to_bytes(value)
        if len(data) != self.width:
            raise EncodingError(
                "A value does not have the length that its codec declares: give exactly that many bytes, or declare "
                "hb.Bytes, or hb.codecs.PaddedBytes(n) for shorter values that are padded with zeros.",
                width=self.width,
                found=len(data),
            )
        return data

    def decode(self, data: bytes) -> bytes:
        if len(data) != self.width:
            raise wrong_width(self.width, len(data))
        return data

    def encode_prefix(self, prefix: bytes) -> bytes | None:
        return data if len(data := to_bytes(prefix)) <= self.width else None

    def floor(self, value: bytes) -> bytes | None:
        data = to_bytes(value)
        if len(data) >= self.width:
            return value if len(data) == self.width else data[: self.width]
        # All values that begin with `data` are above `data`, so the floor is the value just before the first of these
        # values.
        first = int.from_bytes(data.ljust(self.width, b"\x00"), "big")
        return (first - 1).to_bytes(self.width, "big") if first else None

    @property
    def spec(self) -> dict[str, JSON]:
        return {"codec": "bytes", "width": self.width}


@frozen
class PaddedBytes(FixedWidth[bytes]):
    """Up to `width` bytes, padded with 00. Longer values, and values that end in 00, are refused.

    The registry does not distinguish this codec from `Bytes(width)`, because both store `width` bytes in the same
    order. Only the Python values differ: those of this codec do not have the zeros at the end.
    """

    width: int = field(converter=declared_width)

    python_type = bytes

    def encode(self, value: bytes) -> bytes:
        return pad(to_bytes(value), self.width)

    def decode(self, data: bytes) -> bytes:
        return unpad(data, self.width)

    def encode_prefix(self, prefix: bytes) -> bytes | None:
        return fixed_prefix(to_bytes(prefix), self.width)

    @property
    def spec(self) -> dict[str, JSON]:
        return {"codec": "bytes", "width": self.width}


Text = TextCodec()
Bytes = BytesCodec()

DEFAULTS: DefaultCodecs = {str: Text, bytes: Bytes}
SPECS: SpecReaders = {
    "text": lambda spec, codec_of: Text(spec["width"]) if "width" in spec else Text,
    "bytes": lambda spec, codec_of: Bytes(spec["width"]) if "width" in spec else Bytes,
}
