"""The elements of a collection that a query asks for, found without building entries for the other elements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import date, timedelta
from typing import Any
from uuid import UUID

from hbmodel.encoding.codecs import Codec, EnumOf
from hbmodel.encoding.codecs.library import SCALARS

_PLAIN = {type(SCALARS[kind]): kind for kind in (bytes, date, float, int, str, timedelta, UUID)}
"""Codec classes, each with the type of its values. Two of these values with the same bytes are equal and have the same
hash. Times are not included, because Python may call times of two zones different even if they are the same instant.
"""


def _plain(codec: Codec[Any]) -> type | None:
    """Returns the type of the codec's values if they can be looked up by themselves, without encoding them;
    otherwise None.
    """
    if isinstance(codec, EnumOf):
        return codec.python_type if type(codec.codec) in _PLAIN else None
    return _PLAIN.get(type(codec))


def elements_asked_for(
    codec: Codec[Any], asked: Sequence[Any], pack: Callable[[Any], bytes]
) -> Callable[[Iterable[Any]], Sequence[Any]] | None:
    """Returns a function that selects, from the elements of a collection, those that equal a value of the query or have
    the same bytes as such a value. Returns None if this cannot be decided.

    A value of a plain type is looked up by its hash, and any other value is encoded first.

    Args:
        codec: the codec of the elements.
        asked: the values that a query asks for.
        pack: a function that returns the bytes of a value in an entry's key.
    """
    try:
        known = frozenset(asked)
        packed = frozenset(map(pack, asked))
    except Exception:
        return None
    plain = _plain(codec)

    def has_bytes(element: Any) -> bool:
        try:
            return element in known or pack(element) in packed
        except Exception:  # the same error is raised when the entries of the row are made
            return True

    def chosen(elements: Iterable[Any]) -> Sequence[Any]:
        return [element for element in elements if (element in known if type(element) is plain else has_bytes(element))]

    return chosen
