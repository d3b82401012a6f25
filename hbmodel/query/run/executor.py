"""Executes plans: gets, merged scans over salt buckets, and verified index scans."""

from __future__ import annotations

import heapq
import itertools
import math
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import cached_property, partial
from typing import Any

from attrs import evolve, frozen

from hbmodel.errors import HbmodelError
from hbmodel.mapping.rows.covering import is_bare
from hbmodel.mapping.rows.mapper import Values
from hbmodel.mapping.rows.row_batches import decode_objects
from hbmodel.protocol.driver import drive
from hbmodel.protocol.indexed.entry_verifier import CoveringReader, EntryVerifier, newest
from hbmodel.protocol.operations import Protocol
from hbmodel.query.match.plan import Bucket, Plan
from hbmodel.query.match.pushdown import dropped_by_client, rereads
from hbmodel.query.run.unreadable_rows import TolerantVerifier
from hbmodel.store.port import Store
from hbmodel.store.ranges import KeyRange
from hbmodel.store.values import Row, Scan
from hbmodel.store.wide.column_scans import scan_columns
from hbmodel.store.wide.slices import close_scan

BATCH = 1000
"""The number of rows that one round trip of a long scan fetches."""

MERGED_BATCH = 16 * BATCH
"""The number of rows that one round trip of all scans of a merged order fetches, unless there are very many scans."""

CHECKED_BATCH = 200
"""The minimum number of rows that one round trip of a long scan fetches if the client drops some of them."""

GET_CHUNK = 500
"""The maximum number of rows that one multi-get asks for."""

STARTED_TOGETHER = 16
"""The maximum number of scans of successive ranges that are started together, over all salt buckets."""

SHORT_RANGE = 100
"""The number of rows up to which a range is short. After a longer one, the next range is read alone. Each of several
scans that are started together reads at most this many rows at first.
"""

FIRST_GET = 8
"""The minimum number of rows that the first request of a page asks for if the client may drop some of them."""

Started = Sequence[Iterator[Sequence[Row]]]
"""Scans that a store has begun."""

Found = tuple[bytes, Values]
"""An item before it is made into an object: its position on the path and its field values."""


def _nothing() -> None:
    """Does nothing: the default for `check`."""


