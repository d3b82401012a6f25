"""Runs the queries of a session, by planning them with the session's bindings and building the results."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterator, Sequence, Set
from contextlib import closing
from functools import partial
from typing import Any

from attrs import evolve

from hbmodel.errors import QueryError, SchemaMismatch, SessionClosed
from hbmodel.mapping.rows.unreadable import RowError, Unreadable
from hbmodel.mapping.schema import PRIMARY, Field, TableSchema, schema_of
from hbmodel.query.ask.as_of_time import before
from hbmodel.query.ask.continuation_tokens import Page, Seal, Token
from hbmodel.query.ask.explain_text import Explanation
from hbmodel.query.ask.query_partition import QueryPartition, described, layout_digest, rebuilt
from hbmodel.query.ask.terms import QueryTerms
from hbmodel.query.explain.explained_plan import explain
from hbmodel.query.match.partitioning import partition, within
from hbmodel.query.match.plan import Plan
from hbmodel.query.match.planner import plan
from hbmodel.query.run.attempts import Attempts, OutdatedPlan
from hbmodel.query.run.counting import count_items
from hbmodel.query.run.executor import Found, PlanExecutor
from hbmodel.query.run.first_of_each import Key, conditions_of, first_of_each, in_plans
from hbmodel.query.run.loaded_maps import load_maps, with_loaded, with_maps
from hbmodel.query.run.page_window import Skipped, skips_by_keys
from hbmodel.query.run.pages import read_page, read_token, shape
from hbmodel.session.commit.session_sizes import SESSION_SIZES, SessionSizes
from hbmodel.session.commit.unit_of_work import UnitOfWork
from hbmodel.session.queries.bulk_delete import BulkDelete, Progress
from hbmodel.session.thread_guard import Guard, guarded
from hbmodel.store.port import Store
from hbmodel.store.wide.folded import as_of
from hbmodel.tables.registry.registration import Binding

PLANS_KEPT = 32
"""The maximum number of plans that are remembered. All pages of a query have the same plan."""

_CLOSED = (
    "The session was closed while a query was being read: read the items before it is closed, for example with all()."
)


class QueryRunner:
    """Runs the queries of a session, as their `Source`.

    Args:
        view: returns the store in which each object of a model is a row.
        bind: returns a model's binding; raises an error if the session is closed.
        seal: encrypts continuation tokens; None leaves them readable.
        guard: the guard of the session. After the session has been closed, its queries return no more items.
        lease: seconds for which a binding is trusted, or None.
        work: executes deletes; None in a runner that only reads.
    """

    def __init__(
        self,
        view: Callable[[TableSchema], Store],
        bind: Callable[[TableSchema], Binding],
        seal: Seal | None,
        guard: Guard,
        lease: float | None = None,
        work: UnitOfWork | None = None,
        sizes: SessionSizes = SESSION_SIZES,
    ) -> None:
        self.seal = seal
        self._work, self._sizes = work, sizes
        self._view, self._bind, self._guard, self._lease = view, bind, guard, lease
        self._plans: dict[tuple[int, str | None, Set[str]], tuple[QueryTerms, Binding, Plan]] = {}

    def _plan_and_binding(
        self, terms: QueryTerms, path: str | None = None, each: Set[str] = frozenset()
    ) -> tuple[Plan, Binding]:
        """Returns the plan of a query, and the binding with which it was made."""
        binding = self._bind(terms.schema)
        known = self._plans.get((id(terms), path, each))
        if known is not None and known[0] is terms and known[1] is binding:
            return known[2], binding
        query_plan = plan(terms, binding.readable, binding.indexed, path, binding.adopting, each)
        if terms.partition is not None:
            query_plan = within(query_plan, terms.partition)
        if len(self._plans) >= PLANS_KEPT:
            self._plans.clear()
        self._plans[id(terms), path, each] = terms, binding, query_plan
        return query_plan, binding

    def _attempts(
        self,
        terms: QueryTerms,
        query_plan: Plan,
        binding: Binding,
        wanted: int | None = None,
        each: Set[str] = frozenset(),
    ) -> Attempts:
        """Attempts to read a query. The first attempt uses the given plan."""
        store = self._store(terms)

        def plan_again(outdated: Plan) -> PlanExecutor:
            latest, latest_binding = self._plan_and_binding(terms, outdated.path.name, each)
            same = latest if latest.backwards == outdated.backwards else latest.opposite
            return PlanExecutor(store, same, wanted, self._check(terms, same, latest_binding), load)

        load = None if terms.on_unreadable is None else self._loading(terms)
        return Attempts(
            PlanExecutor(store, query_plan, wanted, self._check(terms, query_plan, binding), load), plan_again
        )

    def _loading(self, terms: QueryTerms) -> Callable[[Iterator[Found]], Generator[Found, None, None]] | None:
        """Returns a function that adds map columns to items, for a query that skips unreadable rows."""
        if not terms.loading or terms.selection is not None:
            return None
        return partial(with_loaded, self._view(terms.schema), terms)

    def _check(self, terms: QueryTerms, query_plan: Plan, planned: Binding) -> Callable[[], None]:
        """Returns a function that raises `OutdatedPlan` if the lease of the plan's binding has expired and the registry
        has changed.
        """

        def check() -> None:
            if self._guard.closed:
                return  # the code that yields the items raises `SessionClosed`
            current = self._bind(terms.schema)
            if current is planned:
                return
            index = query_plan.path.index
            if current.rows != planned.rows or (
                index is not None and query_plan.path.table not in {one.table for one in current.readable}
            ):
                raise OutdatedPlan

        return check

    def _store(self, terms: QueryTerms) -> Store:
        """Returns the store that a query reads."""
        view = self._view(terms.schema)
        return view if terms.moment is None else as_of(view, before(terms.moment))

    def planned(self, terms: QueryTerms, path: str | None = None) -> Plan:
        """Returns the plan of a query, on the path with this name or on the one that the planner chooses."""
        return self._plan_and_binding(terms, path)[0]

    def token(self, terms: QueryTerms, text: str, backwards: bool) -> tuple[Token, Plan]:
        """Returns the decoded continuation token, and the plan that it continues."""
        return read_token(text, terms, lambda path: self.planned(terms, path), self.seal, backwards)

    def found(
        self, terms: QueryTerms, query_plan: Plan, wanted: int | None, after: bytes | None
    ) -> Generator[Found, None, None]:
        """Yields positions and values of the items of a plan after a position on its path. The caller takes at most
        `wanted` items.
        """
        for attempt in self._attempts(terms, query_plan, self._bind(terms.schema), wanted):
            with attempt as executor, closing(executor.items(after)) as items:
                for item in items:
                    if self._guard.closed:
                        raise SessionClosed(_CLOSED)
                    after = item[0]
                    yield item

    def stream(self, terms: QueryTerms) -> Iterator[Any]:
        """Iterates over the items."""
        items = self._items(terms, *self._plan_and_binding(terms))
        if not terms.loading or terms.selection is not None or terms.on_unreadable is not None:
            return items
        return with_maps(self._view(terms.schema), terms, items)

    def _items(self, terms: QueryTerms, query_plan: Plan, binding: Binding) -> Iterator[Any]:
        if terms.limit == 0:
            return
        after, skip = None, terms.offset
        skipped = self._skipped_by_keys(terms, query_plan)
        if skipped is not None:
            after, skip = skipped.position, 0
            if skipped.ended:
                return
        wanted = None if terms.limit is None else skip + terms.limit
        item = shape(query_plan)
        remaining = terms.limit
        report = terms.on_unreadable
        for attempt in self._attempts(terms, query_plan, binding, wanted):
            with attempt as executor, closing(executor.items(after)) as items:
                for position, values in items:
                    after = position
                    if report is not None and isinstance(values, Unreadable):
                        if self._guard.closed:
                            raise SessionClosed(_CLOSED)
                        report(values.error)
                        continue
                    if skip:
                        skip -= 1
                        continue
                    if self._guard.closed:
                        raise SessionClosed(_CLOSED)
                    yield item(values)
                    if remaining is not None:
                        remaining -= 1
                        if not remaining:
                            return

    def _skipped_by_keys(self, terms: QueryTerms, query_plan: Plan) -> Skipped | None:
        """Reads the items that a query skips, without the cells that are needed only for the result. None if there are
        only a few such items, or if this would save nothing.
        """
        if not terms.offset or not skips_by_keys(query_plan, self._sizes.skipped):
            return None
        keys = evolve(terms, selection=(), loading=())
        position, left = None, terms.offset
        with closing(self.found(keys, self.planned(keys, query_plan.path.name), left, None)) as items:
            for position, _ in itertools.islice(items, left):  # noqa: B007
                left -= 1
        return Skipped(position, left > 0)

    def page(self, terms: QueryTerms, size: int, at: str | None, backwards: bool) -> Page[Any]:
        """Returns one page."""
        page, errors = self._page(terms, size, at, backwards)
        if terms.on_unreadable is not None:
            for error in errors:
                terms.on_unreadable(error)
            return page
        return evolve(page, items=load_maps(self._view(terms.schema), terms, page.items)) if terms.loading else page

    def _page(
        self, terms: QueryTerms, size: int, at: str | None, backwards: bool
    ) -> tuple[Page[Any], Sequence[RowError]]:
        token: Token | None = None
        skipped: Skipped | None = None
        if at is None:
            query_plan, binding = self._plan_and_binding(terms)
            skipped = self._skipped_by_keys(terms, query_plan)
        else:
            # If this binding is older than the one of the plan, the query is planned again, which does no harm.
            binding = self._bind(terms.schema)
            token, query_plan = self.token(terms, at, backwards)
        return self._attempts(terms, query_plan, binding).result(
            lambda executor: read_page(executor, size, token, self.seal, skipped)
        )

    def delete(self, terms: QueryTerms, batch_size: int, progress: Progress | None) -> int:
        """Deletes the items."""
        return self.delete_pages(terms, batch_size, progress, self.page)

    @guarded
    def delete_pages(
        self,
        terms: QueryTerms,
        batch_size: int,
        progress: Progress | None,
        page: Callable[[QueryTerms, int, str | None, bool], Page[Any]],
    ) -> int:
        """Deletes the items on the pages of a query."""
        assert self._work is not None, "of a session"
        work = self._work.apart(atomic_rows=False)
        return BulkDelete(work, lambda narrowed, size, after: page(narrowed, size, after, False), progress).run(
            terms, batch_size
        )

    def count(self, terms: QueryTerms) -> int:
        """Returns the number of items."""
        if terms.on_unreadable is not None:  # the whole object must be read to find out whether it can be read
            return sum(1 for _ in self._items(terms, *self._plan_and_binding(terms)))
        # To count, nothing is selected, so that only the cells that predicates and existence need are read.
        terms = evolve(terms, selection=())
        query_plan, binding = self._plan_and_binding(terms)
        if terms.limit is not None:
            return sum(1 for _ in self._items(terms, query_plan, binding))
        return max(0, self._attempts(terms, query_plan, binding).result(count_items) - terms.offset)

    def first_of_each(self, terms: QueryTerms, fields: Sequence[Field], keys: Sequence[Key]) -> list[Any]:
        """Returns the first item for each key, or None if a key has no item. A key consists of one value for each of
        the fields.
        """
        firsts: dict[Key, Any] = {}
        if terms.loading and terms.on_unreadable is not None:
            return self._loaded_firsts(terms, fields, keys)
        for some in in_plans(list(dict.fromkeys(keys)), self._sizes.ranges):
            narrowed = terms.with_conditions(conditions_of(fields, some))
            firsts.update(zip(some, self._firsts(narrowed, [field.name for field in fields], some), strict=True))
        if terms.loading:
            load_maps(self._view(terms.schema), terms, [item for item in firsts.values() if item is not None])
        return [firsts[key] for key in keys]

    def _loaded_firsts(self, terms: QueryTerms, fields: Sequence[Field], keys: Sequence[Key]) -> list[Any]:
        """Returns the first item for each key, with its map columns. If the map columns of an item cannot be read, the
        next item takes its place. So there is a separate query for each key, which continues until it finds a readable
        item.
        """
        different = list(dict.fromkeys(keys))
        each = frozenset(field.name for field in fields)
        for some in in_plans(different, self._sizes.ranges):
            # raises an error if no path fits
            self._plan_and_binding(terms.with_conditions(conditions_of(fields, some)), None, each)
        firsts = {
            key: next(self.stream(evolve(terms.with_conditions(conditions_of(fields, [key])), limit=1)), None)
            for key in different
        }
        return [firsts[key] for key in keys]

    def _firsts(self, terms: QueryTerms, names: Sequence[str], keys: Sequence[Key]) -> Iterator[Any]:
        each = frozenset(names)
        query_plan, binding = self._plan_and_binding(terms, None, each)
        errors: list[RowError] | None = None if terms.on_unreadable is None else []

        def read(executor: PlanExecutor) -> list[Found | None]:
            if errors is not None:
                errors.clear()
            return first_of_each(executor, names, keys, self._sizes.scans, errors)

        firsts = self._attempts(terms, query_plan, binding, 1, each).result(read)
        if terms.on_unreadable is not None:
            for error in errors or ():
                terms.on_unreadable(error)
        item = shape(query_plan)
        return (None if first is None else item(first[1]) for first in firsts)

    def partitions(self, terms: QueryTerms, count: int) -> list[QueryPartition[Any]]:
        """Divides the query into at most `count` partitions."""
        query_plan = self.planned(terms)
        starts = (
            [region.range.start for region in self._view(terms.schema).regions(query_plan.path.table)]
            if query_plan.buckets
            else []
        )
        return [
            QueryPartition(
                model=terms.schema.model,
                layout=layout_digest(terms.schema, query_plan.path.name),
                path=query_plan.path.name,
                table=query_plan.path.table,
                predicate=None if terms.predicate is None else described(terms.predicate),
                selection=None if terms.selection is None else tuple(f.name for f in terms.selection),
                backwards=terms.backwards,
                # row bounds are part of the partition's ranges, and are not stored themselves
                full_scan=terms.full_scan or bool(terms.row_bounds),
                ranges=tuple((r.start, r.stop) for r in ranges),
                loading=tuple(map_field.name for map_field in terms.loading),
                moment=terms.moment,
            )
            for ranges in partition(query_plan, starts, count)
        ]

    @staticmethod
    def terms_of(partition: QueryPartition[Any]) -> QueryTerms:
        """Makes the terms of the query that reads a partition.

        Raises:
            QueryError: the argument is not a partition.
            SchemaMismatch: the model's declaration differs from the one in the process that divided the query.
        """
        if not isinstance(partition, QueryPartition):
            raise QueryError("Give a partition of a query, from partitions().", found=type(partition).__name__)
        schema = schema_of(partition.model)
        if partition.path not in {PRIMARY, *schema.indexes} or partition.layout != layout_digest(
            schema, partition.path
        ):
            raise SchemaMismatch(
                "The model does not have the layout that it had in the process that divided the query: deploy the same "
                "model to all processes.",
                table=schema.table,
                path=partition.path,
            )
        return QueryTerms(
            schema=schema,
            predicate=None if partition.predicate is None else rebuilt(schema, partition.predicate),
            backwards=partition.backwards,
            index_name=partition.path,
            selection=None
            if partition.selection is None
            else tuple(schema.field(name) for name in partition.selection),
            full_scan=partition.full_scan,
            partition=partition,
            loading=tuple(schema.maps_by_name[name] for name in partition.loading),
            moment=partition.moment,
        )

    def explain(self, terms: QueryTerms) -> Explanation:
        """Describes the plan of a query."""
        query_plan, binding = self._plan_and_binding(terms)
        able = self._view(terms.schema).capabilities
        return explain(
            query_plan,
            able.one_call_scans,
            binding.states,
            self._lease,
            one_call_gets=able.one_call_gets,
            skips=skips_by_keys(query_plan, self._sizes.skipped),
        )
