"""Writes and reads one field at its place in a key, and computes the exact key ranges of its values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from attrs import field, frozen

from hbmodel.encoding.bounds import UNSET, Bounds
from hbmodel.encoding.codecs import JSON, Codec, Order
from hbmodel.encoding.codecs.base import COMPLEMENT, below, declared_codec, source_of
from hbmodel.encoding.codecs.text import BytesCodec, TextCodec
from hbmodel.encoding.codegen import UNSIGNED, Code, complement, pack_word
from hbmodel.errors import DeclarationError, DecodingError, EncodingError, HbmodelError, QueryError
from hbmodel.store.ranges import KeyRange

NONE, SOME = b"\x00", b"\x01"
"""The byte for None, and the byte before a value, in a nullable field."""

EMPTY_RANGE: Final = KeyRange(b"", b"")


def _key_codec(codec: Any) -> Any:
    if not declared_codec(codec).key:
        raise DeclarationError(
            "This codec is for columns and cannot be part of a key: use a scalar codec.", codec=type(codec).__name__
        )
    return codec


@frozen
class KeyField:
    """One field of a key.

    Attributes:
        desc: whether the largest value comes first. In this case every byte is complemented.
        nullable: whether None is allowed. In this case None is stored as 00, and 01 precedes each value. So None comes
            before all values, or after them if `desc` is True.
    """

    name: str
    codec: Codec[Any] = field(converter=_key_codec)
    desc: bool = False
    nullable: bool = False

    @property
    def spec(self) -> dict[str, JSON]:
        """The field as canonical JSON."""
        return {"name": self.name, "codec": self.codec.spec, "desc": self.desc, "nullable": self.nullable}


Encode = Callable[[Any], bytes]
DecodePart = Callable[[bytes, int], tuple[Any, int]]
DecodeUnterminated = Callable[[bytes], Any]


def _nullable_encode(encode: Encode) -> Encode:
    def encode_or_none(value: Any) -> bytes:
        return NONE if value is None else SOME + encode(value)

    return encode_or_none


def _complemented(encode: Encode) -> Encode:
    def encode_descending(value: Any) -> bytes:
        return encode(value).translate(COMPLEMENT)

    return encode_descending


def _nullable_decode_part(decode: DecodePart) -> DecodePart:
    def decode_or_none(data: bytes, start: int) -> tuple[Any, int]:
        marker = data[start : start + 1]
        if marker == SOME:
            return decode(data, start + 1)
        if marker == NONE:
            return None, start + 1
        raise DecodingError("A nullable field must begin with 00 or 01.")

    return decode_or_none


def _nullable_decode_unterminated(decode: DecodeUnterminated) -> DecodeUnterminated:
    def decode_or_none(data: bytes) -> Any:
        if data[:1] == SOME:
            return decode(data[1:])
        if data == NONE:
            return None
        raise DecodingError("A nullable field must be 00 alone, or 01 and a value.")

    return decode_or_none


def named(error: HbmodelError, name: str) -> HbmodelError:
    """Returns a copy of a codec's error with the name of the field added, because the codec does not have that name."""
    return type(error)(error.message, **{**error.details, "field": name})


def _reverse(order: Order) -> Order:
    if order is None:
        return None
    return "descending" if order == "ascending" else "ascending"


