"""The paths that a query may take, and the match of its conditions with the key of each path."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

from attrs import evolve

from hbmodel.encoding.key_layout import KeyLayout
from hbmodel.mapping.predicates import Predicate
from hbmodel.mapping.schema import PRIMARY, Index, TableSchema
from hbmodel.query.match.index_applicability import fit
from hbmodel.query.match.key_conditions import KeyConditions
from hbmodel.query.match.key_ranges import located
from hbmodel.query.match.merged_order import Direction, combinations
from hbmodel.query.match.plan import Path
from hbmodel.query.match.range_limits import limited_match


def paths_of(schema: TableSchema, indexes: Iterable[Index]) -> list[Path]:
    """Returns the primary path, then one path for each of these indexes."""
    primary = Path(PRIMARY, schema.table, schema.layout, schema.salt, None)
    return [primary, *(Path(index.name, index.table, index.layout, index.salt, index) for index in indexes)]


def match_path(path: Path, predicates: Sequence[Predicate], schema: TableSchema) -> KeyConditions | None:
    """Matches the conditions with the path's key. None if the path is an index that may lack entries of rows that
    satisfy them.
    """
    met = fit(path.index, predicates)
    if met is None:
        return None
    operands = schema.by_name if path.index is None else path.index.operands
    matched = limited_match(path, met.conditions, operands)
    return evolve(matched, narrowed=met.narrowed, consumed=[*matched.consumed, *met.settled])


def mixed_field(layout: KeyLayout, each: Set[str]) -> str | None:
    """Returns one of these fields, if the keys with one of its values may lie between the keys with another value;
    otherwise None.
    """
    return next((f.name for f in layout.fields if f.name in each and not f.codec.delimited), None)


def never_none_fields(parts: Sequence[Predicate]) -> Set[str]:
    """Returns the fields that are not None in any row that satisfies the conditions."""
    alone = [(next(iter(part.names())), part.test()) for part in parts if len(part.names()) == 1]
    return {name for name, test in alone if not test({name: None})}


def scans_to_merge(path: Path, matched: KeyConditions, way: Direction, each: Set[str] = frozenset()) -> int:
    """Returns how many scans must be merged so that the items have an order that the keys do not have; 0 if rows are
    read by their keys.
    """
    if not way.merged or (path.index is None and matched.complete(path.layout)):
        return 0
    leading = path.layout.names[: way.merged[-1] + 1]
    together = combinations(matched, [at for at, name in enumerate(leading) if name not in each])
    return together * (1 if located(path, leading) else path.salt.buckets)
