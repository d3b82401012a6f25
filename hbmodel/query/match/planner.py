"""Plans queries: the path to read, the key ranges of salt buckets, and the filters on the server and the client."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import suppress

from attrs import evolve

from hbmodel.encoding.key_layout import KeyLayout
from hbmodel.encoding.object_key_layout import ObjectKeyLayout
from hbmodel.errors import FullScanRefused, IndexUnavailable, OrderNotAvailable, QueryError, UnknownIndex
from hbmodel.mapping.predicates import Predicate, conjuncts
from hbmodel.mapping.rows.mapper import RowDecoder
from hbmodel.mapping.rows.unreadable import TolerantDecoder
from hbmodel.mapping.schema import PRIMARY, Index, TableSchema
from hbmodel.query.ask.as_of_time import check_kept
from hbmodel.query.ask.terms import QueryTerms
from hbmodel.query.match.before_and_after import within_bounds
from hbmodel.query.match.column_ranges import column_ranges
from hbmodel.query.match.index_applicability import fit, misfit
from hbmodel.query.match.key_conditions import KeyConditions
from hbmodel.query.match.key_ranges import buckets_and_rows, located
from hbmodel.query.match.merged_order import MAX_MERGED, Direction, MergedOrder, combinations, direction
from hbmodel.query.match.plan import Path, Plan
from hbmodel.query.match.plan_shapes import PlanShape, shape_key, shape_of
from hbmodel.query.match.pushdown import keys_filter, server_filter
from hbmodel.query.match.range_limits import limited_match


def paths_of(schema: TableSchema, indexes: Iterable[Index]) -> list[Path]:
    """Returns the primary path, then one path for each of these indexes."""
    primary = Path(PRIMARY, schema.table, schema.layout, schema.salt, None)
    return [primary, *(Path(index.name, index.table, index.layout, index.salt, index) for index in indexes)]


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
        paths = [_named(schema, paths, wanted)]
    never_none = _never_none(parts)
    candidates: list[tuple[tuple[bool, int, bool, bool, bool], Path, KeyConditions, Direction]] = []
    merging: list[tuple[Path, KeyConditions, Direction]] = []
    for path in paths:
        path_match = _match(path, parts, schema)
        if path_match is None or not each <= set(path_match.fixed(path.layout)) or _mixed(path.layout, each):
            continue
        way = direction(path.layout, path_match, terms.ordering, never_none, each)
        if way is not None and _scans_to_merge(path, path_match, way, each) > MAX_MERGED:
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
        _mention_merging(terms, merging)
        _mention_unreadable(terms, readable)
        _mention_misfit(schema, paths, parts)
        matched = [
            (path.layout, path_match) for path in paths if (path_match := _match(path, parts, schema)) is not None
        ]
        _mention_apart(schema, matched, each)
        _mention_none(terms, matched, never_none)
        for index, missing, _ in _partial_indexes(terms, paths, each):
            raise OrderNotAvailable(
                "An index has this order, but it has entries for only some rows, and the query may match others: "
                "repeat the condition of the index in the query.",
                table=schema.table,
                fields=[part.field.name for part in terms.ordering],
                index=index.name,
                missing=missing,
            )
        raise OrderNotAvailable(
            "Neither the key nor an index gives this order: declare an index for it, or sort the items yourself.",
            table=schema.table,
            fields=[part.field.name for part in terms.ordering],
            path=wanted,
        )
    _, path, path_match, way = max(candidates, key=lambda candidate: candidate[0])
    built = _build(terms, path, path_match, way, indexed, adopting, each)
    if not terms.full_scan and built.buckets:
        _check_scan(terms, built, readable, merging)
    # whether the bytes of a key can express bounds may depend on the values; with other values, another path may be
    # chosen
    bounded = not any(candidate.unordered for _, _, candidate, _ in candidates)
    if key is not None and bounded and built.buckets:
        shape = shape_of(built, way, path_match, parts, _depends(built))
        if shape is not None:
            schema.keep(key, shape)
    return built


def _check_scan(
    terms: QueryTerms,
    built: Plan,
    readable: Sequence[Index],
    merging: Sequence[tuple[Path, KeyConditions, Direction]],
) -> None:
    """Raises if the query does not allow the scan of its plan."""
    schema = terms.schema
    if built.match.excess and built.full_scan:
        raise FullScanRefused(
            "The query has too many values for this key field, so it would need more key ranges than are allowed: "
            "split it, or call .allow_full_scan().",
            table=schema.table,
            path=built.path.name,
            field=built.match.excess,
        )
    if built.match.unordered:
        raise QueryError(
            "The bytes of this key field do not keep the order of its values, so it cannot bound a scan; call "
            ".allow_full_scan() to check every row instead.",
            table=schema.table, field=built.match.unordered,
        )  # fmt: skip
    if built.full_scan:
        _mention_merging(terms, merging)
        _mention_unreadable(terms, readable)
        _mention_order(terms, readable, built.path)
        for index, missing, partly in _partial_indexes(terms, paths_of(schema, readable)):
            if partly.parts or partly.bounded:
                raise FullScanRefused(
                    "The query would read the whole table. An index begins with fields of the query's conditions, but "
                    "has entries for only some rows, and the query may match others: repeat the condition of the index "
                    "in the query, or call .allow_full_scan().",
                    table=schema.table,
                    path=built.path.name,
                    index=index.name,
                    missing=missing,
                )
        raise FullScanRefused(
            "The query would read the whole table: add a condition on the leading key fields of the table or an "
            "index, or call .allow_full_scan(). Neither is needed for first(), last(), limit(n) and "
            "limit(n).page(size), unless a condition must be checked row by row.",
            table=schema.table,
            path=built.path.name,
            leading=built.path.layout.names[0],
        )


def _match(path: Path, predicates: Sequence[Predicate], schema: TableSchema) -> KeyConditions | None:
    """Matches the conditions with the path's key. None if the path is an index that may lack entries of rows that
    satisfy them.
    """
    met = fit(path.index, predicates)
    if met is None:
        return None
    operands = schema.by_name if path.index is None else path.index.operands
    matched = limited_match(path, met.conditions, operands)
    return evolve(matched, narrowed=met.narrowed, consumed=[*matched.consumed, *met.settled])


def _mention_misfit(schema: TableSchema, paths: Sequence[Path], predicates: Sequence[Predicate]) -> None:
    """Raises `QueryError` if the query may read only one path, and this is an index that may lack entries of the
    query's rows.
    """
    if len(paths) == 1 and (missing := misfit(paths[0].index, predicates)) is not None:
        raise QueryError(
            "The index has entries for only some rows, and the query may match others: repeat the condition of the "
            "index in the query.",
            table=schema.table,
            index=paths[0].name,
            missing=missing,
        )


def _partial_indexes(
    terms: QueryTerms, paths: Sequence[Path], each: Set[str] = frozenset()
) -> Iterator[tuple[Index, str, KeyConditions]]:
    """Yields the partial indexes that could answer the query if the conditions of the index were added to the query.
    With each index come the missing conditions as text, and the match of the extended query. Indexes with conditions on
    fields that the query already restricts are left out, since the conditions may exclude each other.
    """
    parts = conjuncts(terms.predicate)
    said = frozenset[str]().union(*(part.names() for part in parts))
    for path in paths:
        if path.index is None or not path.index.conditions or (missing := misfit(path.index, parts)) is None:
            continue
        if any(not said.isdisjoint(condition.names()) for condition in path.index.conditions):
            continue
        narrower = (*parts, *path.index.conditions)
        matched = _match(path, narrower, terms.schema)
        if matched is not None and each <= set(matched.fixed(path.layout)):
            way = direction(path.layout, matched, terms.ordering, _never_none(narrower), each)
            if way is not None and _scans_to_merge(path, matched, way, each) <= MAX_MERGED:
                yield path.index, missing, matched


def _mixed(layout: KeyLayout, each: Set[str]) -> str | None:
    """Returns one of these fields, if the keys with one of its values may lie between the keys with another value;
    otherwise None.
    """
    return next((f.name for f in layout.fields if f.name in each and not f.codec.delimited), None)


def _mention_apart(schema: TableSchema, ways: Sequence[tuple[KeyLayout, KeyConditions]], each: Set[str]) -> None:
    """Raises `QueryError` if no path can read the items of each value of some fields separately."""
    for layout, _ in ways:
        mixed = _mixed(layout, each)
        if mixed is not None:
            raise QueryError(
                "first_of_each() cannot separate the values of a field without a terminator: read each value with "
                "where() and first().",
                table=schema.table,
                field=mixed,
            )
    if each and not any(each <= set(matched.fixed(layout)) for layout, matched in ways):
        raise QueryError(
            "first_of_each() needs the leading fields of the key of the table or of an index: fix the other "
            "leading fields with where().",
            table=schema.table,
            fields=sorted(each),
        )


_UNBUILT = (
    "The index cannot be read: it is not built, its build has not ended, or it is being dropped (see `hbmodel index "
    "status`). Build it with hb.indexes.build_index() or `hbmodel index build`, or query without it."
)


def _mention_unreadable(terms: QueryTerms, readable: Sequence[Index]) -> None:
    """Raises `IndexUnavailable` if a declared index that cannot be read yet would have answered the query."""
    if terms.moment is not None:
        return
    schema, known = terms.schema, {index.name for index in readable}
    parts = conjuncts(terms.predicate)
    for path in paths_of(schema, schema.indexes.values())[1:]:
        index = path.index
        if index is None or index.name in known or (matched := _match(path, parts, schema)) is None or matched.open:
            continue
        if direction(index.layout, matched, terms.ordering, _never_none(parts)) is not None:
            raise IndexUnavailable(
                _UNBUILT,
                table=schema.table, index=index.name,
            )  # fmt: skip


def _mention_order(terms: QueryTerms, readable: Sequence[Index], chosen: Path) -> None:
    """Raises `FullScanRefused` if conditions bound the key of a path that does not have the order of the query."""
    schema, parts = terms.schema, conjuncts(terms.predicate)
    for path in paths_of(schema, readable) if terms.ordering else ():
        matched = _match(path, parts, schema)
        if matched is not None and not matched.open:
            raise FullScanRefused(
                "In this order, the query would read the whole table or index: its conditions bound another key. Leave "
                "out order_by() and sort the items, declare an index on the fields of the conditions followed by those "
                "of the order, or call .allow_full_scan().",
                table=schema.table,
                path=chosen.name,
                fields=[part.field.name for part in terms.ordering],
            )


def _named(schema: TableSchema, paths: Sequence[Path], wanted: str) -> Path:
    for path in paths:
        if path.name == wanted:
            return path
    if wanted in schema.indexes:
        raise IndexUnavailable(_UNBUILT, table=schema.table, index=wanted)
    raise UnknownIndex("The model has no such index: name a declared one.", table=schema.table, index=wanted)


def _mention_none(terms: QueryTerms, ways: Sequence[tuple[KeyLayout, KeyConditions]], never_none: Set[str]) -> None:
    """Raises `OrderNotAvailable` if a path has the required order of values, but has None at the wrong end."""
    wrong = [part.field.name for part in terms.ordering if part.field.nullable and part.field.name not in never_none]
    if wrong and any(
        direction(layout, matched, terms.ordering, never_none | set(wrong)) is not None for layout, matched in ways
    ):
        raise OrderNotAvailable(
            "An order takes None as smaller than every value, but this codec stores None next to the largest value: "
            "exclude None with ~field.is_(None).",
            table=terms.schema.table,
            fields=[part.field.name for part in terms.ordering],
            nullable=wrong,
        )


def _never_none(parts: Sequence[Predicate]) -> Set[str]:
    """Returns the fields that are not None in any row that satisfies the conditions."""
    alone = [(next(iter(part.names())), part.test()) for part in parts if len(part.names()) == 1]
    return {name for name, test in alone if not test({name: None})}


def _scans_to_merge(path: Path, matched: KeyConditions, way: Direction, each: Set[str] = frozenset()) -> int:
    """Returns how many scans must be merged so that the items have an order that the keys do not have; 0 if rows are
    read by their keys.
    """
    if not way.merged or (path.index is None and matched.complete(path.layout)):
        return 0
    leading = path.layout.names[: way.merged[-1] + 1]
    together = combinations(matched, [at for at, name in enumerate(leading) if name not in each])
    return together * (1 if located(path, leading) else path.salt.buckets)


def _mention_merging(terms: QueryTerms, ways: Sequence[tuple[Path, KeyConditions, Direction]]) -> None:
    """Raises `QueryError` if a path could provide the required order, but only by merging too many scans."""
    if not ways:
        return
    path, matched, way = ways[0]
    raise QueryError(
        "The order needs a merge of more scans than are allowed, one for each combination of values and salt "
        "bucket: give in_ fewer values and query several times. A query without an order needs no merge.",
        table=terms.schema.table,
        path=path.name,
        fields=[path.layout.names[at] for at in way.merged],
        scans=_scans_to_merge(path, matched, way),
        most=MAX_MERGED,
    )


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
