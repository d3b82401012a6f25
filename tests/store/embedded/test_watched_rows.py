"""The gate of a writer is passed inside the transaction that writes, and sees there what other programs have
written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hbmodel.errors import SchemaMismatch, TableNotFound
from hbmodel.store import ConditionalChange, Delete, Family, Put
from hbmodel.store.embedded.store import EmbeddedStore
from hbmodel.store.gate import GATE, TRANSACTION, gated

CELL = b"d:c"


@pytest.fixture(params=["memory", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EmbeddedStore]:
    with EmbeddedStore(None if request.param == "memory" else str(tmp_path / "store.db")) as made:
        made.create_table("t", [Family(b"d")])
        made.create_table("registry", [Family(b"d")])
        yield made


def seen() -> bytes | None:
    """The row as the transaction of a gate sees it."""
    read = TRANSACTION.get()
    assert read is not None
    row = read("registry", b"r")
    return None if row is None else row.columns[CELL].value


WRITES: list[Callable[[EmbeddedStore], object]] = [
    lambda store: store.put("t", [Put(b"a", {CELL: b"1"}), Put(b"b", {CELL: b"1"})]),
    lambda store: store.delete("t", [Delete(b"there")]),
    lambda store: store.mutate_row("t", [Put(b"a", {CELL: b"1"})]),
    lambda store: store.check_and_put("t", b"a", CELL, None, Put(b"a", {CELL: b"1"})),
    lambda store: store.check_and_mutate("t", b"a", CELL, None, [Put(b"a", {CELL: b"1"})]),
    lambda store: store.check_and_mutate_many("t", [ConditionalChange(b"a", CELL, None, [Put(b"a", {CELL: b"1"})])]),
    lambda store: store.increment("t", b"a", CELL, 1),
]


@pytest.mark.parametrize("write", WRITES)
def test_nothing_is_written_where_the_gate_is_shut(
    store: EmbeddedStore, write: Callable[[EmbeddedStore], object]
) -> None:
    store.put("t", [Put(b"there", {CELL: b"1"})])

    def shut() -> None:
        raise SchemaMismatch("changed")

    with gated(shut), pytest.raises(SchemaMismatch):
        write(store)
    assert [row is not None for row in store.get("t", [b"there", b"a", b"b"])] == [True, False, False]
    write(store)  # it passes no gate, and nothing holds the file


@pytest.mark.parametrize("write", WRITES)
def test_each_write_passes_the_gate_once_and_reads_in_its_transaction(
    store: EmbeddedStore, write: Callable[[EmbeddedStore], object]
) -> None:
    store.put("registry", [Put(b"r", {CELL: b"state"})])
    passed: list[bytes | None] = []

    def gate() -> None:
        assert GATE.get() is None, "what a gate asks for passes none"
        assert store.get("t", [b"a"]) == [None]  # reads of the store are of the transaction
        assert store.tables() == ["registry", "t"]
        passed.append(seen())

    with gated(gate):
        write(store)
    assert passed == [b"state"]
    assert TRANSACTION.get() is None


def test_a_row_is_the_same_object_until_it_is_written(store: EmbeddedStore) -> None:
    rows: list[object] = []

    def gate() -> None:
        read = TRANSACTION.get()
        assert read is not None
        rows.append(read("registry", b"r"))

    def put(table: str, row: bytes, value: bytes) -> None:
        with gated(gate):
            store.put(table, [Put(row, {CELL: value})])

    put("registry", b"r", b"1")
    put("t", b"r", b"1")
    put("registry", b"s", b"1")
    put("t", b"r", b"2")
    assert rows[0] is None
    assert rows[1] is not None
    assert rows[1] is rows[2] is rows[3]
    for change in (
        lambda: store.put("registry", [Put(b"r", {CELL: b"2"})]),
        lambda: store.check_and_put("registry", b"r", CELL, b"2", Put(b"r", {CELL: b"3"})),
        lambda: store.delete("registry", [Delete(b"r")]),
        lambda: store.increment("registry", b"r", CELL, 1),
    ):
        change()
        put("t", b"r", b"1")
        assert rows[-1] is not rows[-2]
        assert rows[-1] == store.get("registry", [b"r"])[0]
    store.delete_table("registry")
    with pytest.raises(TableNotFound):
        put("t", b"r", b"1")


def test_what_another_program_writes_is_seen_at_once(tmp_path: Path) -> None:
    path = str(tmp_path / "store.db")
    with EmbeddedStore(path) as one, EmbeddedStore(path) as other:
        for table in ("t", "registry"):
            one.create_table(table, [Family(b"d")])
        passed: list[bytes | None] = []
        for value in (b"1", b"2", b"2", b"3"):
            other.put("registry", [Put(b"r", {CELL: value})])
            for _ in (0, 1):
                with gated(lambda: passed.append(seen())):
                    one.put("t", [Put(b"a", {CELL: b"1"})])
        assert passed == [b"1", b"1", b"2", b"2", b"2", b"2", b"3", b"3"]


def test_a_gate_writes_nothing(store: EmbeddedStore) -> None:
    with gated(lambda: store.put("t", [Put(b"b", {CELL: b"1"})])), pytest.raises(RuntimeError, match="already in a"):
        store.put("t", [Put(b"a", {CELL: b"1"})])
    assert store.get("t", [b"a", b"b"]) == [None, None]
