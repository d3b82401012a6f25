"""The annotations of fields, and the functions that declare fields and indexes."""

from __future__ import annotations

import typing
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

import attrs

from hbmodel.encoding.codecs import Codec, JavaLong
from hbmodel.encoding.salts import Salt
from hbmodel.mapping.declaration import IndexSpec
from hbmodel.mapping.expressions import FieldExpression
from hbmodel.mapping.index_kinds.each import EachField
from hbmodel.mapping.index_kinds.part import DeclaredPart
from hbmodel.mapping.index_kinds.plain import IndexField
from hbmodel.mapping.model_field import Part
from hbmodel.mapping.predicates import Predicate
from hbmodel.mapping.schema import REQUIRED
from hbmodel.mapping.version_cell import UNKNOWN, VersionCodec

T = TypeVar("T")


class _Attribute(Generic[T]):
    """A field: on the class a typed expression, on an instance the plain value.

    A non-data descriptor, so an instance's own dictionary shadows it and reading a field costs a normal attribute access.
    """

    def __init__(self, expression: FieldExpression[T]) -> None:
        self._expression = expression

    @overload
    def __get__(self, instance: None, owner: type[Any]) -> FieldExpression[T]: ...
    @overload
    def __get__(self, instance: object, owner: type[Any]) -> T: ...
    def __get__(self, instance: object, owner: type[Any]) -> FieldExpression[T] | T:
        if instance is None:
            return self._expression
        raise AttributeError(f"{owner.__name__} object has no value for {self._expression.of.name!r}")

    if TYPE_CHECKING:
        # For type checkers only: the constructor and assignments take plain values. At run time it must not exist, or the
        # descriptor would be a data descriptor and instances would pay for every access.
        def __set__(self, instance: object, value: T) -> None: ...


class Key(_Attribute[T]):
    """The annotation of a field of the row key: a typed expression on the class, the plain value on an instance."""


class Column(_Attribute[T]):
    """The annotation of a field stored in a cell: a typed expression on the class, the plain value on an instance."""


@attrs.frozen
class FieldSpec:
    """What `key`, `column`, `counter` and `version` return until the decorator resolves them."""

    kind: Literal["key", "column", "counter", "version"]
    codec: Codec[Any] | None
    alias: str | None = None
    family: str | None = None
    default: Any = REQUIRED
    desc: bool = False
    nullable: bool = False
    null: Literal["marker", "delete"] = "marker"
    was: str | None = None
    part: Part = "row"
    split: timedelta | None = None
    versions: int | None = None


@attrs.frozen
class FlagSpec:
    """What `flag` returns: the qualifier of a cell that holds 01 while the row exists."""

    alias: str


@overload
def key(codec: Codec[T], *, desc: bool = False, was: str | None = None, part: Part = "row", split: timedelta | None = None) -> Key[T]: ...
@overload
def key(codec: Codec[T], *, desc: bool = False, nullable: Literal[True], was: str | None = None, part: Part = "row") -> Key[T | None]: ...
@overload
def key(
    codec: None = None,
    *,
    desc: bool = False,
    nullable: bool = False,
    was: str | None = None,
    part: Part = "row",
    split: timedelta | None = None,
) -> Any: ...
def key(
    codec: Codec[Any] | None = None,
    *,
    desc: bool = False,
    nullable: bool = False,
    was: str | None = None,
    part: Part = "row",
    split: timedelta | None = None,
) -> Any:
    """Declares a field of the row key; the order of declaration is the order in the key.

    Args:
        codec: how values become bytes; by default what the annotation calls for (`int` is `Int64`, ...).
        desc: sort descending (every byte is complemented).
        nullable: says to type checkers that None is allowed; the annotation says it at run time.
        was: the name that the field had before, at the same place in the key and with the same codec.
        part: `"column"` puts the field into the column qualifier, so that objects that differ only in such fields share a row.
        split: cuts a time in two: the row key holds the beginning of its bucket of that length, the qualifier the offset in it.
            Queries see one field.
    """
    return FieldSpec("key", codec, desc=desc, nullable=nullable, was=was, part=part, split=split)


