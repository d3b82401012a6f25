"""Row-key layout: key fields packed one behind the other so that byte order is the declared order, and exact ranges of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from attrs import Factory, field, frozen

from hbmodel.bounds import UNSET, Bounds
from hbmodel.codecs import JSON, Codec, Order
from hbmodel.codecs.base import declared_codec
from hbmodel.errors import DeclarationError, DecodingError, EncodingError, HbmodelError, IncompleteKey, KeyTooLong, QueryError, RowKeyError
from hbmodel.ranges import KeyRange

__all__ = ["KEY_FORMAT", "MAX_KEY_LENGTH", "UNSET", "Bounds", "KeyField", "KeyLayout", "check_length"]

KEY_FORMAT: Final = 1
"""Version of the byte layout of keys; part of every layout's `spec`."""

MAX_KEY_LENGTH: Final = 32_767
"""Longest row key that HBase stores, in bytes (`HConstants.MAX_ROW_LENGTH`)."""

COMPLEMENT: Final = bytes(range(255, -1, -1))
"""Translation table that flips every bit."""

NONE, SOME = b"\x00", b"\x01"
"""What stands for None, and before a value, in a nullable field."""

EMPTY_RANGE: Final = KeyRange(b"", b"")


def _key_codec(codec: Any) -> Any:
    if not declared_codec(codec).key:
        raise DeclarationError("This codec is for columns: its values have no form that can be part of a key.", codec=type(codec).__name__)
    return codec


@frozen
class KeyField:
    """One field of a key.

    Attributes:
        name: of the model's field.
        codec: of its values.
        desc: whether the largest value comes first: every byte is complemented.
        nullable: whether None is allowed: 00 for None, 01 before a value, so None comes first (last if `desc`).
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
DecodeRaw = Callable[[bytes], Any]


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
        raise DecodingError("A nullable field begins with 00 or 01.")

    return decode_or_none


def _nullable_decode_raw(decode: DecodeRaw) -> DecodeRaw:
    def decode_or_none(data: bytes) -> Any:
        if data[:1] == SOME:
            return decode(data[1:])
        if data == NONE:
            return None
        raise DecodingError("A nullable field is 00 alone, or 01 and a value.")

    return decode_or_none


def _named(error: HbmodelError, name: str) -> HbmodelError:
    # Codecs do not know which field they write; the message is theirs, the name is added here.
    return type(error)(error.message, **{**error.details, "field": name})


def _reverse(order: Order) -> Order:
    if order is None:
        return None
    return "descending" if order == "ascending" else "ascending"


@frozen
class _Slot:
    """A field at its place in a key, with its functions resolved once.

    `raw` says that nothing follows it and that it ascends, so that its form needs no end of its own.
    """

    of: KeyField
    raw: bool
    order: Order
    encode: Encode
    decode_part: DecodePart
    decode_raw: DecodeRaw

    @classmethod
    def build(cls, of: KeyField, last: bool) -> _Slot:
        codec, raw = of.codec, last and not of.desc
        encode: Encode = codec.encode if raw or codec.width is not None else codec.encode_part
        decode_part: DecodePart = codec.decode_part
        decode_raw: DecodeRaw = codec.decode
        if of.nullable:
            encode, decode_part, decode_raw = _nullable_encode(encode), _nullable_decode_part(decode_part), _nullable_decode_raw(decode_raw)
        if of.desc:
            encode = _complemented(encode)
        order = codec.raw_order if raw else codec.order
        return cls(of, raw, _reverse(order) if of.desc else order, encode, decode_part, decode_raw)

    def pack(self, value: Any) -> bytes:
        """The field's bytes; an error carries its name."""
        try:
            return self.encode(value)
        except EncodingError as error:
            raise _named(error, self.of.name) from None

    def range(self, prefix: bytes, bounds: Bounds) -> KeyRange:
        """The keys that begin with `prefix` and go on with a value of this field within `bounds`."""
        if bounds.only_none:
            return self._exactly(prefix, None) if self.of.nullable else EMPTY_RANGE
        try:
            if bounds.fixed:
                floor = self.of.codec.floor(bounds.low)
                found = self._exactly(prefix, floor) if floor is not None and floor == bounds.low else EMPTY_RANGE
            else:
                found = self._between(prefix, bounds)
            return found if bounds.prefix is UNSET else found.intersect(self._starting(prefix, bounds.prefix))
        except (EncodingError, QueryError) as error:
            raise _named(error, self.of.name) from None

    def _exactly(self, prefix: bytes, value: Any) -> KeyRange:
        key = prefix + self.encode(value)
        return KeyRange.exactly(key) if self.raw else KeyRange.prefix(key)

    def _around(self, prefix: bytes, value: Any) -> KeyRange:
        # As `_exactly`, but ends before the next value wherever there is none between, so that bounds are short.
        return KeyRange.prefix(prefix + self.encode(value)) if self.of.codec.width is not None else self._exactly(prefix, value)

    def _marker(self) -> bytes:
        if not self.of.nullable:
            return b""
        return SOME.translate(COMPLEMENT) if self.of.desc else SOME

    def _between(self, prefix: bytes, bounds: Bounds) -> KeyRange:
        found = KeyRange.prefix(prefix + self._marker())
        if bounds.low is UNSET and bounds.high is UNSET:
            return found
        if self.order is None:
            raise QueryError("The bytes of this field do not keep the order of its values, so they have no ranges.")
        for value, inclusive, is_low in ((bounds.low, bounds.low_inclusive, True), (bounds.high, bounds.high_inclusive, False)):
            if value is not UNSET:
                found = found.intersect(self._side(prefix, value, inclusive, is_low))
        return found

    def _side(self, prefix: bytes, value: Any, inclusive: bool, is_low: bool) -> KeyRange:
        # A bound between two storable values lies just above the lower one.
        floor = self.of.codec.floor(value)
        if floor is None:
            return KeyRange() if is_low else EMPTY_RANGE
        if floor != value:
            inclusive = not is_low
        around = self._around(prefix, floor)
        if is_low == (self.order == "ascending"):
            # The keys above: those of the bound itself have a successor or else nothing is above them.
            return KeyRange(around.start, None) if inclusive else (EMPTY_RANGE if around.stop is None else KeyRange(around.stop, None))
        return KeyRange(b"", around.stop if inclusive else around.start)

    def _starting(self, prefix: bytes, wanted: Any) -> KeyRange:
        codec = self.of.codec
        shared = codec.raw_prefix(wanted) if self.raw else codec.encode_prefix(wanted)
        if shared is None:
            return EMPTY_RANGE
        return KeyRange.prefix(prefix + self._marker() + (shared.translate(COMPLEMENT) if self.of.desc else shared))


