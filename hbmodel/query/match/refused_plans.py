"""Refuses queries without a plan that they allow, such as full scans, with errors that say what would help."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from typing import NoReturn

from hbmodel.encoding.key_layout import KeyLayout
from hbmodel.errors import FullScanRefused, IndexUnavailable, OrderNotAvailable, QueryError, UnknownIndex
from hbmodel.mapping.predicates import Predicate, conjuncts
from hbmodel.mapping.schema import Index, TableSchema
from hbmodel.query.ask.terms import QueryTerms
from hbmodel.query.match.index_applicability import misfit
from hbmodel.query.match.key_conditions import KeyConditions
from hbmodel.query.match.merged_order import MAX_MERGED, Direction, direction
from hbmodel.query.match.paths import match_path, mixed_field, never_none_fields, paths_of, scans_to_merge
from hbmodel.query.match.plan import Path, Plan

_UNBUILT = (
    "The index cannot be read: it is not built, its build has not ended, or it is being dropped (see `hbmodel index "
    "status`). Build it with hb.indexes.build_index() or `hbmodel index build`, or query without it."
)


def named_path(schema: TableSchema, paths: Sequence[Path], wanted: str) -> Path:
    """Returns the path with a name; raises `UnknownIndex` or `IndexUnavailable` if there is none."""
    for path in paths:
        if path.name == wanted:
            return path
    if wanted in schema.indexes:
        raise IndexUnavailable(_UNBUILT, table=schema.table, index=wanted)
    raise UnknownIndex("The model has no such index: name a declared one.", table=schema.table, index=wanted)


def refuse_order(
    terms: QueryTerms,
    readable: Sequence[Index],
    paths: Sequence[Path],
    merging: Sequence[tuple[Path, KeyConditions, Direction]],
    each: Set[str],
    wanted: str | None,
) -> NoReturn:
    """Raises the error of a query for which no path has the order, and says what would help.

    Args:
        terms: the terms of the query.
        readable: the indexes that may be read.
        paths: the paths that the query may take.
        merging: the paths that have the order, but only by merging too many scans.
        each: fields whose values will be read separately.
        wanted: the path that the query names, if it names one.
    """
    schema, parts = terms.schema, conjuncts(terms.predicate)
    _mention_merging(terms, merging)
    _mention_unreadable(terms, readable)
    _mention_misfit(schema, paths, parts)
    matched = [
        (path.layout, path_match) for path in paths if (path_match := match_path(path, parts, schema)) is not None
    ]
    _mention_apart(schema, matched, each)
    _mention_none(terms, matched, never_none_fields(parts))
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


def check_scan(
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
        scans=scans_to_merge(path, matched, way),
        most=MAX_MERGED,
    )


def _mention_unreadable(terms: QueryTerms, readable: Sequence[Index]) -> None:
    """Raises `IndexUnavailable` if a declared index that cannot be read yet would have answered the query."""
    if terms.moment is not None:
        return
    schema, known = terms.schema, {index.name for index in readable}
    parts = conjuncts(terms.predicate)
    for path in paths_of(schema, schema.indexes.values())[1:]:
        index = path.index
        if index is None or index.name in known or (matched := match_path(path, parts, schema)) is None or matched.open:
            continue
        if direction(index.layout, matched, terms.ordering, never_none_fields(parts)) is not None:
            raise IndexUnavailable(
                _UNBUILT,
                table=schema.table, index=index.name,
            )  # fmt: skip


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


def _mention_apart(schema: TableSchema, ways: Sequence[tuple[KeyLayout, KeyConditions]], each: Set[str]) -> None:
    """Raises `QueryError` if no path can read the items of each value of some fields separately."""
    for layout, _ in ways:
        mixed = mixed_field(layout, each)
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


def _mention_order(terms: QueryTerms, readable: Sequence[Index], chosen: Path) -> None:
    """Raises `FullScanRefused` if conditions bound the key of a path that does not have the order of the query."""
    schema, parts = terms.schema, conjuncts(terms.predicate)
    for path in paths_of(schema, readable) if terms.ordering else ():
        matched = match_path(path, parts, schema)
        if matched is not None and not matched.open:
            raise FullScanRefused(
                "In this order, the query would read the whole table or index: its conditions bound another key. Leave "
                "out order_by() and sort the items, declare an index on the fields of the conditions followed by those "
                "of the order, or call .allow_full_scan().",
                table=schema.table,
                path=chosen.name,
                fields=[part.field.name for part in terms.ordering],
            )


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
        matched = match_path(path, narrower, terms.schema)
        if matched is not None and each <= set(matched.fixed(path.layout)):
            way = direction(path.layout, matched, terms.ordering, never_none_fields(narrower), each)
            if way is not None and scans_to_merge(path, matched, way, each) <= MAX_MERGED:
                yield path.index, missing, matched
