"""Dictionaries outside of sessions: names and ids, found, claimed, listed and remembered."""

from __future__ import annotations

import pickle
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.mapping.declare.dictionary_tables import tables_of
from hbmodel.store import Delete, Put
from hbmodel.tables.ids.name_cache import OVERHEAD, NameCache
from tests.support.beds import Bed, cells_of, fresh
from tests.support.examples import examples

METRICS = hb.ids.dictionary("metrics", hb.UInt32)
TABLES = tables_of(METRICS)


def new(bed: Bed) -> hb.ids.Names:
    bed.use(*TABLES.models[1:])
    hb.create_tables(bed.store, METRICS)
    bed.store.calls.clear()
    return hb.ids.Names(bed.store)


def test_names_of_every_store(bed: Bed) -> None:
    names = new(bed)
    given_ids = [names.claim(METRICS, name) for name in ("sys.cpu", "sys.mem", "Wärme", "sys.cpu")]
    first = given_ids[0]
    assert given_ids == [first, first + 1, first + 2, first]
    others = hb.ids.Names(hb.Session(bed.store))
    assert others.find(METRICS, ["Wärme", "nothing", "sys.mem"]) == {"Wärme": first + 2, "sys.mem": first + 1}
    assert [others.name_of(METRICS, number) for number in given_ids] == ["sys.cpu", "sys.mem", "Wärme", "sys.cpu"]
    assert list(others.starting_with(METRICS, "sys.")) == ["sys.cpu", "sys.mem"]
    assert list(others.starting_with(METRICS, limit=2)) == ["Wärme", "sys.cpu"]
    with pytest.raises(hb.EncodingError):
        others.starting_with(METRICS, None)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    with pytest.raises(hb.errors.UnknownName):
        others.id_of(METRICS, "nothing")
    with pytest.raises(hb.DecodingError, match="The dictionary has no name for a stored id"):
        others.name_of(METRICS, first + 3)


@pytest.mark.lengthy
def test_threads_that_claim_the_same_names(bed: Bed) -> None:
    new(bed)
    words = [f"word{number}" for number in range(20)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: [hb.ids.Names(bed.store).claim(METRICS, word) for word in words], range(8)))
    assert all(ids == found[0] for ids in found)
    assert len(set(found[0])) == len(words)
    names = hb.ids.Names(bed.store)
    assert [names.name_of(METRICS, number) for number in found[0]] == words


@pytest.mark.lengthy
@settings(max_examples=examples(30))
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6), max_size=12))
def test_a_name_comes_back(words: list[str]) -> None:
    store = fresh(*TABLES.models)
    names, others = hb.ids.Names(store), hb.ids.Names(store)
    ids = {word: names.claim(METRICS, word) for word in words}
    assert sorted(ids.values()) == list(range(1, len(set(words)) + 1))
    assert others.find(METRICS, words) == ids
    assert {hb.ids.Names(store).name_of(METRICS, number): number for number in ids.values()} == ids
    assert list(others.starting_with(METRICS)) == sorted(set(words), key=str.encode)


@pytest.mark.parametrize("wrong", ["", "\ud800", "x" * 32_768, b"x", 7])
def test_what_is_no_name(wrong: Any) -> None:
    names = hb.ids.Names(fresh(*TABLES.models))
    message = "A name must have 1 to 32,767 bytes in UTF-8" if isinstance(wrong, str) and wrong != "\ud800" else None
    for ask in (names.claim, names.id_of):
        with pytest.raises(hb.EncodingError, match=message):
            ask(METRICS, wrong)


def set_back(store: Any) -> None:
    """The counter begins again; increments of one millisecond may have times that lie ahead."""
    time.sleep(0.02)
    store.delete(TABLES.counter.table, [Delete(TABLES.counter.row)])
    time.sleep(0.005)


def test_a_counter_that_was_set_back_gives_no_id_again() -> None:
    store = fresh(*TABLES.models)
    names = hb.ids.Names(store)
    assert [names.claim(METRICS, name) for name in "abc"] == [1, 2, 3]
    set_back(store)
    assert hb.ids.Names(store).claim(METRICS, "d") == 4
    assert [hb.ids.Names(store).id_of(METRICS, name) for name in "abc"] == [1, 2, 3]


def test_half_a_claim_is_not_in_the_way() -> None:
    store = fresh(*TABLES.models)
    store.put(TABLES.id_table, [Put(METRICS.ids.encode(1), {TABLES.name_column: b"a"})])
    assert hb.ids.Names(store).claim(METRICS, "b") == 2
    set_back(store)
    assert hb.ids.Names(store).claim(METRICS, "a") == 1


