"""HBase as bytes: the `Store` port that every adapter implements, and the values that pass through it.

Only the names listed here are public; the modules of this package are not.
"""

from __future__ import annotations

from hbmodel.store.checks.rows import NO_TABLE, check_cells, check_row
from hbmodel.store.observed import Call
from hbmodel.store.port import (
    BegunPut,
    Capabilities,
    ChangeAndGetStore,
    ConditionalPutsStore,
    PipelinedStore,
    RepeatingStore,
    Store,
    VersionsStore,
    check_store,
)
from hbmodel.store.ranges import KeyRange
from hbmodel.store.values import (
    CELL_OVERHEAD,
    CLOCK_TICK,
    EVERYTHING,
    FOREVER,
    MAX_CELL_SIZE,
    MAX_ROW_LENGTH,
    BegunAgain,
    Cell,
    ConditionalChange,
    ConditionalPut,
    Delete,
    Family,
    Get,
    Put,
    Region,
    Row,
    Scan,
)

__all__ = [
    "CELL_OVERHEAD",
    "CLOCK_TICK",
    "EVERYTHING",
    "FOREVER",
    "MAX_CELL_SIZE",
    "MAX_ROW_LENGTH",
    "NO_TABLE",
    "BegunAgain",
    "BegunPut",
    "Call",
    "Capabilities",
    "Cell",
    "ChangeAndGetStore",
    "ConditionalChange",
    "ConditionalPut",
    "ConditionalPutsStore",
    "Delete",
    "Family",
    "Get",
    "KeyRange",
    "PipelinedStore",
    "Put",
    "Region",
    "RepeatingStore",
    "Row",
    "Scan",
    "Store",
    "VersionsStore",
    "check_cells",
    "check_row",
    "check_store",
]
