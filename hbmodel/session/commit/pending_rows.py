"""The rows of pending calls, which calls that run immediately must not touch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import define, field

from hbmodel.errors import SessionError
from hbmodel.mapping.schema import TableSchema
from hbmodel.protocol.writes import DeleteRow, PutObject, RowWrite, UpdateFields
from hbmodel.session.commit.batches import Pending
from hbmodel.session.commit.unresolved_deletes import UnresolvedDelete
from hbmodel.store.ranges import KeyRange

_NAMES: Mapping[type[RowWrite], str] = {PutObject: "add", UpdateFields: "update", DeleteRow: "delete"}
"""For each kind of pending write, the name of the call that makes it."""


@define(eq=False)
class PendingRows:
    """Refuses calls that run immediately on rows that pending calls write. Such a call would take effect before the
    earlier, pending calls.

    Attributes:
        taken: the number of pending calls that are already recorded.
    """

    taken: int = 0
    _known: dict[Any, dict[bytes, type[RowWrite]]] = field(factory=dict, init=False)
    _unresolved: list[UnresolvedDelete] = field(factory=list, init=False)

    def take(self, calls: Sequence[Pending]) -> None:
        """Records pending calls that were added since the previous call of this method."""
        for call in calls:
            self._record(call)
            if not call.writes and isinstance(call, UnresolvedDelete):
                self._unresolved.append(call)
        self.taken += len(calls)

    def _record(self, call: Pending) -> None:
        known = self._known.setdefault(call.schema.registry_keys, {})
        for write in call.writes:
            if not isinstance(write, UpdateFields) or write.row not in known:  # an update keeps a noted type
                known[write.row] = type(write)

    def _resolve(self) -> None:
        """Records the rows of deletes whose names have ids by now. The call that is checked may have assigned them."""
        if self._unresolved:
            resolved = [call for call in self._unresolved if call.resolve()]
            self._unresolved = [call for call in self._unresolved if not call.writes]
            for call in resolved:
                self._record(call)

    def clear(self) -> None:
        """Forgets all calls."""
        self._known.clear()
        self._unresolved.clear()
        self.taken = 0

    def check_row(self, call: str, schema: TableSchema, row: bytes, *, beside_updates: bool = False) -> None:
        """Raises `SessionError` if a pending call for the same model writes this row. Calls for other models of the
        table are ignored, because they write other cells.

        Args:
            call: the name of the call that runs immediately.
            row: its row key; in a wide row, the object key.
            beside_updates: whether the call is allowed while updates of the row are pending.
        """
        self._resolve()
        pending = self._known.get(schema.registry_keys, {}).get(row)
        if pending is not None and not (beside_updates and pending is UpdateFields):
            raise _refusal(call, schema.table, pending, row)

    def check_ranges(self, call: str, schema: TableSchema, ranges: Sequence[KeyRange]) -> None:
        """Raises `SessionError`, which names the row, if a pending call for the same model puts or deletes an object in
        these ranges.
        """
        self._resolve()
        for row, pending in self._known.get(schema.registry_keys, {}).items():
            if pending is not UpdateFields and any(row in key_range for key_range in ranges):
                raise _refusal(call, schema.table, pending, row)


def _refusal(call: str, table: str, pending: type[RowWrite], row: bytes) -> SessionError:
    return SessionError(
        f"{call}() runs at once, and needs a row that a pending call writes: call commit() first.",
        table=table,
        key=row,
        pending=f"{_NAMES[pending]}()",
    )
