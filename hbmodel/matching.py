"""How the conditions of a query meet the fields of a key: fixed leading fields, then bounds on the next one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import frozen

from hbmodel.expressions import Comparison, In, Not, Predicate, StartsWith, equalities, sort_key
from hbmodel.keys import Bounds, KeyLayout
from hbmodel.schema import Field, TableSchema


@frozen(eq=False)
class Match:
    """What a query says about the leading fields of one key.

    Attributes:
        parts: for each fixed leading field the packed values that it may have, in key order.
        bounds: on the field behind them, or None.
        consumed: the predicates that parts and bounds settle exactly.
        unordered: name of the field behind the fixed ones, if the query bounds it but its bytes do not keep its order.
    """

    parts: Sequence[Sequence[bytes]]
    bounds: Bounds | None
    consumed: Sequence[Predicate]
    unordered: str | None

    def complete(self, layout: KeyLayout) -> bool:
        """Whether the whole key is fixed."""
        return len(self.parts) == len(layout.names)


def match(layout: KeyLayout, predicates: Sequence[Predicate], schema: TableSchema, max_ranges: int) -> Match:
    """Matches the conjunction of `predicates` with the fields of `layout`, from the first on."""
    parts: list[Sequence[bytes]] = []
    consumed: list[Predicate] = []
    ranges = 1
    for at, name in enumerate(layout.names):
        fixing = _fixing(predicates, name)
        values = None if fixing is None else _distinct(fixing[1])
        if fixing is None or values is None or ranges * max(len(values), 1) > max_ranges:
            bounds, settled = _bounds(predicates, schema.by_name[name])
            if bounds is not None and layout.order_of(at) is None:
                return Match(parts, None, consumed, name)
            return Match(parts, bounds, [*consumed, *settled], None)
        ranges *= max(len(values), 1)
        packed = {layout.pack_field(at, value) for value in values}
        parts.append(sorted(packed))
        consumed.append(fixing[0])
    return Match(parts, None, consumed, None)


def _fixing(predicates: Sequence[Predicate], name: str) -> tuple[Predicate, Sequence[Any]] | None:
    """The equality on a field with the fewest values."""
    found = [(p, equal[1]) for p in predicates if (equal := equalities(p)) is not None and equal[0].name == name]
    return min(found, key=lambda item: len(item[1]), default=None)


def _distinct(values: Sequence[Any]) -> Sequence[Any]:
    return tuple(dict.fromkeys(values))


def _bounds(predicates: Sequence[Predicate], of: Field) -> tuple[Bounds | None, list[Predicate]]:
    """The tightest bounds that comparisons, a prefix or `~is_(None)` put on a field, and the predicates that they settle."""
    low: Comparison | None = None
    high: Comparison | None = None
    prefix: StartsWith | None = None
    settled: list[Predicate] = []
    key = sort_key(of)
    for p in predicates:
        if isinstance(p, Comparison) and p.field.name == of.name:
            if p.operator in {">", ">="}:
                settled.append(p)
                if low is None or (key(p.value), p.operator == ">") > (key(low.value), low.operator == ">"):
                    low = p
            elif p.operator in {"<", "<="}:
                settled.append(p)
                if high is None or (key(p.value), p.operator == "<=") < (key(high.value), high.operator == "<="):
                    high = p
        elif isinstance(p, StartsWith) and p.field.name == of.name and (prefix is None or len(p.prefix) > len(prefix.prefix)):
            prefix = p
        elif isinstance(p, Not) and isinstance(p.parts[0], In) and p.parts[0].field.name == of.name and tuple(p.parts[0].values) == (None,):
            settled.append(p)
    if prefix is not None:
        not_none = [p for p in settled if isinstance(p, Not)]
        return Bounds(prefix=prefix.prefix), [prefix, *not_none]
    if not settled:
        return None, []
    return _between(low, high), settled


def _between(low: Comparison | None, high: Comparison | None) -> Bounds:
    bounds: dict[str, Any] = {}
    if low is not None:
        bounds |= {"low": low.value, "low_inclusive": low.operator == ">="}
    if high is not None:
        bounds |= {"high": high.value, "high_inclusive": high.operator == "<="}
    return Bounds(**bounds)
