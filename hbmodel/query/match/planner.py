"""Plans queries: the path to read, the key ranges of salt buckets, and the filters on the server and the client."""

from __future__ import annotations

from collections.abc import Sequence, Set
from contextlib import suppress

from attrs import evolve

from hbmodel.encoding.object_key_layout import ObjectKeyLayout
from hbmodel.errors import QueryError
from hbmodel.mapping.predicates import Predicate, conjuncts
from hbmodel.mapping.rows.mapper import RowDecoder
from hbmodel.mapping.rows.unreadable import TolerantDecoder
from hbmodel.mapping.schema import Index
from hbmodel.query.ask.as_of_time import check_kept
from hbmodel.query.ask.terms import QueryTerms
from hbmodel.query.match.before_and_after import within_bounds
from hbmodel.query.match.column_ranges import column_ranges
from hbmodel.query.match.key_conditions import KeyConditions
from hbmodel.query.match.key_ranges import buckets_and_rows
from hbmodel.query.match.merged_order import MAX_MERGED, Direction, MergedOrder, direction
from hbmodel.query.match.paths import match_path, mixed_field, never_none_fields, paths_of, scans_to_merge
from hbmodel.query.match.plan import Path, Plan
from hbmodel.query.match.plan_shapes import PlanShape, shape_key, shape_of
from hbmodel.query.match.pushdown import keys_filter, server_filter
from hbmodel.query.match.refused_plans import check_scan, named_path, refuse_order


def plan(
    terms: QueryTerms,
    readable: Sequence[Index],
    indexed: bool,
    path_name: str | None = None,
    adopting: bool = False,
    each: Set[str] = frozenset(),
) -> Plan:
    """Chooses a path, and plans the gets or scans that read the query from this path.

    If the whole primary key is fixed, rows are read by a get. Otherwise the path with the most fixed leading fields is
    chosen. Among several such paths, those whose next field is bounded, and indexes that contain only some rows, are
    preferred. Paths come last if the query bounds their next field, but the bytes of the key cannot express the bound.
    If there are still several paths, the primary table is preferred, then an index that contains only some rows, then
    the index that is declared first.

    Args:
        terms: the terms of the query to plan.
        readable: the indexes that may be read, with the names of their live tables.
        indexed: whether rows have system cells.
        adopting: whether there are also rows without system cells.
        path_name: the path to take, as a continuation token names it; None to choose one.
        each: fields whose values will be read separately. The query must fix them, and they must be leading fields of
            the path's key. For the order of the path, each of these fields counts as fixed to one value.

    Raises:
        UnknownIndex, IndexUnavailable: `use_index` names an index that does not exist or cannot be read yet.
        OrderNotAvailable: no path has the order. FullScanRefused: the scan is unbounded, no limit ends it, and the
        query does not allow a full scan. QueryError: a range on a key field whose bytes do not keep its order.
    """
    schema = terms.schema
    readable = readable if terms.moment is None else ()
    parts = conjuncts(terms.predicate)
    key = None if each else shape_key(terms, parts, readable, indexed, path_name, adopting)
    if key is not None:
        known: PlanShape | None = schema.compiled.get(key)
        if known is not None:
            with suppress(QueryError):  # the bytes of the key cannot express the bounds of this query's values
                known_match = known.match(parts)
                scan = known.scan(terms, parts, known_match)
                return _build(terms, known.path, known_match, known.way, indexed, adopting) if scan is None else scan
    wanted = terms.index_name if path_name is None else path_name
    paths = paths_of(schema, readable)
    if wanted is not None:
        paths = [named_path(schema, paths, wanted)]
    never_none = never_none_fields(parts)
    candidates: list[tuple[tuple[bool, int, bool, bool, bool], Path, KeyConditions, Direction]] = []
    merging: list[tuple[Path, KeyConditions, Direction]] = []
    for path in paths:
        path_match = match_path(path, parts, schema)
        if path_match is None or not each <= set(path_match.fixed(path.layout)) or mixed_field(path.layout, each):
            continue
        way = direction(path.layout, path_match, terms.ordering, never_none, each)
        if way is not None and scans_to_merge(path, path_match, way, each) > MAX_MERGED:
            merging.append((path, path_match, way))
        elif way is not None:
            whole = path.index is None and path_match.complete(path.layout)
            bounded = path_match.bounded or path_match.narrowed
            rank = (
                whole,
                len(path_match.parts),
                bounded,
                not path_match.unordered,
                path.index is None or path_match.narrowed,
            )
            candidates.append((rank, path, path_match, way))
    if not candidates:
        refuse_order(terms, readable, paths, merging, each, wanted)
    _, path, path_match, way = max(candidates, key=lambda candidate: candidate[0])
    built = _build(terms, path, path_match, way, indexed, adopting, each)
    if not terms.full_scan and built.buckets:
        check_scan(terms, built, readable, merging)
    # whether the bytes of a key can express bounds may depend on the values; with other values, another path may be
    # chosen
    bounded = not any(candidate.unordered for _, _, candidate, _ in candidates)
    if key is not None and bounded and built.buckets:
        shape = shape_of(built, way, path_match, parts, _depends(built))
        if shape is not None:
            schema.keep(key, shape)
    return built