@overload
def column(
    alias: str | None,
    /,
    codec: Codec[T],
    *,
    family: str | None = None,
    null: Literal["marker", "delete"] = "marker",
    was: str | None = None,
    versions: int | None = None,
) -> Column[T]: ...
@overload
def column(
    alias: str | None,
    /,
    codec: Codec[T],
    *,
    nullable: Literal[True],
    default: T | None = ...,
    family: str | None = None,
    null: Literal["marker", "delete"] = "marker",
    was: str | None = None,
    versions: int | None = None,
) -> Column[T | None]: ...
@overload
def column(
    alias: str | None,
    /,
    codec: Codec[T],
    *,
    default: None,
    family: str | None = None,
    nullable: bool = ...,
    null: Literal["marker", "delete"] = "marker",
    was: str | None = None,
    versions: int | None = None,
) -> Column[T | None]: ...
@overload
def column(
    alias: str | None,
    /,
    codec: Codec[T],
    *,
    default: T,
    family: str | None = None,
    null: Literal["marker", "delete"] = "marker",
    was: str | None = None,
    versions: int | None = None,
) -> Column[T]: ...
@overload
def column(
    alias: str | None = None,
    /,
    codec: None = None,
    *,
    default: Any = ...,
    family: str | None = None,
    nullable: bool = False,
    null: Literal["marker", "delete"] = "marker",
    was: str | None = None,
    versions: int | None = None,
) -> Any: ...
def column(
    alias: str | None = None,
    /,
    codec: Codec[Any] | None = None,
    *,
    default: Any = REQUIRED,
    family: str | None = None,
    nullable: bool = False,
    null: Literal["marker", "delete"] = "marker",
    was: str | None = None,
    versions: int | None = None,
) -> Any:
    """Declares a field stored in a cell of its own.

    Args:
        alias: the column qualifier, as short as you like since every cell carries it; by default the attribute's name. Given
            by position only: to type checkers a keyword `alias` would name the argument of the constructor. It may be empty for the
            only column of a model with key fields in the qualifier.
        codec: how values become bytes; by default what the annotation calls for.
        default: for new objects and for stored rows that lack the cell; `attrs.Factory(list)` makes one anew each time.
            Without one the column is required: a row that lacks it is `IncompleteRow`.
        family: column family; by default the model's.
        nullable: says to type checkers that None is allowed; the annotation says it at run time.
        null: `"marker"` stores None as an empty cell; `"delete"` deletes the cell (only on models without indexes).
        was: the name that the field had before, in the same cell and with the same codec.
        versions: how many versions of the cell are kept, for `session.versions` and `query.as_of`. A setting of the family: all of its
            columns keep as many as the one that wants most.
    """
    return FieldSpec("column", codec, alias, family, default, nullable=nullable, null=null, was=was, versions=versions)


def counter(alias: str | None = None, /, *, family: str | None = None, init: Literal[False] = False) -> Column[int]:
    """Declares a counter: a Java long of 8 bytes that `Session.increment` changes atomically on the server.

    It is 0 until it is incremented and is not part of the constructor, of `add`, of an index or of its covered columns.
    """
    del init  # tells type checkers that the constructor does not take the field
    return typing.cast("Column[int]", FieldSpec("counter", JavaLong, alias, family, 0))


def version(*, init: Literal[False] = False) -> Column[int]:
    """Declares the version of a model: every write of a row counts it, and is checked against it (optimistic concurrency).

    It is 0, unknown, in an object that was made and not read, and is not part of the constructor nor of equality. `attrs.evolve`
    keeps it. Needs a store with check-and-mutate: embedded, or HBase through its Thrift2 gateway.
    """
    del init  # tells type checkers that the constructor does not take the field
    return typing.cast("Column[int]", FieldSpec("version", VersionCodec(), default=UNKNOWN))


def flag(alias: str) -> FlagSpec:
    """Names the cell that holds 01 while a row exists, for `@hb.model(exists=hb.flag("e"))`.

    Needed by `insert` where every required column may encode to nothing, since HBase's check cannot tell an empty cell from none.
    """
    return FlagSpec(alias)


def index(
    *fields: str | DeclaredPart,
    covers: Sequence[str] = (),
    salt: Salt | None = None,
    none: bool = True,
    where: Callable[[Any], Predicate] | None = None,
    unique: bool = False,
    was: str | None = None,
) -> Any:
    """Declares an index table.

    Args:
        fields: names of the fields to look rows up by, in key order; `asc("at")` and `desc("at")` set a direction, otherwise
            each keeps its own; `each("tags")` takes the elements of a collection. The rest of the primary key follows by itself.
        covers: columns that are stored in the entries too, in a tuple. On versioned and immutable models entries answer queries
            that need no others.
        salt: of the index table, by the names of its fields.
        none: False leaves out rows that have None in a field of the index. Queries that use it say that they do not ask for these:
            by `==`, `<`, `startswith` and their like, or by `~field.is_(None)`.
        where: leaves out rows that do not satisfy a condition: `where=lambda ticket: ticket.state == "open"`. Queries that use the
            index repeat it, or say something that plainly implies it.
        unique: on versioned models, whether no two rows may have the same values in these fields (None apart); else a write is a
            `UniqueViolation`.
        was: the name that the index had before, with the same entries.
    """
    parts = tuple(part if isinstance(part, DeclaredPart) else IndexField(part, None) for part in fields)
    return IndexSpec(parts, covers, salt, none, where, unique, was)


def each(name: str, *, desc: bool = False) -> DeclaredPart:
    """A part of an index for each different element of a collection field: a row has an entry for every one of them.

    Queries use it by `Model.tags.contains("x")`. Rows whose collection is empty, or None, have no entries.
    """
    return EachField(name, desc)


def asc(name: str) -> IndexField:
    """An index field that sorts ascending, whatever its direction in the row key."""
    return IndexField(name, False)


def desc(name: str) -> IndexField:
    """An index field that sorts descending, whatever its direction in the row key."""
    return IndexField(name, True)
