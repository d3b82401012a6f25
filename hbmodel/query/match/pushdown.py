"""Turns predicates into filters that the server evaluates while it scans; the client checks all predicates again.

A filter may pass too many rows, but never too few. Some conditions are left to the client, for five reasons. An empty
cell (None) sorts below every value. In a column that does not allow None, an empty cell is read as the default.
Negative counters do not sort by their bytes. A column that is not read cannot be filtered. A filter that strips the
values from cells also strips that of the liveness cell.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import Factory

from hbmodel.encoding.key_layout import KeyLayout
from hbmodel.errors import QueryError
from hbmodel.mapping.predicates import And, Comparison, In, Or, Predicate, StartsWith
from hbmodel.mapping.rows.mapper import RowDecoder
from hbmodel.mapping.rows.row_check import checks_rows
from hbmodel.mapping.schema import FLAG, LIVE, Field, TableSchema
from hbmodel.query.match.plan import Plan
from hbmodel.store.filters import And as AllOf
from hbmodel.store.filters import Filter, KeyOnly, RowContains, ValueFilter
from hbmodel.store.filters import Or as AnyOf
from hbmodel.store.ranges import prefix_successor
from hbmodel.store.wide.object_filters import COUNTED, keys_only

MAX_ALTERNATIVES = 100
"""The maximum number of alternatives of one field, or of one `|`, that are sent to the server."""


def server_filter(
    schema: TableSchema,
    layout: KeyLayout,
    residual: Sequence[Predicate],
    *,
    on_index: bool,
    indexed: bool,
    adopting: bool = False,
) -> Filter | None:
    """Returns a filter for the scan of a path, or None.

    Args:
        residual: the conditions that the key ranges do not enforce.
        on_index: whether an index is scanned. In this case only the entries' keys are filtered, because a crashed
            writer may have left an entry whose covered values differ from those of its row.
        indexed: whether rows have system cells; dead rows are then filtered out on the server.
        adopting: whether rows without system cells exist too.
    """
    filters = [pushed for pushed in (_filter(p, layout, on_index) for p in residual) if pushed is not None]
    if not on_index and indexed:
        filters.insert(0, ValueFilter(schema.liveness_column, ">=", LIVE, adopting))  # dead rows have 00 here
    elif not on_index and schema.exists_column is not None and not schema.external:  # external: any value
        filters.insert(0, ValueFilter(schema.exists_column, "=", FLAG))
    if not filters:
        return None
    return filters[0] if len(filters) == 1 else AllOf(filters)


def keys_filter(reader: RowDecoder) -> Filter | None:
    """Returns a filter that leaves out all values, for a scan that needs only row keys. Returns None if most rows
    cannot be recognised as objects without a value. Rows with a liveness cell may be read again for its value, see
    `rereads`.
    """
    schema = reader.schema
    if reader.names is None or reader.fields or reader.indexed or schema.exists_column is not None:
        return None
    # a row may have system cells before the first cell that makes it an object
    one_cell = reader.anchors and not reader.adopting and not schema.external and not checks_rows(schema)
    return COUNTED if one_cell else KeyOnly()


def rereads(plan: Plan) -> bool:
    """Whether rows with a liveness cell must be read again, because the filter has left out the cell's value."""
    return plan.reader.adopting and keys_only(plan.filter)


def dropped_by_client(plan: Plan) -> list[Predicate]:
    """Returns the conditions for which the client may drop rows that it has read, because they are not enforced exactly
    by the key ranges or the scan's filter.
    """
    schema, layout, on_index = plan.terms.schema, plan.path.layout, plan.path.index is not None
    settled = plan.match.consumed if on_index else ()
    server = plan.rows is None and plan.filter is not None and schema.wide is None and not plan.path.salt.random
    left = [p for p in plan.residual if not any(p is done for done in settled)]
    return [p for p in left if not (server and not on_index and _filtered(p, layout))]


