"""Decides which column families two models of one table may share, so that each cell belongs to only one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from hbmodel.mapping.schema import EXPIRY_QUALIFIER, STAMP_QUALIFIER, TableSchema


@frozen
class FamilyUse:
    """How a model uses the column families of its table.

    Attributes:
        families: the families.
        columns: `family:qualifier` of each column and flag. In the table of a wide model, these qualifiers follow a
            prefix.
        kind: the prefix of all qualifiers of a wide model, or nothing.
        wide: whether objects share rows.
        external: whether the model deletes only the cells of its columns and objects, because other programs
            write the table.
    """

    families: frozenset[bytes]
    columns: frozenset[bytes]
    kind: bytes
    wide: bool
    external: bool

    @classmethod
    def of(cls, schema: TableSchema) -> FamilyUse:
        """Returns how a model uses its families, according to its declaration."""
        flag = [] if schema.exists_column is None else [schema.exists_column]
        columns = frozenset([*(field.column for field in schema.columns), *flag])
        return cls(frozenset(schema.family_names), columns, schema.kind, schema.wide is not None, schema.external)

    @classmethod
    def registered(cls, family: bytes, kind: bytes, layout: Mapping[str, Any], *, external: bool) -> FamilyUse:
        """Returns how a model uses its families, according to its entry in the registry.

        Args:
            family: the model's default family.
        """
        flag = layout.get("exists")
        columns = [column.encode("latin-1") for column in layout["columns"]]
        columns += [] if flag is None else [family + b":" + flag.encode("latin-1")]
        wide = bool(kind) or "row" in layout or any("part" in part or "split" in part for part in layout["key"])
        return cls(
            frozenset([family, *(column.partition(b":")[0] for column in columns)]),
            frozenset(columns),
            kind,
            wide,
            external,
        )

    def owns(self, column: bytes) -> bool:
        """Returns whether a column belongs to the model: it is a column or the flag of the model. In a wide model, its
        qualifier begins with the model's kind.
        """
        if not self.wide:
            return column in self.columns
        return any(column.startswith(family + b":" + self.kind) for family in self.families)

    def conflicts(self, other: FamilyUse) -> Sequence[bytes]:
        """Returns the families in which a cell could belong to both models.

        A delete of an object removes all cells of its row in its model's families, except in external models. A wide
        model reads all qualifiers that begin with its kind. So each cell belongs to only one model if both models have
        kinds, and neither kind begins with the other. Each cell also belongs to only one model if both models are
        external, one of them has a kind, and no column of the other model begins with this kind. hbmodel also puts
        system cells into rows of the other model: stamps, for a while, and the time at which a row with a TTL expires.
        The qualifiers of these cells must not begin with the kind either.
        """
        common = sorted(self.families & other.families)
        if self.kind and other.kind:
            return common if self.kind.startswith(other.kind) or other.kind.startswith(self.kind) else []
        wide, tall = (self, other) if self.kind else (other, self)
        if not wide.kind or tall.wide or not (self.external and other.external):
            return common
        if EXPIRY_QUALIFIER.startswith(wide.kind) or wide.kind[: len(STAMP_QUALIFIER)] == STAMP_QUALIFIER:
            return common
        return [
            family for family in common if any(column.startswith(family + b":" + wide.kind) for column in tall.columns)
        ]
