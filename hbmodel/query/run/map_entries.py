"""Slices of the entries of one object's map column, which are read by ranges of keys and page by page, in bounded
memory.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from itertools import islice
from typing import Any, Final, Generic, TypeVar, cast

from attrs import evolve, field, frozen

from hbmodel.encoding.bounds import UNSET, Bounds
from hbmodel.encoding.object_keys import ObjectKeyForm
from hbmodel.errors import DecodingError, EncodingError, QueryError, TokenError
from hbmodel.mapping.map_columns import MapField
from hbmodel.mapping.schema import TableSchema
from hbmodel.query.ask.argument_checks import given_token, whole
from hbmodel.query.ask.continuation_tokens import Page, Seal, Token, decode_token, digest_of, encode_token
from hbmodel.query.run.page_window import PageWindow, check_direction
from hbmodel.store.port import Store
from hbmodel.store.ranges import KeyRange
from hbmodel.store.values import Row, Scan
from hbmodel.store.wide.folded import FoldedStore
from hbmodel.store.wide.page_sizes import PAGE_SIZES, PageSizes
from hbmodel.store.wide.slices import close_scan
from hbmodel.store.wide.wide_rows import WideRows

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")

BACKWARDS = 8
"""The number of removed entries that `last` skips one at a time, with a separate search for each. After that, it scans
backwards without a limit.
"""

LIMIT_GROWTH = 2
"""If removed entries have used up the limit of a scan, the limit of the next scan is larger by this factor."""

EVERY_KEY: Final = KeyRange()

Found = tuple[bytes, bytes]
"""An entry before it is decoded: the bytes of its key, and its cell."""


def entries_of(schema: TableSchema, map_field: MapField, row: bytes) -> WideRows:
    """Describes a view in which each entry of an object's map column is a row with one cell; the row's key is the
    entry's key.

    Args:
        row: the row key of the object, or its object key.
    """
    physical, prefix = (row, b"") if schema.wide is None else schema.wide.form.cut(row)
    lead = prefix + map_field.qualifier

    def prefix_end(qualifier: bytes) -> int | None:
        return len(qualifier) if len(qualifier) > len(lead) and qualifier.startswith(lead) else None

    return WideRows(
        schema.table, map_field.family, ObjectKeyForm(row=physical, kind=lead), prefix_end, [map_field.family + b":"]
    )


@frozen(eq=False)
class EntryReader:
    """Reads the entries of one object's map column.

    Attributes:
        row: the row key of the object, or its object key.
        exists: returns whether the object exists. It is called before every read, and raises an error if the session is
            closed.
        seal: encrypts continuation tokens, or None.
        pages: how many entries are read at once.
    """

    store: Store
    schema: TableSchema
    of: MapField
    row: bytes
    exists: Callable[[], bool]
    seal: Seal | None = None
    pages: PageSizes = PAGE_SIZES
    _entries: FoldedStore = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(
            self, "_entries", FoldedStore(self.store, [entries_of(self.schema, self.of, self.row)], self.pages)
        )

    def found(
        self, keys: KeyRange, wanted: int | None = None, *, backwards: bool = False
    ) -> Generator[Found, None, None]:
        """Yields the entries in a range of keys, in the order of the keys' bytes, or in the opposite order if
        `backwards`.

        Args:
            wanted: the maximum number of entries that will be taken, or None.
        """
        if keys.empty or not self.exists():
            return
        while not keys.empty:
            count, last = 0, b""
            for entry in self._scanned(Scan(keys, reversed=backwards, limit=wanted)):
                count, last = count + 1, entry.row
                if cell := self._cell(entry):
                    yield last, cell
            if wanted is None or count < wanted:
                return
            keys, wanted = keys.before(last) if backwards else keys.after(last), wanted * LIMIT_GROWTH

    def last(self, keys: KeyRange) -> Found | None:
        """Returns the last entry in a range of keys."""
        if keys.empty or not self.exists():
            return None
        for _ in range(BACKWARDS):
            entry = next(self._scanned(Scan(keys, reversed=True, limit=1)), None)
            if entry is None:
                return None
            if cell := self._cell(entry):
                return entry.row, cell
            keys = keys.before(entry.row)
            if keys.empty:
                return None
        with closing(self._scanned(Scan(keys, reversed=True))) as entries:
            return next(((entry.row, cell) for entry in entries if (cell := self._cell(entry))), None)

    def _scanned(self, scan: Scan) -> Generator[Row, None, None]:
        (batches,) = self._entries.scan(self.schema.table, [scan])
        try:
            for batch in batches:
                yield from batch
        finally:
            close_scan(batches)

    def _cell(self, entry: Row) -> bytes:
        """Returns the cell of an entry; empty if the entry was removed."""
        return next(iter(entry.columns.values())).value

    def digest(self, keys: KeyRange, maximum: int | None) -> bytes:
        """Returns a digest that distinguishes the tokens of a slice from the tokens of other slices."""
        kind = ("kind", self.schema.kind) if self.schema.kind else ()
        limit = () if maximum is None else ("limit", maximum)
        return digest_of("map", self.schema.table, self.of.column, self.row, keys.start, keys.stop, *kind, *limit)

    def decoded(self, entry: Found) -> tuple[Any, Any]:
        """Returns the decoded key and value; raises `DecodingError`."""
        try:
            return self.of.key_of(entry[0]), self.of.value_of(entry[1])
        except DecodingError as error:
            raise DecodingError(
                error.message, **{**error.details, "table": self.schema.table, "key": self.row}
            ) from None


@frozen(eq=False, repr=False)
class MapSlice(Generic[K, V]):
    """Entries of one object's map column, in key order; every method that refines the slice returns a new slice.

    Iterating over it yields pairs of key and value, in bounded memory. If the object does not exist, there are no
    entries. A read is not a snapshot.
    """

    _reader: EntryReader
    range: KeyRange = EVERY_KEY
    maximum: int | None = None

    def __repr__(self) -> str:
        limit = "" if self.maximum is None else f", limit {self.maximum}"
        return f"MapSlice({self._reader.schema.model.__name__}.{self._reader.of.name}{limit})"

    def between(self, low: K | None, high: K | None) -> MapSlice[K, V]:
        """Keeps the keys from `low` to `high`, including both; None means no bound on that side.

        Raises:
            EncodingError: a bound does not have the type of the keys.
        """
        return self._within(Bounds(low=UNSET if low is None else low, high=UNSET if high is None else high))

    def startswith(self, prefix: K) -> MapSlice[K, V]:
        """Keeps the text or bytes keys that start with `prefix`.

        Raises:
            QueryError: the keys do not support a search by prefix.
        """
        kind = self._reader.of.key.python_type
        if kind not in {str, bytes} or not isinstance(prefix, str | bytes) or not isinstance(prefix, kind):
            raise QueryError(
                "startswith needs text keys and text, or bytes keys and bytes.", field=self._reader.of.name
            )
        return self._within(Bounds(prefix=prefix)) if prefix else self

    def _within(self, bounds: Bounds) -> MapSlice[K, V]:
        try:
            key_range = self._reader.of.layout.range_of((), bounds)
        except (EncodingError, QueryError) as error:
            raise type(error)(error.message, **{**error.details, "field": self._reader.of.name}) from None
        return evolve(self, range=self.range.intersect(key_range))

    def limit(self, count: int) -> MapSlice[K, V]:
        """Keeps at most `count` entries, also in pages and in `count()`."""
        return evolve(self, maximum=whole(count, "limit"))

    def __iter__(self) -> Iterator[tuple[K, V]]:
        with closing(self._found()) as entries:
            for entry in entries:
                yield self._reader.decoded(entry)

    def _found(self) -> Generator[Found, None, None]:
        if self.maximum is None:
            yield from self._reader.found(self.range)
        elif self.maximum:
            with closing(self._reader.found(self.range, self.maximum)) as entries:
                yield from islice(entries, self.maximum)

    def all(self) -> dict[K, V]:
        """Returns all entries as a dictionary."""
        return dict(self)

    def get(self, key: K, default: D | None = None) -> V | D | None:
        """Returns the value of a key, or the default if the slice has no such key."""
        key_range = self.range.intersect(KeyRange.exactly(self._reader.of.key_bytes(key)))
        return next((self._reader.decoded(entry)[1] for entry in list(self._reader.found(key_range, 1))), default)

    def __contains__(self, key: object) -> bool:
        """Whether the slice has an entry of this key. The entry is read.

        Raises:
            EncodingError: the key does not have the type of the keys, for example because it is a pair of key and
                value.
        """
        return self.get(cast("K", key), UNSET) is not UNSET

    def first(self) -> tuple[K, V] | None:
        """Returns the first entry, or None."""
        return next(iter(self.limit(1 if self.maximum is None else min(self.maximum, 1))), None)

    def last(self) -> tuple[K, V] | None:
        """Returns the last entry, or None. It is found by bisection, so the cost hardly depends on the number of
        entries.
        """
        if self.maximum is not None:
            raise QueryError("last() cannot be combined with limit(): leave it out.", field=self._reader.of.name)
        entry = self._reader.last(self.range)
        return None if entry is None else self._reader.decoded(entry)

    def count(self) -> int:
        """Returns the number of entries. All entries are read, because removed ones do not count, but they are not kept
        in memory.
        """
        with closing(self._found()) as entries:
            return sum(1 for _ in entries)

    def page(self, size: int, after: str | None = None, *, before: str | None = None) -> Page[tuple[K, V]]:
        """Returns the first page, the page after another one, or the page before another one.

        Args:
            size: the maximum number of entries on the page.
            after: `next_token` of the page before this one.
            before: `previous_token` of the page after this one.

        Raises:
            QueryError: both tokens are given.
            TokenError: the token is damaged, belongs to another slice, or was passed as `after` instead of `before` or
                the other way round.
        """
        page_size, keys = whole(size, "size", 1), self.range
        reader, digest = self._reader, self._reader.digest(keys, self.maximum)
        at, backwards = given_token(after, before)
        token = None if at is None else check_direction(decode_token(at, digest, reader.seal), backwards)
        if token is not None and token.path != reader.of.name:
            raise TokenError(
                "The continuation token belongs to another query: repeat the query of its page, or "
                "start from the first page."
            )
        window = PageWindow.of(page_size, token, self.maximum)
        if window.position is not None:
            keys = keys.before(window.position) if backwards else keys.after(window.position)
        with closing(reader.found(keys, window.wanted, backwards=backwards)) as entries:
            taken = list(islice(entries, window.wanted))

        def token_at(position: bytes | None, passed: int | None, of_previous: bool) -> str:
            return encode_token(Token(digest, reader.of.name, position, passed, of_previous), reader.seal)

        return window.page(taken, reader.decoded, token_at)
