"""A store that sends a read directly after a conditional change, and records both as one call."""

from __future__ import annotations

from collections.abc import Sequence

from hbmodel.store import ConditionalChange, ConditionalPut, Row
from hbmodel.store.port import change_and_get
from tests.support.faulty import Call, RecordingStore


class Following(RecordingStore):
    """Records `change_and_get`. If `lost` is set, the answers to the reads are lost."""

    lost = False

    def change_and_get(
        self, table: str, change: ConditionalChange | ConditionalPut, columns: Sequence[bytes]
    ) -> tuple[bool, Sequence[Row | None] | None]:
        applied, _ = change_and_get(self.inner, table, change, columns)
        self.calls.append(Call("change_and_get", table))
        row = change.put.row if isinstance(change, ConditionalPut) else change.row
        return applied, None if self.lost else self.inner.get(table, [row], columns)
