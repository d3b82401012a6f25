"""The condition of a query on the values of one key field: bounds, a prefix, or None."""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

from attrs import frozen

from hbmodel.errors import QueryError


class Unset(Enum):
    """The type of `UNSET`, which means that there is no bound on this side. None cannot mean this, because None can be
    a bound.
    """

    UNSET = "unset"


UNSET: Final = Unset.UNSET


@frozen
class Bounds:
    """The condition of a query on one key field: a range of values, a prefix, both, or None.

    A comparison with a bound excludes None, as in SQL. A `Bounds()` without bounds excludes None too, so it means "not
    None". Only equality can include None: if both `low` and `high` are None and both are inclusive, the condition is
    that the value is None. Bounds need not be values that the field can store. Times are compared as instants, whatever
    their zones.

    Attributes:
        low: lower bound of the values, or UNSET.
        low_inclusive: whether the value `low` itself satisfies the condition.
        high: upper bound of the values, or UNSET.
        high_inclusive: whether the value `high` itself satisfies the condition.
        prefix: the beginning of the values (text and bytes only), or UNSET.
    """

    low: Any = UNSET
    low_inclusive: bool = True
    high: Any = UNSET
    high_inclusive: bool = True
    prefix: Any = UNSET

    def __attrs_post_init__(self) -> None:
        if self.prefix is None or ((self.low is None or self.high is None) and not self.only_none):
            raise QueryError("None has no order: use only == or is_(None), without another bound.")

    @classmethod
    def equal(cls, value: Any) -> Bounds:
        """Returns the condition that the field equals this value, which may be None."""
        return cls(low=value, high=value)

    @classmethod
    def is_none(cls) -> Bounds:
        """Returns the condition that the field is None."""
        return cls(low=None, high=None)

    @classmethod
    def not_none(cls) -> Bounds:
        """Returns the condition that the field is not None."""
        return cls()

    @classmethod
    def starting_with(cls, prefix: Any) -> Bounds:
        """Returns the condition that the value starts with `prefix`."""
        return cls(prefix=prefix)

    @property
    def only_none(self) -> bool:
        """Whether the condition is that the field is None."""
        return (
            self.low is None
            and self.high is None
            and self.low_inclusive
            and self.high_inclusive
            and self.prefix is UNSET
        )
