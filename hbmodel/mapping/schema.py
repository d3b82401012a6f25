"""Frozen descriptions of models: fields, indexes and the table they live in, as the rest of the library reads them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from enum import Enum
from functools import cached_property
from typing import Any, Final, Literal, TypeVar

import attrs
from attrs import Factory, frozen

from hbmodel.encoding.codecs import Codec
from hbmodel.encoding.key_layout import KeyLayout
from hbmodel.encoding.salts import BoundSalt
from hbmodel.errors import DeclarationError, UnknownField, UnknownIndex
from hbmodel.store.values import Family

KEY_FORMAT_VERSION = 1
"""Version of the byte formats of row keys, index entries and system cells; stored in the registry."""

VERSION_QUALIFIER = b"_v"
LIVENESS_QUALIFIER = b"_l"
EXPIRY_QUALIFIER = b"_t"
STAMP_QUALIFIER = b"_p"
CLAIM_QUALIFIER = b"_u"
LIVE = b"\x01"
"""First byte of the liveness cell of a live row, followed by the row's end (8 bytes) if it expires; a dead row holds 00 and a nonce."""

COUNTER_ZERO = bytes(8)

COMPILED_KEPT = 256
"""Generated functions, and readers, that a model remembers."""

PRIMARY: Final = "primary"
"""Name of the path through the primary table, beside the names of indexes."""


class Required(Enum):
    """The type of `REQUIRED`: a field without a default (None is one)."""

    REQUIRED = "required"


REQUIRED: Final = Required.REQUIRED

T = TypeVar("T")

FieldKind = Literal["key", "column", "counter", "version"]


@frozen
class Field:
    """One declared attribute of a model.

    Attributes:
        name: of the attribute.
        kind: part of the row key, ordinary column, counter, or the version of a versioned model.
        codec: between values and bytes.
        nullable: whether None is allowed.
        default: `REQUIRED`, a value, or an `attrs.Factory` without self.
        family: column family (empty for key fields).
        qualifier: column qualifier, the alias (empty for key fields).
        desc: whether a key field sorts descending.
        null: how None is stored: as an empty cell, or by deleting the cell.
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

    @cached_property
    def column(self) -> bytes:
        """`family:qualifier`."""
        return self.family + b":" + self.qualifier

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
        """Whether a missing cell reads as None, so that the empty cell says nothing more."""
        return self.kind == "column" and self.nullable and self.default is None

    @property
    def empty_is_missing(self) -> bool:
        """Whether an empty cell holds no value: a full write blanks what it does not map, and the field's codec never writes one."""
        return not self.nullable and not self.codec.may_be_empty

    def default_value(self) -> Any:
        """The default, made anew where it is a factory; only for fields that are not required."""
        if self.kind == "counter":
            return 0
        if isinstance(self.default, Factory):  # type: ignore[arg-type]
            return self.default.factory()
        return self.default

    @cached_property
    def encode_cell(self) -> Callable[[Any], bytes]:
        """Value to cell bytes, None included (see DESIGN of column values): None is the empty cell.

        A nullable codec that may encode to nothing escapes: a leading 00 is doubled and the empty value is one 00.
        """
        encode = self.codec.encode
        if not self.nullable:
            return encode
        if not self.codec.may_be_empty:
            return lambda value: b"" if value is None else encode(value)

        def escaped(value: Any) -> bytes:
            if value is None:
                return b""
            data = encode(value)
            return b"\x00" + data if not data or data[0] == 0 else data

        return escaped

    @cached_property
    def decode_cell(self) -> Callable[[bytes], Any]:
        """Cell bytes to value; the inverse of `encode_cell`."""
        decode = self.codec.decode
        if not self.nullable:
            return decode
        if not self.codec.may_be_empty:
            return lambda data: decode(data) if data else None
        return lambda data: None if not data else decode(data[1:] if data[0] == 0 else data)


@frozen
class Index:
    """One index table of a model.

    Row key: `[salt][index fields][rest of the primary key][primary bucket, if random]`.

    Attributes:
        name: of the index.
        table: of the index table that is live; the registry can name a later one.
        fields: names of the fields that the index is declared over.
        layout: of the whole entry key, without salt.
        salt: of the index table.
        covers: names of the covered columns.
        primary_positions: where in `layout` each primary key field stands, in primary key order.
        unique: whether no two rows may have the same values in its fields.
    """

    name: str
    table: str
    fields: Sequence[str]
    layout: KeyLayout = attrs.field(repr=False)
    salt: BoundSalt = attrs.field(repr=False)
    covers: Sequence[str]
    primary_positions: Sequence[int] = attrs.field(repr=False)
    unique: bool = False

    @cached_property
    def spec(self) -> Mapping[str, Any]:
        """Canonical description for the registry."""
        return {
            "fields": [key_field.spec for key_field in self.layout.fields],
            "declared": list(self.fields),
            "tail": self.layout.tail,
            "salt": self.salt.spec,
            "covers": list(self.covers),
            **({"unique": True} if self.unique else {}),
        }