def _compile_pack(slots: Sequence[_Slot]) -> Callable[[Sequence[object]], list[bytes]]:
    # Keys are packed and unpacked for every row, and straight code takes two thirds of the time of a loop over the fields.
    names = [f"v{i}" for i in range(len(slots))]
    lines = ["def pack(values):", f"    {', '.join(names)}, = values", f"    return [{', '.join(f'encode_{n}({n})' for n in names)}]"]
    scope: dict[str, Any] = {f"encode_{n}": slot.encode for n, slot in zip(names, slots, strict=True)}
    exec("\n".join(lines), scope)
    pack: Callable[[Sequence[object]], list[bytes]] = scope["pack"]
    return pack


def _wrong_end(expected: int, found: int) -> DecodingError:
    return DecodingError("A stored key is longer or shorter than its fields.", expected=expected, found=found)


def _compile_unpack(slots: Sequence[_Slot], tail: int) -> Callable[[bytes, int], tuple[Any, ...]]:
    lines = ["def unpack(data, start):"]
    scope: dict[str, Any] = {"complement": COMPLEMENT, "wrong_end": _wrong_end}
    if any(slot.of.desc for slot in slots):
        lines.append("    flipped = data.translate(complement)")
    for i, slot in enumerate(slots):
        if slot.raw:
            scope[f"decode_v{i}"] = slot.decode_raw
            lines.append(f"    v{i} = decode_v{i}(data[start:])")
        else:
            scope[f"decode_v{i}"] = slot.decode_part
            lines.append(f"    v{i}, start = decode_v{i}({'flipped' if slot.of.desc else 'data'}, start)")
    if not slots[-1].raw:
        lines.append(f"    if start != len(data) - {tail}: raise wrong_end(start, len(data) - {tail})")
    lines.append(f"    return ({', '.join(f'v{i}' for i in range(len(slots)))},)")
    exec("\n".join(lines), scope)
    unpack: Callable[[bytes, int], tuple[Any, ...]] = scope["unpack"]
    return unpack


def _fields(fields: Iterable[KeyField]) -> tuple[KeyField, ...]:
    found = tuple(fields)
    names = [f.name for f in found]
    if not found:
        raise DeclarationError("A key needs at least one field.")
    if len(set(names)) < len(names):
        raise DeclarationError("The fields of a key need different names.", fields=names)
    return found


def _slots(layout: KeyLayout) -> tuple[_Slot, ...]:
    last = -1 if layout.tail else len(layout.fields) - 1
    return tuple(_Slot.build(of, i == last) for i, of in enumerate(layout.fields))


