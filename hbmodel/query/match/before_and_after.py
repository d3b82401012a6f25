"""Restricts a plan to the items before or after an object, in the order of the key or index that it reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import evolve

from hbmodel.errors import QueryError
from hbmodel.mapping.index_kinds.base import IndexPart
from hbmodel.query.ask.row_bounds import RowBound
from hbmodel.query.match.merged_order import KeyPlace
from hbmodel.query.match.plan import Plan


def within_bounds(plan: Plan, path_backwards: bool) -> Plan:
    """Returns the plan, restricted to the bounds of its query.

    Args:
        plan: the plan of the query.
        path_backwards: whether the query, without `reversed()`, reads the path from its last key to its first.

    Raises:
        QueryError: a bound does not determine the position of its object in the path.
    """
    for bound in plan.terms.row_bounds:
        above = bound.above != path_backwards
        place = _place(plan, bound, above)
        rows = None if plan.rows is None else plan.rows_beyond(plan.rows, place, above)
        buckets = [bucket for bucket in plan.beyond(place, above) if bucket.ranges]
        plan = evolve(plan, buckets=buckets, rows=rows, bounds=(*plan.bounds, (place, above)))
    return plan


def _place(plan: Plan, bound: RowBound, above: bool) -> KeyPlace:
    """Returns the position of an object in the order of a plan. Under a random salt, the position is above or below all
    copies of the object.
    """
    layout = plan.path.layout
    parts: list[bytes] = []
    missing: list[str] = []
    for at, name in enumerate(layout.names):
        part = _part(plan, at)
        wanted = plan.match.values_at(layout, at, consumed=part is None or part.has_one_value)
        if wanted is not None and len(wanted) == 1:  # all items have this value, so the object's value is ignored
            parts.append(wanted[0])
            continue
        values = _values(plan, bound.values, at)
        if values is None:
            missing.append(name)
        else:
            parts.append(_first(plan, at, wanted, [layout.pack_field(at, value) for value in values]))
    if missing:
        raise QueryError(
            "before() and after() need more fields for the key that the query reads: give these fields too, or the "
            "object.",
            table=plan.path.table,
            path=plan.path.name,
            missing=missing,
        )
    tail = b"\xff" * layout.tail if above else b""
    return b"".join(parts) + tail if plan.order is None else plan.order.place(parts, tail)


def _part(plan: Plan, at: int) -> IndexPart | None:
    """Returns the index part at position `at` of the path's key, or None if a field of the row key is there."""
    index = plan.path.index
    return None if index is None or at >= len(index.parts) else index.parts[at]


def _values(plan: Plan, given: Mapping[str, Any], at: int) -> Sequence[Any] | None:
    """Returns the values of an object at position `at` of the path's key, or None if they are unknown. In an index
    of a collection there may be several values.
    """
    schema, part = plan.reader.schema, _part(plan, at)
    name = plan.path.layout.names[at]
    if part is not None and not part.is_field and part.reads <= given.keys():
        return part.values_of({name: schema.by_name[name].as_stored(given[name]) for name in part.reads})
    return [given[name]] if name in given else None


def _first(plan: Plan, at: int, values: Sequence[bytes] | None, packed: Sequence[bytes]) -> bytes:
    """Returns the object's bytes in its first entry that matches. The query finds the object through this entry."""
    first = min(packed if values is None or len(packed) == 1 else set(packed) & set(values), default=None)
    if first is None:
        raise QueryError(
            "The object has no entry in the index that the query reads, so nothing comes before or after it.",
            table=plan.path.table, path=plan.path.name, field=plan.path.layout.names[at],
        )  # fmt: skip
    return first
