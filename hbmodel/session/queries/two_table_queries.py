"""Queries on a model whose key is being changed, which read the old table, the new table, or both tables merged in the
order of the new key.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from operator import itemgetter
from typing import Any, TypeVar

from attrs import evolve, frozen

from hbmodel.errors import CapabilityError, EncodingError, KeyTooLong, SchemaMismatch
from hbmodel.mapping.rows.mapper import KeyMapper, Values
from hbmodel.mapping.rows.unreadable import Report, RowError, Unreadable, leave_out, readable
from hbmodel.mapping.schema import Field, TableSchema
from hbmodel.query.ask.continuation_tokens import Page, Token
from hbmodel.query.ask.explain_text import Explanation
from hbmodel.query.ask.in_replaced_layout import in_replaced_layout
from hbmodel.query.ask.query_partition import QueryPartition
from hbmodel.query.ask.terms import QueryTerms
from hbmodel.query.match.plan import Plan
from hbmodel.query.run.executor import Found
from hbmodel.query.run.page_window import PageWindow
from hbmodel.query.run.pages import page_of, shape, tolerant_page
from hbmodel.query.run.unreadable_rows import up_to
from hbmodel.session.commit.migration_routing import MigrationRouting
from hbmodel.session.queries.bulk_delete import Progress
from hbmodel.session.queries.query_runner import QueryRunner

Position = Callable[[Values], bytes | None]
T = TypeVar("T")

UNPLACED = b"\xff" * 255
"""The prefix of the places of objects that cannot be in the new table, because a value does not fit the new codec. Such
objects come after all others.
"""

_END: Any = object()
"""Marks the end of the items."""


@frozen(eq=False)
class TwoTableQueries:
    """Runs the queries of models that replace others, as their `Source`."""

    runner: QueryRunner
    moves: MigrationRouting

    def stream(self, terms: QueryTerms) -> Iterator[Any]:
        """Iterates over the items. The tables are chosen when the first item is read."""
        return self._watched(terms) if terms.schema.versioned else self._items(terms)

    def _items(self, terms: QueryTerms) -> Iterator[Any]:
        alone = self._alone(terms)
        try:
            yield from self._merged_items(terms) if alone is None else self.runner.stream(alone)
        except SchemaMismatch:
            new_read = alone is None or alone is terms
            if not new_read or terms.schema in self.moves.read(terms.schema):
                raise
            raise SchemaMismatch(
                "The migration was rolled back during the query: run the query again.", table=terms.schema.table
            ) from None

    def _watched(self, terms: QueryTerms) -> Iterator[Any]:
        """Yields the items of a versioned model; raises `SchemaMismatch` as soon as an item may have been missed."""
        moment = self.moves.moment(terms.schema)
        for item in itertools.chain(self._items(terms), (_END,)):
            if not self.moves.lasts(terms.schema, moment):
                raise SchemaMismatch(
                    "The migration went on to its next phase during the query: run the query again.",
                    table=terms.schema.table,
                )
            if item is not _END:
                yield item

    def _whole(self, terms: QueryTerms, read: Callable[[], T]) -> T:
        """Returns the result of a read, which is repeated until it cannot have missed an object."""
        while True:
            moment = self.moves.moment(terms.schema)
            result = read()
            if self.moves.lasts(terms.schema, moment):
                return result

    def _reported(self, terms: QueryTerms, read: Callable[[QueryTerms], T]) -> T:
        """Like `_whole`, but a row that cannot be read is reported only once, even if the read is repeated."""
        report = terms.on_unreadable
        if report is None or report is leave_out:
            return self._whole(terms, lambda: read(terms))
        errors: list[RowError] = []
        gathering = evolve(terms, on_unreadable=errors.append)

        def read_again() -> T:
            errors.clear()
            return read(gathering)

        result = self._whole(terms, read_again)
        for error in errors:
            report(error)
        return result

    def page(self, terms: QueryTerms, size: int, at: str | None, backwards: bool) -> Page[Any]:
        """Returns one page. Its tokens are valid while the same tables are read."""
        return self._reported(terms, lambda asked: self._page(asked, size, at, backwards))

    def _page(self, terms: QueryTerms, size: int, at: str | None, backwards: bool) -> Page[Any]:
        alone = self._alone(terms)
        return (
            self._merged_page(terms, size, at, backwards)
            if alone is None
            else self.runner.page(alone, size, at, backwards)
        )

    def delete(self, terms: QueryTerms, batch_size: int, progress: Progress | None) -> int:
        """Deletes the items; refused while both tables are in use."""
        self.moves.check_changes(terms.schema, "delete()")
        if self._alone(terms) is None:
            raise CapabilityError(
                "query.delete() is not possible while objects move between tables: delete the objects one by one, or "
                "wait until the migration is over.",
                table=terms.schema.table,
                phase=self.moves.phase(terms.schema).name,
            )
        return self.runner.delete_pages(terms, batch_size, progress, self.page)

    def count(self, terms: QueryTerms) -> int:
        """Returns the number of items."""
        return self._reported(terms, self._count)

    def _count(self, terms: QueryTerms) -> int:
        alone = self._alone(terms)
        return sum(1 for _ in self._merged_items(terms)) if alone is None else self.runner.count(alone)

    def explain(self, terms: QueryTerms) -> Explanation:
        """Describes the plan of the query, on the new table if both are read."""
        alone = self._alone(terms)
        return self.runner.explain(terms if alone is None else alone)

    def partitions(self, terms: QueryTerms, count: int) -> list[QueryPartition[Any]]:
        """Divides the query into at most `count` partitions; refused while the old table is read."""
        if self._alone(terms) is not terms:
            raise CapabilityError(
                "A query has no partitions while the old table is read: wait until the migration is over.",
                table=terms.schema.table,
            )
        return self.runner.partitions(terms, count)

    def first_of_each(self, terms: QueryTerms, fields: Sequence[Field], keys: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Returns the first item of each key; refused while both tables are read."""
        return self._reported(terms, lambda asked: self._first_of_each(asked, fields, keys))

    def _first_of_each(self, terms: QueryTerms, fields: Sequence[Field], keys: Sequence[tuple[Any, ...]]) -> list[Any]:
        alone = self._alone(terms)
        if alone is None:
            raise CapabilityError(
                "first_of_each() is not possible while both tables are read: wait until the migration is over.",
                table=terms.schema.table,
            )
        return self.runner.first_of_each(alone, [alone.schema.field(field.name) for field in fields], keys)

    # --- one table ----------------------------------------------------------------------------------------------------

    def _alone(self, terms: QueryTerms) -> QueryTerms | None:
        """Returns the query on the one table that is read, or None if both are read."""
        layouts = self.moves.read(terms.schema)
        if len(layouts) > 1:
            return None
        return terms if layouts[0] is terms.schema else in_replaced_layout(terms, layouts[0])

    # --- both ---------------------------------------------------------------------------------------------------------

    def _merged_items(self, terms: QueryTerms) -> Generator[Any, None, None]:
        if terms.limit == 0:
            return
        query_plan = self.runner.planned(terms)
        wanted = None if terms.limit is None else terms.offset + terms.limit
        item, report = shape(query_plan), terms.on_unreadable
        with self._merged(terms, query_plan, wanted, None) as merged:
            items = merged if report is None else _reporting(up_to(merged, wanted), report)
            for _, values in itertools.islice(items, terms.offset, wanted):
                yield item(values)

    def _merged_page(self, terms: QueryTerms, size: int, at: str | None, backwards: bool) -> Page[Any]:
        token: Token | None = None
        if at is None:
            query_plan = self.runner.planned(terms)
        else:
            token, query_plan = self.runner.token(terms, at, backwards)
        window = PageWindow.of(size, token, terms.limit, terms.offset)
        taken: list[Found] = []
        if window.take:
            with self._merged(
                terms, query_plan.opposite if backwards else query_plan, window.wanted, window.position
            ) as merged:
                if terms.on_unreadable is not None:
                    page, errors = tolerant_page(query_plan, window, merged, self.runner.seal)
                    for error in errors:
                        terms.on_unreadable(error)
                    return page
                taken = list(itertools.islice(merged, window.skip, window.wanted))
        return page_of(query_plan, window, taken, self.runner.seal)

    @contextmanager
    def _merged(
        self, terms: QueryTerms, query_plan: Plan, wanted: int | None, after: bytes | None
    ) -> Iterator[Iterator[Found]]:
        """The objects of both tables in the order of the new table's path. An object that is in both tables is returned
        once.

        An object has the same place in this order in both tables, and no rows are removed from either table. So an
        object that is copied during the query is found, and two rows with the same place are the same object.
        """
        replaced = terms.schema.replaces
        assert replaced is not None
        if terms.schema.versioned:
            with closing(self._one_by_one(terms, query_plan, wanted, after)) as merged:
                yield merged
            return
        place = _place(query_plan)
        with (
            closing(self._old_items(terms, query_plan, replaced, wanted, after)) as old,
            closing(self._new_items(terms, query_plan, wanted, after)) as new,
        ):
            merged = heapq.merge(new, old, key=place, reverse=query_plan.backwards)
            yield (next(same) for _, same in itertools.groupby(merged, key=place))

    def _one_by_one(
        self, terms: QueryTerms, query_plan: Plan, wanted: int | None, after: bytes | None
    ) -> Generator[Found, None, None]:
        """Like `_merged`, but for objects that move from one table to the other. The table that they leave is read
        first, to its end.

        So an object that moves during the query is found. Objects that were found in the first table are skipped in the
        second.
        """
        replaced, names = terms.schema.replaces, terms.schema.layout.names
        assert replaced is not None
        old = self._old_items(terms, query_plan, replaced, wanted, after)
        new = self._new_items(terms, query_plan, wanted, after)
        first, second = (new, old) if self.moves.phase(terms.schema).back else (old, new)
        with closing(second), closing(first):
            before = list(up_to(first, wanted))
            known = {tuple(values[name] for name in names) for _, values in before if readable(values)}
            others = (
                item for item in second if not readable(item[1]) or tuple(item[1][name] for name in names) not in known
            )
            yield from heapq.merge(before, others, key=_place(query_plan), reverse=query_plan.backwards)

    def _new_items(
        self, terms: QueryTerms, query_plan: Plan, wanted: int | None, after: bytes | None
    ) -> Generator[Found, None, None]:
        """Yields the items of the new table."""
        if after is not None and after.startswith(UNPLACED) and query_plan.order is not None:
            if not query_plan.backwards:
                return  # objects that cannot be in this table come after all of its items
            after = None
        yield from self.runner.found(terms, query_plan, wanted, after)

    def _old_items(
        self, terms: QueryTerms, query_plan: Plan, replaced: TableSchema, wanted: int | None, after: bytes | None
    ) -> Generator[Found, None, None]:
        """Yields the items of the old table, each with its place in the new table's path."""
        # Whole objects are read, because any field may be needed to determine the position.
        whole = evolve(terms, selection=None, limit=None, offset=0, index_name=None)
        if _alike(query_plan, replaced):
            path = self.runner.planned(evolve(in_replaced_layout(whole, replaced), index_name=query_plan.path.name))
            if _merges_alike(path, query_plan):
                alike_read = path if path.backwards == query_plan.backwards else path.opposite
                yield from self.runner.found(path.terms, alike_read, wanted, after)
                return
        if terms.row_bounds:
            raise CapabilityError(
                "before() and after() are not possible while objects move to a table with another order: compare "
                "fields, or wait until the migration is over.",
                table=terms.schema.table,
                replaces=replaced.table,
            )
        plan = self.runner.planned(in_replaced_layout(evolve(whole, ordering=(), backwards=False), replaced))
        position, backwards, place = _position(query_plan), query_plan.backwards, _place(query_plan)
        bound = None if after is None else place((after, {}))
        placed: Iterator[Found] = (
            (at, values)
            for old, values in self.runner.found(plan.terms, plan, None, None)
            if (at := position(values) if readable(values) else UNPLACED + old) is not None
            and (bound is None or (place((at, values)) < bound if backwards else place((at, values)) > bound))
        )
        apart: list[Found] = []
        if terms.on_unreadable is not None:
            placed = _without_unreadable(placed, apart)
        if wanted is None:
            objects = sorted(placed, key=place, reverse=backwards)
        else:
            first = heapq.nlargest if backwards else heapq.nsmallest
            objects = first(wanted, placed, key=place)
        apart.sort(key=place, reverse=backwards)
        yield from heapq.merge(objects, apart, key=place, reverse=backwards) if apart else objects


