"""Hypothesis strategies for the kinds of indexes: collections, computed fields, and conditions of partial indexes."""

from __future__ import annotations

import typing
from collections.abc import Callable, Mapping
from datetime import timedelta
from enum import Enum
from numbers import Number
from typing import Any
from zlib import crc32

from attrs import frozen
from hypothesis import strategies as st

from hbmodel.mapping.annotations import members_of
from hbmodel.mapping.predicates import Predicate
from hbmodel.query.ask.query_partition import described, rebuilt
from tests.support.strategies import plain

ELEMENTS: Mapping[type, st.SearchStrategy[Any]] = {
    int: st.integers(-1, 2),
    str: st.sampled_from(["", "a", "b", "ab", "\0", "ü", "a\0b"]),
}
"""A strategy of few elements for each type, so that rows share them. They include empty text and 00."""


@frozen
class Collection:
    """A kind of collection that a column holds: the annotation of its values, and the strategy for them."""

    hint: Any
    values: st.SearchStrategy[Any]


@st.composite
def collections(draw: st.DrawFn) -> Collection:
    """Returns a kind of collection: lists, sets or tuples whose elements may be None. They are often empty, and often
    contain an element twice.
    """
    kind = draw(st.sampled_from(list(ELEMENTS)))
    made = st.lists(ELEMENTS[kind], max_size=4) | st.lists(ELEMENTS[kind], min_size=2, max_size=4)
    with_none = st.lists(ELEMENTS[kind] | st.none(), max_size=4)  # in lists and tuples only: the codec sorts sets
    kinds = [
        Collection(list[kind], made),  # type: ignore[valid-type]
        Collection(list[kind | None], with_none),
        Collection(tuple[kind, ...], made.map(tuple)),  # type: ignore[valid-type]
        Collection(tuple[kind | None, ...], with_none.map(tuple)),
        Collection(set[kind], made.map(set)),  # type: ignore[valid-type]
        Collection(frozenset[kind], made.map(frozenset)),  # type: ignore[valid-type]
    ]
    return draw(st.sampled_from(kinds))


def empty_of(hint: Any) -> Any:
    """Returns the empty collection of an annotated type."""
    (kind,) = [member for member in members_of(hint) if member is not type(None)]
    return typing.get_origin(kind)()


def shape(value: Any) -> int | None:
    """Returns a small number for any value, which is the same for equal values, or None for None and for empty
    values.
    """
    if isinstance(value, Enum):
        return shape(value.value)
    if isinstance(value, str | bytes | list | set | frozenset | tuple):
        return len(value) % 3 if value else None
    if isinstance(value, Number):
        return int(value > 0)  # type: ignore[operator]
    if isinstance(value, timedelta):
        return int(value > timedelta(0))
    return None if value is None else crc32(repr(plain(value)).encode()) % 3


def shapes(*values: Any) -> list[int]:
    """Returns the shapes of several values, in any order and some of them twice."""
    found = [found for value in values if (found := shape(value)) is not None]
    return [*found, *found[:1]]


def shape_of(*values: Any) -> int | None:
    """Returns the shape of the first value."""
    return shape(values[0])


COMPUTED: Mapping[str, tuple[Callable[..., Any], Any]] = {"p": (shape_of, int | None), "q": (shapes, list[int])}
"""The functions of computed fields, by the name of the field, with the type of their results."""

COMPUTED_POOLS: Mapping[str, list[Any]] = {"p": [None, 0, 1, 2], "q": [[], [0], [1], [1, 2, 1]]}


@frozen
class _Fields:
    """The fields of a model that is being created, with which the text of predicates is evaluated."""

    model: Any
    table: str = "t"

    def field(self, name: str) -> Any:
        """Returns the field of that name."""
        return getattr(self.model, name).of


def repeated(predicate: Predicate) -> Callable[[Any], Predicate]:
    """Returns a function that makes the same condition on another model with the same fields, as an index declares
    it.
    """
    description = described(predicate)
    return lambda model: rebuilt(_Fields(model), description)  # type: ignore[arg-type]
