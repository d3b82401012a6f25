"""Names stored fields by their places in the bytes, so that indexes can be compared even if their fields have different
names.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, TypeVar

import attrs

from hbmodel.encoding.key_layout import KeyLayout
from hbmodel.errors import DeclarationError
from hbmodel.mapping.declare.computed import ComputedField
from hbmodel.mapping.model_field import Field

Spec = TypeVar("Spec")


@attrs.frozen
class StoredNames:
    """The fields of a model, each named by its place: `key 0` in the row key, or its column. A computed field keeps its
    name.

    Attributes:
        names: the places, by the names in the model.
        fields: the fields, by place.
    """

    names: Mapping[str, str]
    fields: Mapping[str, Field]
    layout: KeyLayout

    @classmethod
    def of(cls, fields: Mapping[str, Field], layout: KeyLayout) -> StoredNames:
        """Returns the fields of a model, including computed ones. The name of each is replaced by the place where it is
        stored.
        """
        keys = [f.name for f in layout.fields]
        names = {f.name: _place(f, keys) for f in fields.values()}
        placed = {names[f.name]: _called(f, names) for f in fields.values()}
        return cls(names, placed, KeyLayout(tuple(attrs.evolve(f, name=names[f.name]) for f in layout.fields)))

    def spec(self, spec: Spec) -> Spec:
        """Returns the declaration of an index, with the name of each field replaced by the field's place."""
        declared: Any = spec
        names, where, salt = self.names, declared.where, declared.salt
        elements = {f"{name}[]": f"{place}[]" for name, place in names.items()}
        if salt is not None and salt.by:
            salt = attrs.evolve(salt, by=tuple({**elements, **names}[name] for name in salt.by))

        def placed_where(model: SimpleNamespace) -> Any:
            return where(SimpleNamespace(**{name: vars(model)[place] for name, place in names.items()}))

        model_spec: Spec = attrs.evolve(
            declared,
            parts=tuple(attrs.evolve(part, name=names[part.name]) for part in declared.parts),
            covers=tuple(names[name] for name in declared.covers),
            salt=salt,
            where=None if where is None else placed_where,
        )
        return model_spec


def _place(field: Field, keys: list[str]) -> str:
    if isinstance(field, ComputedField):
        return field.name
    return f"key {keys.index(field.name)}" if field.is_key else field.column.decode("latin-1")


def _called(field: Field, names: Mapping[str, str]) -> Field:
    if isinstance(field, ComputedField):
        return attrs.evolve(field, of=tuple(names[name] for name in field.of))
    return attrs.evolve(field, name=names[field.name])


def check_former(model: str, former: Mapping[str, str | None], kind: str) -> None:
    """Raises `DeclarationError` for invalid former names of fields or indexes.

    Args:
        former: the value of `renamed_from`, or None, by the present name of the field or index.
        kind: `field` or `index`.
    """
    given = [was for was in former.values() if was is not None]
    for name, was in former.items():
        if was is not None and (not isinstance(was, str) or not was or was == name or given.count(was) > 1):
            raise DeclarationError(
                "renamed_from takes the former name of the field or index, each name only once: "
                'renamed_from="old_name".',
                **{"model": model, kind: name, "found": repr(was)},
            )
