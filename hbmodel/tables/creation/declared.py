"""Determines the tables that models need, with their names, families and split keys, without calling a store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import evolve, frozen

from hbmodel.errors import DeclarationError, SchemaMismatch
from hbmodel.mapping.schema import Index, TableSchema
from hbmodel.store.values import Family
from hbmodel.tables.creation.index_families import index_families
from hbmodel.tables.creation.split_strategies import Splits, split_keys
from hbmodel.tables.registry.registered_fields import ALL_VERSIONED, TAKEN
from hbmodel.tables.registry.shared_families import FamilyUse

_OPTIONS = ("compression", "bloom_filter", "block_size", "in_memory")
"""The options of a column family that a model may leave to other models, other than its number of versions."""

_OPTIONS_DIFFER = (
    "Models that share a column family must agree on its options: declare it in all of them with the same "
    "hb.family(...)."
)

SplitsOption = Splits | Mapping[Any, Splits] | None
"""One strategy for every primary table, a strategy by model (a class) or table name (text), or none."""


@frozen
class DeclaredTable:
    """A table as models declare it.

    Attributes:
        families: the families of all models that share the table, sorted by name.
        split_keys: the first keys of its regions, except the first region; None if no strategy was given.
        schemas: the models whose objects the table holds; for an index table, the model of the index.
        index: for an index table, the index; otherwise None.
    """

    name: str
    families: Sequence[Family]
    split_keys: Sequence[bytes] | None
    schemas: Sequence[TableSchema]
    index: Index | None = None


def plan_tables(schemas: Sequence[TableSchema], splits: SplitsOption, registry: str) -> list[DeclaredTable]:
    """Returns the tables that models need, index tables first.

    Args:
        splits: one strategy for the primary tables of all models, or a mapping from model or table name to a strategy;
            the table of an index is `<table>.<index>`.

    Raises:
        DeclarationError: a strategy was given for a table that none of the models has, or does not suit its table; or
            there are two different strategies for one table.
        SchemaMismatch: two models of one table share a family or an index name, or give a family that they may share
            different options; or the table of a model is the registry, or another model's index table.
    """
    schemas = list(dict.fromkeys(schemas))
    _check_shared(schemas)
    strategies = _Strategies(schemas, splits)
    planned = [
        DeclaredTable(
            index.table, index_families(schema, index), strategies.of(index.table, [schema], index), [schema], index
        )
        for schema in schemas
        for index in schema.indexes.values()
    ]
    shared: dict[str, list[TableSchema]] = {}
    for schema in schemas:  # models may share a table, if each has separate families
        shared.setdefault(schema.table, []).append(schema)
    for table, those in shared.items():
        families: dict[bytes, Family] = {}
        for family in (family for schema in those for family in schema.families):
            other = families.get(family.name)
            families[family.name] = family if other is None else _shared(table, family, other)
        planned.append(
            DeclaredTable(
                table, [families[name] for name in sorted(families)], strategies.of(table, those, None), those
            )
        )
    check_names(planned, registry)
    return planned


def _shared(table: str, one: Family, other: Family) -> Family:
    """Returns a column family that two models share. It has the options of both, and the larger number of versions.

    Raises:
        SchemaMismatch: the models give an option different values, or only one of them gives the family a TTL.
    """
    options = {name: (getattr(one, name), getattr(other, name)) for name in _OPTIONS}
    options |= {
        name: (one.configuration.get(name), other.configuration.get(name))
        for name in {*one.configuration, *other.configuration}
    }
    for name, values in options.items():
        if None not in values and values[0] != values[1]:
            raise SchemaMismatch(_OPTIONS_DIFFER, table=table, family=one.name.decode(), option=name)
    if one.ttl != other.ttl:
        raise SchemaMismatch(_OPTIONS_DIFFER, table=table, family=one.name.decode(), option="ttl")
    given: dict[str, Any] = {
        name: next((value for value in options[name] if value is not None), None) for name in _OPTIONS
    }
    return evolve(
        one,
        **given,
        max_versions=max((n for n in (one.max_versions, other.max_versions) if n is not None), default=None),
        configuration={**other.configuration, **one.configuration},
    )


def check_names(planned: Sequence[DeclaredTable], registry: str) -> None:
    """Raises `SchemaMismatch` if two of the tables have the same name, or if one has the name of the registry."""
    taken = {registry: "the registry"}
    for table in planned:
        if table.name in taken:
            raise SchemaMismatch(
                "The name of a model's table is already used for something else: give the table another name.",
                table=table.name,
                by=taken[table.name],
            )
        owner = table.schemas[0]
        taken[table.name] = owner.table if table.index is None else f"index {table.index.name} of {owner.table}"


def _check_shared(schemas: Sequence[TableSchema]) -> None:
    """Raises `SchemaMismatch` if two models of one table have an index of the same name, or share a family in which a
    cell could belong to both.

    Two indexes of the same name would share a table. A delete of an index entry removes the whole row of the entry, so
    it could also remove an entry of the other model.
    """
    for at, one in enumerate(schemas):
        for other in schemas[at + 1 :]:
            if one.table != other.table:
                continue
            families = FamilyUse.of(one).conflicts(FamilyUse.of(other))
            if families:
                raise SchemaMismatch(TAKEN, table=one.table, family=families[0].decode())
            if set(one.family_names) & set(other.family_names) and one.versioned != other.versioned:
                raise SchemaMismatch(ALL_VERSIONED, table=one.table, family=one.family.decode())
            for index in sorted(set(one.indexes) & set(other.indexes)):
                raise SchemaMismatch(
                    "Another model of the table has an index of this name: choose another name.",
                    table=one.table,
                    index=index,
                )


class _Strategies:
    """The split strategy of each table."""

    def __init__(self, schemas: Sequence[TableSchema], splits: SplitsOption) -> None:
        if splits is not None and not isinstance(splits, Splits | Mapping):
            raise DeclarationError(
                "splits must be a split strategy, such as hb.ByBucket(), or a mapping to strategies.",
                found=repr(splits),
            )
        known = [
            name for schema in schemas for name in (schema.table, *(index.table for index in schema.indexes.values()))
        ]
        self._by_model: dict[type[Any], Splits] = {}
        self._by_table: dict[str, Splits] = {}
        if not isinstance(splits, Mapping):
            self._by_model = {} if splits is None else {schema.model: splits for schema in schemas}
            return
        for target, strategy in splits.items():
            if not isinstance(strategy, Splits):
                raise DeclarationError(
                    "This is not a split strategy: give one, such as hb.ByBucket().", found=repr(strategy)
                )
            if isinstance(target, str) and target in known:
                self._by_table[target] = strategy
            elif isinstance(target, type) and any(schema.model is target for schema in schemas):
                self._by_model[target] = strategy
            else:
                name = target if isinstance(target, str) else getattr(target, "__name__", repr(target))
                raise DeclarationError(
                    "A split strategy is given for a table that none of these models has: give its model too, or "
                    "leave out the strategy.",
                    found=name,
                    known=sorted(set(known)),
                )

    def of(self, table: str, schemas: Sequence[TableSchema], index: Index | None) -> Sequence[bytes] | None:
        named = None if index is None else index.name
        strategies = {
            tuple(split_keys(schema.model, strategy, index=named))
            for schema in schemas
            for strategy in (self._by_table.get(table), self._by_model.get(schema.model) if index is None else None)
            if strategy is not None
        }
        if len(strategies) > 1:
            raise DeclarationError(
                "Two strategies give the same table different split keys: give only one of them.", table=table
            )
        return next(iter(strategies), None)
