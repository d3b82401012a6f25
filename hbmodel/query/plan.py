"""How a query is carried out: the path it takes and what is read of each bucket."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

from attrs import evolve, field, frozen

from hbmodel.encoding.key_layout import KeyLayout
from hbmodel.encoding.salts import BoundSalt
from hbmodel.mapping.covering import EntryDecoder, fields_held
from hbmodel.mapping.mapper import RowDecoder
from hbmodel.mapping.predicates import And, Predicate, Test
from hbmodel.mapping.schema import Index
from hbmodel.protocol.verify_entries import EntryScope
from hbmodel.query.as_of import before
from hbmodel.query.column_ranges import ColumnRanges
from hbmodel.query.key_conditions import KeyConditions
from hbmodel.query.merged_order import KeyPlace, MergedOrder
from hbmodel.query.paging import digest_of
from hbmodel.query.query import Query
from hbmodel.store.filters import And as AllOf
from hbmodel.store.filters import Filter, ValueFilter
from hbmodel.store.ranges import KeyRange


@frozen(eq=False)
class Path:
    """A table that holds a model's rows in some order: the primary table or an index."""

    name: str
    table: str
    layout: KeyLayout
    salt: BoundSalt
    index: Index | None

    def position(self, row: bytes) -> bytes:
        """The part of a row key that the order over all buckets is decided by: the key without its salt."""
        return row[self.salt.width :]


@frozen(eq=False)
class Bucket:
    """What is read of one salt bucket: disjoint ranges in key order, salt prefix included.

    Attributes:
        prefix: of the bucket.
        ranges: of its keys.
        lead: what these begin with, behind the salt, where the runs of several values are merged.
    """

    prefix: bytes
    ranges: Sequence[KeyRange]
    lead: bytes = b""