@frozen
class CompiledKeyField:
    """A field at its place in a key, with the functions that encode and decode it.

    The attribute `unterminated` says whether the field ascends and is the last one in the key, so that its bytes need
    no terminator.
    """

    of: KeyField
    unterminated: bool
    order: Order
    encode: Encode
    decode_part: DecodePart
    decode_unterminated: DecodeUnterminated

    @classmethod
    def build(cls, key_field: KeyField, last: bool) -> CompiledKeyField:
        """Resolves a field. The argument `last` says that the key ends with the field."""
        codec, unterminated = key_field.codec, last and not key_field.desc
        encode: Encode = codec.encode if unterminated or codec.width is not None else codec.encode_part
        decode_part: DecodePart = codec.decode_part
        decode_unterminated: DecodeUnterminated = codec.decode
        if key_field.nullable:
            encode, decode_part, decode_unterminated = (
                _nullable_encode(encode),
                _nullable_decode_part(decode_part),
                _nullable_decode_unterminated(decode_unterminated),
            )
        if key_field.desc:
            encode = _complemented(encode)
        order = codec.raw_order if unterminated else codec.order
        return cls(
            key_field,
            unterminated,
            _reverse(order) if key_field.desc else order,
            encode,
            decode_part,
            decode_unterminated,
        )

    @property
    def word(self) -> str | None:
        """The field's format in `struct`'s notation if generated code can read its bytes as one number, else None."""
        source = source_of(self.of.codec)
        if source is None or source.word is None or self.of.nullable or (self.of.desc and source.word not in UNSIGNED):
            return None
        return source.word

    @property
    def inline(self) -> bool:
        """Whether generated code can write the field without a call."""
        source = source_of(self.of.codec)
        if source is None or self.of.nullable:
            return False
        return self.word is not None or self.unterminated or source.part is not None

    @property
    def raw(self) -> bool:
        """Whether generated code can find the end of the field's raw form in a key without a call: text or bytes of
        any length.
        """
        return type(self.of.codec) in (TextCodec, BytesCodec) and not self.of.nullable

    def packed(self, code: Code, value: str) -> str:
        """Returns a Python expression for the field's bytes, given an expression for its value. If the field is
        `inline`, the value must have the type that the codec's source accepts.
        """
        source = source_of(self.of.codec)
        if not self.inline or source is None:
            return f"{code.name(self.encode)}({value})"
        if self.word is not None:
            return f"{code.name(pack_word(self.word))}({self.number(code, value)})"
        if self.unterminated or source.part is None:
            return code.encode(self.of.codec, value)
        part = code.fill(source.part, source, value)
        return f"{part}.translate({code.name(COMPLEMENT)})" if self.of.desc else part

    def number(self, code: Code, value: str) -> str:
        """Returns a Python expression for the field as a number, given an expression for a value that the codec's
        source accepts.
        """
        source = source_of(self.of.codec)
        assert source is not None
        assert self.word is not None
        number = code.fill(source.encode, source, value)
        return complement(self.word, f"({number})") if self.of.desc else number

    def unpacked(self, code: Code, number: str) -> str:
        """Returns a Python expression for the field's value, given an expression for the number that was read as
        `word`.
        """
        source = source_of(self.of.codec)
        assert source is not None
        assert self.word is not None
        return code.fill(source.decode, source, complement(self.word, number) if self.of.desc else number)

    def pack(self, value: Any) -> bytes:
        """Returns the field's bytes. Errors contain the name of the field."""
        try:
            return self.encode(value)
        except EncodingError as error:
            raise named(error, self.of.name) from None

    def range(self, prefix: bytes, bounds: Bounds) -> KeyRange:
        """Returns the keys that begin with `prefix` and continue with a value of this field within `bounds`."""
        if bounds.only_none:
            return self._exactly(prefix, None) if self.of.nullable else EMPTY_RANGE
        try:
            if self._one_value(bounds):
                floor, exact = below(self.of.codec, bounds.low)
                key_range = self._exactly(prefix, floor) if exact else EMPTY_RANGE
            else:
                key_range = self._between(prefix, bounds)
            return key_range if bounds.prefix is UNSET else key_range.intersect(self._starting(prefix, bounds.prefix))
        except (EncodingError, QueryError) as error:
            raise named(error, self.of.name) from None

    def _one_value(self, bounds: Bounds) -> bool:
        if bounds.low is UNSET or bounds.high is UNSET or not (bounds.low_inclusive and bounds.high_inclusive):
            return False
        if bounds.low is bounds.high:
            return True
        try:
            return self.of.codec.encode(bounds.low) == self.of.codec.encode(bounds.high)
        except EncodingError:
            return False

    def keys_of(self, packed: bytes) -> KeyRange:
        """Returns the range of keys that begin with the bytes of one value. If no other value can lie between this
        value and the next one, the range ends where the range of the next value begins.
        """
        return (
            KeyRange.exactly(packed) if self.unterminated and self.of.codec.width is None else KeyRange.prefix(packed)
        )

    def _exactly(self, prefix: bytes, value: Any) -> KeyRange:
        key = prefix + self.encode(value)
        return KeyRange.exactly(key) if self.unterminated else KeyRange.prefix(key)

    def _around(self, prefix: bytes, value: Any) -> KeyRange:
        # Like `_exactly`, but if no value can lie between this value and the next one, the range ends at the next
        # value, so that bounds are short.
        return (
            KeyRange.prefix(prefix + self.encode(value))
            if self.of.codec.width is not None
            else self._exactly(prefix, value)
        )

    def _marker(self) -> bytes:
        if not self.of.nullable:
            return b""
        return SOME.translate(COMPLEMENT) if self.of.desc else SOME

    def _between(self, prefix: bytes, bounds: Bounds) -> KeyRange:
        key_range = KeyRange.prefix(prefix + self._marker())
        if bounds.low is UNSET and bounds.high is UNSET:
            return key_range
        if self.order is None:
            raise QueryError(
                "The bytes of this field do not keep the order of its values, so it has no ranges: "
                "compare with == or in_."
            )
        for value, inclusive, is_low in (
            (bounds.low, bounds.low_inclusive, True),
            (bounds.high, bounds.high_inclusive, False),
        ):
            if value is not UNSET:
                key_range = key_range.intersect(self._side(prefix, value, inclusive, is_low))
        return key_range

    def _side(self, prefix: bytes, value: Any, inclusive: bool, is_low: bool) -> KeyRange:
        # A bound between two storable values lies just above the lower one.
        floor, exact = below(self.of.codec, value)
        if floor is None:
            return KeyRange() if is_low else EMPTY_RANGE
        if not exact:
            inclusive = not is_low
        around = self._around(prefix, floor)
        if is_low == (self.order == "ascending"):
            # The keys above the bound begin at the successor of the bound's own keys. Without a successor there are no
            # keys above the bound.
            return (
                KeyRange(around.start, None)
                if inclusive
                else (EMPTY_RANGE if around.stop is None else KeyRange(around.stop, None))
            )
        return KeyRange(b"", around.stop if inclusive else around.start)

    def _starting(self, prefix: bytes, wanted: Any) -> KeyRange:
        codec = self.of.codec
        shared = codec.raw_prefix(wanted) if self.unterminated else codec.encode_prefix(wanted)
        if shared is None:
            return EMPTY_RANGE
        return KeyRange.prefix(prefix + self._marker() + (shared.translate(COMPLEMENT) if self.of.desc else shared))
