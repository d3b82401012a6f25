"""Sequences: ids from a counter in the store, taken in blocks."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from os import getpid
from typing import Any

from attrs import field, frozen

from hbmodel.errors import DeclarationError
from hbmodel.mapping.dictionary_tables import SEQUENCES, Counter, counter_of, sequence_model
from hbmodel.protocol.id_block import take_block
from hbmodel.store.checks.numbers import whole_number
from hbmodel.store.port import Store, check_store
from hbmodel.tables.repeating import drive_repeating

LARGEST_BLOCK = 2**31


def _name(name: Any) -> Any:
    if not isinstance(name, str) or not name:
        raise DeclarationError("A sequence has a name, which is the row key of its counter.", found=repr(name))
    return name


def _block(block: Any) -> Any:
    number = whole_number(block)
    if number is None or not 1 <= number <= LARGEST_BLOCK:
        raise DeclarationError("A block is a whole number of ids, from 1 to 2,147,483,648.", found=repr(block))
    return number


@frozen
class Sequence:
    """Ids that count from 1, each given once whoever asks; `on(store)` gives them.

    Ids are taken in blocks, by one increment of a counter each, so those of one program ascend and those of several are not in the
    order of time. What a program has left of its block when it ends is never given, nor is a block whose increment lost its answer:
    there are gaps. `hb.create_tables(store, sequence)` makes the table.

    Args:
        name: of the sequence, unique in its table.
        block: ids that are taken at a time.
        table: of the counters, which sequences share.

    Raises:
        DeclarationError: an argument is none of these.
    """

    name: str = field(converter=_name)
    block: int = field(default=100, converter=_block, kw_only=True)
    table: str = field(default=SEQUENCES, kw_only=True)

    @property
    def models(self) -> tuple[type[Any], ...]:
        """The model of the table of counters."""
        return (sequence_model(self.table),)

    def on(self, store: Store) -> SequenceIds:
        """The ids, from the counter in a store.

        Args:
            store: that holds the table of counters, or a session.
        """
        given: Store = getattr(store, "store", store)
        check_store(given)
        return SequenceIds(given, counter_of(self.table, self.name), self.block)


class SequenceIds:
    """The ids of a sequence, from one store. Thread-safe; also an endless iterator.

    Each of these has a block of its own: make one for the whole program. After a fork the child takes its own blocks.

    Args:
        store: that holds the counter.
        counter: of the sequence.
        block: ids that are taken at a time.
    """

    def __init__(self, store: Store, counter: Counter, block: int) -> None:
        self._store, self._counter, self._block = store, counter, block
        self._lock = threading.Lock()
        self._next, self._end, self._process = 0, 0, getpid()

    def next(self) -> int:
        """An id that nobody else is given; calls the store once in a block.

        Raises:
            IdsExhausted: the counter is at its end.
            StoreError: as the store does; calling it again is safe, also after `UnknownOutcome`.
        """
        return self.take(1)[0]

    def take(self, count: int) -> list[int]:
        """So many ids, ascending; those that the block lacks are taken in one call, with the next block where it is larger."""
        number = whole_number(count)
        if number is None or not 0 <= number <= LARGEST_BLOCK:
            raise DeclarationError("Give a whole number of ids that is not negative.", found=repr(count))
        with self._lock:
            if self._process != getpid():
                self._next, self._end, self._process = 0, 0, getpid()
            missing = number - (self._end - self._next)
            if missing <= 0:
                self._next += number
                return list(range(self._next - number, self._next))
            taken = drive_repeating(self._store, take_block(self._counter, max(missing, self._block)))
            ids = [*range(self._next, self._end), *taken[:missing]]
            self._next, self._end = taken.start + missing, taken.stop
            return ids

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        return self.next()
