"""Decides how a path must be read to have the order of a query, which may need merged scans: "two users, newest first"
reads each user's rows in a separate scan.

If leading fields of a key have several values, the rows of each combination of values are sorted by their other fields.
The scans of the combinations are merged by these other fields, as the scans of salt buckets are merged. So the result
has an order that the table itself does not have.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from functools import cached_property

from attrs import frozen

from hbmodel.encoding.key_layout import KeyLayout
from hbmodel.errors import TokenError
from hbmodel.mapping.predicates import Ordering
from hbmodel.query.match.key_conditions import KeyConditions
from hbmodel.store.ranges import KeyRange, key_successor

KeyPlace = bytes | tuple[bytes, bytes]
"""A value by which keys are sorted: the key without its salt or, if runs are merged, the key's fields in a different
order.
"""

MAX_MERGED = 1_000
"""The maximum number of scans that are merged, over all buckets and combinations of values."""


@frozen
class Direction:
    """How a path is read so that its rows have a required order.

    Attributes:
        backwards: whether the path is read from its last key to its first.
        merged: positions, in key order, of the leading fields whose values are read by separate scans that are merged.
    """

    backwards: bool
    merged: tuple[int, ...] = ()


def direction(
    layout: KeyLayout,
    matched: KeyConditions,
    ordering: Sequence[Ordering],
    never_none: Set[str],
    each: Set[str] = frozenset(),
) -> Direction | None:
    """Returns how a path must be read so that its rows have a required order, or None if this is not possible.

    A field that the query fixes to one value may be at any position in the order, or be left out. If the order names
    only such fields, the last one decides the direction of the rest of the key, as it does for several values. A field
    that the query fixes to several values may be left out if the ranges of these values are merged. None sorts before
    every value, or after every value if the order is descending. Fields in `never_none` have no None in the result.
    Fields in `each` count as fixed to one value.
    """
    if not ordering:
        return Direction(False)
    fixed = each | {name for name, parts in zip(layout.names, matched.parts, strict=False) if len(parts) <= 1}
    open_parts = [part for part in ordering if part.field.name not in fixed]
    if not open_parts:
        order = layout.order_of(layout.names.index(ordering[-1].field.name))
        return Direction(order is not None and (order == "descending") != ordering[-1].desc)
    free = iter([at for at, name in enumerate(layout.names) if name not in fixed])
    merged: list[int] = []
    backwards: bool | None = None
    for part in open_parts:
        at = next(free, None)
        while at is not None and layout.names[at] != part.field.name and at < len(matched.parts):
            if not layout.fields[at].codec.delimited:
                return None  # the keys with one value may lie between keys with another value
            merged.append(at)
            at = next(free, None)
        order = None if at is None else layout.order_of(at)
        if at is None or layout.names[at] != part.field.name or order is None:
            return None
        opposite = (order == "descending") != part.desc
        if backwards is not None and opposite != backwards:
            return None
        backwards = opposite
        declared = layout.fields[at]
        if declared.nullable and declared.name not in never_none and declared.desc == (order == "ascending"):
            return None  # the direction of the field decides where None is, but the codec reverses the values
    return Direction(bool(backwards), tuple(merged))


def combinations(matched: KeyConditions, positions: Sequence[int]) -> int:
    """Returns how many combinations of values the fields at some positions of a key can have. All these fields are
    fixed.
    """
    if matched.pieces is not None:
        return len({tuple(piece.parts[at] for at in positions) for piece in matched.pieces})
    return math.prod(len(matched.parts[at]) for at in positions)


@frozen(eq=False)
class MergedOrder:
    """The order in which runs of keys are merged, in which some leading fields of the key come after all other fields.

    Attributes:
        merged: positions of the fields that come last, in key order.
        runs: for each run, the bytes with which all its keys begin, and as its value the same bytes in two parts: those
            of the fields that come first in the order, and those of the fields that come last.
        tail: the number of bytes that follow the fields of a key, as in `KeyLayout`. They come after all fields.
    """

    merged: Sequence[int]
    runs: Mapping[bytes, tuple[bytes, bytes]]
    tail: int = 0

    @classmethod
    def of(cls, layout: KeyLayout, matched: KeyConditions, merged: Sequence[int]) -> MergedOrder | None:
        """Returns the order in which the key ranges of matched conditions are merged, or None if no field is merged."""
        if not merged:
            return None
        order = cls(merged, {}, layout.tail)
        leads = {tuple(piece.parts[: order.cut]) for piece in matched.all_pieces(layout)}
        return cls(merged, {b"".join(parts): order.place(parts) for parts in leads}, layout.tail)

    @property
    def cut(self) -> int:
        """The number of leading fields that have the same values in all keys of a run."""
        return self.merged[-1] + 1

    def place(self, parts: Sequence[bytes], tail: bytes = b"") -> tuple[bytes, bytes]:
        """Returns the sort key of a key that consists of these fields and this tail. The key need not belong to a
        run.
        """
        return b"".join(part for at, part in enumerate(parts) if at not in self.merged), b"".join(
            parts[at] for at in self.merged
        ) + tail

    @cached_property
    def _lengths(self) -> Sequence[int]:
        return sorted({len(lead) for lead in self.runs})

    def key(self, position: bytes) -> tuple[bytes, bytes]:
        """Returns the sort key of a key that is given without its salt.

        Raises:
            TokenError: the key is in none of the runs, which only happens if a token was altered.
        """
        for length in self._lengths:
            run = self.runs.get(position[:length])
            if run is not None:
                end = len(position) - self.tail
                return run[0] + position[length:end], run[1] + position[end:]
        raise TokenError("The continuation token is damaged: start from the first page.")

    def beyond(
        self, key_range: KeyRange, prefix: bytes, lead: bytes, place: tuple[bytes, bytes], above: bool
    ) -> KeyRange:
        """Returns the part of a range of one run whose keys are above a place, or below it.

        Args:
            prefix: the salt prefix of the keys.
            lead: the bytes with which all keys of the run begin after the salt.
            place: a sort key, as `key` returns it.
            above: whether to return the part above the place.
        """
        (rest, last), (first, own) = place, self.runs[lead]
        if not rest.startswith(first):
            return key_range if (first > rest) == above else KeyRange(b"", b"")
        key = prefix + lead + rest[len(first) :]
        # The keys that differ from this one only in their tails are all above the place, or all below it, unless they
        # have the same values in the fields that come last.
        if last.startswith(own):
            same = key + last[len(own) :]
            below, behind = same, key_successor(same)
        elif own > last:
            below = behind = key
        else:
            below = behind = key_successor(key + b"\xff" * self.tail)
        return key_range.intersect(KeyRange(behind, None) if above else KeyRange(b"", below))