def _without_unreadable(items: Iterable[Found], apart: list[Found]) -> Iterator[Found]:
    """Yields the objects, and puts the rows that cannot be read into `apart`."""
    for item in items:
        if readable(item[1]):
            yield item
        else:
            apart.append(item)


def _reporting(items: Iterable[Found], report: Report) -> Iterator[Found]:
    """Yields the objects, and reports the rows that cannot be read."""
    for item in items:
        if isinstance(item[1], Unreadable):
            report(item[1].error)
        else:
            yield item


def _alike(query_plan: Plan, layout: TableSchema) -> bool:
    """Whether the old table has the path of a plan, with the same order."""
    path = query_plan.path
    if path.index is None:
        return layout.layout.spec == path.layout.spec
    index = layout.indexes.get(path.index.name)
    return index is not None and index.layout.spec == path.layout.spec and index.spec == path.index.spec


def _merges_alike(old: Plan, new: Plan) -> bool:
    """Whether the same runs of keys are merged in both tables, so that a place in one plan is a place in the other."""
    if old.order is None or new.order is None:
        return old.order is new.order
    return old.order.runs == new.order.runs


def _place(query_plan: Plan) -> Callable[[Found], Any]:
    """Makes a function that returns the sort key of an item in the order of a plan."""
    order = query_plan.order
    if order is None:
        return itemgetter(0)

    def place(item: Found) -> Any:
        # an object that cannot be in the new table has a position in none of the merged runs
        return (item[0], b"") if item[0].startswith(UNPLACED) else order.key(item[0])

    return place


def _position(query_plan: Plan) -> Position:
    """Makes a function that returns the place of an object in the path of a plan, given the object's values; None if
    the object is not in the path.
    """
    path, schema, replaced = query_plan.path, query_plan.terms.schema, query_plan.terms.schema.replaces
    assert replaced is not None, "objects come from its table"
    keys, names = KeyMapper(schema), schema.layout.names

    def row(values: Values) -> bytes:
        (key,) = keys.rows([values[name] for name in names])
        return key

    def placed(values: Values) -> bytes | None:
        first = row(values) if entries is None else scope.first(entries(values, row(values)))
        return None if first is None else path.position(first)

    entries, scope, remains = (
        None if path.index is None else keys.entries_code(path.index),
        query_plan.scope,
        KeyMapper(replaced),
    )

    def position(values: Values) -> bytes | None:
        try:
            return placed(values)
        except (EncodingError, KeyTooLong):  # the object cannot move, see the report of the migration
            (key,) = remains.rows([values[name] for name in replaced.layout.names])
            return UNPLACED + key

    return position
