"""How the conditions of a query meet the fields of a key: fixed leading fields, then bounds on the next one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import evolve, frozen

from hbmodel.encoding.key_layout import Bounds, KeyLayout
from hbmodel.errors import QueryError
from hbmodel.mapping.index_kinds.part import Condition
from hbmodel.mapping.model_field import Field
from hbmodel.mapping.predicates import Comparison, In, Not, Predicate, StartsWith, equalities
from hbmodel.store.ranges import KeyRange


@frozen
class KeyPiece:
    """A range of keys that a query leaves.

    Attributes:
        parts: the bytes of the leading fields that are fixed in it.
        range: of keys, without salt.
        bounded: whether it bounds the field behind them.
    """

    parts: Sequence[bytes]
    range: KeyRange
    bounded: bool


@frozen(eq=False)
class KeyConditions:
    """What a query says about the leading fields of one key.

    Attributes:
        parts: for each fixed leading field the packed values that it may have, in key order; none where the conditions on
            a field contradict each other.
        bounds: on the field behind them, or None; None where there are pieces.
        conditions: all of the query's, with what they mean for the key.
        consumed: the predicates that parts and bounds settle exactly, as the query has them.
        unordered: name of the field behind the fixed ones, if the query bounds it but its bytes cannot be searched so.
        excess: name of the field behind the fixed ones, if the query gives it more values than there may be key ranges.
        narrowed: whether the keys are those of an index that holds some rows only.
        pieces: the ranges of keys where not every combination of the parts is left, or several ranges behind one; else None.
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
        """Whether the field behind the fixed ones is bounded."""
        if self.pieces is None:
            return self.bounds is not None
        return bool(self.pieces) and all(piece.bounded or len(piece.parts) > len(self.parts) for piece in self.pieces)

    @property
    def open(self) -> bool:
        """Whether nothing bounds the key, nor which rows have one."""
        return not self.parts and not self.bounded and not self.narrowed

    def fixed(self, layout: KeyLayout) -> Sequence[str]:
        """The leading fields of a key that it gives some values each."""
        return layout.names[: len(self.parts)]

    def names(self, layout: KeyLayout) -> Sequence[str]:
        """The fields of a key that it fixes or bounds."""
        return layout.names[: len(self.parts) + self.bounded]

    def complete(self, layout: KeyLayout) -> bool:
        """Whether the whole key is fixed."""
        return len(self.parts) == len(layout.names)

    def all_pieces(self, layout: KeyLayout) -> Iterable[KeyPiece]:
        """The ranges of keys, one for each combination of parts where there are no pieces; some may be empty."""
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
    """Matches conditions that must all hold with the fields of `layout`, from the first on.

    Args:
        layout: of the key.
        conditions: of the query.
        operands: what stands at each place of the layout, by its name there.
        max_ranges: how many ranges the values of the fixed fields may multiply to.
        leading: what the first fields are fixed to, where that is known already.
    """
    found = KeyConditions(leading, None, conditions, [])
    ranges = math.prod(max(len(values), 1) for values in leading)
    for at, name in list(enumerate(layout.names))[len(leading) :]:
        own = [c for c in conditions if c.on_entry.names() == {name}]
        values = values_left([c.on_entry for c in own], name)
        if values is None:
            return _bounded(layout, at, own, operands[name], found)
        none = layout.fields[at].nullable  # an index may leave None out, which other conditions exclude then
        packed = sorted({layout.pack_field(at, value) for value in values if value is not None or none})
        if ranges * len(packed) > max_ranges:
            return _bounded(layout, at, own, operands[name], evolve(found, excess=name))
        ranges *= max(len(packed), 1)
        found = evolve(found, parts=[*found.parts, packed], consumed=[*found.consumed, *(c.asked for c in own)])
    return found


def values_left(own: Sequence[Predicate], name: str) -> Sequence[Any] | None:
    """The values that a field may have, if the predicates on it alone leave some few: those that satisfy every one of them."""
    given = min((equal[1] for p in own if (equal := equalities(p)) is not None), key=len, default=None)
    if given is None:
        return None
    tests = [p.test() for p in own]
    return [value for value in given if all(test({name: value}) for test in tests)]


def _bounded(layout: KeyLayout, at: int, own: Sequence[Condition], of: Field, found: KeyConditions) -> KeyConditions:
    """Adds the bounds on the field at a position to what was found before it."""
    bounds, settling = bounds_of([c.on_entry for c in own], of)
    settled = [c.asked for c in own if any(c.on_entry is p for p in settling)]
    if bounds is not None:
        try:
            layout.range_of([b""] * at, bounds)
        except QueryError:  # these values have no order, or none that this prefix could be searched in
            return evolve(found, unordered=of.name)
    return evolve(found, bounds=bounds, consumed=(*found.consumed, *settled))


_BOUNDLESS = {False: ((),), True: ((None,),)}
"""What is excluded by the predicates that any value of a field satisfies, by whether the field is nullable."""


def bounds_of(own: Sequence[Predicate], of: Field) -> tuple[Bounds | None, list[Predicate]]:
    """The tightest bounds that comparisons, a prefix or `~is_(None)` put on a field, and the predicates that they settle."""
    low: Comparison | None = None
    high: Comparison | None = None
    prefix: StartsWith | None = None
    settled: list[Predicate] = []
    key = of.codec.order_key
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
            if not p.prefix:  # says no more than that the value is not None
                settled.append(p)
            elif prefix is None or len(p.prefix) > len(prefix.prefix):
                prefix = p
        elif isinstance(p, Not) and isinstance(p.parts[0], In) and tuple(p.parts[0].values) in _BOUNDLESS[of.nullable]:
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
    if not bounds and not of.nullable:
        return None, settled
    return Bounds(**bounds), settled
