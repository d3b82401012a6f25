"""Sequences: ids in blocks, each given once."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.store import Put
from hbmodel.tables.ids.retrying import TRIES
from tests.support.beds import Bed, fresh
from tests.support.examples import examples

ORDERS = hb.ids.IdSequence("orders", block=10)


def calls(store: Any) -> int:
    return sum(call.name == "increment" for call in store.calls)


def test_ids_of_every_store(bed: Bed) -> None:
    hb.create_tables(bed.store, ORDERS)
    bed.store.calls.clear()
    first, second = ORDERS.on(bed.store), ORDERS.on(hb.Session(bed.store))
    of_first, of_second = [first.next() for _ in range(25)], second.take(25)
    begin = of_first[0]
    assert of_first == [*range(begin, begin + 25)]
    assert of_second == [*range(begin + 30, begin + 55)]
    assert next(first) == begin + 25
    assert calls(bed.store) == 4


@settings(max_examples=examples(30))
@given(block=st.integers(1, 7), counts=st.lists(st.integers(0, 20), max_size=12))
def test_every_id_is_given_once_and_a_block_is_one_call(block: int, counts: list[int]) -> None:
    sequence = hb.ids.IdSequence("s", block=block)
    store = fresh(*sequence.models)
    ids = sequence.on(store)
    given_ids = [ids.take(count) for count in counts]
    assert [number for some in given_ids for number in some] == list(range(1, sum(counts) + 1))
    assert calls(store) <= -(-sum(counts) // block)


def test_threads_share_the_ids_of_a_program() -> None:
    store = fresh(*ORDERS.models)
    ids = ORDERS.on(store)
    with ThreadPoolExecutor(8) as pool:
        given_ids = list(pool.map(lambda _: ids.next(), range(1_000)))
    assert sorted(given_ids) == list(range(1, 1_001))
    assert calls(store) == 100


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_takes_blocks_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = ORDERS.on(fresh(*ORDERS.models))
    assert ids.next() == 1
    monkeypatch.setattr("hbmodel.tables.ids.sequence.getpid", lambda: -1)
    assert ids.take(2) == [11, 12]


def test_a_lost_answer_is_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    store: Any = fresh(*ORDERS.models)
    increment, lost = store.increment, [0]

    def losing(*arguments: Any) -> int:
        found: int = increment(*arguments)
        if lost[0]:
            lost[0] -= 1
            raise hb.UnknownOutcome("The answer was lost.")
        return found

    monkeypatch.setattr(store, "increment", losing)
    ids = ORDERS.on(store)
    lost[0] = TRIES - 1
    assert ids.next() == 10 * (TRIES - 1) + 1
    lost[0] = TRIES
    with pytest.raises(hb.UnknownOutcome):
        ids.take(10)
    assert ids.take(9) == [*range(10 * (TRIES - 1) + 2, 10 * TRIES + 1)]
    assert ids.next() == 10 * (2 * TRIES) + 1


def test_the_end_of_the_counter() -> None:
    store = fresh(*ORDERS.models)
    store.put(ORDERS.table, [Put(b"orders", {b"d:n": (2**63 - 15).to_bytes(8)})])
    ids = ORDERS.on(store)
    assert ids.next() == 2**63 - 14
    with pytest.raises(hb.errors.IdsExhausted):
        ids.take(10)


@pytest.mark.parametrize("wrong", [{"name": ""}, {"name": b"orders"}, {"block": 0}, {"block": 1.5}, {"block": True}])
def test_wrong_declarations(wrong: dict[str, Any]) -> None:
    with pytest.raises(hb.DeclarationError):
        hb.ids.IdSequence(**{"name": "orders", **wrong})


def test_wrong_uses() -> None:
    store = fresh(*ORDERS.models)
    with pytest.raises(hb.DeclarationError):
        ORDERS.on("memory:")  # type: ignore[arg-type]
    with pytest.raises(hb.DeclarationError, match="Give a whole number of ids from 0 to 2,147,483,648"):
        ORDERS.on(store).take(-1)
    with pytest.raises(hb.DeclarationError, match="Sequences share their table: delete it"):
        hb.drop_tables(store, ORDERS)
    with pytest.raises(hb.errors.TableNotFound):
        ORDERS.on(hb.connect("memory:")).next()
