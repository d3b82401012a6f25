"""Matches the conditions of a query with the fields of a key, and finds the fixed leading fields and the bounds on the
next field.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import evolve, frozen

from hbmodel.encoding.key_layout import Bounds, KeyLayout
from hbmodel.errors import QueryError
from hbmodel.mapping.index_kinds.base import Condition
from hbmodel.mapping.model_field import Field
from hbmodel.mapping.predicates import Comparison, In, Not, Predicate, StartsWith, equalities
from hbmodel.store.ranges import KeyRange


@frozen
class KeyPiece:
    """A range of keys that can match a query.

    Attributes:
        parts: the bytes of the leading fields that are the same in all keys of the range.
        range: the range of keys, without salt.
        bounded: whether the range bounds the field after `parts`.
    """

    parts: Sequence[bytes]
    range: KeyRange
    bounded: bool


@frozen(eq=False)
class KeyConditions:
    """The conditions of a query on the leading fields of one key.

    Attributes:
        parts: for each fixed leading field, its possible values, packed and in key order; empty if the conditions on
            the field contradict each other.
        bounds: the bounds on the field after the fixed ones, or None; always None if there are pieces.
        conditions: all conditions of the query, with their meaning for the key.
        consumed: the predicates of the query that need no further test, because the keys, or the choice of the index,
            enforce them exactly.
        unordered: name of the field after the fixed ones, if the query bounds it but its bytes do not keep its order.
        excess: name of the field after the fixed ones, if it could be fixed but its values would lead to too many key
            ranges.
        narrowed: whether the keys belong to an index that contains only some of the rows.
        pieces: the ranges of keys; None if there is one range for each combination of `parts`, with the same `bounds`.
    """

    parts: Sequence[Sequence[bytes]]
    bounds: Bounds | None
    conditions: Sequence[Condition]
    consumed: Sequence[Predicate]
    unordered: str | None = None
    excess: str | None = None
    narrowed: bool = False
    pieces: Sequence[KeyPiece] | None = None

    @property
    def bounded(self) -> bool:
        """Whether the field after the fixed ones is bounded."""
        if self.pieces is None:
            return self.bounds is not None
        return bool(self.pieces) and all(piece.bounded or len(piece.parts) > len(self.parts) for piece in self.pieces)

    @property
    def open(self) -> bool:
        """Whether the conditions exclude no key of the path, and the path contains all rows."""
        return not self.parts and not self.bounded and not self.narrowed

    def fixed(self, layout: KeyLayout) -> Sequence[str]:
        """Returns the leading fields of a key that the query fixes, each to one or several values."""
        return layout.names[: len(self.parts)]

    def names(self, layout: KeyLayout) -> Sequence[str]:
        """Returns the fields of a key that the query fixes or bounds."""
        return layout.names[: len(self.parts) + self.bounded]

    def complete(self, layout: KeyLayout) -> bool:
        """Whether the whole key is fixed."""
        return len(self.parts) == len(layout.names)

    def values_at(self, layout: KeyLayout, at: int, *, consumed: bool = True) -> Sequence[bytes] | None:
        """Returns the possible packed values, in key order, of the field at position `at` of the key, which need not be
        a leading field. Returns None if no equality names the values of the field.

        Args:
            consumed: whether predicates in `consumed` are used as well. Keys are not tested against these predicates.
                So if a row has several entries, these predicates do not decide which of the entries the query finds.
        """
        if at < len(self.parts):
            return self.parts[at]
        own = [c for c in self.conditions if c.on_entry.names() == {layout.names[at]}]
        if not consumed:
            own = [c for c in own if not any(c.asked is done for done in self.consumed)]
        return _packed(layout, at, own)

    def all_pieces(self, layout: KeyLayout) -> Iterable[KeyPiece]:
        """Returns the ranges of keys: `pieces` or, if it is None, one range for each combination of `parts`. Some
        ranges may be empty.
        """
        if self.pieces is not None:
            return self.pieces
        combined = itertools.product(*self.parts)
        return (KeyPiece(parts, layout.range_of(parts, self.bounds), self.bounds is not None) for parts in combined)


def match(
    layout: KeyLayout,
    conditions: Sequence[Condition],
    operands: Mapping[str, Field],
    max_ranges: int,
    leading: Sequence[Sequence[bytes]] = (),
) -> KeyConditions:
    """Matches conditions with the fields of `layout`, starting with the first field. All conditions must hold.

    Args:
        max_ranges: the maximum number of ranges. There is one range for each combination of values of the fixed fields.
        leading: the values of the first fields, if they are already known.
    """
    matched = KeyConditions(leading, None, conditions, [])
    ranges = math.prod(max(len(values), 1) for values in leading)
    for at, name in list(enumerate(layout.names))[len(leading) :]:
        own = [c for c in conditions if c.on_entry.names() == {name}]
        packed = _packed(layout, at, own)
        if packed is None:
            return _bounded(layout, at, own, operands[name], matched)
        if ranges * len(packed) > max_ranges:
            return _bounded(layout, at, own, operands[name], evolve(matched, excess=name))
        ranges *= max(len(packed), 1)
        # If a part form does not show its end, keys that begin with the bytes of a value may contain a longer value, so
        # the condition is still tested.
        enforced = [c.asked for c in own] if layout.fields[at].codec.delimited else []
        matched = evolve(matched, parts=[*matched.parts, packed], consumed=[*matched.consumed, *enforced])
    return matched


def _packed(layout: KeyLayout, at: int, own: Sequence[Condition]) -> Sequence[bytes] | None:
    """Returns the packed values that the conditions on the field at a position allow, in key order, or None if none of
    them is an equality.
    """
    values = values_left([c.on_entry for c in own], layout.names[at])
    if values is None:
        return None
    none = layout.fields[at].nullable  # if the index excludes None here, other conditions of the query do so as well
    return sorted({layout.pack_field(at, value) for value in values if value is not None or none})


def values_left(own: Sequence[Predicate], name: str) -> Sequence[Any] | None:
    """Returns the values that satisfy all predicates on a field, if at least one of the predicates is an equality;
    otherwise None.
    """
    given = min((equal[1] for p in own if (equal := equalities(p)) is not None), key=len, default=None)
    if given is None:
        return None
    tests = [p.test() for p in own]
    return [value for value in given if all(test({name: value}) for test in tests)]


def _bounded(
    layout: KeyLayout, at: int, own: Sequence[Condition], field: Field, matched: KeyConditions
) -> KeyConditions:
    """Adds the bounds on the field at a position to the match of the fields before it."""
    bounds, settling = bounds_of([c.on_entry for c in own], field)
    settled = [c.asked for c in own if any(c.on_entry is p for p in settling)] if field.codec.delimited else []
    if bounds is not None:
        try:
            layout.range_of([b""] * at, bounds)
        except QueryError:  # the bytes do not sort like the values, or cannot be searched by this prefix
            return evolve(matched, unordered=field.name)
    return evolve(matched, bounds=bounds, consumed=(*matched.consumed, *settled))


_BOUNDLESS = {False: ((),), True: ((None,),)}
"""The lists of values with which `~in_` excludes only None: for fields that are not nullable, and for nullable
fields.
"""


def bounds_of(own: Sequence[Predicate], field: Field) -> tuple[Bounds | None, list[Predicate]]:
    """Returns the tightest bounds that follow from comparisons, a prefix or `~is_(None)` on a field, and the predicates
    that these bounds enforce exactly.
    """
    low: Comparison | None = None
    high: Comparison | None = None
    prefix: StartsWith | None = None
    settled: list[Predicate] = []
    key = field.codec.order_key
    for p in own:
        if isinstance(p, Comparison) and p.operator in {">", ">="}:
            settled.append(p)
            if low is None or (key(p.value), p.operator == ">") > (key(low.value), low.operator == ">"):
                low = p
        elif isinstance(p, Comparison) and p.operator in {"<", "<="}:
            settled.append(p)
            if high is None or (key(p.value), p.operator == "<=") < (key(high.value), high.operator == "<="):
                high = p
        elif isinstance(p, StartsWith):
            if not p.prefix:  # an empty prefix only excludes None
                settled.append(p)
            elif prefix is None or len(p.prefix) > len(prefix.prefix):
                prefix = p
        elif (
            isinstance(p, Not) and isinstance(p.parts[0], In) and tuple(p.parts[0].values) in _BOUNDLESS[field.nullable]
        ):
            settled.append(p)
    if prefix is not None:
        settled.append(prefix)
    if not settled:
        return None, []
    bounds: dict[str, Any] = {}
    if low is not None:
        bounds |= {"low": low.value, "low_inclusive": low.operator == ">="}
    if high is not None:
        bounds |= {"high": high.value, "high_inclusive": high.operator == "<="}
    if prefix is not None:
        bounds["prefix"] = prefix.prefix
    if not bounds and not field.nullable:
        return None, settled
    return Bounds(**bounds), settled