def test_ids_come_to_an_end() -> None:
    few = hb.ids.dictionary("few", hb.codecs.Int8)
    store = fresh(*tables_of(few).models)
    names = hb.ids.Names(store)
    assert [names.claim(few, str(number)) for number in range(1, 128)] == list(range(1, 128))
    with pytest.raises(hb.errors.IdsExhausted):
        names.claim(few, "one more")
    assert names.claim(few, "127") == 127


def test_the_ids_have_one_codec() -> None:
    store = fresh(*TABLES.models)
    other = hb.ids.dictionary("metrics", hb.codecs.UInt16)
    with pytest.raises(hb.SchemaMismatch):
        hb.ids.Names(store).claim(other, "x")
    with pytest.raises(hb.SchemaMismatch):
        hb.create_tables(store, other)
    assert hb.diff(store, METRICS).differences == ()
    assert hb.diff(store, other).differences


def test_names_are_remembered_in_bounded_memory() -> None:
    store = fresh(*TABLES.models)
    names = hb.ids.Names(store, cache=NameCache(20 * (OVERHEAD + 2)))
    ids = {f"{number:02}": names.claim(METRICS, f"{number:02}") for number in range(100)}
    store.calls.clear()
    assert [names.id_of(METRICS, name) for name in list(ids)[-10:]] == list(ids.values())[-10:]
    assert not store.calls
    assert names.find(METRICS, ids) == ids
    assert len(names._cache) <= 20  # the id of each name, and the name of each id


def test_an_id_that_a_dead_program_left_does_not_become_the_id_of_its_name() -> None:
    store = fresh(*TABLES.models)
    first = hb.ids.Names(store)
    store.increment(TABLES.counter.table, TABLES.counter.row, TABLES.counter.column, 1)
    store.put(TABLES.id_table, [Put(METRICS.ids.encode(1), {TABLES.name_column: b"a"})])
    assert first.claim(METRICS, "a") == 2
    other = hb.ids.Names(store)
    assert [other.name_of(METRICS, number) for number in (1, 2)] == ["a", "a"]
    assert (other.id_of(METRICS, "a"), other.claim(METRICS, "a")) == (2, 2)


def test_neighbours_of_an_id_are_read_with_it() -> None:
    store = fresh(*TABLES.models)
    first, others = hb.ids.Names(store), hb.ids.Names(store)
    for number in range(150):
        first.claim(METRICS, str(number))
    store.calls.clear()
    assert [others.name_of(METRICS, number) for number in range(1, 151)] == [str(number) for number in range(150)]
    assert sum(call.name == "scan" and call.table == TABLES.id_table for call in store.calls) == 2


def test_a_dictionary_stays_when_a_model_is_dropped() -> None:
    @hb.model(table="named_points", family="d")
    class Point:
        metric: hb.Key[str] = hb.key(METRICS)
        value: hb.Column[float] = hb.column("v")

    store = fresh(Point)
    assert {"named_points", "metrics.ids", "metrics.names", "hbmodel_sequences"} <= set(store.tables())
    assert hb.drop_tables(store, Point) == ["named_points"]
    assert sorted(hb.drop_tables(store, METRICS)) == ["metrics.ids", "metrics.names"]
    assert "hbmodel_sequences" in store.tables()
    hb.alter(store, Point)
    assert "metrics.ids" in store.tables()


@pytest.mark.parametrize(
    ("name", "codec"),
    [("", hb.UInt32), (7, hb.UInt32), ("x", hb.Text), ("x", hb.Float64), ("x", int), ("x", hb.Text(4))],
)
def test_wrong_declarations(name: Any, codec: Any) -> None:
    with pytest.raises(hb.DeclarationError):
        hb.ids.dictionary(name, codec)


def test_a_dictionary_is_a_value() -> None:
    assert pickle.loads(pickle.dumps(METRICS)) == METRICS == hb.ids.dictionary("metrics", hb.UInt32)
    assert tables_of(pickle.loads(pickle.dumps(METRICS))) is TABLES
    with pytest.raises(hb.DeclarationError):
        hb.ids.Names("memory:")  # type: ignore[arg-type]
    with pytest.raises(hb.errors.TableNotFound):
        hb.ids.Names(hb.connect("memory:")).claim(METRICS, "x")


def test_the_bytes_of_the_tables() -> None:
    store = fresh(*TABLES.models)
    hb.ids.Names(store).claim(METRICS, "é")
    assert cells_of(store, "metrics.ids") == {"é".encode(): {b"d:i": b"\x00\x00\x00\x01"}}
    assert cells_of(store, "metrics.names") == {b"\x00\x00\x00\x01": {b"d:n": "é".encode()}}
    assert cells_of(store, "hbmodel_sequences") == {b"metrics.ids": {b"d:n": bytes(7) + b"\x01"}}
    assert METRICS.spec == {"codec": "dictionary", "name": "metrics", "ids": hb.UInt32.spec}
