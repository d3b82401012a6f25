"""Queries that need only row keys: no value is read, whatever the rows are like."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

import hbmodel as hb
from hbmodel.session.commit.session_sizes import SessionSizes
from hbmodel.store import Row
from hbmodel.tables.roll.binding_cache import BindingCache
from tests.support.beds import Bed, fresh
from tests.support.faulty import RecordingStore

LENGTH = 2000
ROWS = 30


@hb.model(table="keys_plain", family="d")
class Plain:
    number: hb.Key[int] = hb.key(hb.UInt32)
    text: hb.Column[str] = hb.column("t")


@hb.model(table="keys_nullable", family="d")
class Nullable:
    number: hb.Key[int] = hb.key(hb.UInt32)
    text: hb.Column[str | None] = hb.column("t", default=None)


@hb.model(table="keys_flagged", family="d", exists=hb.flag("e"))
class Flagged:
    number: hb.Key[int] = hb.key(hb.UInt32)
    text: hb.Column[str | None] = hb.column("t", default=None)


@hb.model(table="keys_indexed", family="d")
class Indexed:
    number: hb.Key[int] = hb.key(hb.UInt32)
    text: hb.Column[str] = hb.column("t")
    topic: hb.Column[int] = hb.column("o", default=0)

    by_topic = hb.index("topic")


@hb.model(table="keys_external", family="d", external=True)
class External:
    number: hb.Key[int] = hb.key(hb.UInt32)
    text: hb.Column[str | None] = hb.column("t", default=None)


@hb.model(table="keys_wide", family="d")
class Wide:
    owner: hb.Key[str] = hb.key()
    number: hb.Key[int] = hb.key(hb.UInt32, in_qualifier=True)
    text: hb.Column[str] = hb.column("t")


@hb.model(table="keys_salted", family="d", salt=hb.HashSalt(4))
class Salted:
    number: hb.Key[int] = hb.key(hb.UInt32)
    text: hb.Column[str] = hb.column("t")


MODELS = (Plain, Nullable, Flagged, Indexed, External, Wide, Salted)


class Weighing(RecordingStore):
    """Counts the bytes of the values that scans and gets return."""

    bytes = 0

    def get(self, table: str, rows: Any, columns: Any = ()) -> Any:
        found = super().get(table, rows, columns)
        if not table.startswith("hbmodel"):
            self._weigh([row for row in found if row is not None])
        return found

    def scan(self, table: str, scans: Any) -> Any:
        return [self._weighed(batches) for batches in super().scan(table, scans)]

    def _weighed(self, batches: Iterator[Sequence[Row]]) -> Iterator[Sequence[Row]]:
        try:
            for batch in batches:
                self._weigh(batch)
                yield batch
        finally:
            close = getattr(batches, "close", None)
            if close is not None:
                close()

    def _weigh(self, rows: Sequence[Row]) -> None:
        self.bytes += sum(len(cell.value) for row in rows for cell in row.columns.values())


def filled(bed: Bed, model: Any) -> tuple[Weighing, Any]:
    """A store with rows, and a query for all of them."""
    session = bed.use(model)
    owner = {"owner": "o"} if model is Wide else {}
    session.bulk_add([model(**owner, number=number, text="x" * LENGTH) for number in range(ROWS)])
    store = Weighing(bed.store)
    query = hb.Session(store, sizes=SessionSizes(skipped=10)).query(model)
    query = query.where(Wide.owner == "o") if model is Wide else query.allow_full_scan()
    query.first()  # learns what the registry says, and how large cells are
    store.bytes = 0
    return store, query


@pytest.mark.parametrize("model", MODELS)
def test_no_value_is_read_for_keys(bed: Bed, model: Any) -> None:
    store, query = filled(bed, model)
    assert query.select(model.number).all() == [(number,) for number in range(ROWS)]
    assert query.exists()
    assert query.count() == ROWS
    assert store.bytes < ROWS * 40  # of system cells and flags


@pytest.mark.parametrize("model", MODELS)
def test_skipped_items_are_read_by_their_keys(bed: Bed, model: Any) -> None:
    store, query = filled(bed, model)
    skipping = query.offset(ROWS - 4)
    assert [each.number for each in skipping.limit(2)] == [ROWS - 4, ROWS - 3]
    assert store.bytes < 9 * LENGTH + ROWS * 40  # each bucket is read as far as all of them may be needed
    store.bytes = 0
    page = skipping.page(3)
    assert [each.number for each in page.items] == [ROWS - 4, ROWS - 3, ROWS - 2]
    assert page.previous_token is None
    assert [each.number for each in skipping.page(3, after=page.next_token).items] == [ROWS - 1]
    assert store.bytes < 16 * LENGTH + ROWS * 40
    assert query.offset(ROWS).page(3).items == query.offset(ROWS + 5).all() == []
    assert query.offset(ROWS).page(3).next_token is None
    assert [each.number for each in query.reversed().offset(10).limit(1)] == [ROWS - 11]


def test_explain_counts_the_scans_of_skipped_items() -> None:
    store = fresh(Salted)
    hb.Session(store).bulk_add([Salted(number=number, text="") for number in range(20)])
    query = hb.Session(store, sizes=SessionSizes(skipped=10)).query(Salted).allow_full_scan()
    few, many = query.offset(9).limit(5).explain(), query.offset(10).limit(5).explain()
    assert (few.skipped, few.scan_calls, few.round_trips, few.limit) == (0, 4, 1, 14)
    assert (many.skipped, many.scan_calls, many.round_trips, many.limit) == (10, 8, 2, 5)
    assert "  offset:  10 items are skipped by their keys, with scans of their own" in str(many)
    store.calls.clear()
    query.offset(10).limit(5).all()
    assert sum(len(call.items) for call in store.calls if call.name == "scan") == 8
    assert "  server:  no values" in str(query.select(Salted.number).explain())
    wide = hb.Session(fresh(Wide)).query(Wide).where(Wide.owner == "o").select(Wide.number).explain()
    assert ", no values\n" in str(wide)


def declare(*, indexed: bool) -> Any:
    class Leaf:
        number: hb.Key[int] = hb.key(hb.UInt32)
        text: hb.Column[str] = hb.column("t")

        if indexed:
            by_text = hb.index("text")

    return hb.model(table="keys_leaves", family="d")(Leaf)


def test_rows_that_get_an_index_meanwhile_are_read_again() -> None:
    """A session that has not noticed the index sees liveness cells without their values, of deleted rows too."""
    old, new = declare(indexed=False), declare(indexed=True)
    store = fresh(old)
    with hb.Session(store) as session:
        session.add_all(old(number=number, text="x") for number in range(20))
    early = hb.Session(store, cache=BindingCache(60, running=lambda: 0), sizes=SessionSizes(skipped=4))
    query = early.query(old).allow_full_scan()
    assert query.exists()
    hb.create_tables(store, new)
    hb.indexes.build_index(store, new, "by_text")
    with hb.Session(store) as late:
        late.delete_key(new, number=3)
        late.update_key(new, number=5, text="y")
    left = [number for number in range(20) if number != 3]
    store.calls.clear()
    assert query.select(old.number).all() == [(number,) for number in left]
    assert store.told() == ["scan keys_leaves", "get keys_leaves"]
    assert [each.number for each in query.offset(4).limit(3)] == left[4:7]
    assert [each.number for each in query.reversed().offset(16).page(9).items] == left[2::-1]
    assert query.limit(1).select(old.number).all() == [(0,)]
