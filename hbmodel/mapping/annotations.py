"""Evaluates the annotations of a model in the scope of its class, and finds out whether a field may be None."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from types import FrameType, NoneType, SimpleNamespace, UnionType
from typing import Annotated, Any, ClassVar, ForwardRef, Union, get_args, get_origin, get_type_hints

from hbmodel.encoding.codecs import Codec
from hbmodel.errors import DeclarationError


def annotations_of(cls: type[Any], frame: FrameType, hidden: frozenset[str]) -> Mapping[str, Any]:
    """Returns the evaluated annotations of a class and its bases, by attribute name. The annotations of the bases come
    first.

    Args:
        frame: the frame in which the class is declared; names that are local to a function are found there.
        hidden: the names of the fields. Such a name in an annotation does not refer to the field, so a field of type
            `date` may be called `date`.

    Raises:
        DeclarationError: a name in an annotation is unknown; the error names the field.
    """
    hints: dict[str, Any] = {}
    for base in reversed(cls.__mro__[:-1]):
        module = sys.modules.get(base.__module__)
        known = {**frame.f_globals, **(vars(module) if module else {})}
        local = {**frame.f_locals, **{name: value for name, value in vars(base).items() if name not in hidden}}
        for name, hint in inspect.get_annotations(base).items():
            hints[name] = _evaluated(hint, known, local, cls, name) if _is_text(hint) else hint
    return hints


def _is_text(hint: Any) -> bool:
    """Whether an annotation is text, or contains text, as in `hb.Key["UUID"]`."""
    return isinstance(hint, str) or _has_text(hint)


def _has_text(hint: Any) -> bool:
    return isinstance(hint, ForwardRef) or any(map(_has_text, get_args(hint)))


def _evaluated(hint: Any, known: dict[str, Any], local: dict[str, Any], cls: type[Any], name: str) -> Any:
    alone = type("Alone", (), {"__annotations__": {name: hint}})
    try:
        hint = inspect.get_annotations(alone, globals=known, locals=local, eval_str=True)[name]
        if not _has_text(hint):
            return hint
        return get_type_hints(SimpleNamespace(__annotations__={name: hint}), known, local, include_extras=True)[name]
    except Exception as error:
        raise DeclarationError(
            "The annotation cannot be evaluated: define or import its names before the class, not under TYPE_CHECKING.",
            model=cls.__name__,
            field=name,
            annotation=hint if isinstance(hint, str) else str(hint),
            reason=str(error),
        ) from None


def is_class_var(hint: Any) -> bool:
    """Whether an annotation is a `ClassVar`."""
    return hint is ClassVar or get_origin(hint) is ClassVar


def allows_none(hint: Any) -> bool:
    """Whether an annotated type allows None."""
    return NoneType in members_of(hint)


def allows_all(hint: Any) -> bool:
    """Whether an annotated type is `Any` or `object`, so that it does not say whether None is stored."""
    return not {Any, object}.isdisjoint(members_of(hint))


def fits(codec: Codec[Any], hint: Any) -> bool:
    """Whether the values of a codec have the annotated type. True if this cannot be decided by comparing classes."""
    wanted = [member for member in members_of(hint) if member is not NoneType]
    if not wanted or any(not isinstance(member, type) or member is Any or get_origin(member) for member in wanted):
        return True
    read = codec.python_type if isinstance(codec.python_type, tuple) else (codec.python_type,)
    return object in read or all(any(issubclass(kind, member) for member in wanted) for kind in read)


def members_of(hint: Any) -> list[Any]:
    """Returns the members of a union type, with aliases resolved."""
    origin = get_origin(hint)
    if origin in {Union, UnionType}:
        return [member for part in get_args(hint) for member in members_of(part)]
    if origin is Annotated:
        return members_of(get_args(hint)[0])
    if type(hint).__name__ == "TypeAliasType":
        return members_of(hint.__value__)
    return [hint]
