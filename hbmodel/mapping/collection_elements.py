"""The elements of a collection field, as a separate field for predicates and indexes."""

from __future__ import annotations

import typing
from collections import abc
from typing import Any

from hbmodel.encoding.codecs import codec_for
from hbmodel.errors import DeclarationError
from hbmodel.mapping.annotations import members_of
from hbmodel.mapping.model_field import Field

_COLLECTIONS = {list, set, frozenset, abc.Sequence, abc.MutableSequence, abc.Set, abc.MutableSet, abc.Collection}


def element_of(field: Field) -> Field | None:
    """Returns the field `name[]` for the elements of the collection field `name`, or None if the annotation does not
    name a type of elements that keys can store.
    """
    hint = _element_hint(field.hint)
    if hint is None:
        return None
    try:
        codec, nullable = codec_for(hint)
    except DeclarationError:
        return None
    # Collections store their elements without rounding, so the values in a query are not rounded either.
    return Field(f"{field.name}[]", "element", codec.exact, nullable, hint=hint) if codec.key else None


def _element_hint(hint: Any) -> Any:
    collections = [member for member in members_of(hint) if member is not type(None)]
    if len(collections) != 1:
        return None
    origin, arguments = typing.get_origin(collections[0]), typing.get_args(collections[0])
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        return arguments[0]
    return arguments[0] if origin in _COLLECTIONS and len(arguments) == 1 else None
