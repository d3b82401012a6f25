"""The layout of column qualifiers of wide rows: kind, column fields that mark their end, and the alias of a column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import Factory, field, frozen

from hbmodel.encoding.codecs.base import COMPLEMENT
from hbmodel.encoding.codegen import Code
from hbmodel.encoding.key_field import NONE, SOME, CompiledKeyField
from hbmodel.encoding.key_layout import KeyLayout
from hbmodel.encoding.object_keys import PrefixEnd
from hbmodel.errors import DecodingError


def _compile_prefix_end(layout: QualifierLayout) -> PrefixEnd:
    code = Code("def prefix_end(data):")
    slots = () if layout.columns is None else layout.columns.slots
    if layout.kind:
        code.add(f"if not data.startswith({layout.kind!r}): return None")
    width = len(layout.kind) + sum(slot.of.codec.width or 0 for slot in slots)
    if all(_fixed(slot) for slot in slots):
        beyond = "!=" if layout.raw else "<"
        code.add(f"return None if len(data) {beyond} {width} else {width}")
        return code.build()
    code.add("try:")
    if any(slot.of.desc for slot in slots):
        code.add(f"flipped = data.translate({code.name(COMPLEMENT)})", 2)
    code.add(f"at = {len(layout.kind)}", 2)
    for slot in slots:
        _add_end(code, slot)
    code.add(f"except {code.name(Exception)}:")
    code.add("return None", 2)
    code.add("return at if at " + ("== len(data) and data else None" if layout.raw else "<= len(data) else None"))
    return code.build()


def _fixed(slot: CompiledKeyField) -> bool:
    return slot.of.codec.width is not None and not slot.of.nullable


def _add_end(code: Code, slot: CompiledKeyField) -> None:
    """Adds the lines that move the variable `at` to the end of a field."""
    key_field, data, depth, marker = slot.of, "flipped" if slot.of.desc else "data", 2, code.variable()
    if key_field.nullable:
        code.add(f"{marker} = {data}[at]", depth)
        code.add("at += 1", depth)
        code.add(f"if {marker} == {SOME[0]}:", depth)
        depth += 1
    if key_field.codec.width is not None:
        code.add(f"at += {key_field.codec.width}", depth)
    elif slot.unterminated:
        code.add("if at > len(data): return None", depth)
        code.add("at = len(data)", depth)
    else:
        code.add(f"at = {code.name(key_field.codec.part_end)}({data}, at)", depth)
    if key_field.nullable:
        code.add(f"elif {marker} != {NONE[0]}: return None", 2)


@frozen
class QualifierLayout:
    """The prefix of an object's qualifiers, and the part after it.

    Attributes:
        kind: the byte with which the qualifiers begin, or nothing.
        columns: the layout of the column fields, or None if there are no column fields.
        prefix_end: a function that returns the position at which the prefix of the object ends in a qualifier. It
            returns None for a qualifier that belongs to no object. The function reads only as many bytes as necessary,
            so it also finds prefixes that cannot be decoded.
    """

    kind: bytes = b""
    columns: KeyLayout | None = None
    prefix_end: PrefixEnd = field(
        init=False, eq=False, repr=False, default=Factory(_compile_prefix_end, takes_self=True)
    )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.kind, self.columns)

    @property
    def raw(self) -> bool:
        """Whether the last column field is stored without a terminator. It then reaches to the end of the qualifier,
        and the only possible alias is empty.
        """
        return self.columns is not None and self.columns.slots[-1].unterminated

    def encode(self, values: Sequence[object], alias: bytes = b"") -> bytes:
        """Returns the qualifier of a column of the object whose column fields have these values. Without an alias, this
        is the prefix of the qualifiers of the object.

        Raises:
            IncompleteKey: there are fewer values than fields.
            EncodingError: a value cannot be stored exactly; `field` names the field.
        """
        return self.kind + (b"" if self.columns is None else self.columns.pack(values)) + alias

    def decode(self, qualifier: bytes) -> tuple[tuple[Any, ...], bytes]:
        """Returns the values of the column fields, and the alias. For a split field, the value is the offset.

        Raises:
            DecodingError: the qualifier belongs to no object.
        """
        end = self.prefix_end(qualifier)
        if end is None:
            raise DecodingError(
                "A qualifier does not belong to the model.", kind=self.kind, found=qualifier[: len(self.kind)]
            )
        values = () if self.columns is None else self.columns.unpack(qualifier[:end], len(self.kind))
        return values, qualifier[end:]
