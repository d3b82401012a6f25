"""The immutable query, which is built step by step to describe what to read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Literal, Never, NoReturn, Protocol, TypeVar, overload

from attrs import evolve, frozen

from hbmodel.errors import DecodingError, IncompleteRow, MultipleResultsFound, NoResultFound, QueryError
from hbmodel.mapping.declare.map_declaration import MapExpression, map_of
from hbmodel.mapping.field_expressions import FieldExpression
from hbmodel.mapping.predicates import Ordering, Predicate
from hbmodel.mapping.rows.unreadable import Report, leave_out
from hbmodel.mapping.schema import PRIMARY, Field, Index
from hbmodel.query.ask.argument_checks import (
    NO_FORMER_ENTRIES,
    NO_FORMER_MAPS,
    check_field,
    check_own,
    field_of,
    given_token,
    whole,
)
from hbmodel.query.ask.as_of_time import moment
from hbmodel.query.ask.continuation_tokens import Page
from hbmodel.query.ask.explain_text import Explanation
from hbmodel.query.ask.query_partition import QueryPartition
from hbmodel.query.ask.row_bounds import row_bound
from hbmodel.query.ask.terms import QueryTerms

R_co = TypeVar("R_co", covariant=True)
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")


class Source(Protocol):
    """Runs queries."""

    def stream(self, terms: QueryTerms) -> Iterator[Any]:
        """Iterates over the items, in bounded memory."""
        ...

    def page(self, terms: QueryTerms, size: int, at: str | None, backwards: bool) -> Page[Any]:
        """Returns a page of at most `size` items after the token `at`, or before it."""
        ...

    def count(self, terms: QueryTerms) -> int:
        """Returns the number of items."""
        ...

    def delete(self, terms: QueryTerms, batch_size: int, progress: Callable[[int], object] | None) -> int:
        """Deletes the items and returns their number."""
        ...

    def explain(self, terms: QueryTerms) -> Explanation:
        """Describes how the query would be executed."""
        ...

    def partitions(self, terms: QueryTerms, count: int) -> list[QueryPartition[Any]]:
        """Divides the query into at most `count` partitions."""
        ...

    def first_of_each(self, terms: QueryTerms, fields: Sequence[Field], keys: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Returns the first item for each of these combinations of field values, or None for a combination without
        items.
        """
        ...


_NAMED_ELSEWHERE = {
    **dict.fromkeys(("filter", "filter_by"), "where(Model.field == value)"),
    **dict.fromkeys(("exclude", "filter_not"), "where(~(Model.field == value))"),
    **dict.fromkeys(("sort", "orderby", "order"), "order_by(Model.field)"),
    **dict.fromkeys(("fetchall", "to_list", "list"), "all()"),
    **dict.fromkeys(("fetchone", "scalar", "one_or_none"), "first(), or one() if there must be exactly one"),
    **dict.fromkeys(("get", "get_by"), "session.get(Model, key=value)"),
    **dict.fromkeys(("len", "size"), "count()"),
    **dict.fromkeys(("values", "values_list", "only", "with_entities"), "select(Model.field)"),
    **dict.fromkeys(("update", "save"), "session.update(obj, field=value) for each object"),
    **dict.fromkeys(("slice", "paginate"), "limit(n), or page(n) for one page after another"),
    **dict.fromkeys(("iterator", "yield_per", "stream"), "for item in query: ..., which reads in batches"),
    **dict.fromkeys(
        ("join", "outerjoin", "options", "select_related", "prefetch_related"),
        "one query for each model, or session.get_many(Model, keys) for the objects of many keys",
    ),
    **dict.fromkeys(
        ("group_by", "having", "distinct", "aggregate", "annotate"),
        "a loop over the items; first_of_each(Model.field, values) reads the first item for each value",
    ),
    "remove": "delete()",
}
"""Names of query methods in other libraries, each with the corresponding name in this library."""


