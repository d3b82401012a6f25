"""Counts rows per prefix of the key in a sample, to show how the rows of a table and the entries of its indexes are
distributed over leading values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from statistics import median_low
from typing import Any

from attrs import frozen

from hbmodel.encoding.codecs.dictionary import numbers_as_names
from hbmodel.encoding.key_layout import KeyLayout
from hbmodel.encoding.object_key_layout import ObjectKeyLayout
from hbmodel.errors import DecodingError, TableNotFound
from hbmodel.mapping.schema import PRIMARY, TableSchema
from hbmodel.store.port import Store
from hbmodel.store.wide.folded import folded
from hbmodel.tables.advice.sampled_objects import SAMPLE, first_rows

HOT = 0.1
"""A leading value is hot if at least this share of the sample has it."""


@frozen
class PrefixCounts:
    """How many sampled rows have the same leading fields.

    Attributes:
        path: `primary`, or the name of an index.
        fields: the leading fields.
        rows: the number of sampled rows, or entries.
        prefixes: the number of different values of the leading fields among these rows.
        median: median number of rows per prefix.
        percentile: the 99th percentile of the number of rows per prefix.
        most: the number of rows of the prefix with the most rows.
        cut: whether the sample may end within a prefix, so that prefixes may have more rows than were counted.
        hot: values of the first field that at least a tenth of the sample has, each with its share, the largest share
            first. The sample has only the first rows of each region. So if `cut` is True, a value that most rows of the
            table have may be missing.
    """

    path: str
    fields: Sequence[str]
    rows: int
    prefixes: int
    median: int
    percentile: int
    most: int
    cut: bool
    hot: Sequence[tuple[Any, float]] = ()

    def __str__(self) -> str:
        where = " in the first rows of each region" if self.cut else ""
        hot = f"; hot{where}: {', '.join(f'{value!r} {share:.0%}' for value, share in self.hot)}" if self.hot else ""
        least = " or more" if self.cut else ""
        counts = f"median {self.median}, 99th percentile {self.percentile}, most {self.most}{least}"
        return f"  {self.path} {', '.join(self.fields)}: {self.rows} rows of {self.prefixes} prefixes, {counts}{hot}"


def prefix_counts(schema: TableSchema, store: Store, count: int = SAMPLE) -> tuple[PrefixCounts, ...]:
    """Counts the rows per prefix of the primary key and of each index that has a table, in the first rows of each
    sampled region.

    Args:
        count: the maximum number of rows per table.
    """
    view, counts = folded(store, schema.wide_rows), list[PrefixCounts]()
    counts += _counted(PRIMARY, view, schema.table, schema.layout, schema.salt.width, schema.family_names, count)
    for index in schema.indexes.values():
        try:
            counts += _counted(index.name, store, index.table, index.layout, index.salt.width, (), count)
        except TableNotFound:  # this index is declared but not built
            continue
    return tuple(counts)


def _counted(
    path: str,
    store: Store,
    table: str,
    layout: KeyLayout | ObjectKeyLayout,
    start: int,
    columns: Sequence[bytes],
    count: int,
) -> Iterator[PrefixCounts]:
    keys: list[tuple[Any, ...]] = []
    cut = False
    for rows, more in first_rows(store, table, columns, count):
        cut |= more
        with numbers_as_names():
            for row in rows:
                with suppress(DecodingError):  # a row of another program
                    keys.append(layout.unpack(row.row, start))
    for length in range(1, len(layout.names)):
        prefix_sizes = Counter(key[:length] for key in keys)
        counts = sorted(prefix_sizes.values())
        if counts:
            yield PrefixCounts(
                path=path,
                fields=tuple(layout.names[:length]),
                rows=len(keys),
                prefixes=len(prefix_sizes),
                median=median_low(counts),
                percentile=counts[-(-99 * len(counts) // 100) - 1],
                most=counts[-1],
                cut=cut,
                hot=tuple(
                    (key[0], many / len(keys))
                    for key, many in prefix_sizes.most_common(round(1 / HOT))
                    if many >= HOT * len(keys)
                )
                if length == 1
                else (),
            )
