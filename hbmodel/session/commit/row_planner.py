"""Chooses the planner for writes of rows, as the registry's description of their table requires.

The caller chooses the protocol that carries out the plans. Calls that always write versioned rows make their planner
themselves, for example those that move objects to another table.
"""

from __future__ import annotations

from hbmodel.protocol.indexed.indexed_plan import IndexedRowPlanner
from hbmodel.protocol.server_timed.unindexed_plan import UnindexedRowPlanner
from hbmodel.protocol.versioned.versioned_plan import RowVersion, VersionedRowPlanner
from hbmodel.tables.registry.nullable_columns import BindingWithoutNone
from hbmodel.tables.registry.registration import AT_SERVER_TIME, Binding

RowPlanner = UnindexedRowPlanner | IndexedRowPlanner | VersionedRowPlanner
"""A planner of writes at the server's time, of last-write-wins writes, or of writes that check the version of a row.
The class of the third kind is a subclass of the class of the second kind.
"""


def row_planner(
    binding: Binding,
    bound: int,
    *,
    checks: bool = True,
    together: frozenset[bytes] = frozenset(),
    pinned: RowVersion | None = None,
    over_closed: bool = False,
    moving: bool = False,
) -> RowPlanner:
    """Returns the planner for writes with a binding.

    Args:
        bound: the maximum time by which a timestamp may be ahead of the corrected clock, in ms.
        checks: whether the store can change a row on condition that a cell has an expected value.
        together: for a versioned model; see `IndexedRowPlanner`.
        pinned: for a versioned model; see `VersionedRowPlanner`.
        over_closed: for a versioned model; see `VersionedRowPlanner`.
        moving: for a versioned model; see `VersionedRowPlanner`.
    """
    schema = binding.planned if isinstance(binding, BindingWithoutNone) else binding.schema
    adopting = binding.adopting
    if binding.rows in AT_SERVER_TIME:
        return UnindexedRowPlanner.of(schema, binding.rows == "marking")
    if schema.versioned:
        return VersionedRowPlanner(
            schema,
            binding.written,
            bound,
            adopting=adopting,
            together=together,
            pinned=pinned,
            over_closed=over_closed,
            moving=moving,
        )
    mixed = binding.rows == "mixed"
    return IndexedRowPlanner(schema, binding.written, bound, adopting=adopting, mixed=mixed, checks=checks)
