"""A step of the model checker does in its small store what the operation does in a real one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hbmodel.protocol.driver import drive
from hbmodel.protocol.operations import (
    CheckAndMutate,
    DeleteRows,
    GetRows,
    MutateRow,
    Operation,
    Protocol,
    PutRows,
    Together,
)
from hbmodel.store import Delete, Family, Put, Row
from hbmodel.store.embedded import EmbeddedStore
from tests.checker import protocol_lives as expiring
from tests.checker.protocol_adapter import END, SetClock, Store, Translation, alone

ROWS, COLUMNS = [b"r", b"s"], [b"d:_l", b"d:a", b"d:b"]
TIMES, VALUES = st.integers(1, 6), st.sampled_from([b"", b"\x01", b"x"])
CELLS = st.dictionaries(st.sampled_from(COLUMNS), VALUES, min_size=1)
PUTS = st.builds(Put, st.sampled_from(ROWS), CELLS, TIMES, st.sampled_from([None, None, expiring.LIFE]))
DELETES = st.builds(
    lambda row, columns, time: (
        Delete(row, columns=columns, timestamp=time) if columns else Delete(row, families=(b"d",), timestamp=time)
    ),
    st.sampled_from(ROWS),
    st.lists(st.sampled_from(COLUMNS), unique=True).map(tuple),
    TIMES,
)


def _of_one_row(row: bytes, put: Put, delete: Delete) -> MutateRow:
    return MutateRow(
        "t",
        [Put(row, put.cells, put.timestamp, put.ttl), Delete(row, delete.families, delete.columns, delete.timestamp)],
    )


OPERATIONS = st.one_of(
    st.builds(lambda put: PutRows("t", [put]), PUTS),
    st.builds(lambda delete: DeleteRows("t", [delete]), DELETES),
    st.builds(lambda put: Together([PutRows("t", [put])]), PUTS),
    st.builds(_of_one_row, st.sampled_from(ROWS), PUTS, DELETES),
    st.builds(
        lambda put, column, expected: CheckAndMutate("t", put.row, column, expected or None, [put]),
        PUTS,
        st.sampled_from(COLUMNS),
        VALUES,
    ),
    st.builds(
        lambda rows, columns: GetRows("t", rows, columns),
        st.permutations(ROWS),
        st.sampled_from([[b"d"], [b"d:a"], COLUMNS[:2]]),
    ),
)


def _plain(answer: Any) -> Any:
    def row(found: Row | None) -> Any:
        return (
            None if found is None else {column: (cell.value, cell.timestamp) for column, cell in found.columns.items()}
        )

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