@frozen(eq=False, slots=False)  # without slots, a cached property costs one call less
class PlanExecutor:
    """Reads the items of a plan from a store.

    Attributes:
        wanted: the maximum number of items that the caller will take, or None. It determines the size of requests, and
            does not truncate the result.
        check: called at the end of every scan, and whenever rows have arrived, before the rows are used. Raises an
            error if the plan no longer describes how the table must be read.
        load: adds map columns to items. Used by a read that leaves out objects whose map columns cannot be read.
    """

    store: Store
    plan: Plan
    wanted: int | None = None
    check: Callable[[], None] = _nothing
    load: Callable[[Iterator[Found]], Generator[Found, None, None]] | None = None

    def items(self, after: bytes | None = None) -> Generator[Found, None, None]:
        """Yields all items of the plan, or all items after the position `after`, in the path's order.

        If the query continues after rows that cannot be read, these rows are among the items, as `Unreadable`.
        """
        items = self._items(after)
        return items if self.load is None else self.load(items)

    def _items(self, after: bytes | None) -> Generator[Found, None, None]:
        plan = self.plan
        if plan.rows is not None:
            return self._decoded(self._got(self._remaining(plan.rows, after)))
        ranges = plan.buckets if after is None else plan.after(after)
        if plan.path.index is not None:
            return self._through_index(self.merged(ranges, plan.filter, plan.entry_columns))
        return self._decoded(self.merged(ranges, plan.filter, plan.reader.columns))

    def taken(self, count: int, after: bytes | None = None) -> list[Found]:
        """Returns the first items of the plan, or the first items after the position `after`, at most `count`. If a row
        cannot be read, the error is raised.
        """
        plan = self.plan
        rows_found: list[Found] = []
        # Usually one scan of one range returns all items, and reading it directly is faster than the general case.
        if self.wanted == count and plan.path.index is None and plan.rows is None and self.scans_exactly:
            ranges = [
                key_range
                for bucket in (plan.buckets if after is None else plan.after(after))
                for key_range in bucket.ranges
            ]
            if len(ranges) == 1:
                (batches,) = self.started(self.scans(ranges, plan.filter, plan.reader.columns, self.first_limit))
                try:
                    rows = list(itertools.chain.from_iterable(batches))
                finally:
                    close_scan(batches)
                self.check()
                rows = list(self._reread(rows))
                rows_found = decode_objects(plan.reader)(rows)
                if len(rows_found) == count or len(rows) != count:
                    return rows_found
                # some of these rows are not objects
                after, count = rows[-1].row[plan.path.salt.width :], count - len(rows_found)
        with closing(self.items(after)) as items:
            return rows_found + list(itertools.islice(items, count))

    # --- rows of the path's table -------------------------------------------------------------------------------------

    def _remaining(self, rows: Sequence[bytes], after: bytes | None) -> Sequence[bytes]:
        if after is None:
            return rows
        return self.plan.rows_beyond(rows, self.plan.place(after), above=not self.plan.backwards)

    def _got(self, rows: Sequence[bytes]) -> Generator[Iterable[Row], None, None]:
        plan = self.plan
        if not rows:
            return
        width = plan.path.salt.buckets if plan.path.salt.random else 1
        start = 0
        for size in self._get_sizes(width):
            got = self.store.get(plan.path.table, rows[start : start + size], plan.reader.columns_of_gets)
            self.check()
            yield [row for row in got if row is not None]
            start += size
            if start >= len(rows):
                return

    def _get_sizes(self, width: int = 1) -> Iterator[int]:
        """Yields the number of rows for each multi-get. The first multi-get asks for as many rows as are wanted. Each
        later one asks for twice as many as the one before, since many rows may be absent or not match.
        """
        # The first get asks for no more entries than the limit of the index scan, because more of them would need
        # another scan.
        least = 1 if self.plan.path.index is not None and self.scans_exactly else FIRST_GET
        size = GET_CHUNK if self.wanted is None else min(GET_CHUNK, max(least, self.wanted * width))
        while True:
            yield size
            size = min(GET_CHUNK, 2 * size)

    @cached_property
    def scans_exactly(self) -> bool:
        """Whether the key ranges contain only items, rows that are not objects, and entries that are not current."""
        return self.plan.settled and not self.plan.path.salt.random

    def scans(
        self, ranges: Iterable[KeyRange], table_filter: Any, columns: Sequence[bytes], limit: int | None
    ) -> list[Scan]:
        """Returns a scan of each of these ranges."""
        size = self._batch_size(limit)
        return [Scan(key_range, self.plan.backwards, columns, table_filter, limit, size) for key_range in ranges]

    def _batch_size(self, limit: int | None) -> int:
        return self._most if limit is None else min(self._most, max(2, limit))

    def _limit_of_each(self, buckets: Sequence[Bucket]) -> int | None:
        """Returns the limit of the first scan of each bucket. If several buckets are read at the same time, and each
        may need further scans, the first ones are read in one batch; see `_run`.
        """
        limit = self.first_limit
        if len(buckets) == 1 or (limit is None and all(len(bucket.ranges) == 1 for bucket in buckets)):
            return limit
        return self._most if limit is None else min(limit, self._most)

    @cached_property
    def _most(self) -> int:
        """The maximum number of rows that one round trip of a scan fetches."""
        least = 2 if self.plan.accepts is None else CHECKED_BATCH
        return BATCH if self.plan.order is None else max(least, MERGED_BATCH // max(1, len(self.plan.buckets)))

    @cached_property
    def first_limit(self) -> int | None:
        """The limit of the first portion of a scan: as many rows as are wanted, or some more if the client may drop
        rows. None if all rows are wanted.
        """
        wanted = self.wanted
        if wanted is None:
            return None
        random = self.plan.path.salt.random  # to find the last copy of an item, the row after it must be read
        exact = self.scans_exactly or not (random or self.plan.path.index is not None or dropped_by_client(self.plan))
        return wanted if exact else max(FIRST_GET, wanted + random)

    def started(self, scans: Sequence[Scan]) -> Started:
        """Begins these scans of the path's table."""
        table, columns = self.plan.path.table, self.plan.columns
        return (
            self.store.scan(table, scans) if columns is None else scan_columns(self.store, table, scans, columns.ranges)
        )

    def merged(
        self, buckets: Sequence[Bucket], table_filter: Any, columns: Sequence[bytes], started: Started | None = None
    ) -> Generator[Iterable[Row], None, None]:
        """Batches of the rows of all buckets, in the order of their unsalted keys; closing the iterator closes the
        scans.

        `started` contains the scans of `first_scans`, if they were begun before.
        """
        live = [bucket for bucket in buckets if bucket.ranges]
        if len(live) == 1 and started is None:
            yield from self._only_run(live[0], table_filter, columns)
            return
        with self._runs(live, table_filter, columns, started) as runs:
            if len(runs) == 1:
                yield from runs[0]
            elif runs:
                width, place = self.plan.path.salt.width, self.plan.row_place
                # Under a random salt, rows with equal keys are returned in the order of their buckets, in both
                # directions.
                rows = [itertools.chain.from_iterable(run) for run in runs]
                own: Callable[[Row], Any] = (
                    (lambda row: row.row[width:]) if self.plan.order is None else (lambda row: place(row.row))
                )
                yield heapq.merge(*rows, key=own, reverse=self.plan.backwards)

    def one_by_one(
        self, buckets: Sequence[Bucket], table_filter: Any, columns: Sequence[bytes]
    ) -> Iterator[Sequence[Row]]:
        """Batches of the rows of all buckets, one bucket after the other; closing the iterator closes the scans."""
        with self._runs(buckets, table_filter, columns) as runs:
            yield from itertools.chain.from_iterable(runs)

    def first_scans(self, buckets: Sequence[Bucket], table_filter: Any, columns: Sequence[bytes]) -> list[Scan]:
        """Returns the first scan of each bucket that has any ranges."""
        at = -1 if self.plan.backwards else 0
        live = [bucket for bucket in buckets if bucket.ranges]
        return self.scans(
            [bucket.ranges[at] for bucket in live], table_filter, columns, self._limit_of_each(live) if live else None
        )

    @contextmanager
    def _runs(
        self, buckets: Sequence[Bucket], table_filter: Any, columns: Sequence[bytes], started: Started | None = None
    ) -> Iterator[Sequence[Generator[Sequence[Row], None, None]]]:
        """The batches of each bucket that has ranges. Every scan is closed at the end, even if nothing was read from
        it.
        """
        live = [bucket for bucket in buckets if bucket.ranges]
        if not live:
            yield ()
            return
        ordered = [tuple(reversed(bucket.ranges)) if self.plan.backwards else tuple(bucket.ranges) for bucket in live]
        # The scans of the first range of each bucket are started together, so that a store can send all requests.
        if started is None:
            started = self.started(self.first_scans(live, table_filter, columns))
        limit = self._limit_of_each(live)
        with ExitStack() as closed:
            for batches in started:
                closed.callback(close_scan, batches)
            runs = [
                self._run(first, self.scans(ranges, table_filter, columns, limit), len(live))
                for first, ranges in zip(started, ordered, strict=True)
            ]
            for run in runs:
                closed.callback(run.close)
            yield runs

    def _only_run(
        self, bucket: Bucket, table_filter: Any, columns: Sequence[bytes]
    ) -> Generator[Sequence[Row], None, None]:
        """Yields the batches of a bucket that is read alone. This is a fast path: most queries read one bucket, and
        often only few rows.
        """
        ranges = bucket.ranges[::-1] if self.plan.backwards else bucket.ranges
        scans = self.scans(ranges, table_filter, columns, self.first_limit)
        (first,) = self.started(scans[:1])
        try:
            yield from self._run(first, scans, 1)
        finally:
            close_scan(first)

    def _run(
        self, first: Iterator[Sequence[Row]], scans: Sequence[Scan], runs: int
    ) -> Generator[Sequence[Row], None, None]:
        """Yields the batches of successive scans, of which the first is already started.

        The limit of a scan also counts rows that are not objects or do not match. If the caller still needs rows when
        the limit is reached, the rest of the scan is read in growing portions, and finally without a limit. For a
        covering index, the rest is read without marks of deleted entries, which may have used up the limit.

        After short scans, the next ones are started together, each time twice as many, but no more than probably hold
        the items that are still wanted. So short ranges do not cost a round trip each.

        A store may have few connections, and a scan that is read for a long time occupies one. So a run never holds an
        unfinished scan while it starts another one: scans that are started together have a limit of one batch, and if
        several buckets are read at the same time, all scans after the first one have such a limit.

        Args:
            runs: the number of buckets that are read at the same time.
        """
        # If there are many runs, many rows have been read when one run needs more rows, so the next portion of that run
        # is larger.
        growth = max(2, runs)
        limit = scans[0].limit
        batches, started = first, deque([(scans[0], first)])
        begun, together, rows, long = 1, 1, 0, False
        try:
            while started or begun < len(scans):
                if not started:
                    together, long = 1 if long else min(2 * together, max(1, STARTED_TOGETHER // runs)), False
                    if self.wanted is not None and 0 < rows < self.wanted:
                        together = min(together, math.ceil((self.wanted - rows) * begun / rows))
                    most = limit if together == 1 else min(SHORT_RANGE, self._most, limit or SHORT_RANGE)
                    following = [self._limited(scan, most) for scan in scans[begun : begun + together]]
                    started.extend(zip(following, self.started(following), strict=True))
                    begun += len(following)
                scan, batches = started.popleft()
                before = rows
                while True:
                    last, count = b"", 0
                    for batch in batches:
                        self.check()
                        last, count = batch[-1].row, count + len(batch)
                        yield self._reread(batch)
                    self.check()
                    rows += count
                    if scan.limit is None or count < scan.limit:
                        break
                    rest = scan.range.before(last) if scan.reversed else scan.range.after(last)
                    if rest.empty:
                        break
                    if scan.limit == limit:
                        limit = max(FIRST_GET, growth * scan.limit)
                        limit = limit if limit < self._most else (None if runs == 1 else self._most)
                    chosen = scan.filter if self.plan.covering is None else self.plan.filter_of_rest
                    scan = self._limited(evolve(scan, range=rest, filter=chosen), limit)
                    (batches,) = self.started([scan])
                long |= rows - before > SHORT_RANGE
        finally:
            close_scan(batches)
            for _, batches in started:
                close_scan(batches)

    def _limited(self, scan: Scan, limit: int | None) -> Scan:
        """Returns a scan with another limit, which is read in one batch if there is a limit."""
        size = self._batch_size(limit)
        return scan if (scan.limit, scan.batch_size) == (limit, size) else evolve(scan, limit=limit, batch_size=size)

    def _reread(self, batch: Sequence[Row]) -> Sequence[Row]:
        """Returns the rows of a batch. Rows whose liveness cell was returned without its value are read again."""
        if not self._rereads:
            return batch
        plan, liveness = self.plan, self.plan.reader.schema.liveness_column
        marked = [row.row for row in batch if liveness in row.columns]
        if not marked:
            return batch
        read: dict[bytes, Row] = {}
        for start in range(0, len(marked), GET_CHUNK):
            got = self.store.get(plan.path.table, marked[start : start + GET_CHUNK], plan.reader.columns)
            self.check()
            read |= {row.row: row for row in got if row is not None}
        rows = (row if liveness not in row.columns else read.get(row.row) for row in batch)
        return [row for row in rows if row is not None]

    @cached_property
    def _rereads(self) -> bool:
        return rereads(self.plan)

    # --- from rows to items -------------------------------------------------------------------------------------------

    def _decoded(self, batches: Generator[Iterable[Row], None, None]) -> Generator[Found, None, None]:
        with closing(batches):
            yield from self.items_of(batches)

    def items_of(self, batches: Iterable[Iterable[Row]]) -> Generator[Found, None, None]:
        """Yields the items in these batches of rows, which are in the path's order."""
        accepts = self.plan.accepts
        for batch in self._distinct(batches) if self.plan.path.salt.random else batches:
            found = self._at_once(batch) if isinstance(batch, Sequence) else self._one_by_one(batch)
            yield from found if accepts is None else (item for item in found if accepts(item[1]))

    def _at_once(self, rows: Sequence[Row]) -> Iterable[Found]:
        """Returns the objects among these rows. An error in a row is raised only after the objects before it were
        taken.
        """
        try:
            return decode_objects(self.plan.reader)(rows)
        except HbmodelError:
            return self._one_by_one(rows)

    def _one_by_one(self, rows: Iterable[Row]) -> Iterator[Found]:
        exists, values, width = self.plan.reader.exists, self.plan.reader.values, self.plan.path.salt.width
        return ((row.row[width:], values(row)) for row in rows if exists(row))

    def _distinct(self, batches: Iterable[Iterable[Row]]) -> Iterator[Iterable[Row]]:
        """Of the rows that have the same key in several buckets, yields only the newest."""
        rows = filter(self.plan.reader.exists, itertools.chain.from_iterable(batches))
        yield (newest(same) for _, same in itertools.groupby(rows, key=lambda row: self.plan.path.position(row.row)))

    def _through_index(self, batches: Generator[Iterable[Row], None, None]) -> Generator[Found, None, None]:
        key_test, width = self.plan.entry_test, self.plan.path.salt.width
        sizes, read = self._get_sizes(), self.entry_reader()
        with closing(batches):
            entries = self.entries(batches)
            while batch := list(itertools.islice(entries, next(sizes))):
                matching = [entry for entry in batch if key_test is None or key_test(entry.row)]
                answers = drive(self.store, read(matching))
                self.check()
                yield from [
                    (entry.row[width:], values)
                    for entry, values in zip(matching, answers, strict=True)
                    if values is not None
                ]

    def entries(self, batches: Iterable[Iterable[Row]]) -> Iterator[Row]:
        """Yields the index entries in these batches; for a covering index, without bare entries."""
        entries = itertools.chain.from_iterable(batches)
        return (
            entries
            if self.plan.covering is None
            else itertools.filterfalse(partial(is_bare, self.plan.reader.schema), entries)
        )

    def entry_reader(self) -> Callable[[Sequence[Row]], Protocol[list[Values | None]]]:
        """Returns a function that returns, for each of some entries of the plan's index, the values of the entry's row,
        or None if the entry must not be returned.
        """
        plan = self.plan
        assert plan.path.index is not None
        every = plan.accepts
        accepts = every if every is not None else _anything
        if plan.terms.on_unreadable is None:
            kind, prefix = EntryVerifier, plan.entry_prefix
        else:
            kind, prefix = TolerantVerifier, None
        verifier = kind(
            plan.reader.schema, plan.path.index, plan.reader, accepts, plan.scope, prefix, plan.entries_asked_for
        )
        if plan.covering is not None:
            return CoveringReader(plan.covering, plan.accepts_entry, verifier).read
        return lambda entries: verifier.verify([entry.row for entry in entries])


def _anything(values: Values) -> bool:
    return True