@frozen
class KeyLayout:
    """The fields of a key in order, compiled for packing and unpacking. Salts come before them and are not its business.

    Every field says by itself where it ends, but for a last ascending one, which ends with the key.

    Attributes:
        fields: at least one, with different names.
        tail: number of bytes of something else that follow the fields (the bucket byte at the end of an index entry of a
            randomly salted model); then no field counts as last.
        names: of the fields.
    """

    fields: tuple[KeyField, ...] = field(converter=_fields)
    tail: int = 0
    names: tuple[str, ...] = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: tuple(f.name for f in self.fields), takes_self=True)
    )
    _slots: tuple[_Slot, ...] = field(init=False, eq=False, repr=False, default=Factory(_slots, takes_self=True))
    _pack: Callable[[Sequence[object]], list[bytes]] = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: _compile_pack(self._slots), takes_self=True)
    )
    _unpack: Callable[[bytes, int], tuple[Any, ...]] = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: _compile_unpack(self._slots, self.tail), takes_self=True)
    )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.fields, self.tail)

    @property
    def spec(self) -> dict[str, JSON]:
        """The layout as canonical JSON."""
        return {"format": KEY_FORMAT, "fields": [f.spec for f in self.fields], "tail": self.tail}

    def pack_parts(self, values: Sequence[object]) -> list[bytes]:
        """The bytes of each field as they stand in this key, in order.

        Raises:
            IncompleteKey: there are fewer values than fields.
            EncodingError: a value cannot be stored exactly; `field` names the field.
        """
        try:
            return self._pack(values)
        except ValueError:
            # Of another number of values than fields, or an encoding error, which does not know its field.
            if len(values) != len(self._slots):
                raise self._wrong_count(values) from None
            return [slot.pack(value) for slot, value in zip(self._slots, values, strict=True)]

    def pack(self, values: Sequence[object]) -> bytes:
        """The key, without salt and tail; errors as `pack_parts`."""
        return b"".join(self.pack_parts(values))

    def pack_leading(self, values: Sequence[object]) -> list[bytes]:
        """The bytes of the first fields only, as many as there are values; errors as `pack_parts`."""
        if len(values) > len(self._slots):
            raise self._wrong_count(values)
        return [slot.pack(value) for slot, value in zip(self._slots, values, strict=False)]

    def pack_field(self, position: int, value: object) -> bytes:
        """The bytes of one field at its place in this key; raises `EncodingError` with its name."""
        return self._slots[position].pack(value)

    def _wrong_count(self, values: Sequence[object]) -> RowKeyError:
        missing = self.names[len(values) :]
        if missing:
            return IncompleteKey("A key needs a value for every field.", missing=missing)
        return RowKeyError("There are more values than key fields.", fields=self.names, found=len(values))

    def unpack(self, data: bytes, start: int = 0) -> tuple[Any, ...]:
        """The values of a key, in field order.

        Args:
            data: the whole stored key; its last `tail` bytes are left alone.
            start: where the fields begin, behind the salt.

        Raises:
            DecodingError: this layout does not write such a key; `field` names the field where that shows.
        """
        try:
            return self._unpack(data, start)
        except DecodingError as error:
            raise self._located(error, data, start) from None

    def _located(self, error: DecodingError, data: bytes, start: int) -> HbmodelError:
        # Reads once more, field by field, to learn which one it is.
        flipped = data.translate(COMPLEMENT)
        for slot in self._slots:
            try:
                if slot.raw:
                    slot.decode_raw(data[start:])
                else:
                    _, start = slot.decode_part(flipped if slot.of.desc else data, start)
            except DecodingError as found:
                return _named(found, slot.of.name)
        return error

    def order_of(self, position: int) -> Order:
        """How byte order at this position follows the order of values, codec, direction and position taken into account.

        None stands before all values where the field ascends and behind them where it is declared `desc`.
        """
        return self._slots[position].order

    def range_of(self, parts: Sequence[bytes], bounds: Bounds | None = None) -> KeyRange:
        """The keys, without salt, whose leading fields have these bytes and whose next field lies within `bounds`: exactly they.

        Args:
            parts: of the leading fields, from `pack_parts` or `pack_leading`; none for all keys.
            bounds: of the field after them; without any the range is everything under the prefix. Must be None where
                `parts` are all fields; the range is then the one key (with a tail: every tail of it).

        Raises:
            QueryError: the field has no ranges, or cannot be searched by this prefix; `field` names it.
            EncodingError: a bound is of the wrong type; `field` names the field.
        """
        prefix = b"".join(parts)
        if len(parts) < len(self._slots):
            return KeyRange.prefix(prefix) if bounds is None else self._slots[len(parts)].range(prefix, bounds)
        if bounds is not None or len(parts) > len(self._slots):
            raise QueryError("Every key field is fixed already; there is no next one to bound.", fields=self.names)
        return KeyRange.prefix(prefix) if self.tail else KeyRange.exactly(prefix)


def check_length(key: bytes, *, table: str | None = None, index: str | None = None) -> None:
    """Refuses keys, salt included, that HBase would answer with nothing but "internal error".

    Raises:
        KeyTooLong: the key is empty or longer than 32,767 bytes.
    """
    if not key:
        raise KeyTooLong("A row key must not be empty.", table=table, index=index)
    if len(key) > MAX_KEY_LENGTH:
        raise KeyTooLong("A row key must not be longer than 32,767 bytes.", table=table, index=index, length=len(key))
