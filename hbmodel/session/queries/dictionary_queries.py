"""Queries on models with dictionary fields, which look up the ids of names before a query runs, and the names of ids
when an item is returned.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

from attrs import evolve, frozen

from hbmodel.encoding.codecs import Dictionary
from hbmodel.mapping.predicates import And, Comparison, In, Not, Or, Predicate, conjuncts
from hbmodel.mapping.schema import Field
from hbmodel.query.ask.continuation_tokens import Page
from hbmodel.query.ask.explain_text import Explanation
from hbmodel.query.ask.query_partition import QueryPartition
from hbmodel.query.ask.terms import QueryTerms
from hbmodel.query.run.first_of_each import Key
from hbmodel.session.queries.bulk_delete import Progress
from hbmodel.session.queries.query_runner import QueryRunner
from hbmodel.tables.ids.dictionaries import Names

END = object()


@frozen(eq=False)
class DictionaryQueries:
    """Runs queries on models with fields whose values are names in dictionaries, as their `Source`.

    Names that have no id in the dictionary are removed from the query, because no row has them. If only such names
    could satisfy a query, the query reads no rows.
    """

    runner: QueryRunner
    names: Names

    def stream(self, terms: QueryTerms) -> Iterator[Any]:
        """Iterates over the items. Names are available only while an item is decoded, and not while the caller's code
        runs.
        """
        with self.names.bound():
            items = self.runner.stream(self._with_ids(terms))
        return self._each_bound(items)

    def _each_bound(self, items: Iterator[Any]) -> Iterator[Any]:
        with closing(items):  # type: ignore[type-var]
            while True:
                with self.names.bound():
                    item = next(items, END)
                if item is END:
                    return
                yield item

    def page(self, terms: QueryTerms, size: int, at: str | None, backwards: bool) -> Page[Any]:
        """Returns one page."""
        with self.names.bound():
            return self.runner.page(self._with_ids(terms), size, at, backwards)

    def count(self, terms: QueryTerms) -> int:
        """Returns the number of items."""
        with self.names.bound():
            return self.runner.count(self._with_ids(terms))

    def delete(self, terms: QueryTerms, batch_size: int, progress: Progress | None) -> int:
        """Deletes the items."""
        return self.runner.delete_pages(terms, batch_size, progress, self.page)

    def first_of_each(self, terms: QueryTerms, fields: Sequence[Field], keys: Sequence[Key]) -> list[Any]:
        """Returns the first item for each key, or None. A key with a name that has no id has no items."""
        named = [(at, field.codec) for at, field in enumerate(fields) if isinstance(field.codec, Dictionary)]
        with self.names.bound():
            ids = {
                at: self.names.find(dictionary, [key[at] for key in keys if key[at] is not None])
                for at, dictionary in named
            }
            known = [n for n, key in enumerate(keys) if all(key[at] is None or key[at] in ids[at] for at, _ in named)]
            items: list[Any] = [None] * len(keys)
            found = self.runner.first_of_each(self._with_ids(terms), fields, [keys[n] for n in known])
            for n, item in zip(known, found, strict=True):
                items[n] = item
        return items

    def partitions(self, terms: QueryTerms, count: int) -> list[QueryPartition[Any]]:
        """Divides the query into at most `count` partitions."""
        with self.names.bound():
            return self.runner.partitions(self._with_ids(terms), count)

    def explain(self, terms: QueryTerms) -> Explanation:
        """Describes the plan of a query."""
        with self.names.bound():
            return self.runner.explain(self._with_ids(terms))

    def _with_ids(self, terms: QueryTerms) -> QueryTerms:
        """Returns the terms without the names that have no id. If all names have one, returns the object `terms`
        itself, so that its plan stays cached.
        """
        if terms.predicate is None:
            return terms
        wanted: dict[Dictionary, set[str]] = {}
        for dictionary, names in _names_in(terms.predicate):
            wanted.setdefault(dictionary, set()).update(names)
        ids = {dictionary: self.names.find(dictionary, sorted(names)) for dictionary, names in wanted.items()}
        if all(len(ids[dictionary]) == len(names) for dictionary, names in wanted.items()):
            return terms
        predicate = _known(terms.predicate, ids)
        if any(isinstance(part, In) and not part.values for part in conjuncts(predicate)):
            # No row satisfies an `In` without values. As a condition on the first key field, it makes the query read
            # nothing.
            predicate = And((*conjuncts(predicate), In(terms.schema.key_fields[0], ())))
        return evolve(terms, predicate=predicate)


def _names_in(predicate: Predicate) -> Iterator[tuple[Dictionary, Iterable[str]]]:
    match predicate:
        case Comparison(field, _, value) if isinstance(field.codec, Dictionary):
            yield field.codec, (value,)
        case In(field, values) if isinstance(field.codec, Dictionary):
            yield field.codec, [value for value in values if value is not None]
        case And(parts) | Or(parts) | Not(parts):
            for part in parts:
                yield from _names_in(part)
        case _:
            pass


def _known(predicate: Predicate, ids: Mapping[Dictionary, Mapping[str, int]]) -> Predicate:
    """Returns an equivalent predicate without the names that have no id."""
    match predicate:
        case Comparison(field, operator, value) if (
            isinstance(field.codec, Dictionary) and value not in ids[field.codec]
        ):
            return In(field, ()) if operator == "=" else Not((In(field, ()),))
        case In(field, values) if isinstance(field.codec, Dictionary):
            return In(field, tuple(value for value in values if value is None or value in ids[field.codec]))
        case And(parts):
            return And(_all_known(parts, ids))
        case Or(parts):
            return Or(_all_known(parts, ids))
        case Not((part,)):
            return Not((_known(part, ids),))
    return predicate


def _all_known(parts: Sequence[Predicate], ids: Mapping[Dictionary, Mapping[str, int]]) -> tuple[Predicate, ...]:
    return tuple(_known(part, ids) for part in parts)