def _build(
    terms: QueryTerms,
    path: Path,
    matched: KeyConditions,
    way: Direction,
    indexed: bool,
    adopting: bool,
    each: Set[str] = frozenset(),
) -> Plan:
    schema, backwards = terms.schema, way.backwards != terms.backwards
    if way.merged and matched.pieces is None:
        matched = evolve(
            matched, pieces=[piece for piece in matched.all_pieces(path.layout) if not piece.range.empty], bounds=None
        )
    order = MergedOrder.of(path.layout, matched, way.merged)
    every = conjuncts(terms.predicate)
    columns = column_ranges(schema, matched) if path.index is None else None
    if columns is not None:
        matched = evolve(matched, consumed=[*matched.consumed, *columns.consumed])
    consumed = set(map(id, matched.consumed))
    residual = tuple(p for p in every if id(p) not in consumed)
    names: frozenset[str] | None = None
    if terms.selection is not None:
        names = frozenset[str]().union(*(f.reads for f in terms.selection), *(p.reads() for p in every))
    if path.index is not None and names is not None:
        names |= path.index.reads
    reader = RowDecoder.of(schema, indexed, names, adopting)
    if terms.on_unreadable is not None:
        reader = TolerantDecoder.like(reader)
    if terms.moment is not None:
        check_kept(reader)
    read = matched
    if each and path.index is None and order is None and matched.pieces is None and not matched.complete(path.layout):
        # The ranges for each value are computed when the value is read. Here the ranges for one value represent those
        # of all values.
        fixed = zip(matched.fixed(path.layout), matched.parts, strict=True)
        read = evolve(matched, parts=[values[:1] if name in each else values for name, values in fixed])
    buckets, rows = buckets_and_rows(schema, path, read, columns, backwards, order)
    server = server_filter(
        schema,
        path.layout,
        _pushed(path, matched, residual),
        on_index=path.index is not None,
        indexed=indexed,
        adopting=adopting,
    )
    if server is None and path.index is None and not path.salt.random and terms.on_unreadable is None:
        server = keys_filter(reader)
    built = Plan(
        terms=terms,
        path=path,
        buckets=buckets,
        asked=buckets,
        columns=columns,
        backwards=backwards,
        reader=reader,
        filter=None if rows is not None else server,
        # An entry in the key ranges of an index satisfies the conditions, but its row may not. So every condition is
        # tested on the row, which decides (rule 5).
        residual=every if path.index is not None else residual,
        rows=rows,
        match=matched,
        order=order,
    )
    return within_bounds(built, way.backwards)


def _pushed(path: Path, matched: KeyConditions, residual: Sequence[Predicate]) -> Sequence[Predicate]:
    """Returns the conditions that the server may test while it scans a path."""
    if path.index is not None:
        return [c.on_entry for c in matched.conditions if any(c.asked is p for p in residual)]
    # Under a random salt, only the newest of several rows with the same key counts, so the server must not drop rows
    # because of their values.
    return [p for p in residual if all(field.is_key for field in p.fields())] if path.salt.random else residual


def _depends(built: Plan) -> bool:
    """Whether the server's filter, or the columns that are read in each row, depend on the values in a query's
    conditions.
    """
    schema, matched = built.terms.schema, built.match
    consumed = set(map(id, matched.consumed))
    residual = [p for p in conjuncts(built.terms.predicate) if id(p) not in consumed]
    columns = isinstance(schema.layout, ObjectKeyLayout) and len(matched.parts) < schema.layout.rows
    return bool(_pushed(built.path, matched, residual)) or (built.path.index is None and columns)
