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
    try:
        name.encode()
    except UnicodeEncodeError:
        raise DeclarationError(
            "The name of a sequence must be text that UTF-8 can encode: it has half of a surrogate pair.",
            found=repr(name),
        ) from None
    return name


def _block(block: Any) -> Any:
    number = whole_number(block)
    if number is None or not 1 <= number <= LARGEST_BLOCK:
        raise DeclarationError("A block must be a whole number of ids from 1 to 2,147,483,648.", found=repr(block))
    return number


@frozen
class IdSequence:
    """A sequence of unique ids that start at 1. `on(store)` returns the ids from a store.

    A program reserves ids in blocks, by one increment of a counter for each block. So the ids of one program increase,
    but the ids of several programs are not in chronological order. There are gaps: when a program ends, the remaining
    ids of its block are never used. If the response to an increment is lost, the whole block is never used.
    `hb.create_tables(store, sequence)` creates the table.

    Args:
        name: the name of the sequence, unique in its table.
        block: how many ids to reserve at a time.
        table: the table of the counters, which several sequences may share.

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
        """Returns the ids of the sequence, from the counter in a store.

        Args:
            store: the store that holds the table of counters, or a session.
        """
        return SequenceIds(store_of(store), counter_of(self.table, self.name), self.block)


class SequenceIds:
    """The ids of a sequence, from one store. It is thread-safe, and is also an endless iterator.

    Each instance reserves separate blocks, so create only one for the whole program. After a fork, the child reserves
    new blocks.

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
        """Returns a new id. The store is called once for each block.

        Raises:
            IdsExhausted: the counter has reached its end.
            StoreError: raised by the store; calling the method again is safe, also after `UnknownOutcome`.
        """
        return self.take(1)[0]

    def take(self, count: int) -> list[int]:
        """Returns the given number of new ids, in ascending order. If the current block has too few ids, one call
        reserves the missing ids, or a whole block if that is more.
        """
        number = whole_number(count)
        if number is None or not 0 <= number <= LARGEST_BLOCK:
            raise DeclarationError("Give a whole number of ids from 0 to 2,147,483,648.", found=repr(count))
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
