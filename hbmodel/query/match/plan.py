"""The plan of a query, which contains the path and the ranges to read in each bucket."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

from attrs import evolve, field, frozen

from hbmodel.encoding.key_layout import KeyLayout
from hbmodel.encoding.salts import BoundSalt
from hbmodel.errors import DecodingError
from hbmodel.mapping.predicates import And, Predicate, Test
from hbmodel.mapping.rows.asked_entries import entries_asked_for
from hbmodel.mapping.rows.covering import EntryDecoder, fields_held
from hbmodel.mapping.rows.entries_of_row import Entries
from hbmodel.mapping.rows.mapper import RowDecoder
from hbmodel.mapping.rows.unreadable import TolerantEntryDecoder, or_unreadable
from hbmodel.mapping.schema import Index
from hbmodel.protocol.indexed.entry_verifier import EntryScope
from hbmodel.query.ask.as_of_time import before
from hbmodel.query.ask.continuation_tokens import digest_of
from hbmodel.query.ask.terms import QueryTerms
from hbmodel.query.match.column_ranges import ColumnRanges
from hbmodel.query.match.key_conditions import KeyConditions, values_left
from hbmodel.query.match.merged_order import KeyPlace, MergedOrder
from hbmodel.store.filters import And as AllOf
from hbmodel.store.filters import Filter, ValueFilter
from hbmodel.store.ranges import KeyRange


@frozen(eq=False)
class Path:
    """A table that contains a model's rows in some order: the primary table or an index."""

    name: str
    table: str
    layout: KeyLayout
    salt: BoundSalt
    index: Index | None

    def position(self, row: bytes) -> bytes:
        """Returns the key without its salt, which determines the order over all buckets."""
        return row[self.salt.width :]


@frozen(eq=False)
class Bucket:
    """The ranges to read in one salt bucket.

    Attributes:
        ranges: the ranges of keys, with the prefix, disjoint and in key order.
        lead: the bytes with which all these keys begin after the prefix, if the runs of several values are merged.
    """

    prefix: bytes
    ranges: Sequence[KeyRange]
    lead: bytes = b""


