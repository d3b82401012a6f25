"""Keeps the parts of a plan that depend only on a query's shape, so that for another query of this shape only the
values are filled in.

Ecto also caches prepared queries by their form without the values (`Ecto.Query.Planner`).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from attrs import frozen

from hbmodel.mapping.index_kinds.base import Condition
from hbmodel.mapping.predicates import Comparison, In, Not, Predicate, StartsWith
from hbmodel.mapping.rows.mapper import RowDecoder
from hbmodel.mapping.schema import Index
from hbmodel.query.ask.terms import QueryTerms
from hbmodel.query.match.key_conditions import KeyConditions, bounds_of
from hbmodel.query.match.key_ranges import located
from hbmodel.query.match.merged_order import Direction
from hbmodel.query.match.plan import Bucket, Path, Plan
from hbmodel.store.filters import Filter

_ROLES = {"=": "=", "!=": "!=", ">": "low", ">=": "low", "<": "high", "<=": "high"}
_FIXING = {"=", "none"}


@frozen(eq=False)
class Scanning:
    """The attributes of a `Plan` that are the same for all queries of a shape, if their rows are scanned.

    Attributes:
        filter: the server's filter, which depends on no value.
        located: whether the fixed fields determine the salt bucket.
    """

    reader: RowDecoder
    filter: Filter | None
    backwards: bool
    located: bool


@frozen(eq=False)
class PlanShape:
    """The path for queries of one shape, and how each condition of such a query is used on this path.

    Conditions are given as positions among the conjuncts of the query.

    Attributes:
        fixed: for each fixed leading field of the path, the condition that fixes it to one value.
        bounding: the conditions on the field after the fixed ones.
        consumed: the conditions that need no further test.
        left: the other conditions.
        narrowed: as in `KeyConditions`.
        scanning: the rest of the plan; None if it depends on values, or if rows are read by get.
    """

    path: Path
    way: Direction
    fixed: Sequence[int]
    bounding: Sequence[int]
    consumed: Sequence[int]
    left: Sequence[int]
    narrowed: bool
    scanning: Scanning | None

    def match(self, parts: Sequence[Predicate]) -> KeyConditions:
        """Returns how the conditions of a query of this shape match the path's key.

        The bytes of some codecs cannot express all bounds. Making ranges from such bounds raises `QueryError`.

        Args:
            parts: the conjuncts of the query.
        """
        layout = self.path.layout
        packed = [(layout.pack_field(at, _value(parts[n])),) for at, n in enumerate(self.fixed)]
        bounds = None
        if self.bounding:
            own = [parts[n] for n in self.bounding]
            bounds, _ = bounds_of(own, own[0].fields()[0])
        return KeyConditions(
            packed,
            bounds,
            [Condition(part, part) for part in parts],
            [parts[n] for n in self.consumed],
            narrowed=self.narrowed,
        )

    def scan(self, terms: QueryTerms, parts: Sequence[Predicate], matched: KeyConditions) -> Plan | None:
        """Returns the plan of a query of this shape, or None if only a part of it is known, so that the plan must be
        built.

        Args:
            parts: the conjuncts of the query.
            matched: the result of `match`.
        """
        known, path = self.scanning, self.path
        if known is None:
            return None
        salt, packed = path.salt, [values[0] for values in matched.parts]
        keys = path.layout.range_of(packed, matched.bounds)
        buckets: list[Bucket]
        if keys.empty:
            buckets = []
        elif not salt.width:
            buckets = [Bucket(b"", [keys])]
        else:
            numbers = (salt.bucket_of(packed),) if known.located else range(salt.buckets)
            buckets = [Bucket(salt.prefixes[number], [salt.range_in(number, keys)]) for number in numbers]
        return Plan(
            terms=terms,
            path=path,
            buckets=buckets,
            backwards=known.backwards,
            reader=known.reader,
            filter=known.filter,
            residual=parts if path.index is not None else [parts[n] for n in self.left],
            rows=None,
            match=matched,
            asked=buckets,
        )


def shape_key(
    terms: QueryTerms,
    parts: Sequence[Predicate],
    readable: Sequence[Index],
    indexed: bool,
    path_name: str | None,
    adopting: bool,
) -> Hashable | None:
    """Returns everything on which the choice of a path depends, apart from the schema. Returns None if the choice
    depends on the values of conditions.

    Args:
        parts: the conjuncts of the query.
        readable: the indexes that may be read.
        indexed: whether rows have system cells.
        path_name: the path to take, as a continuation token names it.
        adopting: whether there are also rows without system cells.
    """
    if terms.moment is not None or terms.row_bounds:
        return None
    conditions = _conditions_key(parts)
    if conditions is None or not all(map(_fits_by_form, readable)):
        return None
    return (
        "plan shape",
        conditions,
        tuple([(part.field.name, part.desc) for part in terms.ordering]),
        terms.backwards,
        terms.limit is None,
        None if terms.selection is None else tuple([field.name for field in terms.selection]),
        terms.on_unreadable is None,
        terms.full_scan,
        terms.index_name,
        path_name,
        indexed,
        adopting,
        tuple([(index.name, index.table, index.maintained_by_all, index.schema_complete) for index in readable]),
    )


def shape_of(
    built: Plan, way: Direction, matched: KeyConditions, parts: Sequence[Predicate], depends: bool
) -> PlanShape | None:
    """Returns the shape of a query that has been planned, or None if the choice of the path depends on more than the
    query's shape.

    Args:
        matched: the match with the key of the plan's path.
        parts: the conjuncts of the query.
        depends: whether the plan's filter or its columns depend on values.
    """
    path = built.path
    names = path.layout.names
    if matched.pieces is not None or way.merged or any(len(values) != 1 for values in matched.parts):
        return None
    places = {id(part): n for n, part in enumerate(parts)}
    by_field: dict[str, list[int]] = {}
    for n, part in enumerate(parts):
        by_field.setdefault(part.fields()[0].name, []).append(n)
    depth = len(matched.parts)
    bounding = by_field.get(names[depth], []) if matched.bounds is not None else []
    # Some kinds of indexes add conditions on entries that are not conditions of the query.
    own = not by_field.keys() >= {*names[:depth]} or (matched.bounds is not None and not bounding)
    if own or not places.keys() >= {id(part) for part in matched.consumed}:
        return None
    consumed = [places[id(part)] for part in matched.consumed]
    scanning = None
    if built.rows is None and not depends:
        scanning = Scanning(built.reader, built.filter, built.backwards, located(path, names[:depth]))
    return PlanShape(
        path=path,
        way=way,
        fixed=[by_field[name][0] for name in names[:depth]],
        bounding=bounding,
        consumed=consumed,
        left=[n for n in range(len(parts)) if n not in consumed],
        narrowed=matched.narrowed,
        scanning=scanning,
    )


def _conditions_key(parts: Sequence[Predicate]) -> Hashable | None:
    """Returns the conditions without their values, or None if the plan may be different for other values.

    The plan is the same for all values only if each field has one equality and no other condition, or at most one lower
    bound, one upper bound and one prefix. If a field has more conditions, their values decide which of these the plan
    uses, and the result is None.
    """
    key: list[tuple[str, str]] = []
    roles: dict[str, set[str]] = {}
    for part in parts:
        role: str
        match part:
            case Comparison(field, operator):
                role = _ROLES[operator]
            case StartsWith(field, prefix) if prefix:
                role = "prefix"
            case In(field, (None,)):
                role = "none"
            case Not((In(field, (None,)),)):
                role = "not none"
            case _:
                return None
        own = roles.setdefault(field.name, set())
        if role in own:
            return None
        own.add(role)
        key.append((field.name, part.operator if isinstance(part, Comparison) else role))
    if len(roles) < len(parts) and any(len(own) > 1 and not _FIXING.isdisjoint(own) for own in roles.values()):
        return None
    return tuple(key)


def _fits_by_form(index: Index) -> bool:
    """Whether an index can be chosen without the values of conditions, because the values do not influence whether
    it has an entry for every row that satisfies them.
    """
    return all(isinstance(condition, Not) and _is_none(condition.parts[0]) for condition in index.conditions)


def _is_none(predicate: Predicate) -> bool:
    return isinstance(predicate, In) and tuple(predicate.values) == (None,)


def _value(predicate: Predicate) -> object:
    return predicate.value if isinstance(predicate, Comparison) else None
