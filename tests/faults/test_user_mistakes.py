"""Plain mistakes of newcomers are told in words of theirs: what was given, and what to write instead."""

from __future__ import annotations

import gc
import pickle
import socket
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import hbmodel as hb
from tests.support.beds import fresh
from tests.support.models import Order, Person, Sample, order


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        (lambda store: hb.create_tables("memory:", Order), "Give a store first"),
        (lambda store: hb.create_tables(Order), "Give a store first"),
        (lambda store: hb.diff("memory:", Order), "Give a store first"),
        (lambda store: hb.drop_tables(Order), "Give a store first"),
        (lambda store: hb.tables.check_regions("memory:", Order), "Give a store first"),
        (lambda store: hb.Session(Order), "Give a store first"),
        (hb.create_tables, "create_tables\\(store, Model\\)"),
        (hb.diff, "at least one model"),
        (hb.alter, "at least one model"),
        (hb.drop_tables, "Give the models whose tables are to be dropped"),
        (lambda store: hb.create_tables(store, order(1)), "class of a model, not an object"),
        (lambda store: hb.Session(store).query(order(1)), "class of a model, not an object"),
        (lambda store: hb.Session(store).add(Order), "object of a model, not a class"),
        (lambda store: hb.create_tables(store, Sample, splits=hb.tables.FromSample([1, 2], 2)), "objects of the model"),
        (lambda store: hb.tables.check_regions(store, Order, sample=[1]), "objects of the model"),
        (lambda store: hb.tables.split_keys(Order, 4), "This is not a split strategy"),
        (lambda store: hb.ByBucket(within=4), "split further only by"),
        (lambda store: hb.tables.check_regions(store, Order, alphabet="0123"), "An alphabet must be bytes"),
        (lambda store: hb.Session(store, on_call=3), "on_call takes a function"),
        (lambda store: hb.connect("memory:", on_call="print"), "on_call takes a function"),
    ],
)
def test_a_wrong_argument_is_told_by_what_was_expected(mistake: Callable[[Any], Any], words: str) -> None:
    with fresh(Order) as store, pytest.raises(hb.DeclarationError, match=words):
        mistake(store)


def test_a_decorator_without_its_parentheses() -> None:
    with pytest.raises(hb.DeclarationError, match="above the class"):

        @hb.model  # type: ignore[call-arg, arg-type]
        class Bare:
            number: hb.Key[int] = hb.key()

    with pytest.raises(hb.DeclarationError, match="above the class"):
        hb.model(type("Bare", (), {}), table="bare")  # type: ignore[arg-type]


def test_one_family_where_several_are_expected() -> None:
    with pytest.raises(hb.DeclarationError, match="families takes families"):

        @hb.model(table="t", families=hb.family("x"))  # type: ignore[arg-type]
        class Wrong:
            number: hb.Key[int] = hb.key()
            name: hb.Column[str] = hb.column(family="x")


def test_options_of_a_family_on_a_column() -> None:
    with pytest.raises(hb.DeclarationError, match="A column takes only the name of its family"):

        @hb.model(table="t")
        class Wrong:
            number: hb.Key[int] = hb.key()
            name: hb.Column[str] = hb.column(family=hb.family("x"))  # type: ignore[arg-type]


def test_bounds_of_uniform_splits_are_values_of_the_leading_field() -> None:
    with pytest.raises(hb.EncodingError) as caught:
        hb.tables.split_keys(Order, hb.tables.Uniform(4, "a", "z"))
    assert caught.value.field == "customer"


@pytest.mark.parametrize("count", [0, -1, 1.0, "2", True])
def test_counts_of_partitions_and_sizes_of_pages_are_whole_and_positive(count: Any) -> None:
    with fresh(Order) as store:
        query = hb.Session(store).query(Order)
        for call in (query.partitions, query.page):
            with pytest.raises(hb.QueryError, match="at least one"):
                call(count)


def test_an_index_stands_for_its_name() -> None:
    with fresh(Order, Person) as store:
        hb.create_tables(store, Order)
        query = hb.Session(store).query(Order).where(Order.state == "open")
        assert query.use_index(Order.by_state).explain().path == "by_state"
        assert hb.tables.split_keys(Order, hb.tables.AtKeys([b"a"]), index=Order.by_state) == [b"a"]
        foreign = Person.by_place
        with pytest.raises(hb.errors.UnknownIndex) as caught:
            query.use_index(foreign)
        assert len(str(caught.value)) < 200


