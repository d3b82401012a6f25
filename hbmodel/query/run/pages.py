"""Reads the pages of a query, and makes and checks the continuation tokens that lead from one page to another."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from operator import itemgetter
from typing import Any

from attrs import evolve

from hbmodel.errors import IndexUnavailable, QueryError, TokenError
from hbmodel.mapping.rows.mapper import Values
from hbmodel.mapping.rows.unreadable import RowError
from hbmodel.query.ask.continuation_tokens import Page, Seal, Token, decode_token, encode_token
from hbmodel.query.ask.terms import QueryTerms
from hbmodel.query.match.plan import Plan
from hbmodel.query.run.executor import Found, PlanExecutor
from hbmodel.query.run.page_window import PageWindow, Skipped, check_direction
from hbmodel.query.run.unreadable_rows import portion


def shape(plan: Plan) -> Callable[[Values], Any]:
    """Returns the function that makes an item of the query (an object, or a tuple of the selected fields) from field
    values.
    """
    selection = plan.terms.selection
    if selection is None:
        return plan.reader.make
    takers = tuple(itemgetter(f.name) if f.reads == {f.name} else f.value_in for f in selection)
    return lambda values: tuple(take(values) for take in takers)


def read_page(
    executor: PlanExecutor,
    size: int,
    token: Token | None,
    seal: Seal | None,
    skipped: Skipped | None = None,
) -> tuple[Page[Any], Sequence[RowError]]:
    """Reads one page of at most `size` items, with a token unless the end is reached. Also returns the errors of the
    rows that were left out of the page.

    One item more than the page holds is read to see whether anything follows.

    Args:
        skipped: the items that the query skips, if they were read already.
    """
    plan = executor.plan
    window = PageWindow.of(size, token, plan.terms.limit, plan.terms.offset)
    if skipped is not None:
        window = window.behind(skipped)
    read = plan.opposite if window.backwards else plan
    reader = PlanExecutor(executor.store, read, window.wanted, executor.check, executor.load)
    if plan.terms.on_unreadable is not None:
        with closing(reader.items(window.position) if window.take else _no_items()) as found:
            return tolerant_page(plan, window, found, seal)
    if window.skip and window.take:
        with closing(reader.items(window.position)) as items:
            taken = list(itertools.islice(items, window.skip, window.wanted))
    else:
        taken = reader.taken(window.wanted, window.position) if window.take else []
    return page_of(plan, window, taken, seal), ()


def _no_items() -> Generator[Found, None, None]:
    yield from ()


def tolerant_page(
    plan: Plan, window: PageWindow, items: Iterable[Found], seal: Seal | None
) -> tuple[Page[Any], Sequence[RowError]]:
    """Makes the page that a window describes. Rows that cannot be read are left out, and their errors are returned with
    the page.
    """
    read = portion(items, window.skip, window.take, window.last)
    return evolve(page_of(plan, window, read.objects, seal), skipped=len(read.errors)), read.errors


def page_of(plan: Plan, window: PageWindow, taken: Sequence[Found], seal: Seal | None) -> Page[Any]:
    """Makes a page from the items of a window, given in the order in which they were read."""
    make = shape(plan)

    def token(position: bytes | None, passed: int | None, backwards: bool) -> str:
        return encode_token(Token(plan.digest, plan.path.name, position, passed, backwards), seal)

    made = [(position, make(values)) for position, values in taken[: window.take]]
    return window.page([*made, *taken[window.take :]], itemgetter(1), token)


def read_token(
    text: str, terms: QueryTerms, plan_for: Callable[[str], Plan], seal: Seal | None, backwards: bool
) -> tuple[Token, Plan]:
    """Decodes a token, and returns it with a plan that reads the path of the token.

    Args:
        plan_for: returns the query's plan that reads the path of this name.
        seal: encrypts tokens, or None.
        backwards: whether the token was passed as the token of a previous page.

    Raises:
        TokenError: the token is damaged, belongs to another query or the other direction, or its path is no longer
            readable.
    """
    unchecked = decode_token(text, None, seal)
    if terms.index_name not in {None, unchecked.path}:
        raise TokenError(
            "The page of the continuation token was not read through the path that use_index() names: give "
            "use_index() the same name (`path`), or start from the first page.",
            path=unchecked.path,
        )
    try:
        plan = plan_for(unchecked.path)
    except (QueryError, IndexUnavailable):
        raise TokenError(
            "The page of the continuation token was read by an index (`path`) that this query cannot use: start from "
            "the first page.",
            path=unchecked.path,
        ) from None
    if unchecked.query != plan.digest:
        raise TokenError(
            "The continuation token belongs to another query: repeat the query of its page, or start "
            "from the first page."
        )
    return check_direction(unchecked, backwards), plan
