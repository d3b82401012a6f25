"""The frozen description of one index: its table, the layout of its entries, and the entries of a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import attrs
from attrs import frozen

from hbmodel.encoding.key_layout import KeyLayout
from hbmodel.encoding.salts import BoundSalt
from hbmodel.mapping.index_kinds.base import Condition, IndexPart
from hbmodel.mapping.index_kinds.partial import where_spec
from hbmodel.mapping.model_field import Field
from hbmodel.mapping.predicates import Predicate, describe


@frozen
class Index:
    """One index table of a model.

    Row key: `[salt][index fields][rest of the primary key][primary bucket, if random]`. The parts of an index determine
    its kind.

    Attributes:
        name: the name of the index.
        table: the live index table. After a rebuild, the registry may name a different table.
        parts: the declared parts.
        layout: the layout of the whole entry key, without salt.
        salt: the salt of the index table.
        covers: names of the covered columns.
        primary_positions: the position of each primary key field in `layout`, in primary key order.
        operands: the fields that make up `layout`, by their names in `layout`.
        where: the declared predicates that a row must satisfy to have entries; empty if none is declared.
        unique: whether no two rows may have the same values in the fields of the index.
        verified: whether writers verify the entries, so that queries can be answered by entries without a read of their
            rows.
        renamed_from: the former name of the index, or None.
        stored_spec: like `spec`, but each stored field is named by its place in the bytes. If two indexes have equal
            values of this attribute, they have the same entries, even if their names differ.
        maintained_by_all: whether by now every program that writes the table maintains the index.
        schema_complete: whether this model declares every column and every index that is registered for the table.
    """

    name: str
    table: str
    parts: Sequence[IndexPart] = attrs.field(repr=False, eq=False)
    layout: KeyLayout = attrs.field(repr=False)
    salt: BoundSalt = attrs.field(repr=False)
    covers: Sequence[str]
    primary_positions: Sequence[int] = attrs.field(repr=False)
    operands: Mapping[str, Field] = attrs.field(repr=False, eq=False)
    where: Sequence[Predicate] = attrs.field(repr=False, eq=False, default=())
    unique: bool = False
    verified: bool = False
    renamed_from: str | None = attrs.field(repr=False, eq=False, default=None)
    stored_spec: Mapping[str, Any] = attrs.field(repr=False, eq=False, factory=dict)
    maintained_by_all: bool = attrs.field(default=True, repr=False, eq=False)
    schema_complete: bool = attrs.field(default=True, repr=False, eq=False)

    @property
    def fields(self) -> Sequence[str]:
        """Names of the declared parts, as in `layout`."""
        return tuple(part.operand.name for part in self.parts)

    @cached_property
    def conditions(self) -> Sequence[Predicate]:
        """The predicates that a row must satisfy to have entries: the declared predicates, and the predicates of the
        parts.
        """
        return (*self.where, *(condition for part in self.parts for condition in part.required))

    @property
    def kinds(self) -> Sequence[str]:
        """The ways in which the index differs from a plain one, each in a few words."""
        of_parts = tuple(part.description for part in self.parts if part.description is not None)
        return (*of_parts, *(f"where {describe(condition)}" for condition in self.where))

    @cached_property
    def reads(self) -> frozenset[str]:
        """The stored fields, including key fields, that determine the entries of a row."""
        return frozenset[str]().union(
            *(part.reads for part in self.parts), *(condition.reads() for condition in self.conditions)
        )

    @cached_property
    def is_plain(self) -> bool:
        """Whether every row has exactly one entry, and the entry contains values of stored fields only."""
        return not self.conditions and all(part.is_field for part in self.parts)

    @cached_property
    def derived(self) -> frozenset[str]:
        """Names of the parts that contain something other than the value of a stored field."""
        return frozenset(part.operand.name for part in self.parts if not part.is_field)

    @cached_property
    def has_one_entry(self) -> bool:
        """Whether no row has more than one entry."""
        return all(part.has_one_value for part in self.parts)

    def on_entries(self, predicates: Sequence[Predicate]) -> Sequence[Condition] | None:
        """Returns the conditions of a query, each as a condition on entries. Returns None if a row may satisfy the
        conditions without having an entry, because a part of the index has no value for the row.

        Args:
            predicates: the conditions, which must all hold.
        """
        conditions: Sequence[Condition] | None = [Condition(predicate, predicate) for predicate in predicates]
        for part in self.parts:
            conditions = None if conditions is None else part.on_entries(conditions)
        return conditions

    def asked_for(self, asked: Mapping[str, Sequence[Any]]) -> Index:
        """Returns the same index, but with fewer entries for each row: it may leave out entries that a query does not
        ask for.

        Args:
            asked: the values that the query asks for, by the name of the part.
        """
        parts = [
            part.asked_for(asked[name], partial(self.layout.pack_field, at)) if name in asked else part
            for at, (name, part) in enumerate(zip(self.fields, self.parts, strict=True))
        ]
        return attrs.evolve(self, parts=parts)

    @cached_property
    def spec(self) -> Mapping[str, Any]:
        """The canonical description of the index for the registry. Options that are not declared are omitted."""
        derivations = {field.name: field.derivation for condition in self.where for field in condition.fields()}
        kinds = {
            name: dict(spec)
            for name, spec in {**derivations, **{p.operand.name: p.spec for p in self.parts}}.items()
            if spec
        }
        return {
            "fields": [key_field.spec for key_field in self.layout.fields],
            "declared": list(self.fields),
            "tail": self.layout.tail,
            "salt": self.salt.spec,
            "covers": list(self.covers),
            **({"kinds": kinds} if kinds else {}),
            **({"where": where_spec(self.where)} if self.where else {}),
            **({"unique": True} if self.unique else {}),
            **({"verified": True} if self.verified else {}),
        }
