"""Fills a store with orders, and queries them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import hbmodel as hb
from hbmodel.protocol.writes import put_object
from tests.support.beds import Bed
from tests.support.models import Order, day, order


def states(session: hb.Session, *numbers: int) -> list[str | None]:
    """Returns the states of orders of customer 1, by number."""
    found = session.get_many(Order, [(1, day(n), n) for n in numbers])
    return [None if o is None else o.state for o in found]


def of_state(session: hb.Session, state: str) -> list[int]:
    """Returns the numbers of the orders with a state, through the index, newest first."""
    query = session.query(Order).where(Order.state == state)
    assert query.explain().path == "by_state"
    return [o.number for o in query]


def numbers(items: Sequence[Any]) -> list[int]:
    """Returns the numbers of orders."""
    return [item.number for item in items]


def entry_of(obj: Order, index: str) -> bytes:
    """Returns the row key of an order's entry in an index."""
    (entry,) = put_object(hb.schema.schema_of(Order), obj).entries[index]
    return entry


def filled(bed: Bed, count: int = 40) -> hb.Session:
    """Puts orders of four customers. Returns a session that has read the registry."""
    session = bed.use(Order)
    session.add_all(
        order(n, "odd" if n % 2 else "even", customer=n % 4, amount=n // 4 if n % 8 else None) for n in range(count)
    )
    session.commit()
    bed.store.told()
    return session
