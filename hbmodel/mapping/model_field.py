"""A declared attribute of a model after its declaration was resolved, with its place, its codec and the encoding of its
cell.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from enum import Enum
from functools import cached_property
from typing import Any, Final, Literal

from attrs import Factory, field, frozen

from hbmodel.encoding.codecs import Codec, Dictionary
from hbmodel.encoding.codecs.base import JSON, read_back


class Required(Enum):
    """The type of `REQUIRED`. This value means that a field has no default; None cannot mean this, because it can be a
    default.
    """

    REQUIRED = "required"


REQUIRED: Final = Required.REQUIRED


class NoCell(bytes):
    """The type of `NO_CELL`."""

    __slots__ = ()


NO_CELL: Final = NoCell()
"""Represents None in the cells of a write, if the column stores None as the absence of its cell. Compare with `NO_CELL`
by `is`, because `==` is also true for an empty value.
"""

FieldKind = Literal["key", "column", "counter", "version", "computed", "element"]

Values = Mapping[str, Any]
"""The values of a row by the names of fields."""


@frozen
class Field:
    """A declared attribute of a model after its declaration was resolved.

    Attributes:
        name: the name of the attribute.
        kind: what the attribute is: a key field, an ordinary column, a counter, the version of a versioned model, a
            computed field, which is not stored, or the elements of a collection.
        codec: converts between values and bytes.
        nullable: whether None is allowed.
        default: `REQUIRED`, a value, or an `attrs.Factory` that takes no arguments.
        family: column family (empty for key fields).
        qualifier: column qualifier, the alias (empty for key fields).
        desc: whether a key field sorts descending.
        null: how None is stored: as an empty cell, or by deleting the cell.
        unescaped: whether the cell of a nullable field contains exactly the bytes that the codec writes. In this case
            `null` is "delete", and an empty cell does not mean None.
        strict: True if other programs write the table, so that an empty cell never counts as missing.
        hint: the annotated type of the values, or None if there is none.
        renamed_from: the former name, or None.
        in_qualifier: whether a key field is in the column qualifier, instead of the row key.
        row_span: for a time that is divided between row key and qualifier: the length of time that one row spans. The
            row key contains the start of the span, and the qualifier the offset from it.
        versions: the number of versions of the cell to keep. If it is None, the setting of the family decides.
    """

    name: str
    kind: FieldKind
    codec: Codec[Any]
    nullable: bool = False
    default: Any = REQUIRED
    family: bytes = b""
    qualifier: bytes = b""
    desc: bool = False
    null: Literal["marker", "delete"] = "marker"
    hint: Any = field(default=None, eq=False, repr=False)
    renamed_from: str | None = field(default=None, eq=False, repr=False)
    in_qualifier: bool = False
    row_span: timedelta | None = None
    versions: int | None = field(default=None, eq=False)
    unescaped: bool = False
    strict: bool = field(default=False, eq=False)

    @cached_property
    def column(self) -> bytes:
        """`family:qualifier`."""
        return self.family + b":" + self.qualifier

    @property
    def reads(self) -> frozenset[str]:
        """Names of the stored fields on which the value depends; for a stored field, its own name."""
        return frozenset((self.name,))

    @property
    def derivation(self) -> Mapping[str, JSON]:
        """The registry's description of how the value is computed; empty for a stored field."""
        return {}

    def value_in(self, values: Values) -> Any:
        """Returns the field's value, given the values of the fields that it depends on."""
        return values[self.name]

    def tested(self, test: Callable[[Values], bool]) -> Callable[[Values], bool]:
        """Adapts a test of this field to mappings that may contain only the values on which the field depends."""
        return test

    def as_stored(self, value: Any) -> Any:
        """Converts a value to the form that a read returns. A name of a dictionary has this form already, and its id is
        not looked up, because only the calls of a session can do that.
        """
        if isinstance(self.codec, Dictionary):
            return None if value is None else self.codec.constant(value)
        return None if value is None else self.codec.decode(self.codec.encode(value))

    def read_back(self, value: Any) -> Any:
        """Converts a value to the form that a read returns. Values that the field cannot store are returned as they
        are.
        """
        return None if value is None else read_back(self.codec, value)

    @property
    def is_key(self) -> bool:
        """Whether the field is part of the row key."""
        return self.kind == "key"

    @property
    def required(self) -> bool:
        """Whether a stored row must have the column."""
        return self.kind == "column" and self.default is REQUIRED

    @property
    def none_may_be_left_out(self) -> bool:
        """Whether a missing cell is read as None, so that an empty cell need not be written."""
        return self.kind == "column" and self.nullable and self.default is None

    @property
    def escaped(self) -> bool:
        """Whether values are escaped, because the codec may return no bytes: a leading 00 is doubled, and the empty
        value becomes one 00. In external tables values are not escaped.
        """
        return self.kind == "column" and self.codec.may_be_empty and not (self.strict or self.unescaped)

    @property
    def empty_is_missing(self) -> bool:
        """Whether an empty cell counts as missing. Values of such a column are never stored as an empty cell. But a
        program whose model lacks the column writes an empty cell when it writes a whole row.
        """
        return not self.nullable and not self.strict and (self.escaped or not self.codec.may_be_empty)

    @property
    def never_empty(self) -> bool:
        """Whether every row has the column, with a cell that is not empty."""
        return self.required and not self.nullable and (self.escaped or not self.codec.may_be_empty)

    def default_value(self) -> Any:
        """Returns the default, in the form that a read returns. A factory makes a new default each time. Only fields
        that are not required have a default.
        """
        if self.kind == "counter":
            return 0
        if isinstance(self.default, Factory):  # type: ignore[arg-type]
            return self.read_back(self.default.factory())
        return self.read_back(self.default)

    @property
    def cell_of_none(self) -> bytes:
        """What `encode_cell` returns for None."""
        return NO_CELL if self.null == "delete" else b""

    @cached_property
    def encode_cell(self) -> Callable[[Any], bytes]:
        """Encodes a value as the bytes of its cell; None becomes the empty cell, or `NO_CELL`."""
        encode, nullable, none = self.codec.encode, self.nullable, self.cell_of_none
        if not self.escaped:
            return (lambda value: none if value is None else encode(value)) if nullable else encode

        def escaped(value: Any) -> bytes:
            if value is None and nullable:
                return none
            data = encode(value)
            return b"\x00" + data if not data or data[0] == 0 else data

        return escaped

    @cached_property
    def decode_cell(self) -> Callable[[bytes], Any]:
        """Decodes the bytes of a cell; the inverse of `encode_cell`."""
        decode = self.codec.decode
        if self.unescaped:
            return lambda data: None if data is NO_CELL else decode(data)
        if not self.nullable:
            return (lambda data: decode(data[1:] if data[:1] == b"\x00" else data)) if self.escaped else decode
        if not self.escaped:
            return lambda data: decode(data) if data else None
        return lambda data: None if not data else decode(data[1:] if data[0] == 0 else data)
