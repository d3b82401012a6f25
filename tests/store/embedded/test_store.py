"""Features of only the embedded store: a file, its processes and threads, a clock that can be set, and compactions on
demand.
"""

from __future__ import annotations

import ctypes
import gc
import multiprocessing
import os
import signal
import sqlite3
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from attrs import evolve

from hbmodel.errors import InvalidRequest, StoreClosed, StoreError, StoreUnavailable, StoreURLError, TableNotFound
from hbmodel.store import Delete, Family, Put, Scan
from hbmodel.store.embedded import EmbeddedStore, cells, read, sqlite_file
from hbmodel.store.filters import And, ColumnPrefix, ColumnRange, Filter, Pagination
from hbmodel.store.ranges import KeyRange

T = "t"

# Forking with threads about is what some of these tests are about.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self, now: int = 1_000_000) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "store.db")


@pytest.fixture(params=["memory", "file"])
def store(request: pytest.FixtureRequest, path: str, clock: Clock) -> Iterator[EmbeddedStore]:
    with EmbeddedStore(None if request.param == "memory" else path, clock) as store:
        families = [
            Family(b"d"),
            Family(b"e", max_versions=2),
            Family(b"s", ttl=10),
            Family(b"k", configuration={"hbase.hstore.time.to.purge.deletes": "5000"}),
        ]
        store.create_table(T, families)
        yield store


def values(store: EmbeddedStore, row: bytes = b"r") -> dict[bytes, bytes]:
    (found,) = store.get(T, [row])
    return {} if found is None else {column: cell.value for column, cell in found.columns.items()}


def rows(store: EmbeddedStore, scan: Scan | None = None) -> list[bytes]:
    (batches,) = store.scan(T, [scan or Scan()])
    return [row.row for batch in batches for row in batch]


def put(
    store: EmbeddedStore,
    column: bytes,
    value: bytes,
    timestamp: int | None = None,
    ttl: int | None = None,
    row: bytes = b"r",
) -> None:
    store.put(T, [Put(row, {column: value}, timestamp, ttl)])


class TestClock:
    def test_it_stamps(self, store: EmbeddedStore, clock: Clock) -> None:
        put(store, b"d:a", b"1")
        (row,) = store.get(T, [b"r"])
        assert row is not None
        assert row.columns[b"d:a"].timestamp == clock.now

    def test_a_delete_hides_the_puts_of_its_millisecond(self, store: EmbeddedStore, clock: Clock) -> None:
        store.delete(T, [Delete(b"r")])
        put(store, b"d:a", b"hidden")
        assert values(store) == {}
        clock.now += 1
        put(store, b"d:a", b"seen")
        assert values(store) == {b"d:a": b"seen"}

    def test_a_clock_that_goes_back_does_not_undo(self, store: EmbeddedStore, clock: Clock) -> None:
        put(store, b"d:a", b"new")
        clock.now -= 1000
        put(store, b"d:a", b"older")
        assert values(store) == {b"d:a": b"new"}
        assert store.check_and_put(T, b"r", b"d:a", b"new", Put(b"r", {b"d:a": b"newest"}))
        assert values(store) == {b"d:a": b"newest"}


class TestLives:
    def test_a_family_lives_for_exactly_its_ttl(self, store: EmbeddedStore, clock: Clock) -> None:
        put(store, b"s:a", b"1")
        clock.now += 10_000
        assert values(store) == {b"s:a": b"1"}
        assert rows(store) == [b"r"]
        clock.now += 1
        assert values(store) == {}
        assert rows(store) == rows(store, Scan(reversed=True)) == []

    def test_a_put_lives_for_exactly_its_ttl(self, store: EmbeddedStore, clock: Clock) -> None:
        put(store, b"d:a", b"below", timestamp=5)
        put(store, b"d:a", b"1", ttl=100)
        put(store, b"s:a", b"family first", ttl=10_001)
        clock.now += 100
        assert values(store)[b"d:a"] == b"1"
        clock.now += 1
        assert values(store)[b"d:a"] == b"below"
        clock.now += 9_900
        assert set(values(store)) == {b"d:a"}

    def test_a_put_lives_for_exactly_its_ttl_where_no_family_has_one(self, store: EmbeddedStore, clock: Clock) -> None:
        store.create_table("plain", [Family(b"d")])
        store.put("plain", [Put(b"r", {b"d:a": b"1"}, ttl=100)])
        clock.now += 100
        assert store.get("plain", [b"r"]) != [None]
        clock.now += 1
        assert store.get("plain", [b"r"]) == [None]

    def test_layers_of_lives(self, store: EmbeddedStore, clock: Clock) -> None:
        start = clock.now
        for timestamp, ttl in ((start, None), (start + 1, 400), (start + 2, 200), (start + 3, 300), (start + 4, 100)):
            put(store, b"e:a", b"%s" % (b"ever" if ttl is None else b"%d" % ttl), timestamp, ttl)
        seen = []
        for _ in range(6):
            seen.append(values(store)[b"e:a"])
            clock.now += 100
        assert seen == [b"100", b"100", b"300", b"300", b"400", b"ever"]

    def test_dead_cells_are_absent_to_conditions_and_counters(self, store: EmbeddedStore, clock: Clock) -> None:
        put(store, b"s:a", (5).to_bytes(8, "big"))
        assert store.increment(T, b"r", b"s:a", 1) == 6
        clock.now += 10_002
        assert store.check_and_put(T, b"r", b"s:a", None, Put(b"r", {b"d:a": b"absent"}))
        assert store.increment(T, b"r", b"s:a", 1) == 1


