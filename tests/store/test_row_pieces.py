"""Objects from pieces of rows that change, while scans break: each object is from one read, and is returned once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from attrs import evolve, frozen
from hypothesis import given
from hypothesis import strategies as st

from hbmodel.encoding.codecs.text import terminated
from hbmodel.store import Delete, Family, Put, Row, Scan, Store
from hbmodel.store.embedded import EmbeddedStore
from hbmodel.store.ranges import KeyRange
from hbmodel.store.values import BegunAgain
from hbmodel.store.wide.folded import FoldedStore
from hbmodel.store.wrapping import WrappingStore
from tests.support.cut_rows import wide_rows
from tests.support.sizes import pages_of

WIDE = wide_rows("t", b"d", [b"d:00", b"d:01"])
NAMES = [b"a", b"b", b"c", b"d", b"e"]
KEYS = [b"q", b"r"]

Object = tuple[bytes, bytes]


@frozen
class Event:
    """Something that happens behind a piece: objects are written with so many cells, 0 for none, and the scan may
    break.
    """

    at: int
    widths: dict[Object, int]
    breaks: bool


OBJECTS = st.tuples(st.sampled_from(KEYS), st.sampled_from(NAMES))
WIDTHS = st.dictionaries(OBJECTS, st.sampled_from([0, 0, 1, 2, 3, 4, 7, 12]), max_size=10)
EVENTS = st.lists(st.builds(Event, st.integers(0, 12), WIDTHS, st.booleans()), max_size=4)


class BreakingStore(WrappingStore):
    """A store whose scans in pieces break, and begin again with the current row, as gateways' scans do."""

    def __init__(self, store: Store, events: Sequence[Event], happen: Callable[[Event], None]) -> None:
        super().__init__(store)
        self.events, self.happen = list(events), happen
        self.number = 0

    def on_retry(self, repeated: Callable[[], None]) -> Store:
        return self

    def scan(self, table: str, scans: Sequence[Scan]) -> Sequence[Iterator[Sequence[Row]]]:
        return [self.batches(table, scan) for scan in scans]

    def batches(self, table: str, scan: Scan) -> Iterator[Sequence[Row]]:
        rest: KeyRange | None = scan.range
        while rest is not None:
            (batches,) = self._store.scan(table, [evolve(scan, range=rest)])
            rest = None
            for piece in (piece for batch in batches for piece in batch):
                yield [piece]
                due = [event for event in self.events if event.at == self.number]
                self.number += 1
                for event in due:
                    self.happen(event)
                if scan.cells is not None and scan.limit is None and any(event.breaks for event in due):
                    full = len(piece.columns) >= scan.cells
                    if full:
                        yield [BegunAgain(piece.row)]
                    rest = (
                        KeyRange(piece.row, scan.range.stop)
                        if full
                        else KeyRange(piece.row, scan.range.stop).after(piece.row)
                    )
                    break


class World:
    """What is written, and what every object has been."""

    def __init__(self, store: EmbeddedStore) -> None:
        self.store = store
        self.been: dict[Object, list[dict[bytes, bytes]]] = {}
        self.time = 1

    def write(self, widths: dict[Object, int]) -> None:
        for (row, name), width in widths.items():
            self.time += 2
            lead = b"d:p" + terminated(name)
            value = b"%d" % self.time
            before = self.been.setdefault((row, name), [{}])
            changes: list[Any] = (
                [Delete(row, columns=[lead + each[2:] for each in before[-1]], timestamp=self.time - 1)]
                if before[-1]
                else []
            )
            now = {b"d:%02d" % number: value for number in range(width)}
            changes += [Put(row, {lead + column[2:]: value for column in now}, self.time)] if now else []
            if changes:
                self.store.mutate_row("t", changes)
            before.append(now)


@pytest.mark.lengthy
@given(WIDTHS, EVENTS, st.integers(2, 5), st.booleans())
def test_every_object_is_of_one_read_and_comes_once(
    widths: dict[Object, int], events: list[Event], size: int, more: bool
) -> None:
    with EmbeddedStore(None) as store:
        store.create_table("t", [Family(b"d")])
        world = World(store)
        world.write(widths)
        steady = {each: been[-1] for each, been in world.been.items()}
        breaking = BreakingStore(store, events, lambda event: world.write(event.widths))
        wide = evolve(WIDE, more=more)
        (batches,) = FoldedStore(breaking, [wide], pages=pages_of(size, size + 2)).scan("t", [Scan()])
        found = [row for batch in batches for row in batch]
        keys = [row.row for row in found]
        assert keys == sorted(set(keys))
        places = {terminated(row) + terminated(name): (row, name) for row, name in world.been}
        shown = {places[row.row]: {column: cell.value for column, cell in row.columns.items()} for row in found}
        for each, columns in shown.items():
            been = world.been[each]
            if more:
                been = [*been, *({column: one[column] for column in WIDE.columns if column in one} for one in been)]
            assert columns in been
        touched = {each for event in events for each in event.widths}
        for each, columns in steady.items():
            if columns and each not in touched:
                assert each in shown
                assert more or shown[each] == columns