@frozen(eq=False)
class TableSchema:
    """Everything that a model declares, resolved; equality is identity.

    Attributes:
        model: the class.
        table: name of the primary table.
        family: default column family.
        fields: every field, in declaration order.
        layout: of the primary row key, without salt.
        salt: of the primary table.
        indexes: by name.
        immutable: whether rows never change once written.
        foreign: whether other programs write the table; deletes then touch mapped columns only.
        exists: qualifier of the flag that marks existence, or None.
        families: options of the model's families.
        compiled: functions that were generated for the model, by what they are for; see `keep`.
    """

    model: type[Any]
    table: str
    family: bytes
    fields: Sequence[Field]
    layout: KeyLayout
    salt: BoundSalt
    indexes: Mapping[str, Index]
    immutable: bool = False
    foreign: bool = False
    exists: bytes | None = None
    families: Sequence[Family] = attrs.field(factory=tuple)
    compiled: dict[Any, Any] = attrs.field(factory=dict, init=False, repr=False)

    def keep(self, what: Hashable, made: T) -> T:
        """Remembers in `compiled` what was made for the model; programs whose users choose fields may ask for ever more of it."""
        if len(self.compiled) >= COMPILED_KEPT:
            self.compiled.clear()
        self.compiled[what] = made
        return made

    @cached_property
    def by_name(self) -> Mapping[str, Field]:
        """Fields by attribute name."""
        return {f.name: f for f in self.fields}

    @cached_property
    def key_fields(self) -> Sequence[Field]:
        """Fields of the row key, in key order."""
        return tuple(f for f in self.fields if f.is_key)

    @cached_property
    def columns(self) -> Sequence[Field]:
        """Fields stored in cells, counters included, in declaration order."""
        return tuple(f for f in self.fields if not f.is_key)

    @cached_property
    def version_field(self) -> Field | None:
        """The field declared with `hb.version()`, or None."""
        return next((f for f in self.fields if f.kind == "version"), None)

    @property
    def versioned(self) -> bool:
        """Whether rows carry a version, which every write is checked against."""
        return self.version_field is not None

    @cached_property
    def optional_columns(self) -> frozenset[bytes]:
        """Columns whose empty cell may be left out where nothing older can be under it."""
        return frozenset(f.column for f in self.columns if f.none_may_be_left_out)

    @cached_property
    def family_names(self) -> Sequence[bytes]:
        """Every family of the model, sorted."""
        return tuple(sorted({self.family, *(f.family for f in self.columns)}))

    @cached_property
    def exists_column(self) -> bytes | None:
        """`family:qualifier` of the existence flag."""
        return None if self.exists is None else self.family + b":" + self.exists

    @cached_property
    def liveness_column(self) -> bytes:
        """`family:qualifier` of the liveness cell of indexed and versioned models."""
        return self.family + b":" + LIVENESS_QUALIFIER

    @cached_property
    def version_column(self) -> bytes:
        """`family:qualifier` of the version cell of indexed and versioned models."""
        return self.family + b":" + VERSION_QUALIFIER

    @cached_property
    def claim_column(self) -> bytes:
        """`family:qualifier` of the claims of unique values, in index tables."""
        return self.family + b":" + CLAIM_QUALIFIER

    @cached_property
    def expiry_column(self) -> bytes:
        """`family:qualifier` of the cell that says when a row of a model without indexes expires."""
        return self.family + b":" + EXPIRY_QUALIFIER

    @cached_property
    def stamp_prefix(self) -> bytes:
        """`family:qualifier` of the cells that are put, for a moment, to learn the time of the server that holds a row; 8 bytes follow."""
        return self.family + b":" + STAMP_QUALIFIER

    @cached_property
    def _system_columns(self) -> frozenset[bytes]:
        return frozenset((self.liveness_column, self.version_column, self.expiry_column))

    def is_system(self, column: bytes) -> bool:
        """Whether a cell is none of an object's own; a row with no other cell is not an object."""
        return column in self._system_columns or column.startswith(self.stamp_prefix)

    @cached_property
    def required_columns(self) -> Sequence[bytes]:
        """Columns that a stored row must have."""
        return tuple(f.column for f in self.columns if f.required)

    def field(self, name: str) -> Field:
        """The field of that name; raises `UnknownField`."""
        found = self.by_name.get(name) if isinstance(name, str) else None
        if found is None:
            raise UnknownField("The model has no such field.", table=self.table, field=name, known=sorted(self.by_name))
        return found

    def index(self, wanted: str | Index) -> Index:
        """The index of that name, or the index itself as it stands on the model class; raises `UnknownIndex`."""
        name = wanted.name if isinstance(wanted, Index) else wanted
        found = self.indexes.get(name) if isinstance(name, str) else None
        if found is None or (isinstance(wanted, Index) and found is not wanted):
            told = name if isinstance(name, str) else type(name).__name__
            raise UnknownIndex("The model has no such index.", table=self.table, index=told, known=sorted(self.indexes))
        return found

    @cached_property
    def layout_spec(self) -> Mapping[str, Any]:
        """Canonical description of what must never change silently, for the registry (indexes have entries of their own)."""
        versioned = {"version": True} if self.versioned else {}
        return {
            "format": KEY_FORMAT_VERSION,
            "key": [key_field.spec for key_field in self.layout.fields],
            "salt": self.salt.spec,
            "columns": {
                f.column.decode("latin-1"): {"name": f.name, "kind": f.kind, "codec": f.codec.spec, "nullable": f.nullable, "null": f.null}
                for f in self.columns
                if f.kind != "version"
            },
            "exists": None if self.exists is None else self.exists.decode("latin-1"),
            **versioned,
        }


def schema_of(model: type[Any]) -> TableSchema:
    """The schema that the decorator put on `model`; raises `DeclarationError`, a `TypeError`, for any other class."""
    found = vars(model).get("__hbmodel__") if isinstance(model, type) else None
    if not isinstance(found, TableSchema):
        if model is type:  # the type of what was given for an object
            raise DeclarationError("Give an object of a model, not a class.")
        name = model.__qualname__ if isinstance(model, type) else type(model).__qualname__
        if isinstance(vars(type(model)).get("__hbmodel__"), TableSchema):
            raise DeclarationError("Give the class of a model, not an object of it.", found=name)
        raise DeclarationError("This is not a model: declare the class with @hb.model(table=...).", found=name)
    return found
