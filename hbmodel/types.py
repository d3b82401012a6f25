"""The types of the values that declarations, sessions and queries return, for annotations."""

from __future__ import annotations

from hbmodel.mapping.declare.map_declaration import MapExpression
from hbmodel.mapping.field_expressions import FieldExpression
from hbmodel.mapping.map_columns import NotLoaded
from hbmodel.mapping.predicates import Ordering, Predicate
from hbmodel.query.ask.explain_text import Explanation, Slices
from hbmodel.query.ask.query_partition import QueryPartition
from hbmodel.query.run.map_entries import MapSlice
from hbmodel.session.calls.row_group import RowGroup
from hbmodel.session.options import SessionOptions
from hbmodel.session.queries.cell_versions import CellVersion
from hbmodel.tables.advice.describe import Description

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
