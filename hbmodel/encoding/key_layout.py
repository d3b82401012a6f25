"""The layout of row keys: packs key fields so that the byte order of keys is the declared order, and computes exact key
ranges.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from struct import Struct
from typing import Any, Final

from attrs import Factory, field, frozen

from hbmodel.encoding.bounds import UNSET, Bounds
from hbmodel.encoding.codecs import JSON, Order
from hbmodel.encoding.codecs.base import COMPLEMENT
from hbmodel.encoding.codecs.text import TERMINATOR, unescape_part
from hbmodel.encoding.codegen import Code
from hbmodel.encoding.key_field import CompiledKeyField, KeyField, named
from hbmodel.errors import DeclarationError, DecodingError, IncompleteKey, KeyTooLong, QueryError, RowKeyError
from hbmodel.store.ranges import KeyRange
from hbmodel.store.values import MAX_ROW_LENGTH

__all__ = ["KEY_FORMAT", "UNSET", "Bounds", "KeyField", "KeyLayout", "check_length"]

KEY_FORMAT: Final = 1
"""The version of the byte layout of keys, which every layout's `spec` contains."""


def compile_pack(slots: Sequence[CompiledKeyField]) -> Callable[[Sequence[object]], list[bytes]]:
    """Makes the function that packs the values of a key."""
    # Keys are packed and unpacked for every row, and code without a loop takes a fraction of the time of a loop over
    # the fields.
    code = Code("def pack(values):")
    names = [f"v{i}" for i in range(len(slots))]
    code.add(f"{', '.join(names)}, = values")
    conditions, parts = pack_code(code, slots, names)
    if conditions:
        code.add(f"if {' and '.join(conditions)}:")
        code.add(f"return [{', '.join(parts)}]", 2)
    code.add(
        f"return [{', '.join(f'{code.name(slot.encode)}({name})' for slot, name in zip(slots, names, strict=True))}]"
    )
    return code.build()


