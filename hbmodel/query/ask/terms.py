"""The terms of a query, from which it is planned and run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from attrs import evolve, frozen

from hbmodel.mapping.map_columns import MapField
from hbmodel.mapping.predicates import And, Ordering, Predicate, conjuncts, describe
from hbmodel.mapping.rows.unreadable import Report
from hbmodel.mapping.schema import Field, TableSchema
from hbmodel.query.ask.query_partition import QueryPartition
from hbmodel.query.ask.row_bounds import RowBound


@frozen(eq=False, repr=False)
class QueryTerms:
    """What a query asks for. `Query` builds the terms. Plans and caches compare terms by identity, not by value.

    Attributes:
        predicate: the condition that items satisfy, or None.
        ordering: the order of the items that `order_by` requires.
        backwards: whether the order is reversed.
        limit: the maximum number of items, or None.
        offset: the number of items that are skipped at the start.
        index_name: the index to read, `primary` for the table, None for the planner's choice.
        selection: the fields of the items, or None for whole objects.
        full_scan: whether a plan may read a whole table.
        partition: the partition that is read, or None for a whole query.
        loading: the map columns that are read with the objects.
        row_bounds: the objects before or after which the items must come.
        moment: the time as of which the items are read, or None.
        on_unreadable: called with the error of each row that cannot be read and is therefore left out; None to raise
            the error.
    """

    schema: TableSchema
    predicate: Predicate | None = None
    ordering: Sequence[Ordering] = ()
    backwards: bool = False
    limit: int | None = None
    offset: int = 0
    index_name: str | None = None
    selection: Sequence[Field] | None = None
    full_scan: bool = False
    partition: QueryPartition[Any] | None = None
    loading: Sequence[MapField] = ()
    row_bounds: Sequence[RowBound] = ()
    moment: datetime | None = None
    on_unreadable: Report | None = None

    def with_conditions(self, predicates: Iterable[Predicate]) -> QueryTerms:
        """Returns the terms with these conditions as well."""
        parts = [*conjuncts(self.predicate)]
        for predicate in predicates:
            parts += conjuncts(predicate)
        return evolve(self, predicate=And(tuple(parts)) if parts else None)

    def __str__(self) -> str:
        parts = [self.schema.model.__name__]
        parts += [describe(self.predicate)] if self.predicate is not None else []
        parts += [f"{part.field.name} {'descending' if part.desc else 'ascending'}" for part in self.ordering]
        parts += [f"limit {self.limit}"] if self.limit is not None else []
        parts += [f"offset {self.offset}"] if self.offset else []
        parts += ["backwards"] if self.backwards else []
        parts += ["between objects" if len(self.row_bounds) > 1 else "from an object on"] if self.row_bounds else []
        parts += [f"index {self.index_name}"] if self.index_name is not None else []
        parts += [f"select {', '.join(field.name for field in self.selection)}"] if self.selection is not None else []
        parts += [f"load {', '.join(map_field.name for map_field in self.loading)}"] if self.loading else []
        parts += ["full scan allowed"] if self.full_scan else []
        parts += [f"as of {self.moment.isoformat()}"] if self.moment is not None else []
        parts += ["unreadable rows left out"] if self.on_unreadable is not None else []
        return ", ".join(parts)

    def __repr__(self) -> str:
        return f"QueryTerms({self})"
