"""The tables of models in a store: their registry, and the calls that create, compare, alter and drop them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hbmodel._lazy import lazy

if TYPE_CHECKING:
    from hbmodel.tables.adoption.adopt_findings import Finding
    from hbmodel.tables.adoption.infer import InferredField, InferredModel, infer
    from hbmodel.tables.alter import Alteration
    from hbmodel.tables.creation.adopt import Adoption, adopt
    from hbmodel.tables.creation.comparison.differences_as_text import Diff, Difference
    from hbmodel.tables.creation.create import Creation, TableOutcome
    from hbmodel.tables.creation.live_regions import RegionUse, check_regions
    from hbmodel.tables.creation.split_strategies import AtKeys, ByBucket, FromSample, Hexadecimal, Uniform, split_keys
    from hbmodel.tables.forget_table import Forgotten, forget
    from hbmodel.tables.writers import TableWriter, forget_writer, table_writers
else:
    __getattr__, __dir__ = lazy(
        __name__,
        names={
            "tables.adoption.adopt_findings": "Finding",
            "tables.adoption.infer": "InferredField InferredModel infer",
            "tables.alter": "Alteration",
            "tables.creation.adopt": "Adoption adopt",
            "tables.creation.create": "Creation TableOutcome",
            "tables.creation.comparison.differences_as_text": "Diff Difference",
            "tables.creation.live_regions": "RegionUse check_regions",
            "tables.creation.split_strategies": "AtKeys ByBucket FromSample Hexadecimal Uniform split_keys",
            "tables.forget_table": "Forgotten forget",
            "tables.writers": "TableWriter forget_writer table_writers",
        },
    )

__all__ = [
    "Adoption",
    "Alteration",
    "AtKeys",
    "ByBucket",
    "Creation",
    "Diff",
    "Difference",
    "Finding",
    "Forgotten",
    "FromSample",
    "Hexadecimal",
    "InferredField",
    "InferredModel",
    "RegionUse",
    "TableOutcome",
    "TableWriter",
    "Uniform",
    "adopt",
    "check_regions",
    "forget",
    "forget_writer",
    "infer",
    "split_keys",
    "table_writers",
]
