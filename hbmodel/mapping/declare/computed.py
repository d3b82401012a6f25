"""Computed fields: a function computes their values from other fields, so rows do not store them, but predicates and
indexes can use them.
"""

from __future__ import annotations

import functools
import inspect
import traceback
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NoReturn, TypeVar, overload

from attrs import field, frozen
from typing_extensions import override

from hbmodel.encoding.codecs import Codec, Dictionary, Json, codec_for
from hbmodel.encoding.codecs.base import JSON
from hbmodel.errors import ComputedFieldError, DeclarationError
from hbmodel.mapping.annotations import allows_none
from hbmodel.mapping.field_expressions import FieldExpression
from hbmodel.mapping.model_field import Field, Values

T = TypeVar("T")


@frozen
class ComputedField(Field):
    """A field whose value is computed from stored fields by a function.

    Attributes:
        function: called with the values of `of`.
        of: names of the stored fields, in the order of the function's arguments.
        forms: for each field in `of`, a function that converts a value to the form that a read returns. So `function`
            gets each value in this form only, even if a declared default has a different form.
        version: the declared version of the function. An index that was built with a different version counts as a
            different index.
    """

    function: Callable[..., Any] = field(kw_only=True, eq=False, repr=False)
    of: Sequence[str] = field(kw_only=True)
    version: int = field(kw_only=True)
    forms: Sequence[Callable[[Any], Any]] = field(kw_only=True, eq=False, repr=False)

    @property
    @override
    def reads(self) -> frozenset[str]:
        return frozenset(self.of)

    @property
    @override
    def derivation(self) -> Mapping[str, JSON]:
        return {"computed": {"of": list(self.of), "version": self.version}, "codec": self.codec.spec}

    @override
    def value_in(self, values: Values) -> Any:
        arguments = [stored(values[name]) for name, stored in zip(self.of, self.forms, strict=True)]
        try:
            return self.function(*arguments)
        except Exception as error:
            details = {"reason": type(error).__name__, **_place(self.function, error)}
        raise ComputedFieldError(
            "The function of a computed field raised an exception for the values of a row: correct the function.",
            field=self.name,
            **details,
        )

    @override
    def tested(self, test: Callable[[Values], bool]) -> Callable[[Values], bool]:
        name, value_in = self.name, self.value_in
        return lambda values: test(values if name in values else {name: value_in(values)})


def _place(function: Callable[..., Any], error: Exception) -> dict[str, Any]:
    """Returns where a function failed: the last line of its own file that was reached, and the function of that line.
    Lines of a library that it calls would not tell what to correct. A function written in C has no lines.
    """
    target: Any = function
    while isinstance(target, functools.partial):
        target = target.func
    target = inspect.unwrap(target)
    code = getattr(target, "__code__", None) or getattr(type(target).__call__, "__code__", None)
    file = None if code is None else code.co_filename
    lines = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    if lines:
        return {"function": lines[-1].name, "line": lines[-1].lineno}
    return {"function": getattr(target, "__qualname__", type(target).__name__)}


@frozen
class ComputedSpec:
    """The return value of `computed` before the decorator resolves it."""

    function: Callable[..., Any]
    of: Sequence[str]
    version: int
    codec: Codec[Any] | None
    nullable: bool

    def resolve(self, name: str, stored: Mapping[str, Field]) -> ComputedField:
        """Makes the computed field from the stored fields of its model.

        Raises:
            DeclarationError: the declaration is invalid, or there is no codec for the values of the field.
        """
        names = (self.of,) if isinstance(self.of, str) else tuple(self.of)
        if not callable(self.function) or not names or not all(isinstance(one, str) for one in names):
            raise DeclarationError(
                'A computed field takes a function and names of fields: hb.computed(domain_of, of=("email",)).'
            )
        for one in names:
            if one not in stored or stored[one].kind == "counter":
                known = sorted(name for name, other in stored.items() if other.kind != "counter")
                raise DeclarationError(
                    "A computed field can be computed from key fields and ordinary columns only.",
                    unknown=one,
                    known=known,
                )
        if type(self.version) is not int or self.version < 1:
            raise DeclarationError(
                "The version of a computed field must be a whole number of at least 1.", found=repr(self.version)
            )
        hint = _returned(self.function)
        codec, nullable = self._codec(hint)
        return ComputedField(
            name,
            "computed",
            codec,
            nullable,
            hint=hint,
            function=self.function,
            of=names,
            version=self.version,
            forms=tuple(stored[one].as_stored for one in names),
        )

    def _codec(self, hint: Any) -> tuple[Codec[Any], bool]:
        if isinstance(self.codec, Dictionary):
            raise DeclarationError(
                "A computed field cannot have a dictionary, because only key fields and columns give names their ids: "
                "leave out the codec, so that the entries of indexes hold the text itself.",
                dictionary=self.codec.name,
            )
        if isinstance(self.codec, Codec):
            return self.codec, self.nullable or (hint is not None and allows_none(hint))
        if self.codec is not None:
            raise DeclarationError(
                "The codec must be a Codec, such as hb.UInt32 or hb.Text(8).", found=repr(self.codec)
            )
        if hint is None:
            raise DeclarationError("Annotate what the function returns, or give a codec.")
        try:
            return codec_for(hint)
        except DeclarationError:
            if typing.get_origin(hint) is None:
                raise
            return Json(hint), allows_none(hint)  # values are not stored, but predicates turn them into bytes


def _returned(function: Callable[..., Any]) -> Any:
    """Returns the annotated return type of a function, or None."""
    try:
        return typing.get_type_hints(function, include_extras=True).get("return")
    except Exception:  # a name that exists only for type checkers, or a function that is not written in Python
        return None


class Computed(Generic[T]):
    """A computed field. On the class it is a typed expression; on an instance it is the result of the function for the
    current values of the instance.
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
        value: T = self._expression.of.value_in(vars(instance))
        return value

    def __set__(self, instance: object, value: Any) -> NoReturn:
        raise AttributeError(f"{self._expression.of.name!r} is computed and cannot be set")


def computed(
    function: Callable[..., T],
    *,
    of: Sequence[str],
    version: int = 1,
    codec: Codec[Any] | None = None,
    nullable: bool = False,
) -> Computed[T]:
    """Declares a computed field for queries and indexes: `domain = hb.computed(domain_of, of=("email",))`.

    The value is stored only in the entries of indexes over the field. The declaration has no annotation: the type of
    the field is the return type of the function.

    Args:
        function: called with the values of `of`, by position; it must always return the same result for the same
            values.
        of: names of key fields and ordinary columns.
        version: a number that must be increased when the function changes and returns different values than before.
            Programs with the older function then refuse the indexes over the field, and the indexes must be rebuilt.
        codec: how values become bytes; by default the codec for the function's return annotation.
        nullable: whether the function may return None. This is needed only if the return annotation does not say so.
    """
    return typing.cast("Computed[T]", ComputedSpec(function, of, version, codec, nullable))
