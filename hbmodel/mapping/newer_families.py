"""A schema that also has the column families of newer programs, so that deletes and moves of rows include these
families.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from functools import cached_property

import attrs
from attrs import frozen

from hbmodel.mapping.schema import TableSchema


@frozen(eq=False)
class WiderSchema(TableSchema):
    """The schema of a model that lacks columns of newer programs in other families.

    A delete also removes the cells of the object's row in these families, and a move also moves them. If these cells
    remained, the value of a deleted object would appear again in the next object with the same key.

    Attributes:
        every_family: the families of the model and of the newer programs, sorted.
    """

    every_family: tuple[bytes, ...] = ()

    @cached_property
    def family_names(self) -> Sequence[bytes]:
        """The families of the model and of the newer programs, sorted."""
        return self.every_family


def with_families(schema: TableSchema, families: Set[bytes]) -> TableSchema:
    """Returns a schema that also has these families, or the schema itself if it already has them. The result is cached,
    so its code is generated only once.
    """
    every_family = tuple(sorted({*schema.family_names, *families}))
    if every_family == schema.family_names:
        return schema
    known: WiderSchema | None = schema.compiled.get(every_family)
    if known is not None:
        return known
    declared = {each.name: getattr(schema, each.name) for each in attrs.fields(TableSchema) if each.init}
    return schema.keep(every_family, WiderSchema(**declared, every_family=every_family))
