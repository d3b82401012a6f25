"""Decides whether an index has an entry for every row that satisfies a query, since some indexes contain only some of
the rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from hbmodel.mapping.index_kinds.base import Condition
from hbmodel.mapping.index_schema import Index
from hbmodel.mapping.predicates import Comparison, In, Not, Or, Predicate, StartsWith, conjuncts, describe
from hbmodel.query.match.key_conditions import values_left


@frozen(eq=False)
class Fit:
    """How the conditions of a query match an index that can answer it.

    Attributes:
        conditions: the query's conditions, with their meaning for entries.
        settled: the conditions of the query that every row with an entry satisfies.
        narrowed: whether the index contains only some of the rows.
    """

    conditions: Sequence[Condition]
    settled: Sequence[Predicate] = ()
    narrowed: bool = False


def fit(index: Index | None, predicates: Sequence[Predicate]) -> Fit | None:
    """Matches predicates, which must all hold, with an index; None if rows without entries may satisfy them.

    If `index` is None, the predicates are matched with the primary table, which contains every row.
    """
    if index is None:
        return Fit([Condition(predicate, predicate) for predicate in predicates])
    conditions = index.on_entries(predicates)
    if conditions is None or not all(implied(condition, predicates) for condition in index.conditions):
        return None
    said = [condition.canonical() for condition in index.conditions]
    return Fit(conditions, [p for p in predicates if said and p.canonical() in said], bool(said))


def misfit(index: Index | None, predicates: Sequence[Predicate]) -> str | None:
    """Describes, without values, the conditions that must be added to a query so that the index can answer it. None if
    no conditions are missing.
    """
    if index is None or fit(index, predicates) is not None:
        return None
    missing = [describe(condition) for condition in index.conditions if not implied(condition, predicates)]
    return (
        " & ".join(missing)
        if missing
        else ", ".join(part.description for part in index.parts if part.description is not None)
    )


def implied(condition: Predicate, predicates: Sequence[Predicate]) -> bool:
    """Whether predicates that must all hold imply a condition. Only simple cases are recognised, so False does not mean
    that the condition is not implied.

    The condition is implied if it is one of the predicates. If the condition is an `|`, it is enough that the
    predicates imply one of its parts. If one of the predicates is an `|`, it is enough that each of its parts implies
    the condition. If the condition is on a single field, it is enough that the predicates on this field allow only
    values that satisfy the condition.
    """
    said = condition.canonical()
    if any(predicate.canonical() == said for predicate in predicates):
        return True
    if isinstance(condition, Or) and any(implied(part, predicates) for part in condition.parts):
        return True
    if any(
        isinstance(each, Or) and all(implied(condition, conjuncts(part)) for part in each.parts) for each in predicates
    ):
        return True
    names = condition.names()
    if len(names) != 1:
        return False
    (name,) = names
    own = [predicate for predicate in predicates if predicate.names() == names]
    values = values_left(own, name)
    if values is not None:
        test = condition.test()
        return all(test({name: value}) for value in values)
    excluded = _excluded(condition)
    if excluded is not None:
        return all(any(not predicate.test()({name: value}) for predicate in own) for value in excluded)
    return any(_within(predicate, condition) for predicate in own)


def _excluded(condition: Predicate) -> Sequence[object] | None:
    """Returns the values that a `!=` or a `~in_` excludes, or None for other conditions."""
    if isinstance(condition, Comparison) and condition.operator == "!=":
        return (condition.value,)
    if isinstance(condition, Not) and isinstance(condition.parts[0], In):
        return condition.parts[0].values
    return None


def _within(narrow: Predicate, wide: Predicate) -> bool:
    """Whether all values of a field that satisfy the bound or prefix `narrow` satisfy `wide` too."""
    if isinstance(narrow, StartsWith) and isinstance(wide, StartsWith):
        return narrow.prefix[: len(wide.prefix)] == wide.prefix
    if not isinstance(narrow, Comparison) or not isinstance(wide, Comparison) or narrow.operator[0] != wide.operator[0]:
        return False
    if narrow.operator[0] not in "<>":
        return False
    # If both bounds have the same value, they can differ only in whether they include this value.
    key = wide.field.codec.order_key
    mine, theirs = key(narrow.value), key(wide.value)
    if mine == theirs:
        return narrow.operator == wide.operator or wide.operator.endswith("=")
    return bool(mine > theirs) if wide.operator[0] == ">" else bool(mine < theirs)