@frozen(eq=False, repr=False)
class Query(Generic[R_co]):
    """A query on one model; every method that refines the query returns a new query.

    Iterating over it streams the items in bounded memory. Without `order_by` the items have the order of the chosen
    path, which is not guaranteed.

    The attribute `terms` is not part of the public API: only the modules that plan and run queries read it.
    """

    terms: QueryTerms
    _source: Source

    def __repr__(self) -> str:
        return f"Query({self.terms})"

    def __dir__(self) -> list[str]:
        """Returns the names that completion shows for a query: all except `terms`."""
        return [name for name in super().__dir__() if name != "terms"]

    def _of(self, terms: QueryTerms) -> Query[R_co]:
        """Returns a query with these terms."""
        return Query(terms, self._source)

    if not TYPE_CHECKING:  # type checkers report these by themselves

        def __getattr__(self, name: str) -> NoReturn:
            advice = _NAMED_ELSEWHERE.get(name)
            raise AttributeError(
                f"A query has no attribute {name!r}" + (f": write {advice}." if advice else "."), name=name, obj=self
            )

        def __getitem__(self, index: object) -> NoReturn:
            raise QueryError(
                "A query is read from its beginning: write first() for the first item, limit(n) for the first n, and "
                "page(n) for one page after another."
            )

    def where(self, *predicates: Predicate, **misplaced: Never) -> Query[R_co]:
        """Keeps the items that satisfy all predicates, including those of earlier calls.

        Raises:
            QueryError: an argument is not a predicate.
            UnknownField: a predicate refers to a field of another model.
        """
        schema = self.terms.schema
        if misplaced:
            raise QueryError(
                "where() takes conditions on fields of the model class, such as Model.field == value, and no keywords.",
                table=schema.table,
                argument=next(iter(misplaced)),
            )
        for predicate in predicates:
            if isinstance(predicate, bool):
                raise QueryError(
                    "where() got a truth value, not a condition. Python itself evaluates is, in, and, or, not: write "
                    "field.is_(None), field.in_([...]), &, | and ~.",
                    table=schema.table,
                    found=repr(predicate),
                )
            if not isinstance(predicate, Predicate):
                raise QueryError(
                    "where() takes predicates such as Model.field == value.", found=type(predicate).__name__
                )
            check_own(schema, predicate)
        return self._of(self.terms.with_conditions(predicates))

    def limit(self, count: int) -> Query[R_co]:
        """Keeps at most `count` items, also in pages and in `count()`.

        A query with a limit is not a full scan if the keys decide all its conditions.
        """
        return self._of(evolve(self.terms, limit=whole(count, "limit")))

    def offset(self, count: int) -> Query[R_co]:
        """Skips the first `count` items. Skipped items are still read, so prefer pages."""
        return self._of(evolve(self.terms, offset=whole(count, "offset")))

    def reversed(self) -> Query[R_co]:
        """Reverses the order, with a reversed scan."""
        return self._of(evolve(self.terms, backwards=not self.terms.backwards))

    def before(self, item: object) -> Query[R_co]:
        """Keeps the items before an object in the order of the query; see `after`."""
        return self._bounded(item, above=self.terms.backwards)

    def after(self, item: object) -> Query[R_co]:
        """Keeps the items after an object in the order of the query.

        This is the order of the key that the query reads, which is the key of the table or of an index. `order_by`
        guarantees a particular order. Items that are equal in the fields of `order_by` are ordered by the rest of the
        key. Fields that the query fixes to one value take no part in the order, so the object's values for them are
        ignored. If `reversed()` is called before this method, the comparison uses the reversed order; if it is called
        afterwards, it only reverses the order of the items that are kept. The object need not exist in the store.

        Args:
            item: an object of the model, or a mapping of its field values, or the values of its key in key order. A
                mapping needs only the fields of the key that is read, except those that the query fixes to one value.

        Raises:
            QueryError: the argument has another type. When the query runs: the argument does not determine a position
                in the order.
            EncodingError: a value is not valid for its field.
        """
        return self._bounded(item, above=not self.terms.backwards)

    def _bounded(self, item: object, above: bool) -> Query[R_co]:
        terms = self.terms
        return self._of(evolve(terms, row_bounds=(*terms.row_bounds, row_bound(terms.schema, item, above))))

    def order_by(self, *fields: FieldExpression[Any] | Ordering) -> Query[R_co]:
        """Requires an order: ascending, or descending with `Model.field.desc()`. If no path has this order,
        `OrderNotAvailable` is raised when the query runs.

        Items that are equal in these fields are ordered by the rest of the key, and finally by the leading fields for
        which `in_` names several values. These fields have the direction that they have in the key, or the opposite
        direction if the required order is opposite to the order of the key. `reversed()` reverses everything.
        """
        if not fields:
            raise QueryError("order_by() takes at least one field.")
        ordering = tuple(part if isinstance(part, Ordering) else Ordering(field_of(part), False) for part in fields)
        for part in ordering:
            check_field(self.terms.schema, part.field)
        return self._of(evolve(self.terms, ordering=ordering))

    def use_index(self, name: str | Index | None) -> Query[R_co]:
        """Reads through this index, given by name or as `Model.by_name`.

        `"primary"` reads the primary table, and None leaves the choice to the planner.
        """
        schema = self.terms.schema
        if name is not None and not isinstance(name, str | Index):
            raise QueryError(
                "use_index() takes the name of an index, or the index as an attribute of the model class.",
                table=schema.table,
            )
        if name is not None and name != PRIMARY:
            name = schema.index(name).name
            if self.terms.moment is not None:
                raise QueryError(NO_FORMER_ENTRIES, table=schema.table, index=name)
        return self._of(evolve(self.terms, index_name=name))

    def as_of(self, time: datetime) -> Query[R_co]:
        """Reads every column as of a time, from the versions that the column's family keeps (`hb.column(versions=n)`).

        Conditions are tested on the values at that time. Deleted and expired data does not reappear. The primary table
        is read, since indexes contain no former values. Columns keep a limited number of versions, so a column has no
        value as of a time before the oldest version that is kept.

        Args:
            time: a time with a time zone; writes in its millisecond are visible.

        Raises:
            QueryError: the time is invalid, or the query uses an index or loads map columns. When the query runs: a
                column that it reads keeps no versions, or is a counter.
        """
        terms = self.terms
        if terms.index_name not in {None, PRIMARY}:
            raise QueryError(NO_FORMER_ENTRIES, table=terms.schema.table, index=terms.index_name)
        if terms.loading:
            raise QueryError(NO_FORMER_MAPS, table=terms.schema.table)
        return self._of(evolve(terms, moment=moment(terms.schema, time)))

    def allow_full_scan(self) -> Query[R_co]:
        """Allows the query to read a whole table."""
        return self._of(evolve(self.terms, full_scan=True))

    def on_unreadable(
        self, action: Literal["raise", "skip"] | Callable[[DecodingError | IncompleteRow], object]
    ) -> Query[R_co]:
        """Sets what the query does with rows that it cannot read, because their bytes do not fit the model or a
        required column is missing.

        - `"raise"`, as without this call: the query raises the error of the first such row.
        - `"skip"`: such rows are left out. `page.skipped` is the number of rows that were left out of a page.
        - a function: such rows are left out as well, and the function is called with the error of each of them.
          `error.key` is the key of the row. An exception from the function ends the query.

        Rows that are left out do not count for `limit`, `offset` and the size of a page. `count()` and `exists()` leave
        them out as well, and therefore decode all fields that the query returns, not only keys. Fields that the query
        does not read are not decoded. Rows outside of the key ranges, and rows that the server filters out, are not
        read, so they are not reported.

        Pages that are read one after another report every row once. A token of the query without `on_unreadable` is
        also valid for the query with `on_unreadable`. Queries that read an index report the unreadable row of each
        entry, and cannot tell whether the entry is current.

        Raises:
            QueryError: the argument is none of these.
        """
        report: Report | None
        if action == "raise":
            report = None
        elif action == "skip":
            report = leave_out
        elif callable(action):
            report = action
        else:
            raise QueryError(
                'on_unreadable() takes "raise", "skip", or a function that is called with the error of each row.',
                table=self.terms.schema.table,
                found=repr(action),
            )
        return self._of(evolve(self.terms, on_unreadable=report))

    @overload
    def select(self, a: FieldExpression[A], /) -> Query[tuple[A]]: ...
    @overload
    def select(self, a: FieldExpression[A], b: FieldExpression[B], /) -> Query[tuple[A, B]]: ...
    @overload
    def select(
        self, a: FieldExpression[A], b: FieldExpression[B], c: FieldExpression[C], /
    ) -> Query[tuple[A, B, C]]: ...
    @overload
    def select(
        self, a: FieldExpression[A], b: FieldExpression[B], c: FieldExpression[C], d: FieldExpression[D], /
    ) -> Query[tuple[A, B, C, D]]: ...
    @overload
    def select(
        self,
        a: FieldExpression[A],
        b: FieldExpression[B],
        c: FieldExpression[C],
        d: FieldExpression[D],
        e: FieldExpression[E],
        /,
    ) -> Query[tuple[A, B, C, D, E]]: ...
    @overload
    def select(
        self,
        a: FieldExpression[A],
        b: FieldExpression[B],
        c: FieldExpression[C],
        d: FieldExpression[D],
        e: FieldExpression[E],
        f: FieldExpression[Any],
        /,
        *more: FieldExpression[Any],
    ) -> Query[tuple[Any, ...]]: ...
    def select(self, *fields: FieldExpression[Any]) -> Query[Any]:
        """Makes the query return tuples of these fields instead of objects. Only the cells of these fields and those
        that predicates need are read.
        """
        schema = self.terms.schema
        if not fields:
            raise QueryError("select() takes at least one field.")
        chosen = tuple(field_of(part) for part in fields)
        for part in chosen:
            check_field(schema, part)
        if self.terms.loading:
            raise QueryError("load() reads whole objects: leave out select().", table=schema.table)
        return self._of(evolve(self.terms, selection=chosen))

    def load(self, *maps: MapExpression[Any, Any] | Mapping[Any, Any]) -> Query[R_co]:
        """Reads these map columns, with all entries, together with the objects. Other map columns of the objects are
        `NotLoaded`.

        Raises:
            QueryError: an argument is not a map column, or fields are selected.
            UnknownField: a map column belongs to another model.
        """
        terms = self.terms
        if terms.selection is not None:
            raise QueryError("load() reads whole objects: leave out select().", table=terms.schema.table)
        if terms.moment is not None:
            raise QueryError(NO_FORMER_MAPS, table=terms.schema.table)
        return self._of(
            evolve(
                terms,
                loading=tuple(
                    dict.fromkeys((*terms.loading, *(map_of(terms.schema, map_column) for map_column in maps)))
                ),
            )
        )

    def __iter__(self) -> Iterator[R_co]:
        return self._source.stream(self.terms)

    def __bool__(self) -> NoReturn:
        raise QueryError(
            "A query has no truth value: write exists() to test whether it has an item, or first() to read one.",
            table=self.terms.schema.table,
        )

    def all(self) -> list[R_co]:
        """Returns all items as a list."""
        return list(self)

    def first(self) -> R_co | None:
        """Returns the first item, or None. As with `limit`, this is not a full scan if the keys decide all
        conditions.
        """
        maximum = 1 if self.terms.limit is None else min(self.terms.limit, 1)
        return next(iter(self.limit(maximum)), None)

    def one(self) -> R_co:
        """Returns the only item.

        Raises:
            NoResultFound: there is none.
            MultipleResultsFound: there is more than one.
        """
        items = self.limit(2 if self.terms.limit is None else min(self.terms.limit, 2)).all()
        if not items:
            raise NoResultFound(
                "The query has no item: use first() if there may be none.", table=self.terms.schema.table
            )
        if len(items) > 1:
            raise MultipleResultsFound(
                "The query has more than one item: use first() to read one of them.", table=self.terms.schema.table
            )
        return items[0]

    def last(self) -> R_co | None:
        """Returns the last item, or None, by a reversed scan."""
        if self.terms.limit is not None or self.terms.offset:
            raise QueryError("last() cannot be combined with limit() or offset(): leave them out.")
        return self.reversed().first()

    @overload
    def first_of_each(self, field: FieldExpression[A], values: Iterable[A], /) -> list[R_co | None]: ...
    @overload
    def first_of_each(
        self, fields: Sequence[FieldExpression[Any]], values: Iterable[Sequence[Any]], /
    ) -> list[R_co | None]: ...
    def first_of_each(self, fields: Any, values: Iterable[Any], /) -> list[R_co | None]:
        """Returns the first item for each value of a field, or None for a value without items.

        The items are the same as those of `where(field == value).first()` for each value. There is one short scan for
        each value and salt bucket, and hundreds of scans run concurrently. If the order puts the newest items first,
        the result is the latest item for each value: `order_by(Reading.at.desc()).first_of_each(Reading.metric,
        metrics)`.

        Args:
            fields: one field or several. Together with the fields that `where` fixes, they must be the leading fields
                of the key of the table or of an index.
            values: values of the field; for several fields, sequences with one value for each. Repeated values are read
                once.

        Raises:
            QueryError: the fields are not the leading ones of any key; or the query has a limit, an offset, `before()`
                or `after()`, or is a partition.
            EncodingError: a value is not valid for its field.
        """
        terms = self.terms
        if terms.limit is not None or terms.offset or terms.partition is not None or terms.row_bounds:
            raise QueryError(
                "first_of_each() cannot be combined with limit(), offset(), before() or after(), nor read from a "
                "partition: leave them out."
            )
        alone = not isinstance(fields, list | tuple)
        chosen = [field_of(part) for part in ((fields,) if alone else fields)]
        for part in chosen:
            check_field(terms.schema, part)
        names = [part.name for part in chosen]
        if not names or len(set(names)) != len(names):
            raise QueryError("Give one field, or several different ones.", fields=names)
        if none := [part.name for part in chosen if not part.codec.key]:
            raise QueryError(
                "This field cannot be in a key: give a leading field of a key.", table=terms.schema.table, field=none[0]
            )
        if isinstance(values, str | bytes) or not isinstance(values, Iterable):
            raise QueryError("Give a collection of values.", field=names[0], found=type(values).__name__)
        keys = [(value,) if alone else tuple(value) for value in values]
        if any(len(key) != len(chosen) for key in keys):
            raise QueryError("Give one value for each of the fields.", fields=names)
        checks = [FieldExpression[Any](of=part).checked for part in chosen]
        columns = [[check(key[at]) for key in keys] for at, check in enumerate(checks)]
        checked = list(zip(*columns, strict=True))
        return self._source.first_of_each(terms, chosen, checked)

    def exists(self) -> bool:
        """Whether there is at least one item."""
        at_most = 1 if self.terms.limit is None else min(self.terms.limit, 1)
        if self.terms.on_unreadable is not None:  # the whole object must be read to find out whether it can be read
            return next(iter(self._of(evolve(self.terms, limit=at_most))), None) is not None
        # The query selects no fields, so that only the cells that predicates and existence need are read.
        return next(iter(self._of(evolve(self.terms, selection=(), limit=at_most))), None) is not None

    def count(self) -> int:
        """Returns the number of items. Only keys are read if they are enough to count the items. No rows are kept in
        memory.
        """
        return self._source.count(self.terms)

    def delete(self, *, batch_size: int = 1000, progress: Callable[[int], object] | None = None) -> int:
        """Deletes every item, with its index entries, and returns the number of deleted items; runs immediately, in
        bounded memory.

        The items are read and deleted page by page, independently of the pending writes of the session. Items that are
        added meanwhile may or may not be deleted. For a versioned model, a row is kept if it no longer satisfies the
        query at the time of its deletion. For other models, a row is deleted even if it was changed after it was read.
        Repeating a failed delete is safe.

        Args:
            batch_size: the maximum number of objects per page.
            progress: called with the number of objects deleted so far, after each page.

        Raises:
            PartialWrite: an error occurred after something was deleted. At least `deleted` objects were deleted.
            QueryError: the query selects fields, reads as of a time, or has `on_unreadable("skip")`. To keep rows that
                cannot be read, give `on_unreadable` a function.
            DecodingError: the key of a row, or a field that a condition compares, cannot be read. Other fields are not
                decoded, so a row is deleted even if they are damaged. With a function in `on_unreadable` whole objects
                are read, and every row that cannot be read is kept.
        """
        terms, table = self.terms, self.terms.schema.table
        if terms.selection is not None:
            raise QueryError("delete() deletes whole objects: leave out select().", table=table)
        if terms.moment is not None:
            raise QueryError("delete() deletes the current objects: leave out as_of().", table=table)
        if terms.on_unreadable is leave_out:
            raise QueryError(
                "delete() deletes every item, so it does not silently leave out rows: give on_unreadable() a "
                "function, which is called for each row that is kept.",
                table=table,
            )
        return self._source.delete(terms, whole(batch_size, "batch_size", 1), progress)

    def page(self, size: int, after: str | None = None, *, before: str | None = None) -> Page[R_co]:
        """Returns the first page, the page after another one, or the page before another one.

        Args:
            size: the maximum number of items on the page.
            after: `next_token` of the page before this one.
            before: `previous_token` of the page after this one; the result is the items right before that page.

        Raises:
            QueryError: both tokens are given.
            TokenError: the token is damaged, belongs to another query, or was passed as `after` instead of `before` or
                the other way round.
        """
        return self._source.page(self.terms, whole(size, "size", 1), *given_token(after, before))

    def explain(self) -> Explanation:
        """Describes how the query would be executed; print the result."""
        return self._source.explain(self.terms)

    def partitions(self, count: int) -> list[QueryPartition[R_co]]:
        """Divides the query into at most `count` partitions, which together contain each item once.
        `Session.read_partition` reads a partition, in any process.

        The partitions are cut along the boundaries of regions (and so of salt buckets, if the table is split by them)
        and of the key ranges of an `in_`. If this makes fewer than `count` ranges, there are fewer partitions.
        Partitions have about equal numbers of ranges, not of items. Without concurrent writes, the partitions together
        return exactly the items of the query; with concurrent writes, each partition is read like a separate query.

        Raises:
            QueryError: the query has a limit, an offset, an order or `on_unreadable`, which partitions cannot keep, or
                is a partition itself.
        """
        terms, number = self.terms, whole(count, "partitions", 1)
        if terms.limit is not None or terms.offset:
            raise QueryError(
                "A query with limit() or offset() has no partitions, because a partition cannot know how many items "
                "the others have: leave out limit() and offset()."
            )
        if terms.ordering:
            raise QueryError(
                "A query with order_by() has no partitions, because only the items within each partition would be in "
                "order: leave out order_by()."
            )
        if terms.partition is not None:
            raise QueryError("A partition cannot be divided again: ask the whole query for more partitions.")
        if terms.on_unreadable is not None:
            raise QueryError(
                "A partition does not keep on_unreadable(): call it on the query that read_partition() returns.",
                table=terms.schema.table,
            )
        return self._source.partitions(terms, number)

    def __reduce__(self) -> NoReturn:
        raise QueryError(
            "A query belongs to its session and cannot be pickled: pickle its partitions(), see Session.read_partition."
        )