def pack_code(code: Code, slots: Sequence[CompiledKeyField], names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Source code that packs a key: the conditions under which it may be used, and an expression for each part. The
    values of the key are in the variables `names`.
    """
    conditions = [code.accepts(slot.of.codec, name) for slot, name in zip(slots, names, strict=True) if slot.inline]
    return [c for c in conditions if c is not None], [
        slot.packed(code, name) for slot, name in zip(slots, names, strict=True)
    ]


def _wrong_end(expected: int, found: int) -> DecodingError:
    return DecodingError("A stored key is longer or shorter than its fields.", expected=expected, found=found)


def _compile_unpack(slots: Sequence[CompiledKeyField], tail: int) -> Callable[[bytes, int], tuple[Any, ...]]:
    code = Code("def unpack(data, start):")
    values = unpack_code(code, slots, tail)
    code.add(f"return ({', '.join(values)},)")
    return code.build()


def unpack_code(code: Code, slots: Sequence[CompiledKeyField], tail: int, depth: int = 1) -> list[str]:
    """Adds the lines that split a key, and returns the expressions for its fields.

    Args:
        code: the code to extend. In it, `data` is the key. The variable `start`, which the lines change, is the
            position where the fields begin.
    """
    if any(slot.of.desc and slot.word is None for slot in slots):
        code.add(f"flipped = data.translate({code.name(COMPLEMENT)})", depth)
    values: list[str] = []
    at = 0
    while at < len(slots):
        words = list(itertools.takewhile(lambda slot: slot.word is not None, slots[at:]))
        if words:  # adjacent numbers are read at once
            numbers = Struct(">" + "".join(slot.word for slot in words if slot.word))
            names = [code.variable() for _ in words]
            code.add(f"{', '.join(names)}, = {code.name(numbers.unpack_from)}(data, start)", depth)
            code.add(f"start += {numbers.size}", depth)
            values += [slot.unpacked(code, name) for slot, name in zip(words, names, strict=True)]
            at += len(words)
            continue
        slot, name = slots[at], code.variable()
        key = "flipped" if slot.of.desc else "data"
        if slot.unterminated:
            code.add(
                f"{name} = {'data[start:]' if slot.raw else f'{code.name(slot.decode_unterminated)}(data[start:])'}",
                depth,
            )
        elif slot.raw:
            end = code.variable()
            code.add(f"{end} = {key}.find({TERMINATOR!r}, start)", depth)
            code.add(f"{name} = {key}[start:{end}]", depth)
            code.add(f"if {end} < 0 or 0 in {name}: {name}, start = {code.name(unescape_part)}({key}, start)", depth)
            code.add(f"else: start = {end} + {len(TERMINATOR)}", depth)
        else:
            code.add(f"{name}, start = {code.name(slot.decode_part)}({key}, start)", depth)
        values.append(code.decode(slot.of.codec, name) if slot.raw else name)
        at += 1
    if not slots[-1].unterminated or slots[-1].word is not None:
        code.add(f"if start != len(data) - {tail}: raise {code.name(_wrong_end)}(start, len(data) - {tail})", depth)
    return values


def _fields(fields: Iterable[KeyField]) -> tuple[KeyField, ...]:
    key_fields = tuple(fields)
    names = [f.name for f in key_fields]
    if not key_fields:
        raise DeclarationError("A key needs at least one field.")
    if len(set(names)) < len(names):
        raise DeclarationError("The fields of a key need different names.", fields=names)
    return key_fields


def _check_ends(layout: KeyLayout) -> None:
    """Raises `DeclarationError` if a value without a terminator is followed by a different number of bytes than its
    codec states.
    """
    for at, key_field in enumerate(layout.fields):
        if key_field.codec.delimited:
            continue
        behind = layout.fields[at + 1 :]
        widths = [None if each.nullable else each.codec.width for each in behind]
        known = not key_field.nullable and None not in widths
        expected = getattr(key_field.codec, "followed_by", None)
        if not known or sum(width or 0 for width in widths) + layout.tail != expected:
            raise DeclarationError(
                "A value without a terminator must not be None. In every key, the fields after it must have a fixed "
                "width, must never be None, and must have as many bytes in all as followed_by says.",
                field=key_field.name,
                expected=expected,
                fields=[each.name for each in behind],
            )


def _slots(layout: KeyLayout) -> tuple[CompiledKeyField, ...]:
    _check_ends(layout)
    last = -1 if layout.tail or layout.closed else len(layout.fields) - 1
    return tuple(CompiledKeyField.build(key_field, i == last) for i, key_field in enumerate(layout.fields))


@frozen
class KeyLayout:
    """The fields of a key in order, compiled for packing and unpacking. Salts come before the fields and are not part
    of the layout.

    Every field marks its own end, except an ascending last field, which ends with the key.

    Attributes:
        fields: the fields. There is at least one, and all names are different.
        tail: the number of bytes that follow the fields and belong to none of them. In an index entry of a randomly
            salted model, this is the byte of the bucket at the end. If the number is not 0, every field marks its own
            end.
        closed: whether the last field also marks its end, although nothing follows this field in the key.
    """

    fields: tuple[KeyField, ...] = field(converter=_fields)
    tail: int = 0
    closed: bool = False
    names: tuple[str, ...] = field(
        init=False,
        eq=False,
        repr=False,
        default=Factory(lambda self: tuple(f.name for f in self.fields), takes_self=True),
    )
    _slots: tuple[CompiledKeyField, ...] = field(
        init=False, eq=False, repr=False, default=Factory(_slots, takes_self=True)
    )
    _pack: Callable[[Sequence[object]], list[bytes]] = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: compile_pack(self._slots), takes_self=True)
    )
    _unpack: Callable[[bytes, int], tuple[Any, ...]] = field(
        init=False,
        eq=False,
        repr=False,
        default=Factory(lambda self: _compile_unpack(self._slots, self.tail), takes_self=True),
    )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.fields, self.tail, self.closed)

    @property
    def slots(self) -> tuple[CompiledKeyField, ...]:
        """The fields at their places."""
        return self._slots

    @property
    def field_specs(self) -> list[JSON]:
        """The fields as canonical JSON."""
        return [f.spec for f in self.fields]

    @property
    def spec(self) -> dict[str, JSON]:
        """The layout as canonical JSON."""
        closed: dict[str, JSON] = {"closed": True} if self.closed else {}
        return {"format": KEY_FORMAT, "fields": self.field_specs, "tail": self.tail, **closed}

    @cached_property
    def spec_text(self) -> str:
        """The layout as text, for digests."""
        return str(self.spec)

    def pack_parts(self, values: Sequence[object]) -> list[bytes]:
        """Returns the bytes of each field in this key, in order.

        Raises:
            IncompleteKey: there are fewer values than fields.
            EncodingError: a value cannot be stored exactly; `field` names the field.
        """
        try:
            return self._pack(values)
        except Exception:
            # there are too few or too many values, or a value cannot be stored: plain code raises the exact error
            pass
        if len(values) != len(self._slots):
            raise self._wrong_count(values)
        return [slot.pack(value) for slot, value in zip(self._slots, values, strict=True)]

    def pack(self, values: Sequence[object]) -> bytes:
        """Returns the key, without salt and tail. Raises the same errors as `pack_parts`."""
        return b"".join(self.pack_parts(values))

    def pack_leading(self, values: Sequence[object]) -> list[bytes]:
        """Returns the bytes of the leading fields for which there are values. Raises the errors of `pack_parts`."""
        if len(values) > len(self._slots):
            raise self._wrong_count(values)
        return [slot.pack(value) for slot, value in zip(self._slots, values, strict=False)]

    def pack_field(self, position: int, value: object) -> bytes:
        """Returns the bytes of one field at its place in this key. Raises `EncodingError` with the name of the
        field.
        """
        return self._slots[position].pack(value)

    def _wrong_count(self, values: Sequence[object]) -> RowKeyError:
        missing = self.names[len(values) :]
        if missing:
            return IncompleteKey("A key needs a value for every field.", missing=missing)
        return RowKeyError("There are more values than key fields.", fields=self.names, found=len(values))

    def unpack(self, data: bytes, start: int = 0) -> tuple[Any, ...]:
        """Returns the values of a key, in field order.

        Args:
            data: the whole stored key. Its last `tail` bytes are ignored.
            start: the position after the salt, at which the fields begin.

        Raises:
            DecodingError: this layout does not write such a key; `field` names the field if it is known.
        """
        try:
            return self._unpack(data, start)
        except Exception:
            # plain code raises the exact error; this is outside of `except`, so that the context of the error contains
            # no stored bytes
            pass
        return self._slowly(data, start)

    def _slowly(self, data: bytes, start: int) -> tuple[Any, ...]:
        """Reads a key field by field, so that an error names its field."""
        flipped = data.translate(COMPLEMENT)
        values: list[Any] = []
        for slot in self._slots:
            try:
                if slot.unterminated:
                    value, start = slot.decode_unterminated(data[start:]), len(data)
                else:
                    value, start = slot.decode_part(flipped if slot.of.desc else data, start)
            except DecodingError as error:
                raise named(error, slot.of.name) from None
            values.append(value)
        if not self._slots[-1].unterminated and start != len(data) - self.tail:
            raise _wrong_end(start, len(data) - self.tail)
        return tuple(values)

    def unpack_code(self, code: Code, depth: int) -> list[str]:
        """Adds to generated code the lines that split a key, and returns the expressions of its fields; see
        `unpack_code`.
        """
        return unpack_code(code, self._slots, self.tail, depth)

    def pack_code(self, code: Code, names: Sequence[str]) -> tuple[list[str], list[str]]:
        """For generated code: the conditions and the expressions for the parts of a key; see `pack_code`."""
        return pack_code(code, self._slots, names)

    def join_code(self, code: Code, names: Sequence[str]) -> tuple[list[str], str]:
        """For generated code: the conditions and expression for a whole key; adjacent numbers are written at once."""
        conditions, parts = pack_code(code, self._slots, names)
        joined: list[str] = []
        for numbers, group in itertools.groupby(
            zip(self._slots, names, parts, strict=True), lambda each: each[0].word is not None
        ):
            grouped = list(group)
            if numbers and len(grouped) > 1:
                words = Struct(">" + "".join(slot.word or "" for slot, _, _ in grouped))
                joined.append(
                    f"{code.name(words.pack)}({', '.join(slot.number(code, name) for slot, name, _ in grouped)})"
                )
            else:
                joined += [part for _, _, part in grouped]
        if all(slot.inline for slot in self._slots):
            return conditions, " + ".join(joined)
        # `join` checks that every part is bytes, because a custom codec might return something else
        return conditions, f"b''.join(({', '.join(joined)},))"

    def order_of(self, position: int) -> Order:
        """Returns the relation of byte order to the order of values at this position, which depends on codec, direction
        and position.

        None comes before all values if the field ascends, and after them if it is declared `desc`.
        """
        return self._slots[position].order

    def range_of(self, parts: Sequence[bytes], bounds: Bounds | None = None) -> KeyRange:
        """Returns the exact range of the keys, without salt, whose leading fields have these bytes and whose next field
        lies within `bounds`.

        Args:
            parts: the parts of the leading fields, from `pack_parts` or `pack_leading`; none for all keys.
            bounds: the bounds of the next field; None selects every key with these leading fields. Must be None if
                `parts` has a part for every field. The range then contains only that key or, in a layout with a tail,
                that key with any tail.

        Raises:
            QueryError: the field has no ranges, or cannot be searched by this prefix; `field` names the field.
            EncodingError: a bound is of the wrong type; `field` names the field.
        """
        prefix = b"".join(parts)
        if len(parts) < len(self._slots):
            return KeyRange.prefix(prefix) if bounds is None else self._slots[len(parts)].range(prefix, bounds)
        if bounds is not None or len(parts) > len(self._slots):
            raise QueryError("Every key field is fixed already: there is no next field to bound.", fields=self.names)
        return KeyRange.prefix(prefix) if self.tail else KeyRange.exactly(prefix)


def check_length(key: bytes, *, table: str | None = None, index: str | None = None) -> None:
    """Refuses keys for which HBase would only answer "internal error". The key includes the salt.

    Raises:
        KeyTooLong: the key is empty or longer than 32,767 bytes.
    """
    if not key:
        raise KeyTooLong("A row key must not be empty.", table=table, index=index)
    if len(key) > MAX_ROW_LENGTH:
        raise KeyTooLong("A row key must not be longer than 32,767 bytes.", table=table, index=index, length=len(key))
