"""Takes a block of consecutive ids from a counter, as a sans-IO generator."""

from __future__ import annotations

from hbmodel.errors import IdsExhausted
from hbmodel.mapping.declare.dictionary_tables import Counter
from hbmodel.protocol.operations import Increment, Protocol


def take_block(counter: Counter, count: int) -> Protocol[range]:
    """Returns ids that no other call returns. If a call is repeated because the response was lost, the ids of the first
    attempt may remain unused: a gap.
    """
    last: int = yield Increment(counter.table, counter.row, counter.column, count)
    if last < count:  # the counter has overflowed
        raise IdsExhausted(
            "The counter of the sequence has reached its largest value: use another sequence.",
            table=counter.table,
            key=counter.row,
        )
    return range(last - count + 1, last + 1)
