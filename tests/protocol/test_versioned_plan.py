"""The nonces that a version cell keeps, and the outcome of a refused change that they show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.errors import DecodingError
from hbmodel.mapping.version_cell import HIGHEST, LAST_WRITE_WINS, VersionCell, VersionCodec
from hbmodel.protocol.indexed.indexed_plan import UNREAD, OldRow, RowPlan
from hbmodel.protocol.versioned.versioned_plan import BUSY, KEPT, KEPT_WHEN_BUSY, Sent, VersionedRowPlanner
from hbmodel.protocol.writes import Outcome

NONCES = st.binary(min_size=8, max_size=8)
CELLS = st.builds(
    VersionCell, st.integers(1, HIGHEST), st.lists(NONCES, min_size=1, max_size=40).map(tuple), st.booleans()
)


@hb.model(table="planned_versions", family="d")
class Thing:
    name: hb.Key[str] = hb.key()
    version: hb.Column[int] = hb.version()


THING = hb.schema.schema_of(Thing)
PLANNER = VersionedRowPlanner(THING, (), 1000)


@frozen
class Cell:
    value: bytes
    timestamp: int


@frozen
class StoredRow:
    row: bytes
    columns: dict[bytes, Any]


def old(cell: bytes, timestamp: int) -> OldRow:
    return OldRow(True, timestamp, StoredRow(b"k", {b"d:_v": Cell(cell, timestamp), b"d:_l": Cell(b"\x01", timestamp)}))


@given(CELLS)
def test_a_cell_is_read_as_it_was_written(cell: VersionCell) -> None:
    assert VersionCell.of(cell.data) == cell
    assert VersionCodec().decode(cell.data) == cell.version
    assert VersionCodec().decode(VersionCodec().encode(cell.version)) == cell.version
    assert len(cell.data) == 9 + 8 * len(cell.nonces)


def test_what_is_no_versions_cell() -> None:
    assert VersionCell.of(b"") == VersionCell.of(LAST_WRITE_WINS + bytes(8)) == VersionCell()
    for data in (b"\x02", b"\x02" + bytes(8), b"\x03" + bytes(17), b"\x04" + bytes(16), b"\x00"):
        with pytest.raises(DecodingError, match="The version cell was not written by a versioned model"):
            VersionCell.of(data)
    for value in (-1, HIGHEST + 1):
        with pytest.raises(hb.EncodingError, match="A version must be a number of at most 63 bits"):
            VersionCodec().encode(value)
    for value in ("1", True):
        with pytest.raises(hb.EncodingError):
            VersionCodec().encode(value)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def written(gaps: Sequence[int]) -> list[tuple[bytes, int]]:
    """The cells of writes with a number of ms between them, each with its time."""
    cells: list[tuple[bytes, int]] = []
    now = 1_000_000
    for number, gap in enumerate(gaps):
        now += gap
        before = old(*cells[-1]) if cells else UNREAD
        cells.append((PLANNER.version(number.to_bytes(8), before, now), now))
    return cells


def test_nonces_are_kept_of_the_last_writes_and_of_more_in_a_busy_row() -> None:
    cells = [VersionCell.of(cell) for cell, _ in written([BUSY] * 40)]
    assert [len(cell.nonces) for cell in cells] == [min(n + 1, KEPT_WHEN_BUSY + 1) for n in range(40)]
    assert [cell.complete for cell in cells] == [n <= KEPT_WHEN_BUSY for n in range(40)]
    assert [cell.version for cell in cells] == list(range(1_001_000, 1_001_040))
    cells = [VersionCell.of(cell) for cell, _ in written([BUSY + 1] * 9)]
    assert [len(cell.nonces) for cell in cells] == [min(n + 1, KEPT + 1) for n in range(9)]
    assert [cell.complete for cell in cells] == [n <= KEPT for n in range(9)]


@pytest.mark.parametrize(("pause", "lost"), [(BUSY, 0), (BUSY + 1, 1), (5 * BUSY, 4), (60 * BUSY, KEPT_WHEN_BUSY)])
def test_a_pause_in_a_busy_row_drops_few_nonces(pause: int, lost: int) -> None:
    *_, (before, _), (after, _) = written([1] * 40 + [pause])
    assert len(VersionCell.of(before).nonces) == KEPT_WHEN_BUSY + 1
    kept = max(KEPT, min(KEPT_WHEN_BUSY, KEPT_WHEN_BUSY + 1 - lost))
    assert VersionCell.of(after).nonces[1:] == VersionCell.of(before).nonces[:kept]


@given(st.lists(st.sampled_from([1, BUSY, BUSY + 1, 3 * BUSY, 10 * BUSY]), min_size=2, max_size=60), st.data())
def test_a_verdict_is_right_or_unknown(gaps: Sequence[int], data: st.DataObject) -> None:
    cells = written(gaps)
    base = data.draw(st.integers(-1, len(cells) - 2))  # the write after which one more was planned, or none
    found = VersionCell.of(data.draw(st.sampled_from(cells[base + 1 :]))[0])
    before, now = (old(*cells[base]), cells[base][1]) if base >= 0 else (UNREAD, 1_000_000)
    for nonce, truth in ((b"loser!!!", "lost"), ((base + 1).to_bytes(8), "applied")):
        cell = VersionCell.of(PLANNER.version(nonce, before, now + data.draw(st.integers(1, 5))))
        sent = Sent(PLANNER, RowPlan(Outcome("put", b"k")), cell, base < 0, 0)
        verdict = sent.verdict(found)
        assert verdict in {truth, "unknown"}
        if found.complete or len(found.nonces) > KEPT_WHEN_BUSY:
            near = found.complete or found.version - cell.version <= KEPT_WHEN_BUSY
            assert verdict == truth or not near or (base < 0 and not found.complete)
    gone = Sent(PLANNER, RowPlan(Outcome("put", b"k")), VersionCell(5, (bytes(8),)), False, 0).verdict(VersionCell())
    assert gone == "unknown"
