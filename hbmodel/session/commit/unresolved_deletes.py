"""Deletes of objects whose rows are not known at the call, because a name in the key has no id yet."""

from __future__ import annotations

from typing import Any

from attrs import define, field

from hbmodel.mapping.predicates import Predicate
from hbmodel.mapping.version_cell import UNKNOWN
from hbmodel.protocol.writes import DeleteRow, Outcome
from hbmodel.session.commit.batches import Pending
from hbmodel.session.get_many import known_rows


@define(eq=False)
class UnresolvedDelete(Pending):
    """A pending delete without writes, until every name in its key has an id. Another program may assign the id, and
    write the row, before the commit.

    Attributes:
        key: the values of the key fields, in key order.
        version: see `DeleteRow`.
        condition: see `DeleteRow`.
    """

    key: tuple[Any, ...] = field(kw_only=True)
    version: int = field(kw_only=True, default=UNKNOWN)
    condition: Predicate | None = field(kw_only=True, default=None)

    def resolve(self) -> bool:
        """Looks up the names again. If they all have ids now, makes the writes and returns True."""
        if not self.writes:
            rows = known_rows(self.schema, self.key)
            self.writes = [DeleteRow(self.subject, row, self.version, self.condition) for row in rows]
        return bool(self.writes)

    def settle_absent(self) -> None:
        """Records that there was nothing to delete: no row has a name without an id, and there is no row key."""
        self.outcome = Outcome("absent", b"")
