"""Half-open ranges of byte strings, as HBase orders them (unsigned, lexicographic), and the successor of a prefix."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from attrs import frozen


def prefix_successor(prefix: bytes) -> bytes | None:
    """Returns the smallest byte string above every string that starts with `prefix`, or None if there is none.

    Trailing FF bytes are dropped, and the last remaining byte is increased by one. An empty prefix, or one with only FF
    bytes, has no successor: the range is unbounded above, and must never wrap to a small key.

    Source: `org.apache.hadoop.hbase.client.ClientUtil.calculateTheClosestNextRowKeyForPrefix`.
    """
    stripped = prefix.rstrip(b"\xff")
    if not stripped:
        return None
    return stripped[:-1] + bytes((stripped[-1] + 1,))


def key_successor(key: bytes) -> bytes:
    """Returns the smallest byte string above `key`: the key followed by a zero byte."""
    return key + b"\x00"


@frozen
class KeyRange:
    """A range of keys with `start <= key < stop`.

    Attributes:
        start: first key of the range (inclusive); empty means from the first key.
        stop: first key after the range (exclusive); None means unbounded. An empty `stop` is an empty range.
    """

    start: bytes = b""
    stop: bytes | None = None

    @classmethod
    def prefix(cls, prefix: bytes) -> KeyRange:
        """Returns the range of all keys that start with `prefix`."""
        return cls(prefix, prefix_successor(prefix))

    @classmethod
    def exactly(cls, key: bytes) -> KeyRange:
        """Returns the range that contains only `key`."""
        return cls(key, key_successor(key))

    @property
    def empty(self) -> bool:
        """Whether no key can be in the range."""
        return self.stop is not None and self.stop <= self.start

    def __contains__(self, key: bytes) -> bool:
        return self.start <= key and (self.stop is None or key < self.stop)

    def intersect(self, other: KeyRange) -> KeyRange:
        """Returns the range of the keys in both ranges, which may be empty."""
        start = max(self.start, other.start)
        if self.stop is None:
            return KeyRange(start, other.stop)
        if other.stop is None:
            return KeyRange(start, self.stop)
        return KeyRange(start, min(self.stop, other.stop))

    def after(self, key: bytes) -> KeyRange:
        """Returns the part of the range above `key` (which need not be in the range)."""
        return self.intersect(KeyRange(key_successor(key), None))

    def before(self, key: bytes) -> KeyRange:
        """Returns the part of the range below `key` (which need not be in the range)."""
        return self.intersect(KeyRange(b"", key))


def merge_ranges(ranges: Iterable[KeyRange]) -> Sequence[KeyRange]:
    """Returns sorted, disjoint, non-adjacent ranges with the same keys, without empty ranges."""
    merged: list[KeyRange] = []
    for current in sorted((r for r in ranges if not r.empty), key=lambda r: r.start):
        if merged:
            last = merged[-1]
            if last.stop is None:
                break
            if current.start <= last.stop:
                stop = None if current.stop is None else max(last.stop, current.stop)
                merged[-1] = KeyRange(last.start, stop)
                continue
        merged.append(current)
    return merged