def _filtered(predicate: Predicate, layout: KeyLayout) -> bool:
    """Whether the filter of a predicate passes only rows that satisfy it."""
    if isinstance(predicate, And | Or):
        few = len(predicate.parts) <= MAX_ALTERNATIVES or isinstance(predicate, And)
        return few and all(_filtered(part, layout) for part in predicate.parts)
    if not isinstance(predicate, Comparison | In | StartsWith) or predicate.field.is_key:
        return False
    return not isinstance(predicate.field.default, Factory) and _filter(predicate, layout, on_index=False) is not None  # type: ignore[arg-type]


def _filter(predicate: Predicate, layout: KeyLayout, on_index: bool) -> Filter | None:
    if isinstance(predicate, And):
        known = [
            pushed for pushed in (_filter(part, layout, on_index) for part in predicate.parts) if pushed is not None
        ]
        return AllOf(known) if known else None
    if isinstance(predicate, Or):
        if len(predicate.parts) > MAX_ALTERNATIVES:
            return None
        known = [
            pushed for pushed in (_filter(part, layout, on_index) for part in predicate.parts) if pushed is not None
        ]
        return AnyOf(known) if len(known) == len(predicate.parts) else None
    if not isinstance(predicate, Comparison | In | StartsWith):
        return None
    field = predicate.field
    if field.is_key or on_index:
        return _key_filter(predicate, layout)
    if field.kind != "column" or not field.codec.canonical or field.null == "delete":
        return None
    missing = _accepts_missing(predicate, field)
    pushed = _column_filter(predicate, field, missing)
    if pushed is None or not missing or not field.empty_is_missing:
        return pushed
    blank = ValueFilter(field.column, "=", b"", missing)
    return AnyOf([blank, *pushed.filters] if isinstance(pushed, AnyOf) else [blank, pushed])


def _accepts_missing(predicate: Predicate, field: Field) -> bool:
    """Whether a row without the column may satisfy the predicate on it."""
    if field.required:
        return False
    # When the row is read, a factory may return a different value than now.
    return isinstance(field.default, Factory) or predicate.test()({field.name: field.default_value()})  # type: ignore[arg-type]


def _key_filter(predicate: Comparison | In | StartsWith, layout: KeyLayout) -> Filter | None:
    """Returns the filter for an equality on ASCII text in a key. The text's bytes are stored unchanged, so the key must
    contain them.

    None for other conditions, and for descending fields, whose bytes are complemented.
    """
    field = predicate.field
    packed = next((f for f in layout.fields if f.name == field.name), None)
    if packed is None or packed.desc or field.codec.python_type is not str:
        return None
    if isinstance(predicate, Comparison) and predicate.operator == "=":
        text = predicate.value
        if text and text.isascii() and text.isprintable() and text.encode() in field.codec.encode_part(text):
            return RowContains(text)
    return None


def _column_filter(predicate: Comparison | In | StartsWith, field: Field, missing: bool) -> Filter | None:
    column = field.column
    if isinstance(predicate, In):
        if not predicate.values or len(predicate.values) > MAX_ALTERNATIVES:
            return None
        equal = [ValueFilter(column, "=", field.encode_cell(value), missing) for value in predicate.values]
        return equal[0] if len(equal) == 1 else AnyOf(equal)
    if isinstance(predicate, StartsWith):
        if field.codec.raw_order != "ascending" or not predicate.prefix:
            return None
        try:
            start = field.codec.raw_prefix(predicate.prefix)
        except QueryError:  # the bytes do not show which values have this prefix
            return None
        if not start or start[0] == 0:  # values that begin with 00 are escaped, except in external tables
            return None
        stop = prefix_successor(start)
        filters = [ValueFilter(column, ">=", start, missing)]
        if stop is not None:
            filters.append(ValueFilter(column, "<", stop, missing))
        return AllOf(filters)
    if predicate.operator == "=":
        return ValueFilter(column, "=", field.encode_cell(predicate.value), missing)
    if predicate.operator == "!=" or field.codec.raw_order != "ascending":
        return None
    bound = ValueFilter(column, predicate.operator, field.encode_cell(predicate.value), missing)
    if field.nullable and predicate.operator in {"<", "<="}:  # None is an empty cell, which sorts first
        return AllOf([ValueFilter(column, "!=", b"", missing), bound])
    return bound
