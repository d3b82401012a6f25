"""The order in which a key sorts the integers of a field: the first and the last number, and the number before a given
one.
"""

from __future__ import annotations

from attrs import frozen

from hbmodel.encoding.key_field import CompiledKeyField


@frozen
class IntegerOrder:
    """The order in which the integers of a key field sort by their encoded bytes."""

    first: int
    last: int

    @classmethod
    def of(cls, slot: CompiledKeyField) -> IntegerOrder | None:
        """Returns the order of a field at its place in the key, or None if the field is nullable, does not contain
        integers, or has bytes that do not sort by value.
        """
        codec = slot.of.codec
        low, high = getattr(codec, "low", None), getattr(codec, "high", None)
        if codec.python_type is not int or slot.of.nullable or slot.order is None or low is None or high is None:
            return None
        return cls(low, high) if slot.order == "ascending" else cls(high, low)

    @property
    def _step(self) -> int:
        return 1 if self.first < self.last else -1

    def before(self, value: int) -> int | None:
        """Returns the number directly before `value` in this order, or None if `value` is the first number."""
        return None if value == self.first else value - self._step

    def earlier(self, one: int, other: int) -> int:
        """Whichever of two numbers comes first in this order."""
        return min(one, other, key=lambda value: value * self._step)
