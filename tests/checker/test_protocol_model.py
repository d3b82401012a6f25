"""The shipped protocols through every interleaving and crash of small configurations, and every rule broken on purpose.

The default run takes samples of the sweeps; the slow tests run them whole. Each test prints how many states it has seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hbmodel.protocol.driver import drive
from hbmodel.protocol.indexed_plan import IndexedRowPlanner
from hbmodel.protocol.operations import CheckAndMutate, DeleteRows, GetRows, MutateRow, Operation, Protocol, PutRows, Together
from hbmodel.protocol.writes import UpdateFields
from hbmodel.store import Delete, Family, Put, Row
from hbmodel.store.embedded import EmbeddedStore
from tests.checker import protocol_facts as unchanging
from tests.checker import protocol_kinds as several
from tests.checker import protocol_lives as expiring
from tests.checker.protocol_adapter import END, SetClock, Store, Translation, alone
from tests.checker.protocol_facts import DELETED, REPEATED, facts
from tests.checker.protocol_kinds import kinds
from tests.checker.protocol_lives import fading, lives
from tests.checker.protocol_mutants import MUTANTS as OF_ROWS
from tests.checker.protocol_processes import Rules
from tests.checker.protocol_sweeps import (
    ACTIONS,
    CLOCKS,
    Configuration,
    Found,
    batches,
    building,
    places,
    purgers,
    ranges,
    readers,
    repairers,
    sweep,
    two,
)

TWO_CLOCKS = (5, 12)
EVERY_ROW = ("live", "dead", "absent")
UNCOUNTED = tuple(name for name in ACTIONS if name != "increment")
FEW = ("put b", "tag a", "note", "delete, put")
ATOMIC = pytest.mark.parametrize("atomic", [True, False], ids=["atomic", "two calls"])


def held(found: Found, record: Callable[[str, Any], None]) -> None:
    """No violation; tells how many states there were."""
    record("states", found.states)
    print(f"{found.models} models, {found.states} states")
    assert found.states > found.models > 0
    assert found.error is None, str(found)


# --- the translation --------------------------------------------------------------------------------------------------

ROWS, COLUMNS = [b"r", b"s"], [b"d:_l", b"d:a", b"d:b"]
TIMES, VALUES = st.integers(1, 6), st.sampled_from([b"", b"\x01", b"x"])
CELLS = st.dictionaries(st.sampled_from(COLUMNS), VALUES, min_size=1)
PUTS = st.builds(Put, st.sampled_from(ROWS), CELLS, TIMES, st.sampled_from([None, None, expiring.LIFE]))
DELETES = st.builds(
    lambda row, columns, time: Delete(row, columns=columns, timestamp=time) if columns else Delete(row, families=(b"d",), timestamp=time),
    st.sampled_from(ROWS),
    st.lists(st.sampled_from(COLUMNS), unique=True).map(tuple),
    TIMES,
)


def _of_one_row(row: bytes, put: Put, delete: Delete) -> MutateRow:
    return MutateRow("t", [Put(row, put.cells, put.timestamp, put.ttl), Delete(row, delete.families, delete.columns, delete.timestamp)])


OPERATIONS = st.one_of(
    st.builds(lambda put: PutRows("t", [put]), PUTS),
    st.builds(lambda delete: DeleteRows("t", [delete]), DELETES),
    st.builds(lambda put: Together([PutRows("t", [put])]), PUTS),
    st.builds(_of_one_row, st.sampled_from(ROWS), PUTS, DELETES),
    st.builds(
        lambda put, column, expected: CheckAndMutate("t", put.row, column, expected or None, [put]), PUTS, st.sampled_from(COLUMNS), VALUES
    ),
    st.builds(lambda rows, columns: GetRows("t", rows, columns), st.permutations(ROWS), st.sampled_from([[b"d"], [b"d:a"], COLUMNS[:2]])),
)


def _plain(answer: Any) -> Any:
    def row(found: Row | None) -> Any:
        return None if found is None else {column: (cell.value, cell.timestamp) for column, cell in found.columns.items()}

    return [row(found) for found in answer] if isinstance(answer, list | tuple) else answer


@given(st.lists(OPERATIONS, max_size=12))
def test_a_step_of_the_checker_does_what_the_operation_does_in_a_store(operations: Sequence[Operation]) -> None:
    read = GetRows("t", ROWS, [b"d"])

    def protocol(answers: list[Any], operations: Sequence[Operation]) -> Protocol[None]:
        for operation in operations:
            answers.append(_plain((yield operation)))

    stored: list[Any] = []
    now = 0
    with EmbeddedStore(None, lambda: now) as store:
        store.create_table("t", [Family(b"d")])
        drive(store, protocol(stored, [*operations, read]))
        now = END
        drive(store, protocol(stored, [read]))
    checked: list[Any] = []
    kinds = {row: (number, "full") for number, row in enumerate(ROWS, 1)}
    cells: Store = {}
    alone(Translation("t", SetClock(0), kinds, ()).steps(protocol(checked, [*operations, read])), cells)
    alone(expiring.time_passes(), cells)
    alone(Translation("t", SetClock(0), kinds, ()).steps(protocol(checked, [read])), cells)
    assert checked == stored


# --- mutants ----------------------------------------------------------------------------------------------------------


MUTANTS = {**OF_ROWS, **expiring.MUTANTS, **unchanging.MUTANTS, **several.MUTANTS}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_rule_is_found_where_the_shipped_code_holds(name: str, record_property: Callable[[str, Any], None]) -> None:
    mutant = MUTANTS[name]
    found = sweep(mutant.where(mutant.rules))
    print(f"found after {found.models} models, {found.states} states: {found.error}")
    assert found.error is not None, f"the checker does not notice: {name}"
    assert found.error.startswith(mutant.violation), str(found)
    # Where a mutant's repairer goes by its clock alone, the shipped one does too: the writers' own check is what is broken.
    held(sweep(mutant.where(Rules(grace="clock" if mutant.rules.grace == "clock" else "wait"))), record_property)


# --- samples of the sweeps --------------------------------------------------------------------------------------------

SAMPLES: dict[str, Callable[[], Iterable[Configuration]]] = {
    "a repairer": lambda: two(("put b", "tag a", "delete, put"), TWO_CLOCKS, others=repairers),
    "a repairer, deletes in two calls": lambda: two(("put b", "delete", "insert"), (5, 13), others=repairers, atomic=False),
    "queries for one tag": lambda: two(FEW, TWO_CLOCKS, others=readers),
    "a query for a range": lambda: two(("put b", "delete, insert"), TWO_CLOCKS, others=ranges, unmoved="tag"),
    "two crashes and a compaction": lambda: two(UNCOUNTED, (12,), stores=("dead",), crashes=2, compaction="any", strict=False),
    "a lost answer": lambda: chain.from_iterable(
        two(("tag b", "insert", "delete"), TWO_CLOCKS, stores=("live", "absent"), ordered=True, first={"repeat": at}) for at in (0, 1)
    ),
    "a call that arrives again": lambda: chain.from_iterable(
        two(("put b", "delete"), TWO_CLOCKS, others=purgers, crashes=0, compaction="grace", ordered=True, first={"again": at})
        for at in (0, 1)
    ),
    "a write that takes too long": lambda: two(("put b", "tag b", "insert", "delete, insert"), TWO_CLOCKS, ordered=True, first={"slow": 1}),
    "rounds of two rows": lambda: batches((12,), ("note", "delete, insert"), names=("delete both", "mixed too")),
    "two indexes": lambda: places(TWO_CLOCKS),
    "rows that never change": lambda: chain(
        facts(REPEATED, (12,)), facts(DELETED, (12,)), facts((("delete",), ("delete", "delete")), (5, 12, 13))
    ),
    "rows that expire": lambda: lives(("expiring b", "expiring tag b", "expiring b, note"), ("put b", "note", "delete"), TWO_CLOCKS),
    "rows that expire, in two calls": lambda: lives(("expiring b",), ("expiring a", "tag b", "insert"), TWO_CLOCKS, atomic=False),
    "rows that expire over others that do": lambda: lives(("put b", "expiring insert"), ("note", "delete, put"), stores=("expiring",)),
    "rows that expire, and compactions": lambda: lives(("expiring a",), ("put a", "delete"), crashes=0, compaction="grace"),
    "rows that expire, and a repairer": lambda: lives(
        ("expiring a",), ("put b", "tag b", "delete"), (12,), stores=("live", "dead"), others=expiring.repairers
    ),
    "rows that expire, and queries": lambda: lives(("expiring a", "expiring b"), ("put b", "note"), (12,), others=expiring.readers),
    "a family with a TTL": lambda: fading(("put b", "tag b", "note"), ("note", "delete", "insert"), TWO_CLOCKS),
    "a family with a TTL, in two calls, and a repairer": lambda: fading(
        ("tag b",), ("note", "delete"), (12,), repair=True, atomic=False, ages=(10,)
    ),
    "a build": lambda: building(("put b", "tag b", "delete, put", "insert"), TWO_CLOCKS),
    "a build of a dead row, and a compaction": lambda: building(
        ("put b", "delete, insert", "note"), (12,), stores=("dead",), compaction="any", crashes=0
    ),
    "a build beside a repairer": lambda: building(("put b", "tag a"), (12, 13), repair=True),
    "lost entries put again": lambda: building(("put b", "tag a", "delete"), (5, 12), again=12),
    "lost entries put again beside a repairer": lambda: building(("put b", "tag a"), (12,), again=20, repair=True),
    "several entries": lambda: kinds(("put bc", "no tags, tags ab", "shut", "delete", "insert"), (12,), stores=("live", "shut", "dead")),
    "several entries, and queries": lambda: kinds(("put bc", "tags b", "shut"), (12,), others=several.readers),
    "several entries, and a query for several": lambda: kinds(("put bc", "note"), (12,), others=several.ranges, unmoved="tags"),
    "several entries, and a repairer": lambda: kinds(("put bc", "shut"), (12,), others=several.repairers),
    "increments": lambda: two(("increment", "put a", "delete, put"), TWO_CLOCKS),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_the_shipped_code_holds_in_a_sample(name: str, record_property: Callable[[str, Any], None]) -> None:
    held(sweep(SAMPLES[name]()), record_property)


# --- whole sweeps -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.timeout(3600)
@ATOMIC
@pytest.mark.parametrize("row", EVERY_ROW)
@pytest.mark.parametrize("others", [repairers, readers, ranges])
def test_two_writers_beside_others(others: Any, row: str, atomic: bool, record_property: Callable[[str, Any], None]) -> None:
    unmoved = "tag" if others is ranges else None
    held(sweep(two(UNCOUNTED, TWO_CLOCKS, stores=(row,), others=others, unmoved=unmoved, atomic=atomic)), record_property)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@ATOMIC
@pytest.mark.parametrize("row", several.STORES)
@pytest.mark.parametrize("others", [several.repairers, several.readers, several.ranges])
def test_two_writers_of_a_row_with_several_entries(
    others: Any, row: str, atomic: bool, record_property: Callable[[str, Any], None]
) -> None:
    unmoved = "tags" if others is several.ranges else None
    held(sweep(kinds(clocks=TWO_CLOCKS, stores=(row,), others=others, unmoved=unmoved, atomic=atomic)), record_property)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@ATOMIC
@pytest.mark.parametrize("row", EVERY_ROW)
def test_two_writers_two_crashes_and_a_compaction(row: str, atomic: bool, record_property: Callable[[str, Any], None]) -> None:
    held(sweep(two(UNCOUNTED, CLOCKS, stores=(row,), crashes=2, compaction="any", strict=False, atomic=atomic)), record_property)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@ATOMIC
@pytest.mark.parametrize("compaction", ["grace", "any"])
@pytest.mark.parametrize("row", EVERY_ROW)
def test_a_call_that_arrives_again_at_any_time(
    row: str, compaction: str, atomic: bool, record_property: Callable[[str, Any], None]
) -> None:
    configurations = (
        two(
            UNCOUNTED, TWO_CLOCKS, stores=(row,), others=purgers, crashes=0, compaction=compaction, strict=compaction == "grace",
            ordered=True, first={"again": at}, atomic=atomic,
        )
        for at in range(6)
    )  # fmt: skip
    held(sweep(chain.from_iterable(configurations)), record_property)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("row", EVERY_ROW)
def test_an_operation_whose_answer_is_lost_is_carried_out_again(row: str, record_property: Callable[[str, Any], None]) -> None:
    configurations = (two(UNCOUNTED, TWO_CLOCKS, stores=(row,), ordered=True, first={"repeat": at}) for at in range(6))
    held(sweep(chain.from_iterable(configurations)), record_property)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("row", EVERY_ROW)
def test_a_write_that_takes_too_long_is_done_again(row: str, record_property: Callable[[str, Any], None]) -> None:
    held(sweep(two(UNCOUNTED, TWO_CLOCKS, stores=(row,), ordered=True, first={"slow": 1})), record_property)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("row", ["live", "dead"])
def test_a_writer_that_stands_still_for_longer_than_the_grace_time(row: str, record_property: Callable[[str, Any], None]) -> None:
    """Its row may be unindexed until the check before the acknowledgement; the end must be right."""
    names = ("put b", "tag b", "delete", "insert")
    options: dict[str, Any] = {"others": repairers, "stores": (row,), "crashes": 0, "paused": True, "always": False}
    held(sweep(two(UNCOUNTED, CLOCKS, Rules(grace="clock"), count=1, **options)), record_property)
    held(sweep(two(names, (5,), Rules(grace="clock"), **options)), record_property)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@ATOMIC
def test_rounds_of_two_rows(atomic: bool, record_property: Callable[[str, Any], None]) -> None:
    held(sweep(batches(atomic=atomic)), record_property)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_two_indexes_and_a_repairer_of_one(record_property: Callable[[str, Any], None]) -> None:
    held(sweep(chain(places(crashes=2), places(TWO_CLOCKS, ("city", "street", "delete", "insert"), repair=True))), record_property)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_increments_beside_everything_else(record_property: Callable[[str, Any], None]) -> None:
    configurations = two(tuple(ACTIONS), TWO_CLOCKS, stores=EVERY_ROW, others=purgers)
    held(sweep(configuration for configuration in configurations if "'increment'" in configuration[0]), record_property)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@ATOMIC
@pytest.mark.parametrize("row", expiring.STORES)
def test_rows_that_expire(row: str, atomic: bool, record_property: Callable[[str, Any], None]) -> None:
    held(sweep(lives(clocks=CLOCKS, stores=(row,), atomic=atomic)), record_property)
    held(sweep(lives(stores=(row,), atomic=atomic, crashes=0, compaction="grace")), record_property)
    held(sweep(lives(clocks=(12,), stores=(row,), atomic=atomic, others=expiring.readers)), record_property)
    held(sweep(lives(clocks=(12,), stores=(row,), atomic=atomic, others=expiring.repairers)), record_property)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@ATOMIC
@pytest.mark.parametrize("row", expiring.FADING_STORES)
def test_a_family_with_a_ttl(row: str, atomic: bool, record_property: Callable[[str, Any], None]) -> None:
    held(sweep(fading(stores=(row,), atomic=atomic, ages=(10, 11, 12))), record_property)
    held(sweep(fading(clocks=(12,), stores=(row,), atomic=atomic, repair=True)), record_property)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@ATOMIC
def test_writes_over_a_row_that_expires(atomic: bool, record_property: Callable[[str, Any], None]) -> None:
    held(sweep(lives(expiring.IMMORTAL, stores=("expiring",), atomic=atomic)), record_property)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_three_writers(record_property: Callable[[str, Any], None]) -> None:
    names = ("put b", "tag b", "note", "delete", "insert")
    held(sweep(two(names, TWO_CLOCKS, stores=EVERY_ROW, count=3, crashes=0)), record_property)


def group_and_own(writer: IndexedRowPlanner, write: UpdateFields) -> Sequence[bytes]:
    """The columns that a partial update changes, the group and the system cells."""
    own = {writer.schema.by_name[name].column for name in write.changes}
    return tuple(sorted(own | writer.group_columns | {writer.schema.version_column, writer.schema.liveness_column}))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("row", EVERY_ROW)
def test_a_partial_update_need_not_read_every_column(row: str, record_property: Callable[[str, Any], None]) -> None:
    """Not what the code does: what deletes and full writes must read, partial updates need not."""
    rules = Rules(partial_reads=group_and_own)
    names = ("put a", "put b", "tag b", "extra", "note", "delete", "delete, put", "increment")
    held(sweep(two(names, TWO_CLOCKS, rules, stores=(row,), others=repairers)), record_property)
    held(sweep(two(names, CLOCKS, rules, stores=(row,), crashes=2, compaction="any", strict=False)), record_property)
    held(sweep(places(CLOCKS, rules=rules, crashes=2)), record_property)
