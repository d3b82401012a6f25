"""Short sessions of one factory: what they share, when it is read again, and that no session follows an old state of
the indexes.
"""

from __future__ import annotations

import threading
from typing import Any

import pytest

import hbmodel as hb
from hbmodel.tables.registry.registration import ABSENT, READABLE
from tests.support.beds import fresh, set_state
from tests.support.faulty import RecordingStore
from tests.support.lease_clock import LeaseClock
from tests.support.models import Order, Sample, order
from tests.support.scenarios import check_exact, check_queries


def written(sessions: hb.SessionFactory, number: int) -> None:
    with sessions() as session:
        session.add(order(number))


def test_only_the_first_session_asks_for_what_they_share(lease_clock: LeaseClock) -> None:
    with fresh(Order) as store:
        sessions = hb.SessionFactory(store, cache=lease_clock.cache())
        written(sessions, 1)
        first = store.told()
        written(sessions, 2)
        assert [call for call in first if "hbmodel" in call] == ["get hbmodel", "put hbmodel", "get hbmodel"]
        assert store.told() == [call for call in first if "hbmodel" not in call]
        lease_clock.move(61)
        written(sessions, 3)
        assert [call for call in store.told() if "hbmodel" in call] == ["get hbmodel"]
        written(hb.SessionFactory(store, cache=lease_clock.cache()), 4)
        assert store.told() == first  # another maker knows nothing
        assert sessions().query(Order).allow_full_scan().count() == 4


def test_sessions_have_the_options_given() -> None:
    calls: list[hb.store.Call] = []
    with fresh(Order) as store:
        sessions = hb.SessionFactory(store, on_call=calls.append, lease=0)
        written(sessions, 1)
        assert {call.table for call in calls} == {"hbmodel", "orders", "orders.by_state", "orders.by_amount"}
        store.told()
        sessions().get(Order, **_key(1))
        sessions().get(Order, **_key(1))
        assert store.told().count("get hbmodel") == 2


def _key(number: int) -> dict[str, Any]:
    return {name: getattr(order(number), name) for name in ("customer", "at", "number")}


def test_a_change_that_another_session_saw_first_is_not_overlooked(lease_clock: LeaseClock) -> None:
    """The other session renews what they share while the first is between its put and its acknowledgement."""

    class Changing(RecordingStore):
        def put(self, table: str, puts: Any) -> None:
            super().put(table, puts)
            if table == "orders" and not self.changed:
                self.changed = True
                set_state(inner, Order, "by_amount", "write-only")
                lease_clock.move(61)
                sessions().get(Order, **_key(9))

        changed = False

    with fresh(Order) as inner:
        set_state(inner, Order, "by_amount", ABSENT)
        sessions = hb.SessionFactory(Changing(inner), cache=lease_clock.cache())
        session = sessions()
        session.add(order(1, amount=1))
        assert [outcome.action for outcome in session.commit()] == ["put"]
        set_state(inner, Order, "by_amount", READABLE)
        check_exact(inner, Order)
        check_queries(inner, Order)


@pytest.mark.lengthy
def test_threads_open_sessions_at_the_same_time() -> None:
    with hb.connect("memory:") as store:
        hb.create_tables(store, Order, Sample)
        sessions = hb.SessionFactory(store)
        failures: list[BaseException] = []

        def work(first: int) -> None:
            try:
                for number in range(first, first + 20):
                    written(sessions, number)
                    assert sessions().get(Order, **_key(number)) == order(number)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(20 * n,)) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        assert sessions().query(Order).allow_full_scan().count() == 120
        check_exact(store, Order)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"lease": -1}, hb.SessionError, "The times of a session must be numbers of seconds, at least 0"),
        ({"grace": 1}, hb.SessionError, "The grace time must exceed twice"),
        ({"other": 1}, TypeError, "other"),
    ],
)
def test_wrong_options_are_told_at_once(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with hb.connect("memory:") as store, pytest.raises(error, match=message):
        hb.SessionFactory(store, **options)
    with pytest.raises(hb.SessionError, match="takes a store"):
        hb.SessionFactory("memory:")  # type: ignore[arg-type]
