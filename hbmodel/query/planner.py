"""From a query to scans: which path is read, which key ranges of which salt buckets, and what is filtered where."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

from attrs import evolve

from hbmodel.encoding.key_layout import KeyLayout
from hbmodel.encoding.place_layout import PlaceLayout
from hbmodel.errors import FullScanRefused, IndexUnavailable, OrderNotAvailable, QueryError, UnknownIndex
from hbmodel.mapping.mapper import RowDecoder
from hbmodel.mapping.predicates import Ordering, Predicate, conjuncts, describe
from hbmodel.mapping.schema import PRIMARY, Index, TableSchema
from hbmodel.query.as_of import check_kept
from hbmodel.query.column_ranges import ColumnRanges, column_ranges
from hbmodel.query.explained_slices import RANGES_OF_COLUMNS, calls_of_gets, slices_of
from hbmodel.query.explanation import Access, Covering, Explanation, describe_filter
from hbmodel.query.index_fit import fit, misfit
from hbmodel.query.key_conditions import KeyConditions, match
from hbmodel.query.plan import Bucket, Path, Plan
from hbmodel.query.pushdown import server_filter
from hbmodel.query.query import Query
from hbmodel.store.ranges import KeyRange, merge_ranges
from hbmodel.store.values import MAX_ROW_LENGTH

MAX_RANGES = 10_000
"""How many key ranges the equalities of one query may multiply to in one bucket; further IN lists are checked row by row."""

MAX_SCANS = 100_000
"""The same over all buckets."""


def paths_of(schema: TableSchema, indexes: Iterable[Index]) -> list[Path]:
    """The primary path, then one for each readable index, as the registry knows it."""
    primary = Path(PRIMARY, schema.table, schema.layout, schema.salt, None)
    return [primary, *(Path(index.name, index.table, index.layout, index.salt, index) for index in indexes)]


def plan(
    query: Query[Any],
    readable: Sequence[Index],
    indexed: bool,
    path_name: str | None = None,
    adopting: bool = False,
    each: Set[str] = frozenset(),
) -> Plan:
    """Chooses a path and turns the query into gets or scans of it.

    A whole primary key is got at once. Else the path with the longest bounded prefix of its key wins: more fixed leading
    fields, then a bounded next field or an index that holds some rows only; a tie goes to the primary table, then to an index
    that holds some rows only, then to the index declared first.

    Args:
        query: to plan.
        readable: indexes that may be read, with their live tables.
        indexed: whether rows carry system cells.
        adopting: whether rows without them exist too.
        path_name: the path to take (a continuation token's), instead of choosing.
        each: fields by whose values the items will be read apart: each must stand in the path's key where the query fixes it, and
            has one value as far as the order is concerned.

    Raises:
        UnknownIndex, IndexUnavailable: `use_index` names an index that is not there or cannot be read yet.
        OrderNotAvailable: no path gives the order.
        FullScanRefused: nothing bounds the scan, no limit either that counts every row of it, and the query does not allow that.
        QueryError: a range on a key field whose bytes do not keep its order.
    """
    schema = query.schema
    readable = readable if query.moment is None else ()
    wanted = query.index_name if path_name is None else path_name
    paths = paths_of(schema, readable)
    if wanted is not None:
        paths = [_named(schema, paths, wanted)]
    parts = conjuncts(query.predicate)
    never_none = _never_none(parts)
    candidates: list[tuple[tuple[bool, int, bool, bool, bool], Path, KeyConditions, bool]] = []
    for path in paths:
        found = _match(path, parts, schema)
        if found is None or not each <= set(found.fixed(path.layout)):
            continue
        direction = _direction(path.layout, found, query.ordering, never_none, each)
        if direction is not None:
            whole = path.index is None and found.complete(path.layout)
            bounded = found.bounds is not None or found.narrowed
            rank = (whole, len(found.parts), bounded, not found.unordered, path.index is None or found.narrowed)
            candidates.append((rank, path, found, direction))
    if not candidates:
        _mention_unreadable(query, readable)
        _mention_misfit(schema, paths, parts)
        matched = [(path.layout, found) for path in paths if (found := _match(path, parts, schema)) is not None]
        _mention_apart(schema, matched, each)
        _mention_none(query, matched, never_none)
        raise OrderNotAvailable(
            "No path gives this order: declare an index for it, or sort the items yourself.",
            table=schema.table, fields=[part.field.name for part in query.ordering], path=wanted,
        )  # fmt: skip
    best = max(candidates, key=lambda candidate: candidate[0])
    made = _build(query, best[1], best[2], best[3] != query.backwards, indexed, adopting)
    if query.full_scan or not made.buckets:
        return made
    if made.match.excess and made.full_scan:
        raise FullScanRefused(
            "The query gives this key field more values than it may have key ranges: split it, or say .allow_full_scan().",
            table=schema.table, path=made.path.name, field=made.match.excess,
        )  # fmt: skip
    if made.match.unordered:
        raise QueryError(
            "The bytes of this key field do not keep the order of its values, so it cannot bound a scan; "
            "say .allow_full_scan() to check every row instead.",
            table=schema.table, field=made.match.unordered,
        )  # fmt: skip
    if made.full_scan:
        _mention_unreadable(query, readable)
        raise FullScanRefused(
            "The query would read the whole table: bound the leading key fields of the table or an index, or say .allow_full_scan(). "
            "first(), last() and limit() need neither where the keys settle every condition.",
            table=schema.table, path=made.path.name, leading=made.path.layout.names[0],
        )  # fmt: skip
    return made


def _match(path: Path, predicates: Sequence[Predicate], schema: TableSchema) -> KeyConditions | None:
    """How the conditions meet the path's key; None for an index that may lack rows that satisfy them."""
    met = fit(path.index, predicates)
    if met is None:
        return None
    operands = schema.by_name if path.index is None else path.index.operands
    found = match(path.layout, met.conditions, operands, MAX_RANGES)
    ranges = math.prod(len(values) for values in found.parts)
    if ranges * path.salt.buckets > MAX_SCANS and not _located(path, found):
        found = match(path.layout, met.conditions, operands, MAX_SCANS // path.salt.buckets)
    return evolve(found, narrowed=met.narrowed, consumed=[*found.consumed, *met.settled])


def _mention_misfit(schema: TableSchema, paths: Sequence[Path], predicates: Sequence[Predicate]) -> None:
    """Raises `QueryError` where the one path that may be taken is an index that may lack rows of the query."""
    if len(paths) == 1 and (missing := misfit(paths[0].index, predicates)) is not None:
        raise QueryError(
            "The index holds some rows only, and the query may ask for others: repeat the index's own condition in the query.",
            table=schema.table, index=paths[0].name, missing=missing,
        )  # fmt: skip


def _mention_apart(schema: TableSchema, ways: Sequence[tuple[KeyLayout, KeyConditions]], each: Set[str]) -> None:
    """Raises `QueryError` where no path can read the items apart by the values of some fields."""
    if each and not any(each <= set(found.fixed(layout)) for layout, found in ways):
        raise QueryError(
            "Items are read apart by fields that lead the key of the table or of an index; fields before them must be fixed by where().",
            table=schema.table, fields=sorted(each),
        )  # fmt: skip


_UNBUILT = (
    "The index cannot be read: it was declared on a table that was there, and is not built, or it is being dropped. Build it with "
    "hb.build_index() or `hbmodel index build`, or query without it."
)


def _mention_unreadable(query: Query[Any], readable: Sequence[Index]) -> None:
    """Raises `IndexUnavailable` where an index that is declared but cannot be read yet would have served the query."""
    if query.moment is not None:
        return
    schema, known = query.schema, {index.name for index in readable}
    parts = conjuncts(query.predicate)
    for path in paths_of(schema, schema.indexes.values())[1:]:
        index = path.index
        if index is None or index.name in known or (found := _match(path, parts, schema)) is None or found.open:
            continue
        if _direction(index.layout, found, query.ordering, _never_none(parts)) is not None:
            raise IndexUnavailable(
                _UNBUILT,
                table=schema.table, index=index.name,
            )  # fmt: skip


def _named(schema: TableSchema, paths: Sequence[Path], wanted: str) -> Path:
    for path in paths:
        if path.name == wanted:
            return path
    if wanted in schema.indexes:
        raise IndexUnavailable(_UNBUILT, table=schema.table, index=wanted)
    raise UnknownIndex("The model has no such index.", table=schema.table, index=wanted)


def _mention_none(query: Query[Any], ways: Sequence[tuple[KeyLayout, KeyConditions]], never_none: Set[str]) -> None:
    """Raises `OrderNotAvailable` where a path would give the order but for the place of None in it."""
    wrong = [part.field.name for part in query.ordering if part.field.nullable and part.field.name not in never_none]
    if wrong and any(_direction(layout, found, query.ordering, never_none | set(wrong)) is not None for layout, found in ways):
        raise OrderNotAvailable(
            "None sorts before every value, but the codec, which stores the largest value first, has it on the other side: "
            "leave it out with ~field.is_(None).",
            table=query.schema.table, fields=[part.field.name for part in query.ordering], nullable=wrong,
        )  # fmt: skip


def _never_none(parts: Sequence[Predicate]) -> Set[str]:
    """The fields whose None satisfies no row's conditions."""
    alone = [(next(iter(part.names())), part.test()) for part in parts if len(part.names()) == 1]
    return {name for name, test in alone if not test({name: None})}


def _direction(
    layout: KeyLayout, found: KeyConditions, ordering: Sequence[Ordering], never_none: Set[str], each: Set[str] = frozenset()
) -> bool | None:
    """Whether the path gives the order forwards (False) or backwards (True); None where it does not give it at all.

    Fields that the query fixes to one value may stand anywhere in an order, or be left out. None comes before every value, and
    behind them where the order descends; fields in `never_none` do not have it. Those in `each` have one value at a time.
    """
    if not ordering:
        return False
    fixed = each | {name for name, parts in zip(layout.names, found.parts, strict=False) if len(parts) == 1}
    asked = [part for part in ordering if part.field.name not in fixed]
    free = [at for at, name in enumerate(layout.names) if name not in fixed]
    if len(asked) > len(free):
        return None
    backwards: bool | None = None
    for part, at in zip(asked, free, strict=False):
        order = layout.order_of(at)
        if layout.names[at] != part.field.name or order is None:
            return None
        opposite = (order == "descending") != part.desc
        if backwards is not None and opposite != backwards:
            return None
        backwards = opposite
        declared = layout.fields[at]
        if declared.nullable and declared.name not in never_none and declared.desc == (order == "ascending"):
            return None  # None stands where the field's direction puts it, and the values turned round by their codec
    return bool(backwards)


def _build(query: Query[Any], path: Path, found: KeyConditions, backwards: bool, indexed: bool, adopting: bool) -> Plan:
    schema = query.schema
    every = conjuncts(query.predicate)
    columns = column_ranges(schema, found) if path.index is None else None
    if columns is not None:
        found = evolve(found, consumed=[*found.consumed, *columns.consumed])
    residual = tuple(p for p in every if not any(p is consumed for consumed in found.consumed))
    names: frozenset[str] | None = None
    if query.selection is not None:
        names = frozenset[str]().union(*(f.reads for f in query.selection), *(p.reads() for p in every))
    if path.index is not None and names is not None:
        names |= path.index.reads
    reader = RowDecoder.of(schema, indexed, names, adopting)
    if query.moment is not None:
        check_kept(reader)
    buckets, rows = buckets_and_rows(schema, path, found, columns, backwards)
    # Under a random salt the newest of the rows with one key decides, so the server must not drop it for its values.
    by_key = [p for p in residual if all(schema.by_name[name].is_key for name in p.names())]
    pushed = by_key if path.salt.random else residual
    if path.index is not None:
        pushed = [c.on_entry for c in found.conditions if any(c.asked is p for p in residual)]
    return Plan(
        query=query,
        path=path,
        buckets=buckets,
        asked=buckets,
        columns=columns,
        backwards=backwards,
        reader=reader,
        filter=None
        if rows is not None
        else server_filter(schema, path.layout, pushed, on_index=path.index is not None, indexed=indexed, adopting=adopting),
        # Whatever an index range settles is settled for the entry only: the primary row decides (rule 5).
        residual=every if path.index is not None else residual,
        rows=rows,
        match=found,
    )


def buckets_and_rows(
    schema: TableSchema, path: Path, found: KeyConditions, columns: ColumnRanges | None, backwards: bool
) -> tuple[Sequence[Bucket], Sequence[bytes] | None]:
    """The ranges of each bucket that can hold a match, and the rows to get where the key is wholly given.

    Args:
        schema: of the model.
        path: to read.
        found: how the conditions meet its key.
        columns: of each row, where the key ranges alone would read more of it.
        backwards: the direction.
    """
    gathered = {} if columns is not None and not columns.ranges else _ranges(path, found if columns is None else _of_rows(schema, found))
    rows = None
    if path.index is None and found.complete(path.layout):
        # A key that HBase cannot hold is not there; asking for it would be an error.
        keys = [r.start for ranges in gathered.values() for r in ranges if 0 < len(r.start) <= MAX_ROW_LENGTH]
        rows = sorted(keys, key=path.position, reverse=backwards)
    return [Bucket(path.salt.prefix(bucket), merge_ranges(ranges)) for bucket, ranges in sorted(gathered.items())], rows


def _located(path: Path, found: KeyConditions) -> bool:
    """Whether the fixed fields tell the bucket."""
    return not path.salt.random and set(path.salt.by) <= set(path.layout.names[: len(found.parts)])


def _of_rows(schema: TableSchema, found: KeyConditions) -> KeyConditions:
    """What the conditions say of the fields of the row, where column ranges say the rest."""
    rows = schema.layout.rows if isinstance(schema.layout, PlaceLayout) else 0
    return found if len(found.parts) < rows else evolve(found, parts=found.parts[:rows], bounds=None)


def _ranges(path: Path, found: KeyConditions) -> Mapping[int, list[KeyRange]]:
    """The key ranges of each bucket that can hold a match, salt included."""
    layout, salt = path.layout, path.salt
    fixed = layout.names[: len(found.parts)]
    located = _located(path, found)
    gathered: dict[int, list[KeyRange]] = {}
    for parts in itertools.product(*found.parts):
        unsalted = layout.range_of(parts, found.bounds)
        if unsalted.empty:
            continue
        homes = (salt.bucket_of_fields(dict(zip(fixed, parts, strict=True))),) if located else range(salt.buckets)
        for bucket in homes:
            gathered.setdefault(bucket, []).append(salt.range_in(bucket, unsalted))
    return gathered


def explain(
    query: Query[Any],
    made: Plan,
    one_call_scans: bool,
    states: Mapping[str, str] | None = None,
    lease: float | None = None,
    *,
    one_call_gets: bool = True,
) -> Explanation:
    """Describes a plan.

    Args:
        query: that it is for.
        made: the plan.
        one_call_scans: whether a scan of the store is one call (see `Capabilities`).
        states: of the declared indexes, by name.
        lease: seconds after which a session notices that they have changed.
        one_call_gets: whether one call of the store reads other columns of each row.
    """
    ranges = sum(len(bucket.ranges) for bucket in made.buckets)
    through_index = made.path.index is not None
    access: Access = "scan + get" if through_index and made.covering is None else "scan"
    if not made.buckets:
        access = "nothing"
    elif made.rows is not None:
        access = "get"
    fixed = made.path.layout.names[: len(made.match.parts)]
    bounded = made.path.layout.names[len(fixed)] if made.match.bounds is not None else None
    slices = slices_of(made)
    scans = slices.scans if slices is not None else len(made.buckets) if access.startswith("scan") else 0
    gets = int(access.endswith("get"))
    if query.schema.wide is not None and gets:
        gets = calls_of_gets(made, one_call_gets)
    turns = slices.turns if slices is not None else int(scans > 0)
    opened = 0 if one_call_scans else scans
    known = {} if states is None else states
    return Explanation(
        path=made.path.name,
        table=made.path.table,
        kinds=() if made.path.index is None else made.path.index.kinds,
        access=access,
        equalities=fixed,
        range_field=bounded,
        buckets=len(made.buckets),
        of_buckets=made.path.salt.buckets,
        ranges=ranges,
        backwards=made.backwards,
        server=RANGES_OF_COLUMNS if slices is not None else None if made.filter is None else describe_filter(made.filter),
        client=[describe(p) for p in made.residual],
        calls=opened + scans + gets,
        round_trips=turns * (1 + bool(opened)) + bool(gets),
        calls_saved=opened,
        full_scan=made.full_scan and bool(made.buckets),
        scan_calls=opened + scans,
        gets=gets,
        covering=_covering(made),
        lacking=made.lacking if _covering(made) == "incomplete" else (),
        state=known.get(made.path.name) if through_index else None,
        unreadable={name: state for name, state in known.items() if state != "readable"},
        lease=lease,
        slices=slices,
        as_of=query.moment,
        limit=query.skipped + query.maximum if query.maximum is not None and made.match.open and made.limited and made.buckets else None,
    )


def _covering(made: Plan) -> Covering | None:
    """What the covered columns of the index that a plan takes are to its query."""
    index = made.path.index
    if index is None or not index.covers:
        return None
    if index.name not in made.query.schema.covering:
        return "copy"
    return "incomplete" if made.covering is None else "verified"
