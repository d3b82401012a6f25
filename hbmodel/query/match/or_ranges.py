"""Finds the key ranges of trees of `&` and `|` field by field; they are the union of the ranges of the branches.

A tree is not expanded into a union of simple conditions. The conditions on the first field of the key divide the values
of this field into points and intervals: the points are the values that equalities name, and the intervals lie between
the points. For each point and each interval, a smaller tree of conditions on the following fields is left. For each
point, the next field is divided in the same way. So the keyset predicate `(a > 1) | ((a == 1) & (b < 2))` becomes the
interval above 1 and, under the point 1, the interval of `b` below 2.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import Any

from attrs import evolve, frozen

from hbmodel.encoding.codecs.base import COMPLEMENT
from hbmodel.encoding.key_field import SOME
from hbmodel.encoding.key_layout import Bounds, KeyLayout
from hbmodel.errors import QueryError
from hbmodel.mapping.predicates import And, Comparison, In, Not, Or, Predicate, StartsWith, equalities
from hbmodel.query.match.key_conditions import KeyConditions, KeyPiece
from hbmodel.query.match.value_segments import EVERY, Left, Segment, all_of, any_of, as_one, both, either
from hbmodel.store.ranges import KeyRange, merge_ranges, prefix_successor

MAX_CONDITIONS = 1_000
"""The maximum number of conditions in a query whose trees bound the key. If a query has more conditions, only its
predicates outside `|` bound the key.
"""


def refined(layout: KeyLayout, matched: KeyConditions, limit: int) -> KeyConditions:
    """Adds the key ranges of trees of conditions to a match; returns the match unchanged if the ranges exclude no
    further keys.

    Args:
        limit: the maximum number of ranges. If the conditions need more, fewer and wider ranges are used.
    """
    # If a field is not fixed, conditions on later fields cannot bound the key.
    reach = {*layout.names[: len(matched.parts) + 1]}
    if not any(isinstance(c.on_entry, And | Or | Not) and c.on_entry.names() & reach for c in matched.conditions):
        return matched
    if not all(key_field.codec.delimited for key_field in layout.fields):
        return matched  # the ranges of different values would overlap
    conditions = [_without_not(c.on_entry) for c in matched.conditions]
    if not any(isinstance(c, And | Or) for c in conditions) or sum(map(_size, conditions)) > MAX_CONDITIONS:
        return matched
    roots, pieces = _pieces(layout, conditions, limit)
    if pieces is None or (len(pieces) == 1 and not pieces[0].parts and not pieces[0].bounded):
        return matched
    consumed = [c.asked for at, c in enumerate(matched.conditions) if all(left[at] is True for left in roots)]
    depth = min((len(piece.parts) for piece in pieces), default=0)
    if pieces and depth < len(matched.parts):
        return matched  # there were too many ranges, so they were joined; the single predicates fix more fields
    parts = [sorted({piece.parts[at] for piece in pieces}) for at in range(depth)] if pieces else [[]]
    refinement = evolve(matched, parts=parts, bounds=None, pieces=pieces, consumed=consumed, excess=None)
    if matched.unordered in layout.names[:depth]:
        refinement = evolve(refinement, unordered=None)
    same = merge_ranges(piece.range for piece in matched.all_pieces(layout)) == merge_ranges(
        piece.range for piece in pieces
    )
    return matched if same and len(consumed) <= len(matched.consumed) else refinement


def _without_not(predicate: Predicate) -> Predicate:
    """Returns an equivalent tree in which only single conditions are negated, and in which negated comparisons are
    replaced by the opposite comparisons.
    """
    match predicate:
        case And(parts):
            return And(tuple(_without_not(part) for part in parts))
        case Or(parts):
            return Or(tuple(_without_not(part) for part in parts))
        case Not((And(parts),)):
            return Or(tuple(_without_not(Not((part,))) for part in parts))
        case Not((Or(parts),)):
            return And(tuple(_without_not(Not((part,))) for part in parts))
        case Not((Not((part,)),)):
            return _without_not(part)
        case Not((Comparison(field, operator, value),)):
            opposite = Comparison(field, _OPPOSITE[operator], value)
            return Or((In(field, (None,)), opposite)) if field.nullable and operator in _ORDERED else opposite
    return predicate


_ORDERED = ("<", "<=", ">", ">=")

_OPPOSITE: Mapping[str, Any] = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


def _size(predicate: Predicate) -> int:
    return sum(map(_size, predicate.parts)) if isinstance(predicate, And | Or) else 1


# --- fields, one after the other --------------------------------------------------------------------------------------


@frozen(eq=False)
class _Prefix:
    """Fixed leading fields, and the remaining conditions on the fields after them."""

    parts: tuple[bytes, ...]
    left: tuple[Left, ...]


def _pieces(
    layout: KeyLayout, conditions: Sequence[Predicate], limit: int
) -> tuple[list[tuple[Left, ...]], list[KeyPiece]] | tuple[list[tuple[Left, ...]], None]:
    """Returns the conditions that remain in each range of keys, and the ranges. Instead of the ranges, returns None if
    the first field alone needs too many of them.
    """
    prefixes = [_Prefix((), tuple(conditions))]
    pieces: list[KeyPiece] = []
    lefts: list[tuple[Left, ...]] = []
    for at in range(len(layout.names)):
        known: dict[tuple[int, ...], _Level] = {}
        levels = []
        for prefix in prefixes:
            same = tuple(map(id, prefix.left))
            if same not in known:
                known[same] = _Level.of(layout, at, prefix.left)
            levels.append(known[same])
        narrow = len(pieces) + sum(len(level.segments) for level in levels) <= limit
        if not narrow and not at:
            return [], None
        points: list[_Prefix] = []
        for prefix, level in zip(prefixes, levels, strict=True):
            for segment in level.segments if narrow else level.hull:
                packed = level.points.get((segment.start, segment.stop))
                if packed is not None and narrow:
                    points.append(_Prefix((*prefix.parts, packed), segment.left))
                    continue
                pieces.append(KeyPiece(prefix.parts, _behind(prefix.parts, segment), segment[:2] != EVERY))
                lefts.append(segment.left)
        prefixes = points
    for prefix in prefixes:
        pieces.append(KeyPiece(prefix.parts, layout.range_of(prefix.parts), False))
        lefts.append(prefix.left)
    return lefts, pieces


def _behind(parts: Sequence[bytes], segment: Segment) -> KeyRange:
    """Returns the keys that begin with these parts and continue with a value in a segment."""
    prefix = b"".join(parts)
    return KeyRange(prefix + segment.start, prefix_successor(prefix) if segment.stop is None else prefix + segment.stop)


@frozen(eq=False)
class _Level:
    """The conditions on one field of a key.

    Attributes:
        segments: the values that no condition excludes, sorted and disjoint.
        points: the packed values that equalities name, by the range of keys that begin with them.
        hull: one segment that contains all segments; none if there are no segments.
    """

    segments: Sequence[Segment]
    points: Mapping[tuple[bytes, bytes | None], bytes]
    hull: Sequence[Segment]

    @classmethod
    def of(cls, layout: KeyLayout, at: int, left: tuple[Left, ...]) -> _Level:
        """Returns the level for the field at position `at` of a key, given the remaining conditions."""
        name = layout.names[at]
        leaves = [
            leaf for tree in left if not isinstance(tree, bool) for leaf in _leaves(tree) if _field_name(leaf) == name
        ]
        if not leaves:
            every = [Segment(*EVERY, left)]
            return cls(every, {}, every)
        field = _Field.of(layout, at, name, leaves)
        segments = [Segment(*EVERY, ())]
        for tree in left:
            segments = both(segments, [Segment(*EVERY, (True,))] if isinstance(tree, bool) else field.segments(tree))
        segments = list(filter(None, map(field.decided, segments)))
        return cls(_joined(segments, field.points), field.points, _hull(segments, left))


def _field_name(leaf: Predicate) -> str:
    """Name of the field of a single condition."""
    (field,) = leaf.fields()
    return field.name


def _leaves(tree: Predicate) -> Iterator[Predicate]:
    if isinstance(tree, And | Or):
        for part in tree.parts:
            yield from _leaves(part)
    else:
        yield tree


def _joined(segments: Sequence[Segment], points: Mapping[tuple[bytes, bytes | None], bytes]) -> list[Segment]:
    """Merges neighbouring segments with the same remaining conditions. Points are not merged."""
    joined: list[Segment] = []
    for segment in segments:
        last = joined[-1] if joined else None
        alone = segment[:2] in points or last is None or last[:2] in points or last.stop != segment.start
        if last is None or alone or any(a is not b for a, b in zip(last.left, segment.left, strict=True)):
            joined.append(segment)
        else:
            joined[-1] = Segment(last.start, segment.stop, last.left)
    return joined


def _hull(segments: Sequence[Segment], left: tuple[Left, ...]) -> list[Segment]:
    """Returns one segment that contains all given segments. A condition that is a single bound or prefix, and holds in
    all of them, needs no further check, because the ends of the segment enforce it.
    """
    if not segments:
        return []
    settled = tuple(
        True
        if isinstance(tree, Comparison | StartsWith) and all(segment.left[at] is True for segment in segments)
        else tree
        for at, tree in enumerate(left)
    )
    return [Segment(segments[0].start, segments[-1].stop, settled)]


# --- one field --------------------------------------------------------------------------------------------------------


@frozen(eq=False)
class _Field:
    """A field of a key, with the values that equalities name.

    Attributes:
        points: as in `_Level`.
        values: the named values, by their ranges.
        starts: the starts of these ranges, sorted.
        stops: the ends of these ranges, in the order of `starts`.
        named: the ranges of the values that each equality names, by the `id` of the equality.
    """

    layout: KeyLayout
    at: int
    name: str
    points: Mapping[tuple[bytes, bytes | None], bytes]
    values: Mapping[tuple[bytes, bytes | None], Any]
    starts: Sequence[bytes]
    stops: Sequence[bytes | None]
    named: Mapping[int, Sequence[tuple[bytes, bytes | None]]]

    @classmethod
    def of(cls, layout: KeyLayout, at: int, name: str, leaves: Sequence[Predicate]) -> _Field:
        """Makes the field from the values that the equalities among the conditions (`leaves`) name."""
        points: dict[tuple[bytes, bytes | None], bytes] = {}
        values: dict[tuple[bytes, bytes | None], Any] = {}
        named: dict[int, list[tuple[bytes, bytes | None]]] = {}
        for leaf in leaves:
            wanted = _named(layout, at, leaf)
            if wanted is None:
                continue
            of_leaf = named[id(leaf)] = []
            for value in wanted:
                packed = layout.pack_field(at, value)
                key_range = layout.slots[at].keys_of(packed)
                place = key_range.start, key_range.stop
                of_leaf.append(place)
                points[place], values[place] = packed, value
        ordered = sorted(points, key=lambda each: each[0])
        return cls(
            layout, at, name, points, values, [start for start, _ in ordered], [stop for _, stop in ordered], named
        )

    def segments(self, tree: Predicate) -> list[Segment]:
        """Returns the segments of values that a tree of conditions does not exclude, with the remaining conditions."""
        if isinstance(tree, And):
            return [as_one(segment) for segment in reduce(both, map(self.segments, tree.parts), [Segment(*EVERY, ())])]
        if isinstance(tree, Or):
            return either([self.segments(part) for part in tree.parts])
        if _field_name(tree) != self.name:
            return [Segment(*EVERY, (tree,))]
        named = self.named.get(id(tree))
        if named is not None:
            return [Segment(start, stop, (True,)) for start, stop in sorted(set(named), key=lambda each: each[0])]
        bounds = _bounds(tree)
        if bounds is None:
            return [Segment(*EVERY, (tree,))]
        try:
            key_range = self.layout.range_of([b""] * self.at, bounds)
        except QueryError:  # the bytes do not sort like the values
            return [Segment(*EVERY, (tree,))]
        if key_range.empty:
            return []
        start, stop = self._outermost(
            self.snapped(key_range.start), None if key_range.stop is None else self.snapped(key_range.stop)
        )
        return [Segment(start, stop, (True,))] if stop is None or start < stop else []

    def _outermost(self, start: bytes, stop: bytes | None) -> tuple[bytes, bytes | None]:
        """Returns the bounds of a segment. In a nullable field, a bound at the last value on the side opposite to None
        is moved to the very end of all keys, so that neighbouring segments meet.
        """
        key_field = self.layout.fields[self.at]
        if key_field.nullable and key_field.desc:
            return b"" if start == SOME.translate(COMPLEMENT) else start, stop
        return start, None if key_field.nullable and stop == prefix_successor(SOME) else stop

    def snapped(self, cut: bytes) -> bytes:
        """If a bound lies inside the range of a point, moves it to the end of this range, because no key of the point
        is above the bound.
        """
        before = bisect_right(self.starts, cut) - 1
        if before < 0 or cut == self.starts[before]:
            return cut
        stop = self.stops[before]
        return cut if stop is None or stop <= cut else stop

    def decided(self, segment: Segment) -> Segment | None:
        """Tests the conditions on the value of a point, and returns the segment with the remaining conditions; None if
        the value fails one. A segment with more than one value is returned unchanged.
        """
        place = segment[:2]
        if place not in self.values:
            return segment
        left = tuple(True if isinstance(tree, bool) else self._at(tree, self.values[place]) for tree in segment.left)
        settled = [tree for tree in left if tree is not False]
        return None if len(settled) < len(left) else Segment(*place, tuple(settled))

    def _at(self, tree: Predicate, value: Any) -> bool | Predicate:
        """Returns the remaining tree of conditions if the field has this value."""
        if self.name not in tree.names():
            return tree
        if not isinstance(tree, And | Or):
            return tree.test()({self.name: value}) if tree.names() == {self.name} else tree
        parts = [self._at(part, value) for part in tree.parts]
        if isinstance(tree, And):
            return (
                False
                if any(part is False for part in parts)
                else all_of([part for part in parts if not isinstance(part, bool)])
            )
        return (
            True
            if any(part is True for part in parts)
            else any_of([part for part in parts if not isinstance(part, bool)])
        )


def _named(layout: KeyLayout, at: int, leaf: Predicate) -> Sequence[Any] | None:
    """Returns the values that an equality names, without None if the field is not nullable. For other conditions,
    returns None.
    """
    equal = equalities(leaf)
    if equal is None:
        return None
    return equal[1] if layout.fields[at].nullable else [value for value in equal[1] if value is not None]


def _bounds(leaf: Predicate) -> Bounds | None:
    """Returns the bounds that are equivalent to a condition on one field, or None if no bounds are."""
    match leaf:
        case Comparison(_, ">" | ">=" as operator, value):
            return Bounds(low=value, low_inclusive=operator == ">=")
        case Comparison(_, "<" | "<=" as operator, value):
            return Bounds(high=value, high_inclusive=operator == "<=")
        case StartsWith(_, prefix):
            return Bounds(prefix=prefix) if prefix else Bounds()
        case Not((In(field, values),)) if not values or (field.nullable and tuple(values) == (None,)):
            return Bounds() if values or not field.nullable else None
    return None
