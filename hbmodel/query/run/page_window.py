"""Decides from a token and the query's limit and offset which items are on a page, and makes the tokens of the
neighbouring pages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from attrs import evolve, frozen

from hbmodel.errors import TokenError
from hbmodel.query.ask.continuation_tokens import Page, Token
from hbmodel.query.match.plan import Plan

F = TypeVar("F", bound=tuple[bytes, Any])

WriteToken = Callable[[bytes | None, int | None, bool], str]
"""Makes a token from a position, the number of items before the position, and whether the token leads to the page
before the position.
"""


KEYS_SKIPPED = 1000
"""From this offset on, the skipped items are read by a separate scan, without their values. It is about the number of
rows that one round trip reads.
"""


def skips_by_keys(plan: Plan, least: int = KEYS_SKIPPED) -> bool:
    """Whether the items that a query skips are read by separate scans, without the cells that are needed only for the
    result.

    Args:
        least: the smallest offset for which this is done.
    """
    terms = plan.terms
    many = terms.offset >= max(1, least) and terms.limit != 0
    return many and plan.path.index is None and plan.rows is None and terms.on_unreadable is None


@frozen
class Skipped:
    """The items that a query skips, read by their keys.

    Attributes:
        position: the position of the last skipped item, or None if there is none.
        ended: whether the query has no further items.
    """

    position: bytes | None
    ended: bool


@frozen
class PageWindow:
    """The items to read for one page.

    Attributes:
        skip: the number of items at the start of the read that are skipped, for the query's offset.
        take: the maximum number of items on the page.
        position: the key that the page begins after, or ends before; None to read from the query's first or last item.
        backwards: whether the page ends at the position, so that it is read towards the query's first item.
        passed: the number of the query's items before the position; None if the query has no limit or offset.
        maximum: the query's limit, or None.
        first: whether this is the query's first page, and begins after the position of the last skipped item.
    """

    skip: int
    take: int
    position: bytes | None
    backwards: bool
    passed: int | None
    maximum: int | None
    first: bool = False

    @classmethod
    def of(cls, size: int, token: Token | None, maximum: int | None = None, skipped: int = 0) -> PageWindow:
        """Returns the window of a page of at most `size` items. The query's limit is kept even if the token was
        altered.
        """
        if token is None:
            passed = None if maximum is None and not skipped else 0
            return cls(skipped, size if maximum is None else min(size, maximum), None, False, passed, maximum)
        passed = None if maximum is None and not skipped else token.passed or 0
        limits = [size]
        if passed is not None and token.backwards:
            limits.append(passed)
        if maximum is not None:
            limits.append(maximum if token.backwards else max(0, maximum - (passed or 0)))
        return cls(0, min(limits), token.position, token.backwards, passed, maximum)

    def behind(self, skipped: Skipped) -> PageWindow:
        """Returns the window of the first page, which is read after the skipped items."""
        take = 0 if skipped.ended else self.take
        return evolve(self, skip=0, take=take, position=skipped.position, first=True)

    @property
    def wanted(self) -> int:
        """The number of items to read: the skipped items, the items of the page, and one more to find out whether
        others follow.
        """
        return self.skip + self.take + 1 if self.take else 0

    @property
    def last(self) -> bool:
        """Whether the query's limit is reached at the end of a page of `take` items."""
        return not self.backwards and self.maximum is not None and (self.passed or 0) + self.take >= self.maximum

    def page(self, items: Sequence[F], item: Callable[[F], Any], token: WriteToken) -> Page[Any]:
        """Makes the page.

        Args:
            items: positions and data of the items, without the skipped ones, in the order in which they were read.
        """
        taken, more = list(items[: self.take]), len(items) > self.take
        start = stop = self.passed
        if self.backwards:
            taken.reverse()
            start = None if self.passed is None else self.passed - len(taken)
        else:
            stop = None if self.passed is None else self.passed + len(taken)
        # If the page is empty because its items were deleted, its tokens lead to the first and the last items that the
        # query has when the tokens are used.
        edges = (taken[0][0], taken[-1][0]) if taken else (None, None)
        preceded = more if self.backwards else self.position is not None and not self.first
        followed = (self.position is not None) if self.backwards else more
        return Page(
            [item(one) for one in taken],
            token(edges[1], stop, False)
            if followed and (stop is None or self.maximum is None or stop < self.maximum)
            else None,
            token(edges[0], start, True) if preceded and (start is None or start > 0) else None,
        )


def check_direction(token: Token, backwards: bool) -> Token:
    """Returns the token; raises `TokenError` if it leads to a next page but a token for a previous page is expected, or
    the other way round.
    """
    if token.backwards != backwards:
        raise TokenError("Give next_token as page(size, after=...) and previous_token as page(size, before=...).")
    return token
