"""Object keys: one byte string for each object of a wide row, in the order of row key and column qualifier, and
slices of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from attrs import frozen

from hbmodel.encoding.codecs.text import ESCAPED_ZERO, TERMINATOR, escape, terminated, unescape_part
from hbmodel.errors import DecodingError
from hbmodel.store.ranges import KeyRange, key_successor, prefix_successor

PrefixEnd = Callable[[bytes], int | None]
"""A function that returns the position at which the prefix of the object ends in a qualifier that includes the kind. It
returns None if the qualifier belongs to no object of the model.
"""

FIRST_QUALIFIER: Final = b"\x00"
"""The smallest qualifier that is not empty. The empty qualifier belongs to no object, because every qualifier of an
object contains a key field or an alias.
"""

NO_PLACES: Final = KeyRange(b"", b"")


@frozen
class Slice:
    """The same range of qualifiers in each row of a range of rows.

    Attributes:
        first: the first qualifier, inclusive; never empty.
        stop: the first qualifier after the slice; None if the slice has no end.
    """

    rows: KeyRange
    first: bytes
    stop: bytes | None

    @property
    def row(self) -> bytes | None:
        """The only row of the slice, or None if there may be more."""
        return self.rows.start if self.rows.stop == key_successor(self.rows.start) else None


@frozen
class ObjectKeyForm:
    """The bijection between object keys and pairs of row key and qualifier prefix. It preserves order with any codecs.

    An object key is `[salt][rest of the row key, escaped and terminated like text][qualifier prefix without the kind]`.
    If the row is constant, the object key is only the qualifier prefix, without the kind.

    Attributes:
        salt: the number of bytes in row keys before the fields.
        row: the row key of all objects, or None if row keys have fields.
        kind: the bytes with which qualifiers begin, or nothing.
    """

    salt: int = 0
    row: bytes | None = None
    kind: bytes = b""

    def cut(self, place: bytes) -> tuple[bytes, bytes]:
        """Splits an object key into the row key and the qualifier prefix. The prefix includes the kind.

        Raises:
            DecodingError: the bytes are not an object key of this form.
        """
        if self.row is not None:
            return self.row, self.kind + place
        rest, end = unescape_part(place, self.salt)
        return (place[: self.salt] + rest if self.salt else rest), self.kind + place[end:]

    def join(self, row: bytes, prefix: bytes) -> bytes:
        """Joins a row key and a qualifier prefix into an object key. The prefix includes the kind.

        Raises:
            DecodingError: the row is shorter than the salt or is not the constant row, or the prefix does not begin
                with the kind.
        """
        kind, salt = self.kind, self.salt
        if not prefix.startswith(kind):
            found = prefix[: len(kind)]
            raise DecodingError("A qualifier does not begin with the kind of the model.", kind=kind, found=found)
        if self.row is None:
            if len(row) < salt:
                raise DecodingError("A row key is shorter than its salt.", width=salt, found=len(row))
            return row[:salt] + terminated(row[salt:]) + prefix[len(kind) :]
        if row != self.row:
            raise DecodingError("The row is not the constant row of its model.", expected=self.row, found=row)
        return prefix[len(kind) :]

    def places(self, rows: KeyRange) -> KeyRange:
        """Returns the object keys of all objects whose rows lie in a range, such as a region."""
        if self.row is not None:
            return KeyRange() if self.row in rows else NO_PLACES
        return KeyRange(self._bound(rows.start), None if rows.stop is None else self._bound(rows.stop))

    def _bound(self, row: bytes) -> bytes:
        """Returns the smallest object key that is possible in a row with this key or a larger key."""
        return row[: self.salt] + escape(row[self.salt :])

    def slices(self, places: KeyRange, prefix_end: PrefixEnd | None = None) -> tuple[Slice, ...]:
        """Returns the slices with the cells of the objects whose object keys lie in a range: the end of a row, whole
        rows, and the beginning of a row.

        There are at most three slices, disjoint and in the order of object keys.

        Args:
            places: a range with any bounds, which need not be object keys.
            prefix_end: a function that finds the end of the prefix of an object of the model. If it is given, the
                slices contain the cells of exactly these objects. If it is not given, and a bound lies just after the
                prefix of an object, such as the successor of its object key, the slices may also contain cells of that
                object.
        """
        if places.empty:
            return ()
        row, low = self._position(places.start)
        stop_row, high = (None, b"") if places.stop is None else self._position(places.stop)
        first, end = self.kind or FIRST_QUALIFIER, prefix_successor(self.kind)
        start = self._qualifier(low, prefix_end)
        stop = self._qualifier(high, prefix_end) or end
        if self.row is not None or row == stop_row:
            return _of_row(row, start, end if places.stop is None else stop)
        slices = _of_row(row, start, end) if low else ()
        middle = KeyRange(key_successor(row) if low else row, stop_row)
        if not middle.empty:
            slices = *slices, Slice(middle, first, end)
        return slices if stop_row is None else (*slices, *_of_row(stop_row, first, stop))

    def _position(self, bound: bytes) -> tuple[bytes, bytes]:
        """Returns the smallest pair of row and qualifier (without the kind) that is not below a bound of object
        keys.
        """
        if self.row is not None:
            return self.row, bound
        salt = end = self.salt
        while (end := bound.find(b"\x00", end)) >= 0 and bound[end + 1 : end + 2] == b"\xff":
            end += 2
        rest = bound[salt:] if end < 0 else bound[salt:end]
        row = bound[:salt] + rest.replace(ESCAPED_ZERO, b"\x00")
        behind = b"" if end < 0 else bound[end + 1 : end + 2]
        if behind == TERMINATOR[1:]:
            return row, bound[end + 2 :]
        return (key_successor(row), b"") if behind > TERMINATOR[1:] else (row, b"")

    def _qualifier(self, bound: bytes, prefix_end: PrefixEnd | None) -> bytes | None:
        """Returns the smallest qualifier of an object that is not below a bound, or None if no row can have such a
        qualifier.
        """
        qualifier = self.kind + bound
        end = None if prefix_end is None else prefix_end(qualifier)
        if end is not None and end < len(qualifier):  # no other object begins with this prefix
            return prefix_successor(qualifier[:end])
        return qualifier or FIRST_QUALIFIER


def _of_row(row: bytes, first: bytes | None, stop: bytes | None) -> tuple[Slice, ...]:
    """Returns the slice of one row, unless no cell can be in it."""
    # HBase has no row with an empty key, and a scan that begins with the empty key begins with the first row.
    if not row or first is None or (stop is not None and stop <= first):
        return ()
    return (Slice(KeyRange.exactly(row), first, stop),)