def test_what_belongs_to_a_process_is_not_pickled() -> None:
    with fresh(Order) as store:
        session = hb.Session(store)
        with pytest.raises(hb.QueryError, match=r"pickle its partitions\(\)"):
            pickle.dumps(session.query(Order))
        with pytest.raises(hb.SessionError, match="A session cannot be pickled"):
            pickle.dumps(session)


@pytest.mark.parametrize("url", ["memory:", "hbase://127.0.0.1:1", "hbase+thrift2://127.0.0.1:1"])
def test_a_store_is_not_pickled_and_has_a_short_repr(url: str) -> None:
    with hb.connect(url) as store:
        with pytest.raises(hb.StoreError, match="A store cannot be pickled"):
            pickle.dumps(store)
        assert len(repr(store)) < 60
        assert repr(hb.Session(store)) == f"Session({store!r}, 0 pending)"


@pytest.mark.parametrize("wrong", [Order.state, 3, Order.state == "new", Order])
def test_an_index_is_given_by_name_or_as_it_stands_on_the_model(wrong: Any) -> None:
    with hb.connect("memory:") as store, pytest.raises(hb.QueryError, match="name of an index"):
        hb.Session(store).query(Order).use_index(wrong)


def test_a_codec_that_takes_no_arguments_says_so() -> None:
    codec: Any = hb.UInt32
    with pytest.raises(hb.DeclarationError, match="without parentheses"):
        codec()


def test_a_chain_of_comparisons_names_what_to_write() -> None:
    with pytest.raises(hb.QueryError, match=r"Write \(a < b\) & \(b < c\)"):
        1 < Order.number < 3  # noqa: B015


def test_a_field_in_a_list_names_what_to_write() -> None:
    with pytest.raises(hb.QueryError, match=r"field\.in_\(\[\.\.\.\]\) for `in`"):
        Order.number in [1, 2]  # noqa: B015


WITH_AN_OBJECT: dict[str, Callable[[hb.Session, Any], Any]] = {
    "add": hb.Session.add,
    "add_all": lambda session, given: session.add_all([given]),
    "insert": hb.Session.insert,
    "update": lambda session, given: session.update(given, state="x"),
    "delete": hb.Session.delete,
    "increment": lambda session, given: session.increment(given, Order.number),
    "rekey": lambda session, given: session.rekey(given, number=2),
    "load": lambda session, given: session.bulk_add([given]),
    "asdict": lambda _, given: hb.asdict(given),
    "evolve": lambda _, given: hb.evolve(given, state="x"),
}


@pytest.mark.parametrize("call", WITH_AN_OBJECT)
def test_what_is_given_for_an_object(call: str) -> None:
    with fresh(Order) as store:
        session = hb.Session(store)
        with pytest.raises(hb.DeclarationError, match=r"get\(\) and first\(\) return None if there is none"):
            WITH_AN_OBJECT[call](session, session.get(Order, customer=1, at=order(1).at, number=404))
        for several in ([order(1)], (order(1),), (order(n) for n in range(2))):
            with pytest.raises(hb.DeclarationError, match=r"one object of a model per call; add_all\(\) takes several"):
                WITH_AN_OBJECT[call](session, several)


def test_a_query_is_no_object() -> None:
    with fresh(Order) as store:
        session = hb.Session(store)
        with pytest.raises(hb.SessionError, match=r"query\.delete\(\) deletes what a query finds"):
            session.delete(session.query(Order).where(Order.state == "open"))


def test_a_sequence_without_its_table_names_what_to_create() -> None:
    with hb.connect("memory:") as store:
        numbers = hb.ids.IdSequence("posts")
        with pytest.raises(hb.errors.TableNotFound, match="models, sequences and dictionaries that it is given"):
            numbers.on(store).next()
        hb.create_tables(store, numbers)
        assert numbers.on(store).next() == 1


@pytest.mark.parametrize("size", [0, -1, 1.5, True])
def test_a_page_has_a_size(size: Any) -> None:
    with hb.connect("memory:") as store, pytest.raises(hb.QueryError, match=r"at least one.*size"):
        hb.Session(store).query(Order).page(size)