@frozen(eq=False, slots=False)  # without slots, a cached property costs one call less
class Plan:
    """How a query is executed.

    Attributes:
        terms: what the query asks for.
        path: the table that is read first.
        buckets: the salt buckets of the path that can contain matches.
        backwards: whether scans run from the last key to the first.
        reader: decodes every field that items or predicates need from primary rows.
        filter: evaluated by the server while it scans the path's table, or None.
        residual: predicates that the key ranges do not enforce exactly; the client tests them on every row.
        rows: the exact row keys to get instead of scans, if the whole key is given.
        match: how the query matches the path's key.
        asked: the query's buckets as they were before `buckets` was restricted to a partition, or to items before or
            after an object.
        columns: the columns to read in each row of a wide model; None if column ranges would exclude nothing more than
            the key ranges.
        order: the order in which the buckets are merged, if it differs from that of their keys.
        bounds: places in the order. For each, True means that all items are above it, and False that all items are
            below it.
    """

    terms: QueryTerms = field(repr=False)
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
        """The entries that the whole query may read."""
        ranges = [key_range for bucket in self.asked for key_range in bucket.ranges]
        return EntryScope(ranges, self.path.salt.width, self.entry_test)

    @cached_property
    def entry_prefix(self) -> bytes | None:
        """The prefix of the entries' keys, if the key of each entry of the query is this prefix followed by the key of
        its row. Otherwise None.
        """
        index, schema, parts = self.path.index, self.reader.schema, self.match.parts
        if (
            index is None
            or not index.is_plain
            or schema.salt.width
            or schema.wide is not None
            or len(self.buckets) != 1
        ):
            return None
        own = len(index.parts)
        if (
            self.path.layout.fields[own:] != schema.layout.fields
            or [len(values) for values in parts[:own]] != [1] * own
        ):
            return None
        return self.buckets[0].prefix + self.path.layout.range_of([values[0] for values in parts[:own]], None).start

    @cached_property
    def entries_asked_for(self) -> Entries | None:
        """If rows may have several entries, a function that makes only those entries of a row that can match the query.
        Otherwise None.
        """
        index = self.path.index
        if index is None or index.has_one_entry:
            return None
        asked: dict[str, Sequence[Any]] = {}
        settled = frozenset(map(id, self.match.consumed))
        for at, name in enumerate(index.fields):
            own = [c for c in self.match.conditions if c.on_entry.names() == {name}]
            if at >= len(self.match.parts):  # the choice of the index enforces these conditions
                own = [c for c in own if id(c.asked) not in settled]
            if (values := values_left([c.on_entry for c in own], name)) is not None:
                asked[name] = values
        return entries_asked_for(self.reader.schema, index, asked)

    @cached_property
    def entry_test(self) -> Callable[[bytes], bool] | None:
        """A function that tests the conditions on the fields in an entry's key, so that rows that cannot match are not
        read. None if there are no such conditions.

        No matching row is lost, because a row's current entry contains the row's current values.
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

        if self.terms.on_unreadable is None:
            return passes

        def passes_unless_read(entry: bytes) -> bool:
            try:
                return passes(entry)
            except DecodingError:  # reading the row will report the error
                return True

        return passes_unless_read

    @cached_property
    def covering(self) -> EntryDecoder | None:
        """Decodes verified entries if they contain everything that the query needs; None if rows must be read."""
        terms, index = self.terms, self.path.index
        if index is None or self.lacking or index.name not in terms.schema.covering:
            return None
        decoder = EntryDecoder if self.terms.on_unreadable is None else TolerantEntryDecoder
        return decoder(terms.schema, index, None if terms.selection is None else self._needed)

    @cached_property
    def _needed(self) -> frozenset[str]:
        """Names of the fields that the query needs from a verified entry."""
        terms = self.terms
        fields = terms.schema.fields if terms.selection is None else terms.selection
        return frozenset[str]().union(*(f.reads for f in fields), *(p.reads() for p in self._open_on_entries))

    @cached_property
    def lacking(self) -> Sequence[str]:
        """Names of the fields that the query needs, but that the entries of its index do not contain."""
        index, schema = self.path.index, self.terms.schema
        if index is None:
            return ()
        key = ("fields held", index.name, index.schema_complete)
        held: frozenset[str] | None = schema.compiled.get(key)
        return sorted(self._needed - (schema.keep(key, fields_held(schema, index)) if held is None else held))

    @cached_property
    def _open_on_entries(self) -> Sequence[Predicate]:
        """The conditions that are checked neither by the key ranges nor by tests of an entry's key."""
        names, settled = frozenset(self.path.layout.names), self.match.consumed
        tested = [c.asked for c in self.match.conditions if c.on_entry.names() <= names]
        return [p for p in self.residual if not any(p is done for done in (*settled, *tested))]

    @cached_property
    def accepts_entry(self) -> Test | None:
        """A function that tests the values in a verified entry for the conditions that its key does not decide. None if
        there are no such conditions.
        """
        return self._tested(self._open_on_entries)

    @cached_property
    def entry_columns(self) -> Sequence[bytes]:
        """The columns to read of index entries."""
        schema, index = self.reader.schema, self.path.index
        if self.covering is not None:
            return self.covering.scanned
        if index is not None and (index.unique or index.name in schema.covering):
            # if only this column is read, claims of values and the marks of deleted entries are left out
            return (schema.version_column,)
        return (schema.family,)

    @cached_property
    def filter_of_rest(self) -> Filter | None:
        """The server's filter for the rest of a covering scan, if marks of deleted entries may have used up the limit.

        The filter is not used from the start, because most scans meet no marks, and the filter costs more than reading
        a few marks.
        """
        whole = ValueFilter(self.reader.schema.version_column, "!=", b"")
        return whole if self.filter is None else AllOf((self.filter, whole))

    @cached_property
    def accepts(self) -> Test | None:
        """The residual predicates as one function, or None if there are none."""
        return self._tested(self.residual)

    def _tested(self, predicates: Sequence[Predicate]) -> Test | None:
        if not predicates:
            return None
        test = And(tuple(predicates)).test()
        return test if self.terms.on_unreadable is None else or_unreadable(test)

    @cached_property
    def digest(self) -> bytes:
        """The digest that a token is bound to: the model, the query with its values, the path's key layout and the
        direction.
        """
        terms, path = self.terms, self.path
        predicate = None if terms.predicate is None else terms.predicate.canonical()
        order = tuple([(part.field.name, part.desc) for part in terms.ordering])
        kind = (terms.schema.kind,) if terms.schema.kind else ()
        read = (terms.schema.table, terms.schema.family, *kind, path.table, path.layout.spec_text)
        partition = (*(() if terms.partition is None else (terms.partition.ranges,)), *self.bounds)
        time = () if terms.moment is None else ("as of", before(terms.moment))
        return digest_of(read, predicate, order, terms.backwards, terms.limit, terms.offset, *partition, *time)

    @cached_property
    def settled(self) -> bool:
        """Whether the key ranges enforce every condition. In this case they contain only items, rows that are not
        objects, and stale entries.
        """
        if self.path.index is None:
            return not self.residual
        settled = set(map(id, self.match.consumed))
        return settled.issuperset(map(id, self.residual))

    @property
    def limited(self) -> bool:
        """Whether the query's limit bounds the read."""
        return self.terms.limit is not None and self.settled

    @property
    def full_scan(self) -> bool:
        """Whether the scan is unbounded."""
        return self.match.open and not self.limited and not self.bounds

    @cached_property
    def place(self) -> Callable[[bytes], KeyPlace]:
        """A function that returns the sort key of a key without its salt, in the order over all buckets."""
        return _itself if self.order is None else self.order.key

    @cached_property
    def row_place(self) -> Callable[[bytes], Any]:
        """A function that returns the sort key of a row key."""
        width, place = self.path.salt.width, self.place
        return lambda row: place(row[width:])

    @cached_property
    def opposite(self) -> Plan:
        """The plan for the same items in the opposite order. This is not the plan of the reversed query, which would
        have different tokens.
        """
        return evolve(self, backwards=not self.backwards, rows=None if self.rows is None else self.rows[::-1])

    def after(self, position: bytes) -> Sequence[Bucket]:
        """Returns the part of every bucket after `position` in the direction of the scan."""
        return self.beyond(self.place(position), above=not self.backwards)

    def beyond(self, place: KeyPlace, above: bool) -> Sequence[Bucket]:
        """Returns the part of every bucket above a place, or below it."""
        return [evolve(bucket, ranges=list(self._beyond(bucket, place, above))) for bucket in self.buckets]

    def rows_beyond(self, rows: Sequence[bytes], place: Any, above: bool) -> Sequence[bytes]:
        """Returns those of the given row keys that are above a place, or below it."""
        return [row for row in rows if (self.row_place(row) > place if above else self.row_place(row) < place)]

    def _beyond(self, bucket: Bucket, place: KeyPlace, above: bool) -> Iterator[KeyRange]:
        for key_range in bucket.ranges:
            if self.order is not None and isinstance(place, tuple):
                rest = self.order.beyond(key_range, bucket.prefix, bucket.lead, place, above)
            else:
                key = bucket.prefix + (place if isinstance(place, bytes) else b"")
                rest = key_range.after(key) if above else key_range.before(key)
            if not rest.empty:
                yield rest


def _itself(position: bytes) -> bytes:
    return position
