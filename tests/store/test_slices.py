"""Pages of wide rows: how many calls and cells they take, and that no object is ever put together from two of them."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator, Sequence

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from hbmodel.encoding.codecs.text import terminated
from hbmodel.encoding.object_keys import ObjectKeyForm
from hbmodel.errors import InvalidRequest
from hbmodel.store import Delete, Family, Put, Row, Scan
from hbmodel.store.embedded import EmbeddedStore
from hbmodel.store.filters import And, ColumnRange, Filter, FirstCellOnly, KeyOnly, Or, Pagination, ValueFilter
from hbmodel.store.ranges import KeyRange
from hbmodel.store.wide.folded import FoldedStore
from hbmodel.store.wide.page_sizes import PAGE_SIZES
from hbmodel.store.wide.row_size_warnings import RowWidths
from hbmodel.store.wide.slices import ROWS, SliceScan
from hbmodel.store.wide.wide_rows import WideRows
from hbmodel.store.wrapping import WrappingStore
from tests.support.cut_rows import end_of_text, wide_rows
from tests.support.faulty import RecordingStore
from tests.support.sizes import SMALL_PAGES, pages_of

PAGES = PAGE_SIZES.cells
WIDTH = 30_000


def place(row: bytes, name: bytes) -> bytes:
    return terminated(row) + terminated(name)


def scans_of(store: RecordingStore) -> list[Scan]:
    found = [scan for call in store.calls if call.name == "scan" for scan in call.items]
    store.calls.clear()
    return found


def size_of(scan: Scan) -> int:
    if scan.cells is not None:
        return scan.cells
    parts = scan.filter.filters if isinstance(scan.filter, And) else [scan.filter]
    (page,) = [part for part in parts if isinstance(part, Pagination)]
    return page.limit


@pytest.fixture(scope="module")
def recorded() -> Iterator[RecordingStore]:
    """A store with one row of 10,000 objects of three cells, and small ones beside it."""
    with RecordingStore(EmbeddedStore(None)) as store:
        store.create_table("t", [Family(b"d")])
        cells = {
            b"d:p" + terminated(b"%06d" % number) + name: b"v" * 20
            for number in range(WIDTH // 3)
            for name in (b"a", b"b", b"c")
        }
        store.put(
            "t", [Put(b"m", cells, 1), *(Put(row, {b"d:p" + terminated(b"x") + b"a": b"1"}, 1) for row in (b"l", b"n"))]
        )
        yield store


@pytest.fixture
def store(recorded: RecordingStore) -> RecordingStore:
    recorded.calls.clear()
    return recorded


class CountingStore(WrappingStore):
    """Counts the cells that scans return."""

    cells = 0

    def scan(self, table: str, scans: Sequence[Scan]) -> Sequence[Iterator[Sequence[Row]]]:
        return [self.counted(batches) for batches in self._store.scan(table, scans)]

    def counted(self, batches: Iterator[Sequence[Row]]) -> Iterator[Sequence[Row]]:
        for batch in batches:
            self.cells += sum(len(row.columns) for row in batch)
            yield batch


def read(store: FoldedStore, of: KeyRange, **options: object) -> Sequence[Row]:
    (batches,) = store.scan("t", [Scan(of, **options)])  # type: ignore[arg-type]
    return [row for batch in batches for row in batch]


WIDE = wide_rows("t", b"d", [b"d:a", b"d:b", b"d:c"])
ROW = KeyRange.prefix(terminated(b"m"))


@pytest.mark.lengthy
def test_pages_grow_and_hold_whole_objects(store: RecordingStore) -> None:
    rows = read(FoldedStore(store, [WIDE]), ROW)
    assert [row.row for row in rows] == [place(b"m", b"%06d" % number) for number in range(WIDTH // 3)]
    assert all(len(row.columns) == 3 for row in rows)
    sizes = [size_of(scan) for scan in scans_of(store)]
    assert sizes[:3] == list(PAGES)
    assert set(sizes[3:]) == {PAGES[-1]}
    assert sum(sizes) < WIDTH + PAGES[-1]


@pytest.mark.lengthy
def test_a_few_objects_take_one_small_page(store: RecordingStore) -> None:
    folded = FoldedStore(store, [WIDE])
    assert len(read(folded, KeyRange(place(b"m", b"005000"), ROW.stop), limit=20)) == 20
    assert [size_of(scan) for scan in scans_of(store)] == [PAGES[0]]


@pytest.mark.parametrize("strict", [False, True])
def test_a_row_is_read_without_a_filter_if_all_its_cells_are_wanted(strict: bool) -> None:
    wide = evolve(wide_rows("t", b"d", WIDE.columns, kind=b""), strict=strict)
    objects = {b"d:" + terminated(name) + alias: b"1" for name in (b"x", b"y") for alias in (b"a", b"b", b"c")}
    with RecordingStore(EmbeddedStore(None)) as store:
        store.create_table("t", [Family(b"d")])
        store.put("t", [Put(b"m", {b"d:": b"of no object", **objects}, 1)])
        folded = FoldedStore(store, [wide], pages_of(4))
        (batches,) = folded.scan("t", [Scan(ROW)])
        assert [row.row for batch in batches for row in batch] == [place(b"m", b"x"), place(b"m", b"y")]
        first, *rest = [scan for call in store.calls if call.name == "scan" for scan in call.items]
        assert (first.filter is None, first.cells, first.limit) == (not strict, 4, 1)
        assert all(isinstance(scan.filter, ColumnRange) for scan in rest)
        assert rest


@pytest.mark.lengthy
def test_a_row_that_overflows_is_continued_before_the_next_one(store: RecordingStore) -> None:
    rows = read(FoldedStore(store, [WIDE]), KeyRange())
    assert [row.row for row in rows] == [
        place(b"l", b"x"),
        *(place(b"m", b"%06d" % number) for number in range(WIDTH // 3)),
        place(b"n", b"x"),
    ]


@pytest.mark.lengthy
@pytest.mark.parametrize("of", [ROW, KeyRange()])
def test_memory_is_bounded(store: RecordingStore, of: KeyRange) -> None:
    folded = FoldedStore(store.inner, [WIDE])

    def run() -> int:
        (batches,) = folded.scan("t", [Scan(of)])
        return sum(len(batch) for batch in batches)

    run()
    tracemalloc.start()
    found = run()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found >= WIDTH // 3
    assert peak < 10_000_000  # of a row that has more than twice as much


def test_an_object_larger_than_a_page_is_read_whole() -> None:
    with RecordingStore(EmbeddedStore(None)) as store:
        store.create_table("t", [Family(b"d")])
        large = {b"d:p" + terminated(b"l") + b"%04d" % number: b"1" for number in range(1000)}
        cells = {b"d:p" + terminated(name) + b"a": b"1" for name in (b"a", b"z", b"zz")}
        store.put("t", [Put(b"m", {**cells, **large}, 1)])
        rows = read(FoldedStore(store, [WIDE], pages=SMALL_PAGES), ROW)
        assert [(row.row, len(row.columns)) for row in rows] == [
            (place(b"m", b"a"), 1),
            (place(b"m", b"l"), 1000),
            (place(b"m", b"z"), 1),
            (place(b"m", b"zz"), 1),
        ]
        (found,) = FoldedStore(store, [WIDE], pages=SMALL_PAGES).get("t", [place(b"m", b"l")])
        assert found is not None
        assert len(found.columns) == 1000


@pytest.mark.lengthy
def test_values_that_are_large_make_pages_of_few_cells() -> None:
    with RecordingStore(EmbeddedStore(None)) as store:
        store.create_table("t", [Family(b"d")])
        for number in range(200):
            store.put("t", [Put(b"m", {b"d:p" + terminated(b"%03d" % number) + b"a": bytes(200_000)}, 1)])
        store.calls.clear()
        assert len(read(FoldedStore(store, [WIDE]), ROW)) == 200
        assert [size_of(scan) for scan in scans_of(store)][:2] == [PAGES[0], 20]


def test_later_slices_begin_with_pages_that_suit_their_cells(store: RecordingStore) -> None:
    folded = FoldedStore(store, [WIDE])
    read(folded, ROW)
    store.calls.clear()
    assert len(read(folded, KeyRange(place(b"m", b"005000"), place(b"m", b"005100")))) == 100
    assert [size_of(scan) for scan in scans_of(store)] == [PAGES[1]]
    store.calls.clear()
    assert len(read(folded, KeyRange(place(b"m", b"005000"), ROW.stop), limit=20)) == 20
    assert [size_of(scan) for scan in scans_of(store)] == [PAGES[0]]


@pytest.mark.lengthy
def test_rows_that_overflow_backwards_one_after_the_other_are_read_by_larger_pages() -> None:
    with RecordingStore(EmbeddedStore(None)) as store:
        rows = {b"%03d" % row: 150 for row in range(400)}
        wide_and_small(store, rows)
        store.calls.clear()
        found = read(FoldedStore(store, [WIDE]), KeyRange(), reversed=True)
        assert [each.row for each in found] == [place(row, b"%05d" % n) for row in rows for n in range(150)][::-1]
        sizes = [size_of(scan) for scan in scans_of(store)]
        assert sizes.count(PAGES[1]) >= 1
        assert len(sizes) < 320


@pytest.mark.lengthy
def test_rows_of_all_widths_are_one_scan_in_pieces(store: RecordingStore) -> None:
    for filter in (None, And([FirstCellOnly(), KeyOnly()])):
        assert len(read(FoldedStore(store, [WIDE]), KeyRange(), filter=filter)) == WIDTH // 3 + 2
        batches = sum(call.name == "batch" for call in store.calls)
        (scan,) = scans_of(store)
        assert (scan.cells, scan.limit, scan.batch_size) == (PAGES[0], None, ROWS)
        assert batches == WIDTH // (PAGES[0] * ROWS)


@pytest.mark.lengthy
@pytest.mark.parametrize("options", [{}, {"limit": 20}])
def test_columns_without_number_are_not_read_with_their_objects(options: dict[str, object]) -> None:
    """However many rows are read, and however many of them have an object with more columns than a page."""
    rows, entries = [b"%02d" % number for number in range(12)], 6_000
    with RecordingStore(EmbeddedStore(None)) as inner:
        inner.create_table("t", [Family(b"d")])
        for row in rows:
            large = {b"d:p" + terminated(b"l") + b"m%05d" % number: b"1" for number in range(entries)}
            small = {b"d:p" + terminated(name) + b"a": b"1" for name in (b"a", b"l", b"z")}
            inner.put("t", [Put(row, {**small, **large}, 1)])
        store = CountingStore(inner)
        found = read(FoldedStore(store, [evolve(WIDE, more=True)]), KeyRange(), **options)
        every = [place(row, name) for row in rows for name in (b"a", b"l", b"z")]
        assert [row.row for row in found] == every[: int(str(options.get("limit", len(every))))]
        assert store.cells <= len(rows) * 2 * (PAGES[0] + PAGES[1])


def test_large_values_make_smaller_batches_once_they_are_known() -> None:
    with RecordingStore(EmbeddedStore(None)) as store:
        wide_and_small(store, {b"a": 250}, b"v" * 2_000)
        folded = FoldedStore(store, [WIDE])
        found = []
        for _ in range(2):
            assert len(read(folded, KeyRange())) == 250
            (scan,) = [scan for call in store.calls if call.name == "scan" for scan in call.items]
            store.calls.clear()
            found.append(scan.batch_size)
        assert found[0] == ROWS
        assert 30 < found[1] < 45


def test_counting_reads_keys_in_large_pages(store: RecordingStore) -> None:
    rows = read(FoldedStore(store, [WIDE]), ROW, filter=And([FirstCellOnly(), KeyOnly()]))
    assert len(rows) == WIDTH // 3
    assert {(len(row.columns), cell.value) for row in rows for cell in row.columns.values()} == {(1, b"")}
    scans = scans_of(store)
    assert [size_of(scan) for scan in scans] == [10_000] * 4
    assert all(isinstance(scan.filter, And) and KeyOnly() in scan.filter.filters for scan in scans)


def test_the_last_object_takes_few_small_calls(store: RecordingStore) -> None:
    folded = FoldedStore(store, [WIDE])
    (last,) = read(folded, ROW, reversed=True, limit=1)
    assert (last.row, len(last.columns)) == (place(b"m", b"%06d" % (WIDTH // 3 - 1)), 3)
    trips = sum(call.name == "scan" for call in store.calls)
    calls = scans_of(store)
    assert (trips < 16, len(calls) < 120) == (True, True)
    assert sorted(map(size_of, calls))[-2:] == [PAGE_SIZES.cells[0], PAGE_SIZES.passed]
    (last,) = read(folded, KeyRange(ROW.start, place(b"m", b"004321")), reversed=True, limit=1)
    assert last.row == place(b"m", b"004320")


@pytest.mark.lengthy
def test_backwards_in_bounded_pages(store: RecordingStore) -> None:
    rows = read(FoldedStore(store, [WIDE]), KeyRange(), reversed=True)
    assert [row.row for row in rows] == [
        place(b"n", b"x"),
        *(place(b"m", b"%06d" % number) for number in reversed(range(WIDTH // 3))),
        place(b"l", b"x"),
    ]


def test_filters_and_columns_are_of_the_object(store: RecordingStore) -> None:
    folded = FoldedStore(store, [WIDE])
    some = KeyRange(place(b"m", b"000100"), place(b"m", b"000110"))
    filters: list[tuple[Filter, int]] = [
        (ValueFilter(b"d:b", "=", b"v" * 20), 10),
        (ValueFilter(b"d:b", "=", b"w"), 0),
        (Or([ValueFilter(b"d:b", "=", b"w"), ValueFilter(b"d:none", "=", b"w", if_missing=True)]), 10),
        (And([ColumnRange(b"b", True, None, False), ValueFilter(b"d:c", ">", b"")]), 10),
    ]
    for filter, found in filters:
        assert len(read(folded, some, filter=filter)) == found
    assert [list(row.columns) for row in read(folded, some, filter=filters[-1][0], limit=1)] == [[b"d:b", b"d:c"]]
    assert [list(row.columns) for row in read(folded, some, columns=[b"d:b"], limit=2)] == [[b"d:b"]] * 2
    assert read(folded, some, columns=[b"d:none"]) == []


@pytest.mark.lengthy
@pytest.mark.parametrize("reversed", [False, True])
def test_several_ranges_of_columns_in_one_row_and_in_all(store: RecordingStore, reversed: bool) -> None:
    folded = FoldedStore(store, [WIDE], pages=SMALL_PAGES)

    def prefix(name: bytes) -> bytes:
        return b"p" + terminated(name)

    ranges = [(prefix(b"000100"), prefix(b"000103")), (prefix(b"009000"), prefix(b"009002")), (prefix(b"x"), None)]
    names = [b"000100", b"000101", b"000102", b"009000", b"009001"]
    for rows, expected in (
        (KeyRange.exactly(b"m"), [place(b"m", name) for name in names]),
        (KeyRange(), [place(b"l", b"x"), *(place(b"m", name) for name in names), place(b"n", b"x")]),
    ):
        batches = folded.slices("t", SliceScan(rows, ranges, reversed=reversed))
        assert [row.row for batch in batches for row in batch] == (expected[::-1] if reversed else expected)
    with pytest.raises(InvalidRequest):
        folded.slices("tall", SliceScan(KeyRange(), ranges))


@pytest.mark.parametrize("reversed", [False, True])
def test_as_many_rows_are_read_as_objects_are_wanted(reversed: bool) -> None:
    with RecordingStore(EmbeddedStore(None)) as store:
        store.create_table("t", [Family(b"d")])
        store.put("t", [Put(b"%02d" % n, {b"d:p" + terminated(b"x") + b"a": b"%d" % (n == 17)}, 1) for n in range(20)])
        store.calls.clear()
        folded = FoldedStore(store, [WIDE])
        assert len(read(folded, KeyRange(), limit=3, reversed=reversed)) == 3
        assert [scan.limit for scan in scans_of(store)] == [3]
        (found,) = read(folded, KeyRange(), limit=1, reversed=reversed, filter=ValueFilter(b"d:a", "=", b"1"))
        assert found.row == place(b"17", b"x")
        assert [scan.limit for scan in scans_of(store)] == ([1, 4] if reversed else [1, 4, 16])


@pytest.mark.lengthy
def test_a_very_wide_row_is_warned_of_once(store: RecordingStore, caplog: pytest.LogCaptureFixture) -> None:
    read(FoldedStore(store, [WIDE]), ROW)
    assert not caplog.records
    folded = FoldedStore(store, [WIDE], widths=RowWidths(many_cells=WIDTH // 2))
    read(folded, KeyRange(), limit=20)
    assert not caplog.records
    for reversed in (False, False, True):
        read(folded, KeyRange(), reversed=reversed)
    (record,) = caplog.records
    assert "of one row of table t" in record.getMessage()
    assert "m" not in record.args  # type: ignore[operator]
    read(FoldedStore(store, [WIDE], widths=RowWidths(many_bytes=WIDTH)), ROW)
    assert len(caplog.records) == 2


def test_a_scan_can_be_closed_early(store: RecordingStore) -> None:
    (batches,) = FoldedStore(store, [WIDE]).scan("t", [Scan(ROW, batch_size=5)])
    assert len(next(batches)) == 5
    batches.close()  # type: ignore[attr-defined]
    assert list(batches) == []


@pytest.mark.lengthy
@given(st.lists(st.tuples(st.binary(max_size=2), st.binary(max_size=3)), max_size=30), st.integers(1, 4))
def test_objects_of_one_cell_whose_alias_is_empty(names: list[tuple[bytes, bytes]], page: int) -> None:
    """The last column field is then raw, so one prefix may be a prefix of another."""
    form = ObjectKeyForm(kind=b"p")
    wide = WideRows("t", b"d", form, lambda qualifier: len(qualifier) if qualifier[:1] == b"p" else None, [b"d:"])
    with EmbeddedStore(None) as store:
        store.create_table("t", [Family(b"d")])
        folded = FoldedStore(store, [wide], pages=pages_of(page))
        places = sorted({form.join(b"r" + row, b"p" + name) for row, name in names})
        folded.put("t", [Put(each, {b"d:": each}, 1) for each in places])
        assert [row.row for row in read(folded, KeyRange())] == places
        assert [row.row for row in read(folded, KeyRange(), reversed=True)] == places[::-1]
        assert [row.columns[b"d:"].value for row in folded.get("t", places) if row is not None] == places
        for each in places[:3]:
            folded.delete("t", [Delete(each, timestamp=1)])
        assert [row.row for row in read(folded, KeyRange())] == places[3:]


@pytest.mark.lengthy
@given(st.lists(st.binary(max_size=3), min_size=1, max_size=40, unique=True), st.integers(1, 5))
def test_the_last_object_whatever_the_qualifiers(names: list[bytes], page: int) -> None:
    with EmbeddedStore(None) as store:
        store.create_table("t", [Family(b"d")])
        store.put("t", [Put(b"m", {b"d:p" + terminated(name) + b"a": b"1" for name in names}, 1)])
        folded = FoldedStore(
            store, [WideRows("t", b"d", ObjectKeyForm(kind=b"p"), end_of_text(b"p"))], pages=pages_of(page)
        )
        (last,) = read(folded, ROW, reversed=True, limit=1)
        assert last.row == place(b"m", max(names))


def wide_and_small(store: EmbeddedStore | RecordingStore, counts: dict[bytes, int], value: bytes = b"v") -> None:
    store.create_table("t", [Family(b"d")])
    store.put(
        "t",
        [
            Put(row, {b"d:p" + terminated(b"%05d" % n) + b"a": value for n in range(count)}, 1)
            for row, count in counts.items()
        ],
    )
    if isinstance(store, RecordingStore):
        store.calls.clear()


@pytest.mark.parametrize("reversed", [False, True])
def test_what_one_scan_shows_of_rows_changes_no_scan_that_is_under_way(reversed: bool) -> None:
    counts = {b"a": 3_000, b"b": 150, b"c": 150}
    ranges = [KeyRange.prefix(terminated(b"a")), KeyRange.prefix(terminated(b"b")), KeyRange(terminated(b"b"), None)]
    with EmbeddedStore(None) as store:
        wide_and_small(store, counts)
        folded = FoldedStore(store, [wide_rows("t", b"d", [b"d:a"])])
        scans = folded.scan("t", [Scan(of, reversed=reversed) for of in [*ranges, KeyRange()]])
        assert [sum(map(len, batches)) for batches in scans] == [3_000, 150, 300, 3_300]
