"""Runs the queries of a local transaction, in which deletes wait for the commit of the group."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from attrs import evolve, frozen

from hbmodel.mapping.rows.mapper import key_of
from hbmodel.mapping.schema import Field, TableSchema
from hbmodel.query.ask.continuation_tokens import Page
from hbmodel.query.ask.explain_text import Explanation
from hbmodel.query.ask.query import Source
from hbmodel.query.ask.query_partition import QueryPartition
from hbmodel.query.ask.terms import QueryTerms


@frozen(eq=False)
class GroupQueries:
    """Runs the queries of a group, as their `Source`: reads like the session, and leaves deletes to the group.

    Attributes:
        session: the source of the session.
        take: adds deletes of the objects with these keys to the pending calls of the group.
    """

    session: Source
    take: Callable[[TableSchema, Sequence[Mapping[str, Any]]], None]

    def stream(self, terms: QueryTerms) -> Iterator[Any]:
        """Iterates over the items."""
        return self.session.stream(terms)

    def page(self, terms: QueryTerms, size: int, at: str | None, backwards: bool) -> Page[Any]:
        """Returns one page."""
        return self.session.page(terms, size, at, backwards)

    def count(self, terms: QueryTerms) -> int:
        """Returns the number of items."""
        return self.session.count(terms)

    def delete(self, terms: QueryTerms, batch_size: int, progress: Callable[[int], object] | None) -> int:
        """Adds deletes of all items to the group, and returns their number."""
        schema = terms.schema
        names = schema.layout.names
        # If the query leaves out rows that cannot be read, only objects that the query returns are deleted, so whole
        # objects are read.
        selection = tuple(map(schema.field, names)) if terms.on_unreadable is None else None
        items = list(self.session.stream(evolve(terms, selection=selection, loading=())))
        keys = items if selection is not None else [key_of(schema, item) for item in items]
        self.take(schema, [dict(zip(names, key, strict=True)) for key in keys])
        if items and progress is not None:
            progress(len(items))
        return len(items)

    def explain(self, terms: QueryTerms) -> Explanation:
        """Describes how the query would be executed."""
        return self.session.explain(terms)

    def partitions(self, terms: QueryTerms, count: int) -> list[QueryPartition[Any]]:
        """Divides the query into partitions."""
        return self.session.partitions(terms, count)

    def first_of_each(self, terms: QueryTerms, fields: Sequence[Field], keys: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Returns the first item for each of these combinations of field values."""
        return self.session.first_of_each(terms, fields, keys)
