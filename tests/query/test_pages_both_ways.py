"""Next and previous pages of every size: through every path, both ways, with and without writes between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.errors import QueryError
from hbmodel.mapping.predicates import conjuncts
from hbmodel.mapping.schema import TableSchema
from hbmodel.query.ask.query import Query
from hbmodel.query.ask.terms import QueryTerms
from hbmodel.query.match.index_applicability import fit
from hbmodel.store import Store
from tests.query.test_query_partition import filled, keys_of
from tests.support.beds import Bed
from tests.support.examples import examples
from tests.support.faulty import RecordingStore
from tests.support.page_walks import check_walk, neighbour, sizes, steps
from tests.support.random_queries import conditions, models, stored_objects
from tests.support.things import (
    DRAWN,
    HASHED,
    KEYS,
    MUTABLE,
    PLAIN,
    Asked,
    Key,
    Values,
    asked,
    key_of,
    things,
    values_of,
)

SLOW_TO_MAKE = [HealthCheck.too_slow, HealthCheck.data_too_large]


@hb.model(table="pages_wide", family="d", salt=hb.HashSalt(3, by=("owner",)), kind=b"p")
class Wide:
    """A `Thing` whose objects share rows."""

    owner: hb.Key[str] = hb.key()
    rank: hb.Key[int | None] = hb.key(hb.codecs.Int8, desc=True, nullable=True, in_qualifier=True)
    serial: hb.Key[bytes] = hb.key(in_qualifier=True)
    tag: hb.Column[str | None] = hb.column("t", default=None)
    size: hb.Column[int | None] = hb.column("s", hb.codecs.Int8, nullable=True, default=None)
    title: hb.Column[str] = hb.column("n")
    blob: hb.Column[bytes | None] = hb.column("b", default=None)

    by_tag = hb.index("tag")
    by_size = hb.index(hb.desc("size"), "tag", salt=hb.HashSalt(2))
    by_title = hb.index("title", "size")
    by_rank = hb.index(hb.asc("rank"), hb.desc("title"))


@hb.model(table="pages_versioned", family="d", salt=hb.HashSalt(3))
class Versioned:
    """A `Thing` with a version."""

    owner: hb.Key[str] = hb.key()
    rank: hb.Key[int | None] = hb.key(hb.codecs.Int8, desc=True, nullable=True)
    serial: hb.Key[bytes] = hb.key()
    tag: hb.Column[str | None] = hb.column("t", default=None)
    size: hb.Column[int | None] = hb.column("s", hb.codecs.Int8, nullable=True, default=None)
    title: hb.Column[str] = hb.column("n")
    blob: hb.Column[bytes | None] = hb.column("b", default=None)
    version: hb.Column[int] = hb.version()

    by_tag = hb.index("tag", covers=("blob",))
    by_size = hb.index(hb.desc("size"), "tag", salt=hb.HashSalt(2))
    by_title = hb.index("title", "size", covers=("tag",))
    by_rank = hb.index(hb.asc("rank"), hb.desc("title"))


# --- while nothing is written -----------------------------------------------------------------------------------------


def check_pages(store: Store, data: st.DataObject) -> None:
    """For any model, rows and query: a walk over its pages."""
    of = data.draw(models(versions=True, wide=True))
    schema = of.schema
    objects = data.draw(stored_objects(of, indexed=bool(schema.indexes)))
    if not objects:
        return
    predicates, _ = data.draw(conditions(of))
    reader = filled(
        store, of, objects, data.draw(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 8)), max_size=6))
    )
    try:
        query: Query[Any] = Query(QueryTerms(schema), reader).where(*predicates).allow_full_scan()  # type: ignore[arg-type]
        parts_of = [part for predicate in predicates for part in conjuncts(predicate)]
        fitting = [i.name for i in schema.indexes.values() if fit(i, parts_of) is not None]
        query = query.use_index(data.draw(st.sampled_from([None, "primary", *fitting])))
        query = query.reversed() if data.draw(st.booleans()) else query
        try:
            every = query.all()
        except QueryError:
            event("an index that lacks some rows")
            return
        first, most = data.draw(st.integers(0, 3)), data.draw(st.none() | st.integers(0, 7))
        query = query.offset(first) if most is None else query.offset(first).limit(most)
        expected = [key(item, schema) for item in every[first : None if most is None else first + most]]
        event(f"{'index' if query.explain().path != 'primary' else 'primary'}, {min(len(expected), 3)} items")
        check_walk(query, expected, data.draw(steps), lambda item: key(item, schema))
    finally:
        for table in store.tables():
            if table in {schema.table, *(index.table for index in schema.indexes.values())}:
                store.delete_table(table)


def key(item: Any, schema: TableSchema) -> tuple[bytes, ...]:
    """The key of an object, as bytes."""
    (found,) = keys_of([item], schema)
    return found


@pytest.mark.lengthy
@settings(max_examples=examples(120), deadline=None, suppress_health_check=SLOW_TO_MAKE)
@given(st.data())
def test_walks_over_the_pages_of_any_query(data: st.DataObject) -> None:
    with hb.connect("memory:") as store:
        check_pages(store, data)


@pytest.mark.hbase
def test_walks_over_the_pages_of_any_query_on_hbase(hbmodel_hbase: Any) -> None:
    with hb.connect(f"{hbmodel_hbase.thrift2_url}?table_prefix=w{uuid4().hex[:8]}") as store:

        @settings(max_examples=2, deadline=None, suppress_health_check=SLOW_TO_MAKE)
        @given(st.data())
        def check(data: st.DataObject) -> None:
            check_pages(store, data)

        check()


# --- with writes between the pages ------------------------------------------------------------------------------------


def check_changing(session: hb.Session, model: Any, universe: Sequence[Values], question: Asked, walk: Any) -> None:
    """Some objects come and others go before each page: it holds what then stands next to the page before it."""
    query = question.query(session, model)
    ordered = question.answer(query, universe)
    place = {key_of(values): at for at, values in enumerate(ordered)}
    alive: set[Key] = set()
    reached: set[Key] = set()  # what was there when the page was read
    gone: set[Key] = set()
    page: hb.Page[Any] | None = None
    start, stop = 0, 0  # of the page, in the order of all objects, whether they are there or not
    for (asked_before, size), turned in walk:
        for values in (universe[at % len(universe)] for at in turned):
            of = key_of(values)
            if of in alive:
                session.delete_key(model, **dict(zip(KEYS, of, strict=True)))
                alive.discard(of)
                gone.add(of)
            elif not (model is DRAWN and of in gone):  # the keys of an immutable model are not used again
                session.add(model(**values))
                alive.add(of)
            session.commit()
        backwards = asked_before and page is not None
        found = neighbour(query, page, (backwards, size))
        if found is None:
            there = [at for at, values in enumerate(ordered) if key_of(values) in reached]
            assert not [at for at in there if (at < start if backwards else at >= stop)]
            continue
        there = [at for at, values in enumerate(ordered) if key_of(values) in alive]
        before, behind = [at for at in there if at < start], [at for at in there if at >= stop]
        wanted = before[-size:] if backwards else behind[:size]
        assert [place[key_of(values_of(item))] for item in found] == wanted
        if backwards:
            assert found.at_start == (len(before) <= size)
            assert stop == start or not found.at_end  # an empty page at the end has nothing behind it
        else:
            assert found.at_end == (len(behind) <= size)
        if wanted:
            start, stop = wanted[0], wanted[-1] + 1
        elif backwards:
            start = stop = 0
        elif page is not None:
            start = stop = len(ordered)
        page, reached = found, set(alive)


changing = st.lists(
    st.tuples(st.tuples(st.booleans(), sizes), st.lists(st.integers(0, 19), max_size=6)), min_size=2, max_size=8
)


@pytest.mark.lengthy
@settings(max_examples=examples(80), deadline=None, suppress_health_check=SLOW_TO_MAKE)
@given(
    model=st.sampled_from([*MUTABLE, DRAWN, Wide, Versioned]),
    universe=st.lists(things, min_size=1, max_size=20, unique_by=key_of),
    question=asked,
    filling=st.sets(st.integers(0, 19)),
    walk=changing,
)
def test_pages_between_writes(
    model: Any, universe: list[Values], question: Asked, filling: set[int], walk: Any
) -> None:
    with hb.connect("memory:") as store:
        hb.create_tables(store, model)
        first, turned = walk[0]
        distinct = sorted({at % len(universe) for at in filling})
        check_changing(hb.Session(store), model, universe, question, [(first, [*distinct, *turned]), *walk[1:]])


def test_pages_between_writes_on_hbase(hbase_bed: Bed) -> None:
    @settings(max_examples=4, deadline=None, suppress_health_check=SLOW_TO_MAKE)
    @given(
        model=st.sampled_from([HASHED, PLAIN]),
        universe=st.lists(things, min_size=4, max_size=12, unique_by=key_of),
        question=asked,
        walk=changing,
    )
    def example(model: Any, universe: list[Values], question: Asked, walk: Any) -> None:
        event(hb.schema.schema_of(model).table)
        first, turned = walk[0]
        check_changing(
            hbase_bed.use(model), model, universe, question, [(first, [*range(len(universe)), *turned]), *walk[1:]]
        )

    example()


# --- one by one -------------------------------------------------------------------------------------------------------


@hb.model(table="pages_note", salt=hb.HashSalt(4))
class Note:
    number: hb.Key[int] = hb.key(hb.codecs.UInt16)
    text: hb.Column[str] = hb.column("t", default="")


def notes(session: hb.Session, *present: int) -> Query[Note]:
    session.add_all(Note(number=n) for n in present)
    session.commit()
    return session.query(Note).where(Note.number >= 0)


def numbers(page: hb.Page[Note]) -> list[int]:
    return [note.number for note in page]


@pytest.fixture
def session() -> Any:
    with hb.connect("memory:") as store:
        hb.create_tables(store, Note)
        yield hb.Session(store)


def test_a_previous_page_holds_the_items_right_before(session: hb.Session) -> None:
    query = notes(session, *range(20))
    third = query.page(5, after=query.page(10).next_token)
    assert numbers(third) == [10, 11, 12, 13, 14]
    before = query.page(3, before=third.previous_token)
    assert numbers(before) == [7, 8, 9]
    assert numbers(query.page(3, after=before.next_token)) == [10, 11, 12]
    assert query.page(3).at_start
    assert numbers(query.page(99, before=before.previous_token)) == [0, 1, 2, 3, 4, 5, 6]


def test_items_that_come_in_front_of_the_first_page_are_reached(session: hb.Session) -> None:
    query = notes(session, *range(10, 20))
    second = query.page(5, after=query.page(5).next_token)
    notes(session, 3, 4)
    first = query.page(5, before=second.previous_token)
    assert (numbers(first), first.at_start) == ([10, 11, 12, 13, 14], False)
    front = query.page(5, before=first.previous_token)
    assert (numbers(front), front.at_start) == ([3, 4], True)
    assert numbers(query.page(5, after=front.next_token)) == [10, 11, 12, 13, 14]


def test_a_page_that_is_empty_by_now_leads_to_what_is_there(session: hb.Session) -> None:
    query = notes(session, *range(6))
    first = query.page(3)
    second = query.page(3, after=first.next_token)
    for number in range(3, 6):
        session.delete_key(Note, number=number)
    session.commit()
    behind = query.page(2, after=first.next_token)
    assert (numbers(behind), behind.at_end, behind.at_start) == ([], True, False)
    assert numbers(query.page(2, before=behind.previous_token)) == [1, 2]
    notes(session, 3, 4, 5)
    for number in range(3):
        session.delete_key(Note, number=number)
    session.commit()
    in_front = query.page(2, before=second.previous_token)
    assert (numbers(in_front), in_front.at_end, in_front.at_start) == ([], False, True)
    assert numbers(query.page(2, after=in_front.next_token)) == [3, 4]


def test_limit_and_offset_bound_the_way_back(session: hb.Session) -> None:
    query = notes(session, *range(20)).offset(4).limit(8)
    last = query.page(3, after=query.page(5).next_token)
    assert (numbers(last), last.at_end) == ([9, 10, 11], True)
    back = query.page(9, before=last.previous_token)
    assert (numbers(back), back.at_start) == ([4, 5, 6, 7, 8], True)
    assert numbers(query.page(9, after=back.next_token)) == [9, 10, 11]


def test_a_previous_page_reads_no_more_than_itself() -> None:
    with RecordingStore(hb.connect("memory:")) as store:
        hb.create_tables(store, Note)
        calls: list[hb.store.Call] = []
        filling = hb.Session(store)
        notes(filling, *range(500))
        query = hb.Session(store, on_call=calls.append).query(Note).where(Note.number >= 0).allow_full_scan()
        token = query.page(1, after=query.page(400).next_token).previous_token
        calls.clear()
        assert numbers(query.page(5, before=token)) == [395, 396, 397, 398, 399]
        assert sum(call.rows for call in calls) <= 4 * 6  # of each bucket as many as the page may hold, and one


def test_tokens_are_not_given_the_wrong_way_round(session: hb.Session) -> None:
    query = notes(session, *range(9))
    page = query.page(3, after=query.page(3).next_token)
    assert page.next_token is not None
    for wrong in (lambda: query.page(3, after=page.previous_token), lambda: query.page(3, before=page.next_token)):
        with pytest.raises(hb.TokenError, match=r"page\(size, before=\.\.\.\)"):
            wrong()
    with pytest.raises(hb.QueryError, match="not both"):
        query.page(3, after=page.next_token, before=page.previous_token)
    for other in (query.reversed(), query.limit(5), session.query(Note).where(Note.number >= 1)):
        with pytest.raises(hb.TokenError, match="another query"):
            other.page(3, before=page.previous_token)


def test_a_page_is_a_collection(session: hb.Session) -> None:
    page = notes(session, 1, 2, 3).page(2)
    assert (len(page), list(page), page.items[0] in page) == (2, list(page.items), True)
    assert not notes(session).where(Note.number == 7).page(2)


# --- one --------------------------------------------------------------------------------------------------------------


def test_the_only_item(session: hb.Session) -> None:
    query = notes(session, 1, 2)
    assert query.where(Note.number == 2).one() == Note(number=2)
    assert query.limit(1).one() == query.offset(1).reversed().one() == Note(number=1)
    assert query.select(Note.number).limit(1).one() == (1,)
    with pytest.raises(hb.NoResultFound, match=r"use first\(\)") as none:
        query.where(Note.number == 7).one()
    assert none.value.table == "pages_note"
    with pytest.raises(hb.MultipleResultsFound, match=r"use first\(\)"):
        query.one()
    with pytest.raises(hb.NoResultFound, match="The query has no item"):
        query.limit(0).one()
