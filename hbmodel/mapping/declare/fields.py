"""The annotations of fields, and the functions that declare them."""

from __future__ import annotations

import typing
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

import attrs

from hbmodel.encoding.codecs import Codec, JavaLong
from hbmodel.mapping.field_expressions import FieldExpression
from hbmodel.mapping.schema import FLAG, REQUIRED
from hbmodel.mapping.version_cell import UNKNOWN, VersionCodec

T = TypeVar("T")


class _Attribute(Generic[T]):
    """A field. On the class it is a typed expression; on an instance it is the plain value.

    This is a non-data descriptor: the dictionary of an instance shadows it, so that reading a field costs no more than
    a normal attribute access.
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
        # This tells type checkers that the constructor and assignments accept plain values. At run time `__set__` must
        # not exist, or the class would be a data descriptor and slow down every access.
        def __set__(self, instance: object, value: T) -> None: ...


class Key(_Attribute[T]):
    """The annotation of a field of the row key: a typed expression on the class, the plain value on an instance."""


class Column(_Attribute[T]):
    """The annotation of a field stored in a cell: a typed expression on the class, the plain value on an instance."""


@attrs.frozen
class FieldSpec:
    """The return value of `key`, `column`, `counter` and `version` before the decorator resolves it."""

    kind: Literal["key", "column", "counter", "version"]
    codec: Codec[Any] | None
    alias: str | bytes | None = None
    family: str | None = None
    default: Any = REQUIRED
    factory: Callable[[], Any] | None = None
    desc: bool = False
    nullable: bool = False
    null: Literal["marker", "delete"] | None = None
    renamed_from: str | None = None
    in_qualifier: bool = False
    row_span: timedelta | None = None
    versions: int | None = None


@attrs.frozen
class FlagSpec:
    """The return value of `flag`: the qualifier and the value of the cell that marks a row as existing."""

    alias: str | bytes
    value: bytes = FLAG


@overload
def key(
    codec: None = None,
    *,
    desc: bool = False,
    nullable: bool = False,
    renamed_from: str | None = None,
    in_qualifier: bool = False,
    row_span: timedelta | None = None,
) -> Any: ...
@overload
def key(  # pyright: ignore[reportOverlappingOverload]
    codec: Codec[T],
    *,
    desc: bool = False,
    renamed_from: str | None = None,
    in_qualifier: bool = False,
    row_span: timedelta | None = None,
) -> Key[T]: ...
@overload
def key(
    codec: Codec[T],
    *,
    desc: bool = False,
    nullable: bool = ...,
    renamed_from: str | None = None,
    in_qualifier: bool = False,
) -> Key[T | None]: ...
def key(
    codec: Codec[Any] | None = None,
    *,
    desc: bool = False,
    nullable: bool = False,
    renamed_from: str | None = None,
    in_qualifier: bool = False,
    row_span: timedelta | None = None,
) -> Any:
    """Declares a field of the row key; the order of declaration is the order in the key.

    Args:
        codec: how values become bytes; by default the codec for the annotation (`int` is `Int64`, ...).
        desc: sort descending (every byte is complemented).
        nullable: tells type checkers that None is allowed, if a codec is given and they do not infer it from the
            annotation (pyright); at run time the annotation decides.
        renamed_from: the former name of the field, at the same place in the key and with the same codec.
        in_qualifier: puts the field into the column qualifier, so that objects that differ only in such fields share a
            row.
        row_span: divides a time into two parts. Each row spans this length of time; the row key contains the start of
            the span, and the qualifier the offset from the start. Queries see one field.
    """
    return FieldSpec(
        "key",
        codec,
        desc=desc,
        nullable=nullable,
        renamed_from=renamed_from,
        in_qualifier=in_qualifier,
        row_span=row_span,
    )


# The first overload is for calls without a codec. So calls of the other overloads, in which the alias may be left out,
# always have a codec. The last overload is for a field that may be None and whose codec has values that are never None;
# type checkers choose it if they infer the type from the annotation.
@overload
def column(
    alias: str | bytes | None = None,
    /,
    codec: None = None,
    *,
    default: Any = ...,
    factory: Callable[[], Any] | None = None,
    nullable: bool = False,
    family: str | None = None,
    null: Literal["marker", "delete"] | None = None,
    renamed_from: str | None = None,
    versions: int | None = None,
) -> Any: ...
@overload
def column(  # pyright: ignore[reportOverlappingOverload]
    alias: str | bytes | None = None,
    /,
    codec: Codec[T] = ...,  # pyright: ignore[reportInvalidTypeVarUse]
    *,
    family: str | None = None,
    null: Literal["marker", "delete"] | None = None,
    renamed_from: str | None = None,
    versions: int | None = None,
) -> Column[T]: ...
@overload
def column(
    alias: str | bytes | None = None,
    /,
    codec: Codec[T] = ...,  # pyright: ignore[reportInvalidTypeVarUse]
    *,
    default: None,
    nullable: bool = ...,
    family: str | None = None,
    null: Literal["marker", "delete"] | None = None,
    renamed_from: str | None = None,
    versions: int | None = None,
) -> Column[T | None]: ...
@overload
def column(
    alias: str | bytes | None = None,
    /,
    codec: Codec[T] = ...,
    *,
    default: T,
    family: str | None = None,
    null: Literal["marker", "delete"] | None = None,
    renamed_from: str | None = None,
    versions: int | None = None,
) -> Column[T]: ...
@overload
def column(
    alias: str | bytes | None = None,
    /,
    codec: Codec[T] = ...,
    *,
    factory: Callable[[], T],
    family: str | None = None,
    null: Literal["marker", "delete"] | None = None,
    renamed_from: str | None = None,
    versions: int | None = None,
) -> Column[T]: ...
@overload
def column(
    alias: str | bytes | None = None,
    /,
    codec: Codec[T] = ...,  # pyright: ignore[reportInvalidTypeVarUse]
    *,
    default: T | None = ...,
    nullable: bool = ...,
    family: str | None = None,
    null: Literal["marker", "delete"] | None = None,
    renamed_from: str | None = None,
    versions: int | None = None,
) -> Column[T | None]: ...
def column(
    alias: str | bytes | None = None,
    /,
    codec: Codec[Any] | None = None,
    *,
    default: Any = REQUIRED,
    factory: Callable[[], Any] | None = None,
    family: str | None = None,
    nullable: bool = False,
    null: Literal["marker", "delete"] | None = None,
    renamed_from: str | None = None,
    versions: int | None = None,
) -> Any:
    """Declares a field stored in its own cell.

    Args:
        alias: the column qualifier; keep it short, since every cell contains it. By default the attribute's name. The
            argument is positional only, because type checkers interpret a keyword `alias` as the name of the
            constructor's argument. The alias may be empty for the only column of a model with key fields in the
            qualifier. In an external table the alias may be bytes, may begin with an underscore, and may be empty.
        codec: how values become bytes; by default the codec for the annotation.
        default: the value for new objects, and for stored rows that lack the cell. Without a default or a factory the
            column is required: reading a row that lacks it raises `IncompleteRow`.
        factory: a function without arguments that makes the default, such as `list`. It is called each time, so that
            objects do not share the value.
        family: column family; by default the model's.
        nullable: tells type checkers that None is allowed, if a codec is given and they do not infer it from the
            annotation (pyright); at run time the annotation decides.
        null: `"marker"`, the default, stores None as an empty cell; `"delete"` deletes the cell (only on models without
            indexes). In an external table, None is always an absent cell, and needs `default=None`: an empty cell would
            be an empty value for the other programs.
        renamed_from: the former name of the field, in the same cell and with the same codec.
        versions: the number of versions of the cell to keep, for `session.versions` and `query.as_of`. This is a
            setting of the family: all of its columns keep the largest number that one of them declares.
    """
    return FieldSpec(
        "column",
        codec,
        alias,
        family,
        default,
        factory=factory,
        nullable=nullable,
        null=null,
        renamed_from=renamed_from,
        versions=versions,
    )


def counter(
    alias: str | bytes | None = None,
    /,
    *,
    family: str | None = None,
    renamed_from: str | None = None,
    init: Literal[False] = False,
) -> Column[int]:
    """Declares a counter: a Java long of 8 bytes that `Session.increment` changes atomically on the server.

    A counter is 0 until it is incremented. The constructor and `add` do not accept a value for a counter, and an index
    can neither contain nor cover one.

    Args:
        alias: the column qualifier, as in `column`.
        family: column family; by default the model's.
        renamed_from: the former name of the field, in the same cell.
        init: tells type checkers that the constructor does not accept the field; it is always False.
    """
    del init
    return typing.cast("Column[int]", FieldSpec("counter", JavaLong, alias, family, 0, renamed_from=renamed_from))


def version(*, init: Literal[False] = False) -> Column[int]:
    """Declares the version of a model. Every write of a row checks the version and increments it (optimistic
    concurrency).

    The version is 0 (unknown) in an object that was created and not read. The constructor does not accept a version.
    `==` ignores the version, and `attrs.evolve` keeps it. Versioned models need a store with check-and-mutate: the
    embedded store, or HBase through its Thrift2 gateway.
    """
    del init  # tells type checkers that the constructor does not accept the field
    return typing.cast("Column[int]", FieldSpec("version", VersionCodec(), default=UNKNOWN))


def flag(alias: str | bytes, value: bytes = FLAG) -> FlagSpec:
    """Names the cell that contains 01 while a row exists, for `@hb.model(exists=hb.flag("e"))`.

    `insert` needs this cell if every required column may be stored as an empty cell, since HBase's check cannot
    distinguish an empty cell from an absent one.

    Args:
        alias: the column qualifier; in an external table it may be bytes.
        value: the value that a put writes into the cell. It can only be given for an external table, and should be the
            value that the other programs put, such as `x` in Phoenix's cell `_0`. A row exists if it has this cell,
            whatever the value.
    """
    return FlagSpec(alias, value)
