"""The plain kind of index part: the value of a field, including None unless the index excludes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import evolve, frozen
from typing_extensions import override

from hbmodel.encoding.codecs.base import JSON
from hbmodel.errors import DeclarationError
from hbmodel.mapping.index_kinds.base import DeclaredPart, IndexPart
from hbmodel.mapping.model_field import Field, Values
from hbmodel.mapping.predicates import In, Not, Predicate


@frozen
class FieldPart(IndexPart):
    """A part that contains the value of a field.

    Attributes:
        required: in an index that excludes None, the condition that the value is not None.
    """

    operand: Field
    desc: bool
    required: Sequence[Predicate] = ()

    @property
    @override
    def reads(self) -> frozenset[str]:
        return self.operand.reads

    @property
    @override
    def is_field(self) -> bool:
        return self.operand.kind != "computed"

    @override
    def values_of(self, values: Values) -> Sequence[Any]:
        return (self.operand.value_in(values),)

    @override
    def without_none(self) -> IndexPart:
        field = self.operand
        return (
            evolve(self, operand=evolve(field, nullable=False), required=(Not((In(field, (None,)),)),))
            if field.nullable
            else self
        )

    @property
    @override
    def description(self) -> str | None:
        computed = "computed " if self.operand.kind == "computed" else ""
        return (
            f"{computed}{self.operand.name}{' without None' if self.required else ''}"
            if computed or self.required
            else None
        )

    @property
    @override
    def spec(self) -> Mapping[str, JSON]:
        return self.operand.derivation


@frozen
class IndexField(DeclaredPart):
    """A field of an index. If `desc` is None, the index uses the direction with which the field is declared."""

    name: str
    desc: bool | None

    @override
    def resolve(self, fields: Mapping[str, Field]) -> IndexPart:
        field = fields[self.name]
        if field.kind in {"counter", "version"}:
            raise DeclarationError(f"A {field.kind} cannot be indexed: name another field.")
        if not field.codec.key:
            raise DeclarationError(
                "This codec cannot be part of an index key: use a scalar one, without nan=True. The elements of a "
                'collection can be: hb.index(hb.each("tags")).'
            )
        return FieldPart(field, field.desc if self.desc is None else self.desc)
