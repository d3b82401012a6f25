"""Sequences: ids from a counter in the store, taken in blocks."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from os import getpid
from typing import Any

from attrs import field, frozen

from hbmodel.errors import DeclarationError
from hbmodel.mapping.declare.dictionary_tables import SEQUENCES, Counter, counter_of, sequence_model
from hbmodel.protocol.id_block import take_block
from hbmodel.store.checks.numbers import whole_number
from hbmodel.store.port import HasStore, Store, store_of
from hbmodel.tables.ids.retrying import drive_with_retries

LARGEST_BLOCK = 2**31


def _name(name: Any) -> Any:
    if not isinstance(name, str) or not name:
        raise DeclarationError("A sequence needs a name: it is the row key of its counter.", found=repr(name))
    return name


def _block(block: Any) -> Any:
    number = whole_number(block)
    if number is None or not 1 <= number <= LARGEST_BLOCK:
        raise DeclarationError("A block must be a whole number of ids from 1 to 2,147,483,648.", found=repr(block))
    return number


@frozen
class IdSequence:
    """Ids that start at 1 and are each given only once; `on(store)` returns them.

    A program reserves ids in blocks, each with one increment of a counter. So the ids of one program increase, but ids
    from several programs are not in chronological order. There are gaps: ids that are left in a program's block when it
    ends are never given. The same holds for all ids of a block if the answer to its increment was lost.
    `hb.create_tables(store, sequence)` creates the table.

    Args:
        name: the name of the sequence, unique in its table.
        block: how many ids to reserve at a time.
        table: the table of the counters, shared by sequences.

    Raises:
        DeclarationError: an argument is invalid.
    """

    name: str = field(converter=_name)
    block: int = field(default=100, converter=_block, kw_only=True)
    table: str = field(default=SEQUENCES, kw_only=True)

    @property
    def models(self) -> tuple[type[Any], ...]:
        """The model of the table of counters."""
        return (sequence_model(self.table),)

    def on(self, store: Store | HasStore) -> SequenceIds:
        """The ids, from the counter in a store.

        Args:
            store: the store that holds the table of counters, or a session.
        """
        return SequenceIds(store_of(store), counter_of(self.table, self.name), self.block)


class SequenceIds:
    """The ids of a sequence, from one store. Thread-safe; also an endless iterator.

    Each instance has its own block, so create one for the whole program. After a fork the child reserves its own
    blocks.

    Args:
        store: the store that holds the counter.
        counter: the counter of the sequence.
        block: how many ids to reserve at a time.
    """

    def __init__(self, store: Store, counter: Counter, block: int) -> None:
        self._store, self._counter, self._block = store, counter, block
        self._lock = threading.Lock()
        self._next, self._end, self._process = 0, 0, getpid()

    def next(self) -> int:
        """An id that is given only once; calls the store once per block.

        Raises:
            IdsExhausted: the counter has reached its end.
            StoreError: raised by the store; calling the method again is safe, also after `UnknownOutcome`.
        """
        return self.take(1)[0]

    def take(self, count: int) -> list[int]:
        """The given number of ids, ascending. If the block has too few, one call reserves the rest, at least a whole
        block.
        """
        number = whole_number(count)
        if number is None or not 0 <= number <= LARGEST_BLOCK:
            raise DeclarationError("Give a whole number of ids, at least 0.", found=repr(count))
        with self._lock:
            if self._process != getpid():
                self._next, self._end, self._process = 0, 0, getpid()
            missing = number - (self._end - self._next)
            if missing <= 0:
                self._next += number
                return list(range(self._next - number, self._next))
            taken = drive_with_retries(self._store, take_block(self._counter, max(missing, self._block)))
            ids = [*range(self._next, self._end), *taken[:missing]]
            self._next, self._end = taken.start + missing, taken.stop
            return ids

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        return self.next()
