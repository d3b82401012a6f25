"""The same random operations on two stores, everything read compared: the embedded store against HBase and a plain
reference.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import pytest
from attrs import evolve, frozen
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hbmodel.errors import HbmodelError, InvalidRequest
from hbmodel.session.connect import connect
from hbmodel.store import FOREVER, ConditionalChange, ConditionalPut, Delete, Family, Get, Put, Scan, Store
from hbmodel.store.checks.reads import check_filter
from hbmodel.store.embedded import EmbeddedStore, cells
from hbmodel.store.filters import (
    And,
    ColumnPrefix,
    ColumnRange,
    Filter,
    FirstCellOnly,
    KeyOnly,
    Or,
    Pagination,
    RowContains,
    ValueFilter,
)
from hbmodel.store.port import change_and_get
from hbmodel.store.ranges import KeyRange, prefix_successor
from tests.support.beds import drop_left
from tests.support.examples import examples
from tests.support.reference_store import ReferenceStore

# The columns of d1 sort before those of d as bytes, behind them in HBase.
FAMILIES = (Family(b"d"), Family(b"d1"), Family(b"e", max_versions=3))
NARROW = (Family(b"d"),)
MANY = (Family(b"d", max_versions=1000), Family(b"e", max_versions=1000))
"""So many versions that none is left out: where some are, HBase may show them in reads as of a time until it
compacts.
"""
MORTAL = (Family(b"d"), Family(b"e", max_versions=3), Family(b"s", max_versions=2, ttl=1))

T = TypeVar("T")

CLOCK_TIMES = 10**9
"""Timestamps above this were given by a clock and differ between stores."""

# --- operations -------------------------------------------------------------------------------------------------------


@frozen
class Operation:
    """A call of a store: its name and arguments, rows without the prefix of the example."""

    name: str
    arguments: tuple[Any, ...]


ROWS = st.sampled_from([b"", b"\x00", b"a", b"a\x00", b"ab", b"B", b"\xff"])
# Not the empty one: its cells sort among the family's tombstones, and where a newer cell of it lies before one, HBase's
# seek to a column range or prefix jumps over the tombstone and shows what it hides.
QUALIFIERS = st.sampled_from([b"\x00", b"a", b"aa", b"b", b"c", b"\xff"])
BOUNDS = st.sampled_from([None, b""]) | QUALIFIERS
VALUES = st.sampled_from(
    [b"", b"\x00", b"a", b"b", b"it's", (0).to_bytes(8, "big"), (7).to_bytes(8, "big"), b"\xff" * 8]
)
TIMES = st.integers(1, 6)
# Dead as soon as they are put, at such timestamps; alive for ever; not limited.
LIVES = st.sampled_from([None, None, None, 1, 10**15, 10**14])


def columns_of(families: Sequence[Family]) -> st.SearchStrategy[bytes]:
    return st.builds(lambda family, qualifier: family.name + b":" + qualifier, st.sampled_from(families), QUALIFIERS)


def puts_of(
    families: Sequence[Family], times: st.SearchStrategy[int | None], lives: st.SearchStrategy[int | None]
) -> st.SearchStrategy[Put]:
    return st.builds(Put, ROWS, st.dictionaries(columns_of(families), VALUES, min_size=1, max_size=4), times, lives)


def deletes_of(families: Sequence[Family], times: st.SearchStrategy[int | None]) -> st.SearchStrategy[Delete]:
    names = st.lists(st.sampled_from([family.name for family in families]), max_size=2, unique=True)
    return st.builds(Delete, ROWS, names, st.lists(columns_of(families), max_size=2, unique=True), times)


def projections_of(families: Sequence[Family]) -> st.SearchStrategy[tuple[bytes, ...]]:
    some = st.lists(
        columns_of(families) | st.sampled_from([family.name for family in families]), max_size=4, unique=True
    )
    return st.just(()) | some.map(tuple)


def befores_of(families: Sequence[Family]) -> st.SearchStrategy[int | None]:
    """Times to read as of, where every version is kept."""
    return st.none() | st.integers(0, 8) if all((family.max_versions or 1) > 100 for family in families) else st.none()


def gets_of(families: Sequence[Family]) -> st.SearchStrategy[Get]:
    return st.builds(Get, ROWS, projections_of(families), QUALIFIERS | st.just(b""), befores_of(families))


def filters_of(families: Sequence[Family]) -> st.SearchStrategy[Filter]:
    operators = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
    values: st.SearchStrategy[Filter] = st.builds(ValueFilter, columns_of(families), operators, VALUES, st.booleans())
    leaves = st.one_of(
        values,
        values,
        st.builds(RowContains, st.sampled_from(["a", "B", "ab", "zz"])),
        st.builds(ColumnRange, BOUNDS, st.booleans(), BOUNDS, st.booleans()),
        st.builds(ColumnPrefix, QUALIFIERS | st.just(b"")),
        st.builds(Pagination, st.integers(0, 4), st.integers(0, 4)),
        st.builds(KeyOnly),
        st.builds(FirstCellOnly),
    )
    several = st.deferred(lambda: st.lists(filters, min_size=1, max_size=3))
    # Most lists in another order are refused.
    ranges_first = several.map(lambda parts: sorted(parts, key=lambda p: not isinstance(p, ColumnRange | ColumnPrefix)))
    filters = st.deferred(lambda: leaves | st.builds(And, ranges_first) | st.builds(Or, several))
    return filters


def allowed(scan: Scan) -> bool:
    try:
        if scan.filter is not None:
            check_filter(scan.filter, reversed=scan.reversed)
    except InvalidRequest:
        return False
    return True


def scans_of(families: Sequence[Family], filters: st.SearchStrategy[Filter | None]) -> st.SearchStrategy[Scan]:
    ranges = st.builds(KeyRange, ROWS, st.none() | ROWS)
    limits = st.none() | st.integers(0, 3)
    sizes = st.sampled_from([1, 2, 1000])
    return st.builds(
        Scan, ranges, st.booleans(), projections_of(families), filters, limits, sizes, st.none(), befores_of(families)
    ).filter(allowed)


def operations_of(
    families: Sequence[Family],
    *,
    times: st.SearchStrategy[int | None] = TIMES,
    lives: st.SearchStrategy[int | None] = LIVES,
    filters: st.SearchStrategy[Filter | None],
    rows_change: bool,
) -> st.SearchStrategy[Operation]:
    """The operations of any store; with `rows_change`, also operations that only some stores support."""
    puts, deletes, columns = puts_of(families, times, lives), deletes_of(families, times), columns_of(families)
    checked = st.none() | VALUES
    one_cell = st.builds(lambda column, value: {column: value}, columns, VALUES)
    kinds: list[st.SearchStrategy[Operation]] = [
        st.builds(lambda puts: Operation("put", (puts,)), st.lists(puts, min_size=1, max_size=4)),
        st.builds(lambda deletes: Operation("delete", (deletes,)), st.lists(deletes, min_size=1, max_size=3)),
        st.builds(
            lambda rows, columns: Operation("get", (rows, columns)),
            st.lists(ROWS, min_size=1, max_size=4),
            projections_of(families),
        ),
        st.builds(lambda gets: Operation("get_each", (gets,)), st.lists(gets_of(families), min_size=1, max_size=6)),
        st.builds(lambda scan: Operation("scan", (scan,)), scans_of(families, filters)),
        st.builds(lambda scan: Operation("scan", (scan,)), scans_of(families, filters)),
        st.builds(lambda *arguments: Operation("increment", arguments), ROWS, columns, st.integers(-3, 3)),
        st.builds(
            lambda *arguments: Operation("versions", arguments),
            ROWS,
            st.lists(columns, min_size=1, max_size=2),
            st.integers(1, 4),
        ),
        st.builds(
            lambda row, column, expected, cell: Operation("check_and_put", (row, column, expected, Put(row, cell))),
            ROWS,
            columns,
            checked,
            one_cell,
        ),
        st.builds(
            lambda row, column, expected, cell, read: Operation(
                "change_and_get", (ConditionalPut(column, expected, Put(row, cell)), read)
            ),
            ROWS,
            columns,
            checked,
            one_cell,
            projections_of(families),
        ),
    ]
    if rows_change:

        def of_row(row: bytes, changes: list[Put | Delete]) -> list[Put | Delete]:
            return [evolve(change, row=row) for change in changes]

        changes = st.lists(puts | deletes, min_size=1, max_size=3)
        conditional = st.builds(
            lambda row, column, expected, changes: ConditionalChange(row, column, expected, of_row(row, changes)),
            ROWS,
            columns,
            checked,
            changes,
        )
        kinds += [
            st.builds(lambda row, changes: Operation("mutate_row", (of_row(row, changes),)), ROWS, changes),
            st.builds(
                lambda row, column, expected, changes: Operation(
                    "check_and_mutate", (row, column, expected, of_row(row, changes))
                ),
                ROWS,
                columns,
                checked,
                changes,
            ),
            st.builds(
                lambda change, read: Operation("change_and_get", (change, read)), conditional, projections_of(families)
            ),
            st.builds(
                lambda several: Operation("check_and_mutate_many", (several,)),
                st.lists(conditional, min_size=1, max_size=4),
            ),
        ]
    return st.one_of(kinds)


def alterations_of(families: Sequence[Family]) -> st.SearchStrategy[Operation]:
    """Other lives and numbers of versions for one family."""
    changed = st.builds(
        Family,
        st.sampled_from([family.name for family in families]),
        max_versions=st.none() | st.integers(1, 3),
        ttl=st.none() | st.integers(1, 2) | st.just(FOREVER),
    )
    return st.builds(lambda family: Operation("modify_family", (family,)), changed)


def several(operations: st.SearchStrategy[T]) -> st.SearchStrategy[list[T]]:
    """More of them than a list has on average, and yet quick to make few."""
    return st.lists(st.lists(operations, max_size=8), max_size=8).map(
        lambda parts: [operation for part in parts for operation in part]
    )


# --- running them -----------------------------------------------------------------------------------------------------


def shown(row: Any, prefix: bytes) -> Any:
    """A row as something to compare: times that a clock gave count as equal."""
    if row is None:
        return None
    found = {column: (cell.value, min(cell.timestamp, CLOCK_TIMES)) for column, cell in row.columns.items()}
    return row.row.removeprefix(prefix), found


def within(range: KeyRange, prefix: bytes) -> KeyRange:
    return KeyRange(prefix + range.start, prefix_successor(prefix) if range.stop is None else prefix + range.stop)


def run(store: Any, table: str, prefix: bytes, operation: Operation) -> Any:
    """Runs an operation and answers what is to be compared."""

    def moved(argument: Any) -> Any:
        if isinstance(argument, Get | Put | Delete):
            return evolve(argument, row=prefix + argument.row)
        if isinstance(argument, ConditionalChange):
            return evolve(argument, row=prefix + argument.row, mutations=moved(argument.mutations))
        if isinstance(argument, ConditionalPut):
            return evolve(argument, put=moved(argument.put))
        return [moved(part) for part in argument] if isinstance(argument, list) else argument

    arguments = [moved(argument) for argument in operation.arguments]
    try:
        if operation.name == "get":
            rows, columns = operation.arguments
            return [shown(row, prefix) for row in store.get(table, [prefix + row for row in rows], columns)]
        if operation.name == "get_each":
            return [shown(row, prefix) for row in store.get_each(table, arguments[0])]
        if operation.name == "scan":
            (scan,) = operation.arguments
            (batches,) = store.scan(table, [evolve(scan, range=within(scan.range, prefix))])
            return [shown(row, prefix) for batch in batches for row in batch]
        if operation.name == "versions":
            row, columns, most = operation.arguments
            found = store.versions(table, prefix + row, columns, most)
            return [[(cell.value, min(cell.timestamp, CLOCK_TIMES)) for cell in cells] for cells in found]
        if operation.name == "change_and_get":
            change, columns = arguments
            row = change.put.row if isinstance(change, ConditionalPut) else change.row
            applied, rows = change_and_get(store, table, change, columns)
            (found,) = store.get(table, [row], columns) if rows is None else rows
            return applied, shown(found, prefix)
        if operation.name in {"increment", "check_and_put", "check_and_mutate"}:
            arguments[0] = prefix + arguments[0]
        return getattr(store, operation.name)(table, *arguments)
    except HbmodelError as error:
        return type(error)


def compare(first: Any, first_table: str, second: Any, second_table: str, operations: Sequence[Operation]) -> None:
    prefix = uuid4().hex.encode() + b"/"
    ends = [Operation("scan", (Scan(reversed=reversed),)) for reversed in (False, True)]
    for operation in [*operations, *ends]:
        found = run(first, first_table, prefix, operation)
        assert found == run(second, second_table, prefix, operation), operation


@pytest.fixture(params=[cells.SEGMENT_SIZE, 20], ids=["whole rows", "rows in segments"])
def segment_size(request: pytest.FixtureRequest) -> int:
    """Segments so small that a few cells fill one, as well as the real size."""
    return int(request.param)


SHARED_STORES = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


class TestFileAgainstMemory:
    """Rows in small segments in a file, and whole rows in memory: the difference must not be visible."""

    @pytest.fixture
    def stores(self, tmp_path: Path) -> Iterator[tuple[Store, Store]]:
        # One time for both: of two increments and a put in one millisecond the put is older, of those in several it is
        # newer.
        clock = lambda: 2 * 10**12  # noqa: E731
        with (
            EmbeddedStore(None, clock) as memory,
            EmbeddedStore(str(tmp_path / "store.db"), clock, segment_size=20) as file,
        ):
            for store in (memory, file):
                store.create_table("wide", FAMILIES)
                store.create_table("narrow", NARROW)
                store.create_table("many", MANY)
            yield memory, file

    @pytest.mark.lengthy
    @settings(max_examples=examples(50), deadline=None, suppress_health_check=SHARED_STORES)
    @given(several(operations_of(FAMILIES, filters=st.none() | filters_of(FAMILIES), rows_change=True)))
    def test_same_with_several_families(self, stores: tuple[Store, Store], operations: list[Operation]) -> None:
        compare(stores[0], "wide", stores[1], "wide", operations)

    @pytest.mark.lengthy
    @settings(max_examples=examples(70), deadline=None, suppress_health_check=SHARED_STORES)
    @given(several(operations_of(NARROW, filters=filters_of(NARROW), rows_change=True)))
    def test_same_with_one_family(self, stores: tuple[Store, Store], operations: list[Operation]) -> None:
        compare(stores[0], "narrow", stores[1], "narrow", operations)

    @pytest.mark.lengthy
    @settings(max_examples=examples(40), deadline=None, suppress_health_check=SHARED_STORES)
    @given(several(operations_of(MANY, filters=st.none() | filters_of(MANY), rows_change=True)))
    def test_same_as_of_times(self, stores: tuple[Store, Store], operations: list[Operation]) -> None:
        compare(stores[0], "many", stores[1], "many", operations)


def lived_through(
    families: Sequence[Family],
) -> st.SearchStrategy[tuple[Sequence[Family], list[Operation | int | str]]]:
    """Families with operations on them, times that pass, compactions and alterations."""
    operations = operations_of(
        families,
        times=st.none() | st.integers(0, 3000),
        lives=st.none() | st.integers(1, 2000),
        filters=st.none(),
        rows_change=True,
    )
    return st.tuples(
        st.just(families), several(operations | st.integers(1, 900) | st.just("compact") | alterations_of(families))
    )


def kept(operation: Operation, answer: Any, fewest: dict[bytes, int]) -> Any:
    """The answer without versions that may be gone, since the family did not always keep as many as it does now."""
    if operation.name != "versions" or not isinstance(answer, list):
        return answer
    _, columns, _ = operation.arguments
    return [found[: fewest[column.partition(b":")[0]]] for column, found in zip(columns, answer, strict=True)]


class TestAgainstReference:
    """Lives, clocks and compactions too, which a real HBase cannot be made to do at will."""

    @pytest.mark.lengthy
    @settings(max_examples=examples(70), deadline=None, suppress_health_check=SHARED_STORES)
    @given(lived_through(MORTAL) | lived_through(NARROW) | lived_through(MANY))
    def test_same(self, segment_size: int, example: tuple[Sequence[Family], list[Operation | int | str]]) -> None:
        families, operations = example
        reference = ReferenceStore(families, now=1000)
        with EmbeddedStore(None, clock=lambda: reference.now, segment_size=segment_size) as store:
            store.create_table("t", families)
            fewest = {family.name: family.max_versions or 1 for family in families}
            for operation in operations:
                if isinstance(operation, int):
                    reference.now += operation
                elif operation == "compact":
                    reference.compact()
                    store.compact("t")
                else:
                    assert isinstance(operation, Operation)
                    ran = [kept(operation, run(each, "t", b"r", operation), fewest) for each in (store, reference)]
                    assert ran[0] == ran[1], operation
                    fewest = {
                        family.name: min(fewest[family.name], family.max_versions or 1)
                        for family in store.families("t")
                    }
                everything = Operation("scan", (Scan(),))
                assert run(store, "t", b"r", everything) == run(reference, "t", b"r", everything), operation


KEPT = (Family(b"e", max_versions=3),)


class TestKeptVersions:
    """Reads as of times for which the family keeps the version; older versions may be gone, but are never wrong."""

    @pytest.mark.lengthy
    @settings(max_examples=examples(60), deadline=None, suppress_health_check=SHARED_STORES)
    @given(st.lists(st.tuples(st.sampled_from(["put", "put", "put", "delete", "compact"]), TIMES), max_size=12))
    def test_the_newest_are_there(self, segment_size: int, steps: list[tuple[str, int]]) -> None:
        reference = ReferenceStore(KEPT, now=1000)
        with EmbeddedStore(None, clock=lambda: 1000, segment_size=segment_size) as store:
            store.create_table("t", KEPT)
            for number, (step, at) in enumerate(steps):
                for each in (store, reference):
                    if step == "put":
                        each.put("t", [Put(b"r", {b"e:a": b"%d" % number}, at)])
                    elif step == "delete":
                        each.delete("t", [Delete(b"r", columns=[b"e:a"], timestamp=at)])
                if step == "compact":
                    store.compact("t")
                    reference.compact()
                times = sorted({version.timestamp for version in reference.alive(b"r", b"e:a")}, reverse=True)
                for before in range(1, 8):
                    found, expected = (run(each, "t", b"", _as_of(before)) for each in (store, reference))
                    newer = next((at for at in times if at < before), None)
                    kept = newer is None or newer in times[:3]
                    assert found == expected or (not kept and found == [None]), (number, before)


def _as_of(before: int) -> Operation:
    return Operation("get_each", ([Get(b"r", before=before)],))


@pytest.fixture(scope="module", params=["thrift1", "thrift2"])
def hbase(request: pytest.FixtureRequest) -> Iterator[tuple[Store, str, str, str]]:
    running = request.getfixturevalue("hbmodel_hbase")
    wide, narrow, many = (f"{name}_{uuid4().hex}" for name in ("machine", "machine_narrow", "machine_many"))
    with connect(running.url if request.param == "thrift1" else running.thrift2_url) as store:
        store.create_table(wide, FAMILIES)
        store.create_table(narrow, NARROW)
        store.create_table(many, MANY)
        yield store, wide, narrow, many
        drop_left(store, wide, narrow, many)


class AgainstHBase:
    """HBase is right."""

    @pytest.fixture
    def embedded(self, segment_size: int) -> Iterator[Store]:
        with EmbeddedStore(None, segment_size=segment_size) as store:
            store.create_table("wide", FAMILIES)
            store.create_table("narrow", NARROW)
            store.create_table("many", MANY)
            yield store

    def check_several_families(self, embedded: Store, hbase: tuple[Store, str, str, str], data: st.DataObject) -> None:
        compare(embedded, "wide", hbase[0], hbase[1], data.draw(self.operations(FAMILIES, hbase[0])))

    def check_one_family(self, embedded: Store, hbase: tuple[Store, str, str, str], data: st.DataObject) -> None:
        compare(embedded, "narrow", hbase[0], hbase[2], data.draw(self.operations(NARROW, hbase[0])))

    def check_times(self, embedded: Store, hbase: tuple[Store, str, str, str], data: st.DataObject) -> None:
        compare(embedded, "many", hbase[0], hbase[3], data.draw(self.operations(MANY, hbase[0])))

    def operations(self, families: Sequence[Family], store: Store) -> st.SearchStrategy[list[Operation]]:
        filters = st.none() | filters_of(families)
        return several(operations_of(families, filters=filters, rows_change=store.capabilities.mutate_row))


@pytest.mark.hbase
class TestAgainstHBase(AgainstHBase):
    @settings(max_examples=examples(20), deadline=None, suppress_health_check=SHARED_STORES)
    @given(st.data())
    def test_same_with_several_families(
        self, embedded: Store, hbase: tuple[Store, str, str, str], data: st.DataObject
    ) -> None:
        self.check_several_families(embedded, hbase, data)

    @settings(max_examples=examples(20), deadline=None, suppress_health_check=SHARED_STORES)
    @given(st.data())
    def test_same_with_one_family(
        self, embedded: Store, hbase: tuple[Store, str, str, str], data: st.DataObject
    ) -> None:
        self.check_one_family(embedded, hbase, data)

    @settings(max_examples=examples(10), deadline=None, suppress_health_check=SHARED_STORES)
    @given(st.data())
    def test_same_as_of_times(self, embedded: Store, hbase: tuple[Store, str, str, str], data: st.DataObject) -> None:
        self.check_times(embedded, hbase, data)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.hbase
class TestAgainstHBaseForLong(AgainstHBase):
    @settings(max_examples=3000, deadline=None, suppress_health_check=SHARED_STORES)
    @given(st.data())
    def test_same_with_several_families(
        self, embedded: Store, hbase: tuple[Store, str, str, str], data: st.DataObject
    ) -> None:
        self.check_several_families(embedded, hbase, data)

    @settings(max_examples=3000, deadline=None, suppress_health_check=SHARED_STORES)
    @given(st.data())
    def test_same_with_one_family(
        self, embedded: Store, hbase: tuple[Store, str, str, str], data: st.DataObject
    ) -> None:
        self.check_one_family(embedded, hbase, data)

    @settings(max_examples=3000, deadline=None, suppress_health_check=SHARED_STORES)
    @given(st.data())
    def test_same_as_of_times(self, embedded: Store, hbase: tuple[Store, str, str, str], data: st.DataObject) -> None:
        self.check_times(embedded, hbase, data)
