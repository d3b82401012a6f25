"""Reading one wide row backwards: the answer of a forwards read in reverse, without reading the whole row."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import closing
from random import Random
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.encoding.codecs.text import terminated
from hbmodel.encoding.object_keys import ObjectKeyForm
from hbmodel.store import Delete, Family, Put, Row, Scan, Store
from hbmodel.store.embedded import EmbeddedStore
from hbmodel.store.ranges import KeyRange, key_successor
from hbmodel.store.wide.backwards.qualifier_distances import distance, place_before_end
from hbmodel.store.wide.intervals import Interval
from hbmodel.store.wide.page_sizes import PAGE_SIZES, PageSizes
from hbmodel.store.wide.row_size_warnings import RowWidths
from hbmodel.store.wide.slices import SliceReader, SliceScan
from hbmodel.store.wide.wide_rows import WideRows
from hbmodel.store.wrapping import WrappingStore
from tests.support.beds import HBASE, Bed
from tests.support.cut_rows import end_of_text
from tests.support.examples import examples

KIND = b"p"
ROW = KeyRange.exactly(b"r")


def wide(**options: Any) -> WideRows:
    """Objects of a kind, with terminated text as their only column field."""
    return WideRows("t", b"d", ObjectKeyForm(kind=KIND), end_of_text(KIND), [b"d:a", b"d:b"], **options)


def prefix(name: bytes) -> bytes:
    return KIND + terminated(name)


dense = st.builds(
    lambda first, count: [(first + n).to_bytes(4, "big") for n in range(count)],
    st.integers(0, 2**31),
    st.integers(0, 60),
)
gaps = st.builds(
    lambda start, steps: [(start + sum(steps[:n])).to_bytes(8, "big") for n in range(len(steps))],
    st.integers(0, 2**40),
    st.lists(st.sampled_from([1, 2, 1000, 10**6, 10**12]), max_size=40),
)
digits = st.builds(
    lambda lead, first, count: [lead + b"%06d" % (first + n) for n in range(count)],
    st.sampled_from([b"", b"a long prefix that all of them have, "]),
    st.sampled_from([0, 95, 990, 99_950]),
    st.integers(0, 60),
)
anything = st.lists(st.binary(max_size=4), max_size=40)
endings = st.lists(st.integers(0, 20).map(bytes), max_size=12)
clusters = st.lists(st.one_of(dense, gaps, digits, anything, endings), max_size=4).map(
    lambda lists: [name for names in lists for name in names]
)
page_sizes = st.builds(
    PageSizes,
    cells=st.lists(st.integers(1, 9), min_size=1, max_size=3).map(sorted),
    keys=st.lists(st.integers(1, 12), min_size=1, max_size=2).map(sorted),
    bytes=st.sampled_from([1, 40, 4 << 20]),
)


class Drawn:
    """A row with objects of several kinds, and what to read of it."""

    def __init__(self, draw: Any) -> None:
        self.row = b"r"
        self.names = sorted({*draw(clusters)})
        many = (b"a", *(b"m%02d" % n for n in range(30)))
        aliases = st.sampled_from([(b"a",), (b"b",), (b"a", b"b"), many])
        self.objects = {prefix(name): draw(aliases) for name in self.names}
        places = [*self.objects, *map(key_successor, self.objects)]
        bounds = sorted({b"p", b"q", *(draw(st.lists(st.sampled_from(places), max_size=5)) if places else [])})
        bounds = [each for each in bounds if each in (b"p", b"q") or each in self.objects]
        every: list[Interval] = list(zip(bounds, [*bounds[1:-1], draw(st.sampled_from([b"q", None]))], strict=False))
        self.ranges = [each for each in every if draw(st.integers(0, 3))] or every
        self.pages = draw(page_sizes)
        self.limit = draw(st.none() | st.integers(1, 9))
        self.keys_only = draw(st.booleans())
        self.wide = wide(more=draw(st.booleans()))
        self.widths = RowWidths()
        self.spacing = None
        if draw(st.booleans()):  # of another row
            spacing = draw(st.sampled_from([1, 2**40, 2**200, 2**700]))
            self.spacing = self.widths.spacing["t"] = distance([(b"", b"\x01")]) / spacing

    def __repr__(self) -> str:
        return f"Drawn({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"

    def fill(self, store: Store) -> None:
        cells = {
            b"d:" + place + alias: b"v" * (len(place) % 7)
            for place, aliases in self.objects.items()
            for alias in aliases
        }
        others = {b"d:" + kind + b"%03d" % n: b"" for kind in (b"o", b"q") for n in range(5)}
        store.put("t", [Put(self.row, {**cells, **others}, 1)])

    def read(self, store: Store, *, backwards: bool) -> list[tuple[bytes, dict[bytes, bytes]]]:
        """The objects, without values if only keys are wanted, and without columns that need not be read with them."""
        scan = SliceScan(KeyRange.exactly(self.row), self.ranges, backwards, self.keys_only, self.limit)
        with closing(SliceReader(store, self.wide, self.pages, self.widths).read(scan)) as found:
            return [
                (
                    each.row,
                    {
                        column: b"" if self.keys_only else cell.value
                        for column, cell in each.columns.items()
                        if not self.wide.more or column in self.wide.columns
                    },
                )
                for objects in found
                for each in objects
            ]


drawn_rows = st.composite(Drawn)()


@pytest.mark.lengthy
@settings(max_examples=examples(40), deadline=None)
@given(drawn_rows)
def test_backwards_is_forwards_reversed(drawn: Drawn) -> None:
    with EmbeddedStore(None) as store:
        store.create_table("t", [Family(b"d")])
        drawn.fill(store)
        for _ in range(2):  # the second time with what the first one has shown
            assert drawn.read(store, backwards=True) == drawn.read(store, backwards=False)[::-1]


@pytest.mark.hbase
@pytest.mark.parametrize("gateway", ["thrift2_url", "url"])
def test_backwards_is_forwards_reversed_on_hbase(hbmodel_hbase: Any, gateway: str) -> None:
    with hb.connect(f"{getattr(hbmodel_hbase, gateway)}?table_prefix=b{uuid4().hex[:8]}") as store:
        store.create_table("t", [Family(b"d")])
        rows = itertools.count()

        @settings(max_examples=examples(8), deadline=None)
        @given(drawn_rows)
        def check(drawn: Drawn) -> None:
            drawn.row = b"%d" % next(rows)
            drawn.fill(store)
            assert drawn.read(store, backwards=True) == drawn.read(store, backwards=False)[::-1]

        check()
        store.delete_table("t")


class ChangingStore(WrappingStore):
    """Changes the row before each read: objects come and go, always whole."""

    def __init__(self, store: Store, turned: Iterator[bytes], present: set[bytes]) -> None:
        super().__init__(store)
        self._turned, self._present = turned, present
        self.gone: set[bytes] = set()
        self.time = 2

    def scan(self, table: str, scans: Sequence[Scan]) -> Sequence[Iterator[Sequence[Row]]]:
        place = next(self._turned, None)
        if place is not None:
            self.time += 1
            columns = [b"d:" + place + alias for alias in (b"a", b"b")]
            if place in self._present:
                self._store.delete("t", [Delete(b"r", columns=columns, timestamp=self.time)])
                self._present.discard(place)
                self.gone.add(place)
            else:
                self._store.put("t", [Put(b"r", dict.fromkeys(columns, b"%d" % self.time), self.time)])
                self._present.add(place)
        # The pages are read at once: what changes later is not in them.
        return [iter(list(batches)) for batches in self._store.scan(table, scans)]


@pytest.mark.lengthy
@settings(max_examples=examples(60), deadline=None)
@given(drawn_rows, st.lists(st.integers(0, 200), max_size=30))
def test_objects_that_come_and_go_meanwhile(drawn: Drawn, turned: list[int]) -> None:
    with EmbeddedStore(None) as inner:
        inner.create_table("t", [Family(b"d")])
        drawn.objects = dict.fromkeys(drawn.objects, (b"a", b"b"))
        drawn.fill(inner)
        places = sorted(drawn.objects)
        if not places:
            return
        store = ChangingStore(inner, (places[n % len(places)] for n in turned), {*places})
        for _ in range(2):  # the second time with what the first one has shown, which may have changed
            found = drawn.read(store, backwards=True)
            rows = [row for row, _ in found]
            assert rows == sorted({*rows}, reverse=True)
            assert all(
                {*columns} == {b"d:a", b"d:b"} and len({*map(bytes, columns.values())}) == 1 for _, columns in found
            )
            there = {
                b"r\x00\x01" + place[1:] for place in places if place not in store.gone and _in(place, drawn.ranges)
            }
            assert there <= {*rows}


def _in(place: bytes, ranges: Sequence[Interval]) -> bool:
    return any(first <= place and (stop is None or place < stop) for first, stop in ranges)


@given(st.lists(st.binary(max_size=4), min_size=2, unique=True), st.integers(1, 2**40), st.booleans())
def test_a_place_before_the_end_lies_in_the_ranges(bounds: list[bytes], part: int, endless: bool) -> None:
    bounds = sorted(bounds)[: len(bounds) // 2 * 2]
    ranges: list[Interval] = list(zip(bounds[::2], [*bounds[1:-1:2], None if endless else bounds[-1]], strict=True))
    whole = distance(ranges)
    length = whole * part / 2**39 or distance([(b"", b"\x01")])
    place = place_before_end(ranges, length)
    assert _in(place, ranges)
    rest = [(max(first, place), stop) for first, stop in ranges if stop is None or stop > place]
    if length >= whole:
        assert place == ranges[0][0]
    else:
        assert length <= distance(rest) <= length * 257 / 256


# --- what it costs ----------------------------------------------------------------------------------------------------


@hb.model(table="backwards", family="d")
class Event:
    owner: hb.Key[str] = hb.key()
    number: hb.Key[int] = hb.key(hb.UInt32, in_qualifier=True)
    value: hb.Column[int] = hb.column("v", hb.codecs.UInt8)


class Counted(WrappingStore):
    """Counts round trips, scans, and the cells that scans return."""

    trips = scans = cells = 0

    def scan(self, table: str, scans: Sequence[Scan]) -> Sequence[Iterator[Sequence[Row]]]:
        self.trips += 1
        self.scans += len(scans)
        return [self._counted(batches) for batches in self._store.scan(table, scans)]

    def _counted(self, batches: Iterator[Sequence[Row]]) -> Iterator[Sequence[Row]]:
        for batch in batches:
            self.cells += sum(len(row.columns) for row in batch)
            yield batch

    def told(self) -> tuple[int, int]:
        found = self.trips, self.cells
        self.trips = self.scans = self.cells = 0
        return found


WIDTHS = (1_000, 30_000, 300_000)


def fill(store: Store, owner: bytes, numbers: Sequence[int]) -> None:
    for first in range(0, len(numbers), 5_000):
        some = numbers[first : first + 5_000]
        store.put("backwards", [Put(owner, {b"d:" + n.to_bytes(4, "big") + b"v": b"\1" for n in some})])


@pytest.fixture(scope="module")
def counted() -> Iterator[Counted]:
    with hb.connect("memory:") as store:
        hb.create_tables(store, Event)
        for width in WIDTHS:
            fill(store, b"%d" % width, range(width))
        denser = [n * n for n in range(60_000)]  # the last ones are a thousand times farther apart than the first ones
        fill(store, b"sparser", denser)
        fill(store, b"denser", [denser[-1] - n for n in denser][::-1])
        yield Counted(store)


def events(store: Store, owner: str) -> Any:
    return hb.Session(store).query(Event).where(Event.owner == owner)


def walk(store: Counted, owner: str, below: int, pages: int) -> tuple[list[int], list[tuple[int, int]]]:
    """The numbers on some pages of 20 backwards, and what each page cost."""
    session = hb.Session(store)
    query = session.query(Event).where(Event.owner == owner, Event.number < below).reversed()
    found, costs, token = list[int](), list[tuple[int, int]](), None
    store.told()
    for _ in range(pages):
        page = query.page(20, after=token)
        costs.append(store.told())
        found += [each.number for each in page]
        token = page.next_token
    return found, costs


@pytest.mark.lengthy
@pytest.mark.parametrize("width", WIDTHS)
def test_a_page_with_a_known_end_costs_the_same_at_any_width(counted: Counted, width: int) -> None:
    first = width * 9 // 10
    found, costs = walk(counted, str(width), first, 20)
    assert found == list(range(first - 400, first))[::-1]
    assert costs[0] == (2, PAGE_SIZES.cells[0] + 33)  # the first columns show how far apart objects are
    assert set(costs[1:]) == {(1, 33)}


@pytest.mark.lengthy
def test_a_page_before_a_token(counted: Counted) -> None:
    query = events(counted, "30000")
    token = query.page(20, after=query.page(25_000).next_token).previous_token
    counted.told()
    page = events(counted, "30000").page(20, before=token)
    assert [each.number for each in page] == list(range(24_980, 25_000))
    assert counted.told() == (2, PAGE_SIZES.cells[0] + 33)


@pytest.mark.lengthy
@pytest.mark.parametrize("owner", ["sparser", "denser"])
def test_the_last_objects_need_not_be_as_far_apart_as_the_first_ones(counted: Counted, owner: str) -> None:
    every = [each.number for each in events(counted, owner)]
    for part in (5, 9):
        below = every[len(every) * part // 10]
        found, costs = walk(counted, owner, below, 10)
        assert found == every[len(every) * part // 10 - 200 : len(every) * part // 10][::-1]
        assert costs[0][0] <= 4
        assert sum(trips for trips, _ in costs) <= 15
        assert sum(cells for _, cells in costs) <= 1_500


@pytest.mark.lengthy
@pytest.mark.parametrize("width", [*WIDTHS, 1_500, 5_000])
def test_the_end_of_a_row_is_found_in_a_few_round_trips(counted: Counted, width: int) -> None:
    if width not in WIDTHS:
        fill(counted, b"%d" % width, range(width))
    counted.told()
    page = events(counted, str(width)).reversed().page(20)
    assert [each.number for each in page] == list(range(width - 20, width))[::-1]
    scans = counted.scans
    trips, cells = counted.told()
    if width < PAGE_SIZES.passed:  # its keys are read: that is the least
        assert (trips, scans, cells) == (3, 3, PAGE_SIZES.cells[0] + width + 21)
    else:
        assert (trips <= 10, scans <= 60, cells <= PAGE_SIZES.passed + 300) == (True, True, True)


@pytest.mark.lengthy
def test_the_end_of_a_row_is_searched_once_in_a_session(counted: Counted) -> None:
    owner = "grows"
    fill(counted, owner.encode(), range(20_000))
    query = events(counted, owner).reversed()

    def last_page() -> tuple[list[int], int, int]:
        counted.told()
        found = [each.number for each in query.page(20)]
        return found, *counted.told()

    assert last_page()[1] > 5
    for width in (20_000, 20_001, 20_030, 23_000, 80_000):
        fill(counted, owner.encode(), range(20_000, width))
        found, trips, cells = last_page()
        assert found == list(range(width - 20, width))[::-1]
        limit = (1, 100) if width <= 20_030 else (14, 4_000)
        assert (trips <= limit[0], cells <= limit[1]) == (True, True)
    for left in (79_995, 50_000, 10, 0):
        columns = [b"d:" + n.to_bytes(4, "big") + b"v" for n in range(left, 80_000)]
        counted.delete("backwards", [Delete(owner.encode(), columns=columns)])
        assert last_page()[0] == list(range(max(0, left - 20), left))[::-1]


numbers = Random(1)
FAR = {
    "random": sorted(numbers.sample(range(2**32), 30_000)),
    "clusters": sorted({first + n for first in numbers.sample(range(2**31), 20) for n in range(2_000)}),
    "one far away": [*range(30_000), 2**32 - 1],
    "two far apart": [*range(20_000), *range(2**31, 2**31 + 20_000)],
}


@pytest.mark.lengthy
@pytest.mark.parametrize("owner", FAR)
def test_wherever_the_end_is(counted: Counted, owner: str) -> None:
    fill(counted, owner.encode(), FAR[owner])
    counted.told()
    page = events(counted, owner).reversed().page(20)
    assert [each.number for each in page] == FAR[owner][-20:][::-1]
    trips, cells = counted.told()
    assert (trips <= 17, cells <= PAGE_SIZES.passed + 1_000) == (True, True)


@pytest.mark.parametrize("above", [3_000, 2**31])
@pytest.mark.parametrize("width", WIDTHS)
def test_an_upper_bound_may_be_far_from_the_last_object(counted: Counted, width: int, above: int) -> None:
    counted.told()
    page = events(counted, str(width)).where(Event.number < width + above).reversed().page(20)
    assert [each.number for each in page] == list(range(width - 20, width))[::-1]
    trips, cells = counted.told()
    assert (trips <= 15, cells <= 1_000) == (True, True)


@hb.model(table="backwards_of_maps", family="d")
class Pet:
    owner: hb.Key[str] = hb.key()
    name: hb.Key[str] = hb.key(in_qualifier=True)
    kind: hb.Column[str] = hb.column("k")
    notes: hb.Map[int, int] = hb.map_column("n", hb.UInt32, hb.UInt32, factory=dict)


@pytest.mark.lengthy
@pytest.mark.parametrize("of_row", [("tom",), ("ann", "rex", "tom"), ("rex", "tom", "zoe")])
def test_map_entries_are_not_read_with_the_objects_of_a_row(of_row: tuple[str, ...]) -> None:
    """Forwards and backwards, although the maps of two objects have 20,000 entries each."""
    with hb.connect("memory:") as inner:
        hb.create_tables(inner, Pet)
        hb.Session(inner).bulk_add(Pet(owner="eve", name=name, kind="cat") for name in of_row)
        for name in {*of_row} & {"rex", "tom"}:
            qualifiers = [b"d:" + name.encode() + b"\0\1n" + n.to_bytes(4, "big") for n in range(20_000)]
            inner.put("backwards_of_maps", [Put(b"eve", dict.fromkeys(qualifiers, bytes(4)))])
        store = Counted(inner)
        for limit in (None, 1, 2):
            for backwards in (False, True):
                query: Any = hb.Session(store).query(Pet).where(Pet.owner == "eve")
                query = query.reversed() if backwards else query
                found = (query if limit is None else query.limit(limit)).all()
                assert [pet.name for pet in found] == [*of_row][:: -1 if backwards else 1][:limit]
                trips, cells = store.told()
                assert (trips <= 12, cells <= (15_000 if backwards else 500)) == (True, True), (limit, backwards)


@pytest.mark.lengthy
def test_portions_of_large_values_are_bounded() -> None:
    """The numbers are text: as qualifiers, 000299 and 000300 are far apart."""
    with hb.connect("memory:") as inner:
        inner.create_table("t", [Family(b"d")])
        for n in range(400):
            inner.put("t", [Put(b"r", {b"d:" + prefix(b"%06d" % n) + alias: bytes(50_000) for alias in (b"a", b"b")})])
        store, widths = Counted(inner), RowWidths()
        for limit in (None, 10, None):
            scan = SliceScan(ROW, [(b"p", prefix(b"000399"))], reversed=True, limit=limit)
            portions = [list(objects) for objects in SliceReader(store, wide(), widths=widths).read(scan)]
            found = [each.row for objects in portions for each in objects]
            assert found == [terminated(b"r") + terminated(b"%06d" % n) for n in range(399)][::-1]
            assert max(map(len, portions)) * 2 * 50_000 <= PAGE_SIZES.bytes
            trips, cells = store.told()
            assert (trips < 50, cells < 3 * 800) == (True, True)


@pytest.mark.parametrize("bed", HBASE, indirect=True)
def test_pages_backwards_on_hbase(bed: Bed) -> None:
    session = bed.use(Event)
    fill(bed.store, b"ann", range(3_000))
    query: Any = session.query(Event).where(Event.owner == "ann")
    token = query.page(20, after=query.page(2_000).next_token).previous_token
    bed.store.told()
    for stop in range(2_000, 1_900, -20):
        page = query.page(20, before=token)
        assert [each.number for each in page] == list(range(stop - 20, stop))
        token = page.previous_token
    assert len([call for call in bed.store.calls if call.name == "scan"]) <= 7
    assert [each.number for each in query.reversed()] == list(range(3_000))[::-1]
    fill(bed.store, b"bob", range(12_000))
    bed.store.told()
    page = session.query(Event).where(Event.owner == "bob").reversed().page(20)
    assert [each.number for each in page] == list(range(11_980, 12_000))[::-1]
    assert len([call for call in bed.store.calls if call.name == "scan"]) <= 7
