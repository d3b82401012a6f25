"""Types of what declarations, sessions and queries return, for annotations."""

from __future__ import annotations

from hbmodel.mapping.expressions import FieldExpression
from hbmodel.mapping.key_cost import Description
from hbmodel.mapping.map_columns import NotLoaded
from hbmodel.mapping.map_declaration import MapExpression
from hbmodel.mapping.predicates import Ordering, Predicate
from hbmodel.query.explanation import Explanation, Slices
from hbmodel.query.map_slice import MapSlice
from hbmodel.query.query_partition import QueryPartition
from hbmodel.session.cell_versions import CellVersion
from hbmodel.session.options import SessionOptions
from hbmodel.session.row_group import RowGroup

__all__ = [
    "CellVersion",
    "Description",
    "Explanation",
    "FieldExpression",
    "MapExpression",
    "MapSlice",
    "NotLoaded",
    "Ordering",
    "Predicate",
    "QueryPartition",
    "RowGroup",
    "SessionOptions",
    "Slices",
]