def test_a_number_that_is_too_large_is_called_so() -> None:
    with hb.connect("memory:") as store:
        query = hb.Session(store).query(Order)
        for call in (query.limit, query.offset, query.page):
            with pytest.raises(hb.QueryError, match=r"at most 2\*\*60"):
                call(2**60 + 1)
        query.limit(2**60).offset(2**60)


def test_a_store_in_memory_says_so() -> None:
    with hb.connect("memory:") as store:
        assert repr(store) == "EmbeddedStore(memory)"


@pytest.mark.lengthy
def test_calls_that_were_not_committed_are_mentioned_when_a_session_ends(caplog: pytest.LogCaptureFixture) -> None:
    def mentioned() -> list[str]:
        told = [record.getMessage() for record in caplog.records]
        caplog.clear()
        return told

    gc.collect()  # sessions of other tests
    caplog.clear()
    with hb.connect("memory:") as store:
        hb.create_tables(store, Order)
        session = hb.Session(store)
        session.add_all([order(1), order(2)])
        session.close()
        assert mentioned() == [
            "a session ended with 2 calls that were not committed, for orders; discard() drops them without a warning"
        ]
        session.close()
        session = hb.Session(store)
        session.add(order(1))
        del session
        gc.collect()
        assert mentioned() == [
            "a session ended with 1 call that was not committed, for orders; discard() drops them without a warning"
        ]
        session = hb.Session(store)
        session.add(order(1))
        session.discard()
        session.close()
        with suppress(KeyError), hb.Session(store) as session:
            session.add(order(1))
            raise KeyError
        with hb.Session(store) as session:
            session.add(order(1))
        del session
        gc.collect()
        assert mentioned() == []


@pytest.mark.parametrize("option", ["lease", "grace", "clock_bound"])
@pytest.mark.parametrize("wrong", [-1, "60", None, True, float("nan"), float("inf"), timedelta(seconds=5)])
def test_times_of_a_session_are_seconds(option: str, wrong: Any) -> None:
    with (
        hb.connect("memory:") as store,
        pytest.raises(hb.SessionError, match="The times of a session must be numbers of seconds, at least") as caught,
    ):
        hb.Session(store, **{option: wrong})
    assert caught.value.option == option


def test_queries_and_indexes_have_a_short_repr() -> None:
    with fresh(Order) as store:
        assert len(repr(hb.Session(store).query(Order))) < 300
    assert len(repr(Order.by_state)) < 300


def test_options_of_a_gateway_belong_in_the_url() -> None:
    connect: Any = hb.connect
    with pytest.raises(hb.errors.StoreURLError, match=r"in the URL.*pool=\.\.\.&timeout=") as caught:
        connect("hbase://localhost", pool=3, timeout=5)
    assert caught.value.option == "pool, timeout"


def test_an_embedded_file_takes_no_options(tmp_path: Path) -> None:
    with pytest.raises(hb.errors.StoreURLError, match="no options"):
        hb.connect(f"embedded:{tmp_path}/a.db?timeout=3")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("option", "expected"),
    [("timeout=abc", "positive"), ("transport=tcp", "buffered, framed, http"), ("tls=yes", "true or false")],
)
def test_a_bad_option_of_a_url_is_told_with_what_it_takes(
    option: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(hb.errors.StoreURLError) as caught:
        hb.connect(f"hbase://localhost?{option}")
    assert expected in str(caught.value)
    name, _, value = option.partition("=")
    monkeypatch.setenv(f"HBMODEL_{name.upper()}", value)
    with pytest.raises(hb.errors.StoreURLError) as caught:
        hb.connect("hbase://localhost")
    assert expected in str(caught.value)


def test_a_gateway_that_never_answers_is_told_with_the_options_to_check() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with (
            hb.connect(f"hbase://127.0.0.1:{port}?timeout=0.2&attempts=1") as store,
            pytest.raises(hb.StoreUnavailable) as caught,
        ):
            store.tables()
    assert caught.value.gateway == f"127.0.0.1:{port}"
    assert caught.value.reason == (
        "The HBase gateway did not answer in time; if it never does, check the options transport, protocol and tls."
    )