class TestCompaction:
    def test_it_ends_the_work_of_tombstones(self, store: EmbeddedStore) -> None:
        put(store, b"d:a", b"old", timestamp=5)
        store.delete(T, [Delete(b"r", timestamp=10)])
        put(store, b"d:b", b"late", timestamp=7)
        assert values(store) == {}
        store.compact()
        assert values(store) == {}, "nothing that was hidden comes back"
        put(store, b"d:c", b"later", timestamp=7)
        assert values(store) == {b"d:c": b"later"}

    def test_young_tombstones_stay_where_the_family_says_so(self, store: EmbeddedStore, clock: Clock) -> None:
        store.delete(T, [Delete(b"r", families=[b"d", b"k"]), Delete(b"q", columns=[b"k:a"])])
        clock.now += 5000
        store.compact(T)
        for row in (b"r", b"q"):
            store.put(T, [Put(row, {b"d:a": b"1", b"k:a": b"1", b"k:b": b"1"}, clock.now - 5000)])
        assert values(store, b"r") == {b"d:a": b"1"}
        assert values(store, b"q") == {b"d:a": b"1", b"k:b": b"1"}
        clock.now += 1
        store.compact(T)
        store.put(T, [Put(row, {b"k:a": b"2"}, clock.now - 5001) for row in (b"r", b"q")])
        assert values(store, b"r")[b"k:a"] == values(store, b"q")[b"k:a"] == b"2"

    def test_it_keeps_the_newest_versions_only(self, store: EmbeddedStore, clock: Clock) -> None:
        for family in (b"d", b"e"):
            put(store, family + b":a", b"ever", timestamp=clock.now - 2)
            put(store, family + b":a", b"long", timestamp=clock.now - 1, ttl=1000)
        put(store, b"d:b", b"ever", timestamp=clock.now - 1)
        put(store, b"d:b", b"short", ttl=100)
        store.compact()
        assert values(store) == {b"d:a": b"long", b"e:a": b"long", b"d:b": b"short"}
        clock.now += 2000
        assert values(store) == {b"e:a": b"ever"}, "d keeps one version: what lay below is gone"

    @pytest.mark.lengthy
    def test_dead_rows_leave_nothing(self, store: EmbeddedStore, clock: Clock) -> None:
        for number in range(1000):
            store.put(
                T, [Put(b"%d" % number, {b"s:a": bytes(100)}), Put(b"p%d" % number, {b"d:a": bytes(100)}, ttl=50)]
            )
        store.put(T, [Put(b"x", {b"d:a": b"1"})])
        clock.now += 10_001
        store.compact()
        with store._database.read() as connection:
            assert connection.execute("SELECT row FROM segments").fetchall() == [(b"x",)]
        assert rows(store) == [b"x"]

    def test_an_unknown_table(self, store: EmbeddedStore) -> None:
        with pytest.raises(TableNotFound):
            store.compact("none")


