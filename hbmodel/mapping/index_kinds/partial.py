"""The partial kind of index: entries only for rows that satisfy conditions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from hbmodel.encoding.codecs import Dictionary
from hbmodel.encoding.codecs.base import JSON
from hbmodel.errors import DeclarationError
from hbmodel.mapping.field_expressions import FieldExpression
from hbmodel.mapping.model_field import Field
from hbmodel.mapping.predicates import And, Comparison, In, Not, Or, Predicate, conjuncts

Where = Callable[[Any], Predicate]
"""A function that accepts an object with the fields of the model as attributes, and returns a condition on rows."""


def resolve_where(where: Where | None, fields: Mapping[str, Field], model: str) -> tuple[Predicate, ...]:
    """Returns the conditions that `where` declares, all of which must hold.

    Raises:
        DeclarationError: the function does not return a condition on fields of the model; or the condition is on a
            counter or version, or compares a field with a name from a dictionary.
    """
    if where is None:
        return ()
    if not callable(where):
        raise DeclarationError(_EXAMPLE, found=type(where).__name__)
    given = where(SimpleNamespace(**{name: FieldExpression(of=field, model=model) for name, field in fields.items()}))
    if not isinstance(given, Predicate):
        raise DeclarationError(_EXAMPLE, found=type(given).__name__)
    for field in given.fields():
        if fields.get(field.name) is not field:
            raise DeclarationError("The condition of an index can use only fields of its own model.", field=field.name)
        if field.kind in {"counter", "version"}:
            raise DeclarationError(
                f"The condition of an index cannot use a {field.kind}, because the index is not updated when it "
                "changes: use another field.",
                field=field.name,
            )
    if named := _compared_with_name(given):
        raise DeclarationError(
            "The condition of an index cannot compare a field with a name from a dictionary, because each store "
            "assigns its own id to the name: use startswith() or is_(None), or another field.",
            field=named.name,
        )
    return conjuncts(given)


def _compared_with_name(predicate: Predicate) -> Field | None:
    """Returns the first field with a dictionary as its codec that is compared with a name."""
    match predicate:
        case And(parts) | Or(parts) | Not(parts):
            return next(filter(None, map(_compared_with_name, parts)), None)
        case Comparison(field) if isinstance(field.codec, Dictionary):
            return field
        case In(field, values) if isinstance(field.codec, Dictionary) and any(value is not None for value in values):
            return field
    return None


_EXAMPLE = 'where takes a function from the model to a predicate: where=lambda ticket: ticket.state == "open".'


def where_spec(conditions: Sequence[Predicate]) -> list[JSON]:
    """Returns the form of conditions in the registry. Conditions that are written in the same way have equal forms."""
    return sorted((_jsonable(condition.canonical()) for condition in conditions), key=repr)


def _jsonable(said: Any) -> JSON:
    if isinstance(said, bytes):
        return said.hex()
    return [_jsonable(part) for part in said] if isinstance(said, tuple) else str(said)
