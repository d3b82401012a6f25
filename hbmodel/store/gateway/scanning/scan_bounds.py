"""The start and stop rows that make HBase read a half-open key range, in either direction."""

from __future__ import annotations

from hbmodel.store.ranges import KeyRange, prefix_successor
from hbmodel.store.values import MAX_ROW_LENGTH

# A bound just below a key ends with FF bytes, so that almost no key is between the bound and the key. There are nine of
# them, as in `ConnectionUtils.MAX_BYTE_ARRAY`.
_NEARLY = b"\xff" * 9


def forward_bounds(keys: KeyRange) -> tuple[bytes, bytes] | None:
    """Returns the inclusive start row and the exclusive stop row of a forward scan, or None if no key can be in the
    range.

    An empty bound means unbounded. HBase refuses bounds that are longer than the longest row key. But a range that
    begins just after a key of this length, or whose last key has this length, has a longer bound. Such a bound is
    replaced by the prefix successor of the key, because there are no keys between the two.
    """
    start: bytes | None = keys.start
    if len(keys.start) > MAX_ROW_LENGTH:
        start = prefix_successor(keys.start[:MAX_ROW_LENGTH])
    stop = keys.stop
    if stop is not None and len(stop) > MAX_ROW_LENGTH:
        stop = prefix_successor(stop[:MAX_ROW_LENGTH])
    if start is None or (stop is not None and stop <= start):
        return None
    return start, stop or b""


def reversed_bounds(keys: KeyRange) -> tuple[bytes, bytes] | None:
    """Returns the inclusive start row (upper) and the exclusive stop row (lower) of a reversed scan. An empty bound
    means unbounded.

    A reversed scan can express neither "below this key" nor "down to and including this key", unless the key ends in 00
    and so has a predecessor. For other keys, the scan begins at the range's stop and ends a little below its start. The
    caller must drop rows outside the range: at most one at the beginning, and rarely any at the end.
    """
    if keys.empty:
        return None
    upper, lower = _upper(keys.stop), _lower(keys.start)
    if upper and upper <= lower:  # all keys are too long for HBase; equal bounds would mean "exactly this row"
        return None
    return upper, lower


def _upper(stop: bytes | None) -> bytes:
    if stop is None:
        return b""
    if len(stop) > MAX_ROW_LENGTH:
        return stop[:MAX_ROW_LENGTH]
    return stop[:-1] if stop.endswith(b"\x00") and len(stop) > 1 else stop


def _lower(start: bytes) -> bytes:
    if not start:
        return b""
    if len(start) > MAX_ROW_LENGTH:
        return start[:MAX_ROW_LENGTH]
    if start.endswith(b"\x00"):
        return start[:-1]
    return (start[:-1] + bytes((start[-1] - 1,)) + _NEARLY)[:MAX_ROW_LENGTH]
