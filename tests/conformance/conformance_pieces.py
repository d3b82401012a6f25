"""What every store promises about rows that are read in pieces of a number of cells."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from attrs import evolve

from hbmodel.errors import InvalidRequest
from hbmodel.store import Put, Row, Scan
from hbmodel.store.filters import (
    And,
    ColumnPrefix,
    ColumnRange,
    FirstCellOnly,
    KeyOnly,
    Or,
    Pagination,
    RowContains,
    ValueFilter,
)
from hbmodel.store.ranges import KeyRange
from tests.conformance.conformance import Bed, pieces_of

WIDTHS = (1, 9, 10, 11, 20, 25, 2_000, 3)


def cut(rows: list[tuple[bytes, list[bytes]]], cells: int) -> Iterator[tuple[bytes, list[bytes]]]:
    for row, columns in rows:
        for at in range(0, len(columns), cells):
            yield row, columns[at : at + cells]


def shown(pieces: list[Row]) -> list[tuple[bytes, list[bytes]]]:
    return [(piece.row, list(piece.columns)) for piece in pieces]


class PieceConformance:
    @pytest.fixture
    def rows(self, bed: Bed) -> tuple[KeyRange, list[tuple[bytes, list[bytes]]]]:
        """Rows of all kinds of widths, and their columns."""
        key = bed.key()
        rows = [(key(b"%d" % at), [b"d:%05d" % number for number in range(width)]) for at, width in enumerate(WIDTHS)]
        for row, columns in rows:
            bed.put(row, {column: column * 20 for column in columns}, 1)
        return KeyRange.prefix(key(b"")), rows

    @pytest.mark.parametrize("cells", [1, 10, 400, 5_000])
    @pytest.mark.parametrize("batch_size", [1, 3, 100])
    def test_full_pieces_but_for_the_last(
        self, bed: Bed, rows: tuple[KeyRange, list[tuple[bytes, list[bytes]]]], cells: int, batch_size: int
    ) -> None:
        of, all_rows = rows
        if cells == 1 and batch_size == 1:
            of, all_rows = KeyRange.exactly(all_rows[4][0]), [all_rows[4]]
        expected = list(cut(all_rows, cells))
        found = pieces_of(bed, Scan(of, columns=[b"d"], batch_size=batch_size, cells=cells))
        assert shown(found) == expected
        assert all(cell.value == column * 20 for piece in found for column, cell in piece.columns.items())

    @pytest.mark.parametrize("limit", [0, 1, 2, 5, 9])
    def test_a_limit_counts_pieces(
        self, bed: Bed, rows: tuple[KeyRange, list[tuple[bytes, list[bytes]]]], limit: int
    ) -> None:
        of, all_rows = rows
        assert shown(pieces_of(bed, Scan(of, limit=limit, cells=10))) == list(cut(all_rows, 10))[:limit]

    @pytest.mark.parametrize("cells", [1, 9, 10, 1_000, 1_001])
    def test_the_first_piece_of_one_row(
        self, bed: Bed, rows: tuple[KeyRange, list[tuple[bytes, list[bytes]]]], cells: int
    ) -> None:
        some = ColumnRange(b"00003", True, b"00008", False), ColumnRange(b"00015", True, None, False)
        for filter in (None, some[0], Or(some), KeyOnly(), And([some[1], KeyOnly()]), And([Or(some), KeyOnly()])):
            for row, columns in [*rows[1], (rows[1][0][0] + b"/absent", [])]:
                whole = pieces_of(bed, Scan(KeyRange.exactly(row), columns=[b"d"], filter=filter))
                scan = Scan(KeyRange.exactly(row), columns=[b"d"], filter=filter, limit=1, cells=cells)
                found = pieces_of(bed, scan)
                assert shown(found) == list(cut(shown(whole), cells))[:1]
                assert bool(whole) >= (filter is None and bool(columns))
                if "KeyOnly" in repr(filter):
                    assert {cell.value for piece in found for cell in piece.columns.values()} <= {b""}
                assert not pieces_of(bed, evolve(scan, before=1))
                assert shown(pieces_of(bed, evolve(scan, before=2))) == shown(found)

    def test_filters_of_cells(self, bed: Bed, rows: tuple[KeyRange, list[tuple[bytes, list[bytes]]]]) -> None:
        of, _ = rows
        some = [ColumnRange(b"00003", True, b"00008", False), ColumnRange(b"00015", True, b"01000", False)]
        for filter in (some[1], And([some[1], KeyOnly()]), Or(some), And([Or(some), KeyOnly()]), ColumnPrefix(b"0000")):
            whole = [(row.row, list(row.columns)) for row in pieces_of(bed, Scan(of, columns=[b"d"], filter=filter))]
            assert whole
            for cells in (1, 4, 100):
                found = pieces_of(bed, Scan(of, columns=[b"d"], filter=filter, cells=cells))
                assert shown(found) == list(cut(whole, cells))
                if "KeyOnly" in repr(filter):
                    assert {cell.value for piece in found for cell in piece.columns.values()} == {b""}
        for other in (FirstCellOnly(), RowContains("nowhere"), Pagination(7, 2)):
            whole = [(row.row, list(row.columns)) for row in pieces_of(bed, Scan(of, filter=other))]
            assert shown(pieces_of(bed, Scan(of, filter=other, cells=3))) == list(cut(whole, 3))

    def test_pieces_of_several_families(self, bed: Bed) -> None:
        row = bed.key()(b"r")
        columns = [b"d:%d" % number for number in range(5)] + [b"d1:a", b"e:b", b"e:c"]
        bed.put(row, dict.fromkeys(columns, b"v"), 1)
        wanted = [b"e:c", b"d:3", b"d:1"]
        for cells in (1, 2, 5, 6, 8, 9):
            for asked, right in (([], columns), (wanted, sorted(wanted))):
                found = pieces_of(bed, Scan(KeyRange.exactly(row), columns=asked, cells=cells))
                # Which family comes first within a piece is the store's to choose.
                assert [(key, sorted(names)) for key, names in shown(found)] == [
                    (key, sorted(names)) for key, names in cut([(row, right)], cells)
                ]

    def test_columns_of_any_bytes(self, bed: Bed) -> None:
        row = bed.key()(b"r")
        columns = [b"d:" + bytes([number]) for number in range(256)]
        bed.put(row, dict.fromkeys(columns, b"v"), 1)
        assert shown(pieces_of(bed, Scan(KeyRange.exactly(row), cells=100))) == list(cut([(row, columns)], 100))

    def test_pieces_are_one_read_of_the_row(self, bed: Bed) -> None:
        row = bed.key()(b"r")
        columns = [b"d:%03d" % number for number in range(300)]
        bed.store.put(bed.table, [Put(row, dict.fromkeys(columns, b"old"), 1)])
        (batches,) = bed.store.scan(bed.table, [Scan(KeyRange.exactly(row), batch_size=2, cells=10)])
        found = list(next(batches))
        bed.store.put(bed.table, [Put(row, dict.fromkeys(columns, b"new"), 2)])
        for batch in batches:
            for piece in batch:
                found = [*found, piece] if piece.columns else []
        assert [column for piece in found for column in piece.columns] == columns
        assert len({cell.value for piece in found for cell in piece.columns.values()}) == 1

    @pytest.mark.parametrize(
        "scan",
        [
            Scan(cells=0),
            Scan(cells=5, reversed=True),
            Scan(cells=5, filter=ValueFilter(b"d:a", "=", b"")),
            Scan(cells=5, filter=And([KeyOnly(), Or([KeyOnly(), ValueFilter(b"d:a", "=", b"")])])),
        ],
    )
    def test_what_cannot_be_read_in_pieces(self, bed: Bed, scan: Scan) -> None:
        with pytest.raises(InvalidRequest):
            bed.store.scan(bed.table, [scan])