class TestStorage:
    def test_what_can_never_be_seen_again_is_not_kept(self, store: EmbeddedStore) -> None:
        for number in range(50):
            put(store, b"d:a", b"%d" % number, timestamp=100 + number)
            put(store, b"e:a", b"%d" % number, timestamp=100 - number)
            put(store, b"d:b", b"%d" % number, ttl=1000 + number)
        store.delete(T, [Delete(b"gone", timestamp=10)])
        put(store, b"d:a", b"hidden", timestamp=10, row=b"gone")
        put(store, b"d:a", b"deleted", timestamp=11, row=b"gone")
        store.delete(T, [Delete(b"gone", columns=[b"d:a"], timestamp=11)])
        with store._database.read() as connection:
            ((row, data),) = connection.execute("SELECT row, cells FROM segments").fetchall()
        assert row == b"r"
        kept = cells.decode_cells(data)
        assert kept[b"d:a"].older is kept[b"d:b"].older is None
        # A family that keeps two versions has two.
        assert kept[b"e:a"].older is not None
        assert kept[b"e:a"].older.older is None

    @pytest.mark.lengthy
    def test_a_wide_row_is_kept_in_segments_and_read_in_pages(
        self, store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store.create_table("wide", [Family(b"d")])
        columns = [b"d:%05d" % (number * 7919 % 20_000) for number in range(20_000)]
        for start in range(0, 20_000, 1000):
            store.put("wide", [Put(b"r", {column: b"v" + column}, 1) for column in columns[start : start + 1000]])
        with store._database.read() as connection:
            sizes = [
                size for (size,) in connection.execute("SELECT length(cells) FROM segments WHERE row = ?", (b"r",))
            ]
        assert len(sizes) > 20
        assert max(sizes) <= cells.SEGMENT_SIZE
        decoded: list[int] = []  # by thread: those of other tests' sessions may read their registries meanwhile
        monkeypatch.setattr(
            read, "decode_cells", lambda data: decoded.append(threading.get_ident()) or cells.decode_cells(data)
        )
        for first in (b"00000", b"12345", b"19995"):
            page = And([ColumnRange(first, True, None, False), Pagination(10, 0)])
            ((row,),) = next(iter(store.scan("wide", [Scan(filter=page)])))
            assert list(row.columns) == sorted(columns)[int(first) : int(first) + 10]
        assert decoded.count(threading.get_ident()) <= 6
        with store._database.read() as connection:
            firsts = [
                first
                for (first,) in connection.execute("SELECT first FROM segments WHERE row = ? AND first > x''", (b"r",))
            ]
        for first in firsts:
            ((row,),) = next(iter(store.scan("wide", [Scan(filter=ColumnRange(first[2:], True, first[2:], True))])))
            assert list(row.columns) == [first]
        decoded.clear()
        (row_found,) = store.get("wide", [b"r"], [b"d:00017", b"d:00019"])
        assert row_found is not None
        assert list(row_found.columns) == [b"d:00017", b"d:00019"]
        assert len(decoded) <= 2
        store.delete("wide", [Delete(b"r", columns=columns[:100], timestamp=1)])
        (row_found,) = store.get("wide", [b"r"])
        assert row_found is not None
        assert list(row_found.columns) == sorted(columns[100:])
        store.delete("wide", [Delete(b"r", timestamp=1)])
        assert store.get("wide", [b"r"]) == [None]

    def test_a_row_with_many_tombstones(self, store: EmbeddedStore) -> None:
        store.delete(T, [Delete(b"r", columns=[b"d:%03d" % number for number in range(200)], timestamp=10)])
        store.put(T, [Put(b"r", {b"d:%03d" % number: b"1" for number in range(0, 400, 5)}, 10)])
        assert set(values(store)) == {b"d:%03d" % number for number in range(200, 400, 5)}

    @pytest.mark.lengthy
    def test_a_scan_holds_a_batch_in_memory_and_no_lock(self, store: EmbeddedStore) -> None:
        for start in range(0, 4_000, 1000):
            store.put(T, [Put(b"%05d" % number, {b"d:a": bytes(5000)}, 1) for number in range(start, start + 1000)])
        tracemalloc.start()
        try:
            (batches,) = store.scan(T, [Scan(batch_size=100)])
            found = 0
            for batch in batches:
                found += len(batch)
                if found == 100:
                    put(store, b"d:a", b"1", row=b"00020x")  # behind the scan
                    put(store, b"d:a", b"1", row=b"03800x")  # before it
                    store.delete(T, [Delete(b"03000", timestamp=1)])
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert found == 4_000
        assert peak < 8 * 1024 * 1024, "20 MB were read"

    @pytest.mark.lengthy
    @pytest.mark.parametrize("filter", [None, ColumnPrefix(b"0")], ids=["all cells", "a prefix"])
    def test_the_first_piece_of_a_long_row_reads_no_more(self, store: EmbeddedStore, filter: Filter | None) -> None:
        for start in range(0, 40_000, 10_000):
            cells = {b"d:%06d" % number: bytes(50) for number in range(start, start + 10_000)}
            store.put(T, [Put(b"r", cells, 1)])
        tracemalloc.start()
        try:
            scan = Scan(KeyRange(b"r", b"r\x00"), columns=[b"d"], filter=filter, limit=1, cells=5)
            (batches,) = store.scan(T, [scan])
            (row,) = next(batches)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert sorted(row.columns) == [b"d:%06d" % number for number in range(5)]
        assert peak < 300 * 1024, "the row has more than 2 MB"

    @pytest.mark.lengthy
    def test_wide_rows_bound_a_batch_by_bytes(self, store: EmbeddedStore) -> None:
        for number in range(6):
            store.put(T, [Put(b"%d" % number, {b"d:a": bytes(3 * 1024 * 1024)}, 1)])
        (batches,) = store.scan(T, [Scan()])
        sizes = [len(batch) for batch in batches]
        assert sum(sizes) == 6
        assert max(sizes) <= 2

    def test_memory_is_private(self, store: EmbeddedStore) -> None:
        with EmbeddedStore(None) as other:
            assert other.tables() == []

    def test_regions_are_named_apart(self, store: EmbeddedStore) -> None:
        store.create_table("split", [Family(b"d")], [b"m", b"f"])
        regions = store.regions("split")
        assert [region.range for region in regions] == [KeyRange(b"", b"f"), KeyRange(b"f", b"m"), KeyRange(b"m", None)]
        assert all(region.name.startswith(b"split,") for region in regions)

    def test_tables_that_cannot_be(self, store: EmbeddedStore) -> None:
        for families, split_keys in (
            ([Family(b"d", max_versions=0)], []),
            ([Family(b"d", ttl=0)], []),
            ([Family(b"d"), Family(b"d")], []),
            ([Family(b"d" * 128)], []),
            ([Family(b"d")], [b""]),
            ([Family(b"d")], [b"a", b"a"]),
        ):
            with pytest.raises(InvalidRequest):
                store.create_table("bad", families, split_keys)
        assert "bad" not in store.tables()


DEFAULTS = Family(b"e", 1, None, "NONE", "ROW", 65_536, False)


class TestFile:
    def test_everything_is_there_after_a_restart(self, path: str) -> None:
        families = [
            Family(b"d", max_versions=3, ttl=1000, compression="SNAPPY", configuration={"a": "b"}),
            Family(b"e"),
        ]
        with EmbeddedStore(path) as store:
            store.create_table(T, families, [b"m"])
            store.put(T, [Put(b"r", {b"e:a": b"1", b"e:b": b"2"}, 5)])
            store.delete(T, [Delete(b"r", columns=[b"e:b"], timestamp=7)])
        assert os.listdir(os.path.dirname(path)) == ["store.db"]
        with EmbeddedStore(path) as store:
            assert store.families(T) == [
                evolve(families[0], bloom_filter="ROW", block_size=65_536, in_memory=False),
                DEFAULTS,
            ]
            assert len(store.regions(T)) == 2
            put(store, b"e:b", b"late", timestamp=6)
            assert values(store) == {b"e:a": b"1"}

    def test_a_relative_path_stays_where_it_was(self, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(os.path.dirname(path))
        with EmbeddedStore("store.db") as store:
            store.create_table(T, [Family(b"d")])
            monkeypatch.chdir("/")
            with ThreadPoolExecutor(1) as thread:  # which opens a connection of its own
                assert thread.submit(store.tables).result() == [T]

    @pytest.mark.lengthy
    @pytest.mark.parametrize("in_file", [True, False])
    def test_what_is_dropped_without_being_closed(
        self, path: str, in_file: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        unraisable: list[sys.UnraisableHookArgs] = []
        monkeypatch.setattr(sys, "unraisablehook", unraisable.append)
        opened = 0

        def counted(target: str) -> sqlite3.Connection:
            nonlocal opened
            opened += 1
            return sqlite_file.open_connection(target)

        def use() -> None:
            cycle: list[object] = [made := sqlite_file.Database(path if in_file else None, counted)]
            cycle.append(cycle)
            with made.write() as connection:
                gc.collect()  # puts the connection, which a frame holds, ahead of what else goes with the cycle
                connection.execute("DELETE FROM tombstones")

        use()
        gc.collect()
        assert (opened, unraisable) == (1, [])

    def test_files_that_are_not_ours(self, tmp_path: Path) -> None:
        garbage = tmp_path / "garbage"
        garbage.write_bytes(b"no database at all, but long enough to have a header " * 100)
        foreign = tmp_path / "foreign"
        with closing(sqlite3.connect(foreign)) as connection, connection:
            connection.execute("CREATE TABLE x (y)")
        newer = tmp_path / "newer"
        EmbeddedStore(str(newer)).close()
        with closing(sqlite3.connect(newer)) as connection, connection:
            connection.execute(f"PRAGMA user_version = {sqlite_file.FORMAT_VERSION + 1}")
        opened: list[sqlite3.Connection] = []

        def noted(target: str) -> sqlite3.Connection:
            opened.append(sqlite_file.open_connection(target))
            return opened[-1]

        for bad, message in (
            (garbage, "The file is not an embedded store: name another path"),
            (foreign, "The file is a SQLite database of another program"),
            (newer, "has a format that this version of hbmodel does not read: use the version that wrote it"),
            (tmp_path, "its directory must exist"),
            (tmp_path / "none" / "store.db", "its directory must exist"),
        ):
            with pytest.raises(StoreError, match=message) as caught:
                EmbeddedStore(str(bad), connect=noted)
            assert caught.value.path == str(bad)
        assert len(opened) == 3
        for connection in opened:
            with pytest.raises(sqlite3.ProgrammingError, match="closed"):
                connection.execute("SELECT 1")
        assert foreign.exists()
        for bad_path in ("", ":memory:"):
            with pytest.raises(StoreURLError, match="An embedded store needs the path of a file"):
                EmbeddedStore(bad_path)
        with pytest.raises(StoreURLError, match="must not contain a 00 character"):
            EmbeddedStore(str(tmp_path / "a\0b"))

    @pytest.mark.parametrize("replaced", [False, True])
    def test_nothing_is_written_into_a_file_that_was_removed(self, path: str, tmp_path: Path, replaced: bool) -> None:
        other = tmp_path / "other.db"
        EmbeddedStore(str(other)).close()
        with EmbeddedStore(path) as store:
            store.create_table(T, [Family(b"d")])
            store.put(T, [Put(b"r", {b"d:a": b"1"}, 1)])
            for end in ("", "-wal", "-shm"):
                Path(path + end).unlink(missing_ok=True)
            if replaced:
                other.rename(path)
            for _ in range(2):
                with pytest.raises(StoreError, match="was removed or replaced while the store was open") as caught:
                    store.put(T, [Put(b"r", {b"d:a": b"2"}, 2)])
                assert caught.value.path == path
            with ThreadPoolExecutor(1) as threads:  # a new connection does not open another file
                assert isinstance(threads.submit(store.tables).exception(), StoreError)
            assert Path(path).exists() == replaced
        with EmbeddedStore(path) as store:
            assert store.tables() == []

    def test_an_empty_file_is_a_new_store(self, path: str) -> None:
        Path(path).touch()
        with EmbeddedStore(path) as store:
            assert store.tables() == []

    def test_a_damaged_file(self, path: str) -> None:
        with EmbeddedStore(path) as store:
            store.create_table(T, [Family(b"d")])
            store.put(T, [Put(b"%d" % number, {b"d:a": bytes(500)}, 1) for number in range(500)])
        with open(path, "r+b") as file:
            file.seek(3 * 4096)
            file.write(b"\xa5" * (os.path.getsize(path) - 4 * 4096))
        with EmbeddedStore(path) as store, pytest.raises(StoreError, match="damaged"):
            rows(store)

    @pytest.mark.parametrize(
        ("statement", "message"),
        [
            ("UPDATE segments SET cells = x'c1'", "is damaged: the cells of a row cannot be read"),
            ("UPDATE tables SET layout = x'01'", "is damaged: the layout of a table cannot be read"),
        ],
    )
    def test_bytes_that_are_no_cells_or_layout(self, path: str, statement: str, message: str) -> None:
        with EmbeddedStore(path) as store:
            store.create_table(T, [Family(b"d")])
            put(store, b"d:a", b"1")
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(statement)
        with EmbeddedStore(path) as store:
            for call in (lambda: values(store), lambda: rows(store), lambda: put(store, b"d:a", b"2")):
                with pytest.raises(StoreError, match=message):
                    call()

    def test_a_full_disk_loses_nothing(self, path: str) -> None:
        def small(target: str) -> sqlite3.Connection:
            connection = sqlite_file.open_connection(target)
            connection.execute("PRAGMA max_page_count = 40")
            return connection

        with EmbeddedStore(path, connect=small) as store:
            store.create_table(T, [Family(b"d")])
            put(store, b"d:a", b"before")
            with pytest.raises(StoreError, match="full"):
                store.put(T, [Put(b"%d" % number, {b"d:a": bytes(1000)}, 1) for number in range(1000)])
            put(store, b"d:b", b"after")
            assert values(store) == {b"d:a": b"before", b"d:b": b"after"}
            assert rows(store) == [b"r"]

    def test_a_lock_of_another_process(self, path: str) -> None:
        with EmbeddedStore(path, connect=partial(sqlite_file.open_connection, busy_timeout=0.1)) as store:
            store.create_table(T, [Family(b"d")])
            with closing(sqlite3.connect(path, isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                with pytest.raises(StoreUnavailable):
                    put(store, b"d:a", b"1")
                assert values(store) == {}, "readers do not wait for writers"
                other.execute("ROLLBACK")
            put(store, b"d:a", b"1")
            assert values(store) == {b"d:a": b"1"}

    def test_a_call_that_fails_changes_nothing(self, path: str) -> None:
        with EmbeddedStore(path) as store:
            store.create_table(T, [Family(b"d")])
            with pytest.raises(InvalidRequest):
                store.put(T, [Put(b"a", {b"d:a": b"1"}), Put(b"", {b"d:a": b"1"})])
            assert rows(store) == []


def hammer(path: str, name: int, count: int) -> None:
    """The work of each process: its own rows, and a counter that all share."""
    with EmbeddedStore(path) as store:
        for number in range(count):
            store.increment(T, b"counter", b"d:c", 1)
            put(store, b"d:%d" % name, b"%d" % number, row=b"row %d" % number)
            assert store.check_and_put(
                T,
                b"own %d" % name,
                b"d:a",
                b"%d" % number if number else None,
                Put(b"own %d" % name, {b"d:a": b"%d" % (number + 1)}),
            )
            values(store, b"row %d" % number)


def create(path: str, start: str, name: int) -> None:
    """Opens the file at the same moment as the others."""
    while not os.path.exists(start):
        pass
    with EmbeddedStore(path) as store:
        store.create_table(f"t{name}", [Family(b"d")])


def run_processes(
    targets: list[tuple[Callable[..., None], tuple[object, ...]]], begin: Callable[[], None] = lambda: None
) -> None:
    spawn = multiprocessing.get_context("spawn")
    processes = [spawn.Process(target=target, args=arguments) for target, arguments in targets]
    for process in processes:
        process.start()
    begin()
    for process in processes:
        process.join()
        assert process.exitcode == 0
        process.close()


class TestProcesses:
    @pytest.mark.lengthy
    def test_several_write_at_once(self, path: str) -> None:
        with EmbeddedStore(path) as store:
            store.create_table(T, [Family(b"d")])
            run_processes([(hammer, (path, name, 60)) for name in range(3)])
            assert values(store, b"counter") == {b"d:c": (180).to_bytes(8, "big")}
            for number in range(60):
                assert values(store, b"row %d" % number) == {b"d:%d" % name: b"%d" % number for name in range(3)}

    @pytest.mark.lengthy
    def test_several_create_the_file_at_once(self, path: str) -> None:
        start = path + ".start"
        run_processes([(create, (path, start, name)) for name in range(3)], lambda: Path(start).touch())
        with EmbeddedStore(path) as store:
            assert store.tables() == ["t0", "t1", "t2"]

    def test_a_killed_writer_leaves_whole_transactions(self, path: str) -> None:
        with EmbeddedStore(path) as store:
            store.create_table(T, [Family(b"d")])
        ready, told = os.pipe()
        child = os.fork()
        if not child:
            with EmbeddedStore(path) as store:
                for number in range(10**6):
                    store.put(T, [Put(b"%06d" % number, {b"d:a": b"1"}), Put(b"x%06d" % number, {b"d:a": b"1"})])
                    if number == 20:
                        os.write(told, b"x")
            os._exit(1)
        os.read(ready, 1)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(ready)
        os.close(told)
        with EmbeddedStore(path) as store:
            found = rows(store)
            plain = [row for row in found if not row.startswith(b"x")]
            assert len(plain) > 20
            assert [row[1:] for row in found if row.startswith(b"x")] == plain

    def test_a_table_made_anew_by_another_process_is_noticed(self, path: str) -> None:
        with EmbeddedStore(path) as store, EmbeddedStore(path) as other:
            store.create_table(T, [Family(b"d")])
            put(store, b"d:a", b"1")
            other.delete_table(T)
            with pytest.raises(TableNotFound):
                values(store)
            other.create_table(T, [Family(b"e")])
            assert values(store) == {}
            assert store.families(T) == [DEFAULTS]


def in_child(action: Callable[[], None]) -> int:
    """Runs an action in a forked process and answers its exit code."""
    child = os.fork()
    if not child:
        code = 1
        try:
            signal.alarm(60)
            action()
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)

    def test_a_table_altered_by_another_process_is_noticed(self, path: str) -> None:
        with EmbeddedStore(path) as store, EmbeddedStore(path) as other:
            store.create_table(T, [Family(b"d")])
            old = time.time_ns() // 1_000_000 - 100_000
            put(store, b"d:a", b"1", timestamp=old)
            assert values(store) == {b"d:a": b"1"}
            other.add_family(T, Family(b"e"))
            put(store, b"e:a", b"2")
            other.modify_family(T, Family(b"d", ttl=10))
            assert values(store) == {b"e:a": b"2"}
            assert [family.ttl for family in store.families(T)] == [10, None]

    def test_namespaces_of_tables_from_before_they_were_kept(self, path: str) -> None:
        with EmbeddedStore(path) as store:
            store.create_namespace("old")
            store.create_table("old:t", [Family(b"d")])
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("DROP TABLE namespaces")
        with EmbeddedStore(path) as store:
            assert store.namespaces() == ["default", "old"]
            store.create_table("old:u", [Family(b"d")])
            store.create_namespace("new")
            assert store.namespaces() == ["default", "new", "old"]


class TestFork:
    def test_a_child_opens_the_file_itself(self, path: str) -> None:
        with EmbeddedStore(path) as store:
            store.create_table(T, [Family(b"d")])
            put(store, b"d:parent", b"1")

            def child() -> None:
                assert values(store) == {b"d:parent": b"1"}
                put(store, b"d:child", b"1")
                store.close()

            assert in_child(child) == 0
            put(store, b"d:parent", b"2")
            assert values(store) == {b"d:parent": b"2", b"d:child": b"1"}

    def test_a_fork_while_another_thread_writes(self, path: str) -> None:
        with EmbeddedStore(path) as store:
            store.create_table(T, [Family(b"d")])
            held, release = threading.Event(), threading.Event()

            def hold() -> None:
                with store._database.write() as connection:
                    connection.execute("INSERT INTO tables (name, layout) VALUES ('never', x'00')")
                    held.set()
                    release.wait()
                    connection.execute("DELETE FROM tables WHERE name = 'never'")

            thread = threading.Thread(target=hold)
            thread.start()
            held.wait()
            timer = threading.Timer(0.3, release.set)
            timer.start()
            # Its locks, held by a thread that the child does not have, must not stop the child; the file's lock makes
            # it wait.
            code = in_child(lambda: put(store, b"d:child", b"1"))
            thread.join()
            timer.join()
            assert code == 0
            assert values(store) == {b"d:child": b"1"}
            assert store.tables() == [T]

    @pytest.mark.lengthy
    def test_writers_of_both_sides_keep_each_others_work(self, path: str) -> None:
        """Locks that only one side believes in would lose the other's transactions."""
        with EmbeddedStore(path) as store:
            store.create_table(T, [Family(b"d")])
            stop = threading.Event()

            def work(name: bytes, count: int) -> None:
                for number in range(count):
                    store.increment(T, b"counter", b"d:c", 1)
                    put(store, b"d:a", b"1", row=name + b"%d" % number)
                    if stop.is_set():
                        return

            threads = [threading.Thread(target=work, args=(b"thread %d " % number, 10**6)) for number in range(2)]
            for thread in threads:
                thread.start()
            codes = [in_child(lambda number=number: work(b"child %d " % number, 50)) for number in range(5)]
            stop.set()
            for thread in threads:
                thread.join()
            assert codes == [0] * 5
            found = rows(store)
            assert sum(row.startswith(b"child") for row in found) == 250
            assert values(store, b"counter") == {b"d:c": (len(found) - 1).to_bytes(8, "big")}

    def test_the_parents_end_leaves_the_childs_file_alone(self, path: str) -> None:
        """The process that closes a file last removes its log; a child with only inherited locks would continue to
        write to the removed log.
        """
        store = EmbeddedStore(path)
        store.create_table(T, [Family(b"d")])
        (child_ready, tell_parent), (parent_closed, tell_child) = os.pipe(), os.pipe()
        child = os.fork()
        if not child:
            code = 1
            try:
                signal.alarm(60)
                put(store, b"d:a", b"before")
                os.write(tell_parent, b"x")
                os.read(parent_closed, 1)
                put(store, b"d:b", b"after")
                code = 0
            finally:
                os._exit(code)
        os.read(child_ready, 1)
        store.close()
        os.write(tell_child, b"x")
        _, status = os.waitpid(child, 0)
        for end in (child_ready, tell_parent, parent_closed, tell_child):
            os.close(end)
        assert os.waitstatus_to_exitcode(status) == 0
        with EmbeddedStore(path) as store:
            assert values(store) == {b"d:a": b"before", b"d:b": b"after"}

    def test_a_fork_past_the_hooks_is_refused(self, path: str) -> None:
        message = (
            "The process was forked without Python's fork hooks while the embedded store was open; open it in the "
            "new process."
        )
        with EmbeddedStore(path) as store:
            store.create_table(T, [Family(b"d")])
            child = ctypes.PyDLL(None).fork()
            if not child:
                try:
                    store.tables()
                except StoreError as error:
                    os._exit(not str(error).startswith(message))
                finally:
                    os._exit(1)
            _, status = os.waitpid(child, 0)
            assert os.waitstatus_to_exitcode(status) == 0
            assert store.tables() == [T]

    def test_an_open_scan_goes_on_in_both(self, path: str) -> None:
        with EmbeddedStore(path) as store:
            store.create_table(T, [Family(b"d")])
            store.put(T, [Put(b"%d" % number, {b"d:a": b"1"}) for number in range(10)])
            (batches,) = store.scan(T, [Scan(batch_size=3)])
            next(batches)

            def child() -> None:
                assert sum(len(batch) for batch in batches) == 7

            assert in_child(child) == 0
            assert sum(len(batch) for batch in batches) == 7

    def test_memory_stays_with_its_process(self) -> None:
        with EmbeddedStore(None) as store:

            def child() -> None:
                with pytest.raises(StoreError, match="A memory store belongs to the process that opened it and"):
                    store.tables()

            assert in_child(child) == 0
            assert store.tables() == []


class TestThreads:
    @pytest.mark.lengthy
    def test_many_at_once(self, store: EmbeddedStore) -> None:
        def work(name: int) -> None:
            for number in range(40):
                store.increment(T, b"counter", b"d:c", 1)
                put(store, b"d:%d" % name, b"%d" % number, row=b"shared")
                assert values(store, b"shared")[b"d:%d" % name] == b"%d" % number
                assert b"shared" in rows(store)

        with ThreadPoolExecutor(8) as threads:
            list(threads.map(work, range(8)))
        assert values(store, b"counter") == {b"d:c": (320).to_bytes(8, "big")}
        assert len(values(store, b"shared")) == 8

    @pytest.mark.lengthy
    @pytest.mark.parametrize("in_file", [True, False])
    def test_rows_are_read_whole(self, path: str, in_file: bool) -> None:
        """A row in many segments is never seen half changed."""
        columns = [b"d:%03d" % number for number in range(100)]
        done = threading.Event()
        with EmbeddedStore(path if in_file else None, segment_size=200) as store:
            store.create_table(T, [Family(b"d")])
            store.put(T, [Put(b"r", dict.fromkeys(columns, b"0"), 1)])

            def write() -> None:
                for number in range(1, 60):
                    store.put(T, [Put(b"r", dict.fromkeys(columns, b"%d" % number), number + 1)])
                done.set()

            with ThreadPoolExecutor(1) as thread:
                written = thread.submit(write)
                while not done.is_set():
                    assert len(set(values(store).values())) == 1
                    ((row,),) = next(iter(store.scan(T, [Scan()])))
                    assert len({cell.value for cell in row.columns.values()}) == 1
                written.result()

    def test_ended_threads_leave_no_connection(self, path: str) -> None:
        with EmbeddedStore(path) as store:
            store.create_table(T, [Family(b"d")])
            for _ in range(5):
                thread = threading.Thread(target=store.tables)
                thread.start()
                thread.join()
            assert len(store._database._process.links) == 1

    def test_closed_under_way(self, store: EmbeddedStore) -> None:
        errors: list[BaseException] = []

        def work() -> None:
            try:
                while True:
                    put(store, b"d:a", b"1")
                    values(store)
            except StoreClosed as error:
                errors.append(error)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        threading.Event().wait(0.05)
        store.close()
        for thread in threads:
            thread.join(30)
        assert len(errors) == 4