@frozen(eq=False)
class Plan:
    """How a query is carried out.

    Attributes:
        query: that it is for.
        path: the table that is read first.
        buckets: its salt buckets that can hold matches.
        backwards: whether scans run from the last key to the first.
        reader: decodes primary rows, with every field that items or predicates need.
        filter: evaluated by the server while it scans the path's table, or None.
        residual: predicates that the key ranges do not settle; the client tests them on every row.
        rows: the exact row keys to get where the key is wholly given, instead of scans.
        match: how the query meets the path's key.
        asked: `buckets` of the whole query, where they are those of a part.
        columns: of each row of a wide model, where the key ranges alone would read more of it.
        order: that the buckets are merged in, where it is not that of their keys.
        bounds: places that what is read lies above (True) or below.
    """

    query: Query[Any] = field(repr=False)
    path: Path
    buckets: Sequence[Bucket]
    backwards: bool
    reader: RowDecoder
    filter: Filter | None
    residual: Sequence[Predicate]
    rows: Sequence[bytes] | None
    match: KeyConditions
    asked: Sequence[Bucket]
    columns: ColumnRanges | None = None
    order: MergedOrder | None = None
    bounds: Sequence[tuple[KeyPlace, bool]] = ()

    @cached_property
    def scope(self) -> EntryScope:
        """The entries that the whole query asks for."""
        ranges = [of for bucket in self.asked for of in bucket.ranges]
        return EntryScope(ranges, self.path.salt.width, self.entry_test)

    @cached_property
    def entry_prefix(self) -> bytes | None:
        """What every entry that the query asks for begins with, where the rest of each is the key of its row; else None."""
        index, schema, parts = self.path.index, self.reader.schema, self.match.parts
        if index is None or not index.is_plain or schema.salt.width or schema.wide is not None or len(self.buckets) != 1:
            return None
        own = len(index.parts)
        if self.path.layout.fields[own:] != schema.layout.fields or [len(values) for values in parts[:own]] != [1] * own:
            return None
        return self.buckets[0].prefix + self.path.layout.range_of([values[0] for values in parts[:own]], None).start

    @cached_property
    def entry_test(self) -> Callable[[bytes], bool] | None:
        """Tests an entry's own key for the conditions on it, so that rows that cannot match are not fetched.

        Safe for entries too: a row's current entry holds the row's own values.
        """
        names, settled = frozenset(self.path.layout.names), self.match.consumed
        open_ = [c.on_entry for c in self.match.conditions if not any(c.asked is done for done in settled)]
        tests = [predicate.test() for predicate in open_ if predicate.names() <= names]
        if not tests:
            return None
        unpack, start, ordered = self.path.layout.unpack, self.path.salt.width, self.path.layout.names

        def passes(entry: bytes) -> bool:
            values = dict(zip(ordered, unpack(entry, start), strict=True))
            return all(test(values) for test in tests)

        return passes

    @cached_property
    def covering(self) -> EntryDecoder | None:
        """Decodes verified entries where they hold all that the query needs; None where rows must be read."""
        query, index = self.query, self.path.index
        if index is None or self.lacking or index.name not in query.schema.covering:
            return None
        return EntryDecoder(query.schema, index, None if query._selection is None else self._needed)

    @cached_property
    def _needed(self) -> frozenset[str]:
        """Names of the fields that must be known of a verified entry."""
        query = self.query
        asked = query.schema.fields if query._selection is None else query._selection
        return frozenset[str]().union(*(f.reads for f in asked), *(p.reads() for p in self._open_on_entries))

    @cached_property
    def lacking(self) -> Sequence[str]:
        """Names of the fields that the query needs and the entries of its index do not hold."""
        index = self.path.index
        return () if index is None else sorted(self._needed - fields_held(self.query.schema, index))

    @cached_property
    def _open_on_entries(self) -> Sequence[Predicate]:
        """The conditions that neither the key ranges nor the tests of an entry's key settle."""
        names, settled = frozenset(self.path.layout.names), self.match.consumed
        tested = [c.asked for c in self.match.conditions if c.on_entry.names() <= names]
        return [p for p in self.residual if not any(p is done for done in (*settled, *tested))]

    @cached_property
    def accepts_entry(self) -> Test | None:
        """What is left to test of a verified entry, over the values that it holds; None where there is nothing."""
        return And(tuple(self._open_on_entries)).test() if self._open_on_entries else None

    @cached_property
    def entry_columns(self) -> Sequence[bytes]:
        """What is read of index entries."""
        schema, index = self.reader.schema, self.path.index
        if self.covering is not None:
            return self.covering.scanned
        if index is not None and (index.unique or index.name in schema.covering):
            return (schema.version_column,)  # so that claims of values, and marks of entries that were deleted, are left out
        return (schema.family,)

    @cached_property
    def filter_of_rest(self) -> Filter | None:
        """What the server filters the rest of a covering scan by, where marks of deleted entries took up the room of its beginning.

        Not from the beginning: most scans meet no mark, and this filter costs more than a few of them.
        """
        whole = ValueFilter(self.reader.schema.version_column, "!=", b"")
        return whole if self.filter is None else AllOf((self.filter, whole))

    @cached_property
    def accepts(self) -> Test | None:
        """The residual predicates as one function, or None where there are none."""
        return And(tuple(self.residual)).test() if self.residual else None

    @cached_property
    def digest(self) -> bytes:
        """What a continuation token is bound to: the model, the query with its values, the path's key layout and the direction."""
        query, path = self.query, self.path
        predicate = None if query._predicate is None else query._predicate.canonical()
        order = tuple((part.field.name, part.desc) for part in query._ordering)
        read = (query.schema.table, query.schema.family, path.table, str(path.layout.spec))
        part = (*(() if query._part is None else (query._part.ranges,)), *self.bounds)
        time = () if query._moment is None else ("as of", before(query._moment))
        return digest_of(read, predicate, order, query._backwards, query._maximum, query._skipped, *part, *time)

    @cached_property
    def settled(self) -> bool:
        """Whether the key ranges settle every condition: what they hold are items, but for rows that are no objects and stale entries."""
        settled = self.match.consumed if self.path.index is not None else ()
        return all(any(p is done for done in settled) for p in self.residual)

    @property
    def limited(self) -> bool:
        """Whether the query's limit bounds what is read."""
        return self.query._maximum is not None and self.settled

    @property
    def full_scan(self) -> bool:
        """Whether nothing bounds the scan."""
        return self.match.open and not self.limited and not self.bounds

    @cached_property
    def place(self) -> Callable[[bytes], KeyPlace]:
        """From a key without its salt to what the order over all buckets is decided by."""
        return _itself if self.order is None else self.order.key

    @cached_property
    def row_place(self) -> Callable[[bytes], Any]:
        """The same from a row key."""
        width, place = self.path.salt.width, self.place
        return lambda row: place(row[width:])

    @cached_property
    def opposite(self) -> Plan:
        """The same items in the opposite order; not of the reversed query, whose tokens are others."""
        return evolve(self, backwards=not self.backwards, rows=None if self.rows is None else self.rows[::-1])

    def after(self, position: bytes) -> Sequence[Bucket]:
        """The part of every bucket that lies behind `position` in the direction of the scan."""
        return self.beyond(self.place(position), above=not self.backwards)

    def beyond(self, place: KeyPlace, above: bool) -> Sequence[Bucket]:
        """The part of every bucket that lies above a place, or below it."""
        return [evolve(bucket, ranges=list(self._beyond(bucket, place, above))) for bucket in self.buckets]

    def rows_beyond(self, rows: Sequence[bytes], place: Any, above: bool) -> Sequence[bytes]:
        """Those of some row keys that lie above a place, or below it."""
        return [row for row in rows if (self.row_place(row) > place if above else self.row_place(row) < place)]

    def _beyond(self, bucket: Bucket, place: KeyPlace, above: bool) -> Iterator[KeyRange]:
        for of in bucket.ranges:
            if self.order is not None and isinstance(place, tuple):
                rest = self.order.beyond(of, bucket.prefix, bucket.lead, place, above)
            else:
                key = bucket.prefix + (place if isinstance(place, bytes) else b"")
                rest = of.after(key) if above else of.before(key)
            if not rest.empty:
                yield rest


def _itself(position: bytes) -> bytes:
    return position
