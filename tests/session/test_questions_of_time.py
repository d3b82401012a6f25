"""The server's clock and the lease are asked in the middle of a protocol: if the answer fails, a commit continues from
where it was.
"""

from __future__ import annotations

from typing import Any

import pytest

import hbmodel as hb
from hbmodel.store import Put
from tests.support.beds import cells_of, fresh
from tests.support.faulty import FaultyStore, RecordingStore
from tests.support.models import Order, order

CALLS: dict[str, Any] = {
    "update": lambda session: session.update(order(1), state="sent"),
    "delete": lambda session: session.delete(order(1)),
    "add": lambda session: session.add(order(1, "sent", amount=3)),
}


def filled(store: hb.Store) -> None:
    session = hb.Session(store)
    session.add(order(1, "new", amount=2))
    session.commit()


def calls_of(name: str) -> list[str]:
    """The calls of one commit in a session whose lease is over at once, so that each check of it reads the registry."""
    with fresh(Order) as inner:
        filled(inner)
        store = RecordingStore(inner)
        session = hb.Session(store, lease=0)
        CALLS[name](session)
        session.commit()
        return store.told()


def state(store: hb.Store) -> Any:
    return {table: sorted(cells_of(store, table)) for table in ("orders.by_state", "orders.by_amount")}


@pytest.mark.lengthy
@pytest.mark.parametrize("name", CALLS)
def test_a_commit_goes_on_after_a_question_of_time_that_failed(name: str) -> None:
    asked = [at for at, call in enumerate(calls_of(name)) if call.endswith("hbmodel")]
    assert len(asked) >= 4  # the binding, the clock (put and get), the lease
    with fresh(Order) as store:
        filled(store)
        session = hb.Session(store, lease=0)
        CALLS[name](session)
        (expected,) = session.commit()
        after = state(store)
    for at in asked:
        for mode in ("before", "after"):
            with fresh(Order) as store:
                filled(store)
                failing = FaultyStore(store, at, mode)  # type: ignore[arg-type]
                session = hb.Session(failing, lease=0)
                CALLS[name](session)
                try:
                    (outcome,) = session.commit()
                except hb.HbmodelError:
                    (outcome,) = session.commit()
                assert outcome.action == expected.action, (at, mode)
                assert state(store) == after, (at, mode)
                puts = {
                    put.timestamp
                    for call in failing.calls
                    if call.name in {"put", "mutate_row"} and call.table != "hbmodel"
                    for put in call.items
                    if isinstance(put, Put)
                }
                assert len(puts) <= 1, "written again at another time"
