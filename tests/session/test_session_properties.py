"""Random writes by several sessions, then random queries: every path must answer what a look at every object does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from attrs import frozen
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.session.commit.session_sizes import SessionSizes
from tests.support.beds import Bed
from tests.support.examples import examples
from tests.support.faulty import RecordingStore
from tests.support.scenarios import check_exact
from tests.support.things import (
    COLUMNS,
    DRAWN,
    HASHED,
    KEYS,
    MUTABLE,
    PLAIN,
    Asked,
    Key,
    Values,
    asked,
    changes,
    key_of,
    keys,
    things,
    values_of,
    wide_things,
)

QUICK = settings(
    max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
SESSIONS = 3

operations = st.lists(
    st.tuples(
        st.integers(0, SESSIONS - 1),
        st.one_of(
            st.tuples(st.just("add"), things),
            st.tuples(st.just("add"), things),
            st.tuples(st.just("update"), keys, changes),
            st.tuples(st.just("delete"), keys),
            st.just(("commit",)),
        ),
    ),
    max_size=30,
)


class Expected:
    """The objects that sessions have written, computed without a store."""

    def __init__(self) -> None:
        self.rows: dict[Key, Values] = {}

    def apply(self, pending: Sequence[Any]) -> list[str]:
        """Carries out the calls of one commit and returns their outcomes."""
        outcomes = []
        for at, (kind, *arguments) in enumerate(pending):
            key = key_of(arguments[0]) if kind == "add" else arguments[0]
            if kind == "add":
                self.rows[key] = arguments[0]
                following = next((later for later in pending[at + 1 :] if _key(later) == key), None)
                outcomes.append("superseded" if following is not None and following[0] == "add" else "put")
            elif kind == "update":
                outcomes.append("put" if key in self.rows else "failed")
                if key in self.rows:
                    self.rows[key] = self.rows[key] | arguments[1]
            else:
                outcomes.append("deleted" if self.rows.pop(key, None) is not None else "absent")
        return outcomes


def _key(call: Any) -> Key:
    return key_of(call[1]) if call[0] == "add" else call[1]


def write(session: hb.Session, model: Any, call: Any) -> None:
    """One call of a session; updates and deletes are given an object that knows only its key."""
    kind, *arguments = call
    if kind == "add":
        session.add(model(**arguments[0]))
    elif kind == "update":
        session.update(model(**dict(zip(KEYS, arguments[0], strict=True)), title="stale"), **arguments[1])
    else:
        session.delete_key(model, **dict(zip(KEYS, arguments[0], strict=True)))


def commit(session: hb.Session) -> list[str]:
    """Commits and returns the outcomes; of failures the rest is told elsewhere."""
    try:
        return [outcome.action for outcome in session.commit()]
    except hb.RowNotFound as error:
        return ["failed"] * len(error.failures or [error])
    except hb.PartialWrite as error:
        return [
            *(outcome.action for outcome in error.applied),
            *["failed"] * len(error.failures),
            *["pending"] * len(error.pending),
        ]


def run(store: hb.Store, models: Sequence[Any], calls: Sequence[Any]) -> Expected:
    """Carries out calls of several sessions on every model alike."""
    expected = Expected()
    sessions = [hb.Session(store) for _ in range(SESSIONS)]
    pending: list[list[Any]] = [[] for _ in range(SESSIONS)]
    for who, call in [*calls, *((who, ("commit",)) for who in range(SESSIONS))]:
        if call[0] != "commit":
            for model in models:
                write(sessions[who], model, call)
            pending[who].append(call)
            continue
        outcomes = expected.apply(pending[who])
        told = commit(sessions[who])
        if "failed" in outcomes:
            assert sorted(told) == sorted(outcomes * len(models))
        else:
            assert told == [outcome for outcome in outcomes for _ in models]
        pending[who] = []
    return expected


@frozen
class Asking:
    """Questions, and by how much to cut the answers.

    Attributes:
        questions: to ask.
        first: how many items an offset leaves out.
        size: of limits and pages.
    """

    questions: Sequence[Asked]
    first: int
    size: int


askings = st.builds(Asking, st.lists(asked, min_size=1, max_size=3), st.integers(0, 4), st.integers(1, 5))


def check(session: hb.Session, model: Any, rows: Sequence[Values], asking: Asking) -> list[list[Values]]:
    """Asks every question in every way and returns the answers."""
    answers = []
    first, size = asking.first, asking.size
    by_keys = hb.Session(session.store, sizes=SessionSizes(skipped=1))
    for question in asking.questions:
        query = question.query(session, model)
        wanted = question.answer(query, rows)
        found = [values_of(obj) for obj in query]
        assert found == wanted
        assert query.count() == len(wanted)
        assert query.exists() == bool(wanted)
        start, end = query.first(), query.last()
        assert [values_of(obj) for obj in (start, end) if obj is not None] == (
            [wanted[0], wanted[-1]] if wanted else []
        )
        part = query.offset(first).limit(size)
        skipping = question.query(by_keys, model).offset(first)
        for each in (part, skipping.limit(size)):
            assert [values_of(obj) for obj in each] == wanted[first : first + size]
        assert part.count() == len(wanted[first : first + size])
        assert query.offset(first).count() == len(wanted[first:])
        chosen = query.select(model.title, model.owner, model.size)
        assert chosen.all() == [(values["title"], values["owner"], values["size"]) for values in wanted]
        assert query.select(model.owner, model.serial).all() == [(each["owner"], each["serial"]) for each in wanted]
        assert [values_of(obj) for obj in paged(query, size)] == wanted
        for each in (query.offset(first), skipping):
            assert each.page(size).previous_token is None
            assert [values_of(obj) for obj in paged(each.limit(2 * size), size)] == wanted[first : first + 2 * size]
        answers.append(found)
    return answers


def paged(query: hb.Query[Any], size: int) -> list[Any]:
    """Every item, page by page; no page but the last is short."""
    found: list[Any] = []
    token: str | None = None
    while True:
        page = query.page(size, after=token)
        found += page.items
        token = page.next_token
        if token is None:
            return found
        assert len(page.items) == size


@pytest.mark.lengthy
@QUICK
@given(
    model=st.sampled_from(MUTABLE[1:]),
    limited=st.booleans(),
    calls=operations,
    asking=askings,
)
def test_every_path_answers_as_the_primary_table_does(model: Any, limited: bool, calls: Any, asking: Asking) -> None:
    with RecordingStore(hb.connect("memory:"), limited=limited) as store:
        hb.create_tables(store, PLAIN, model)
        expected = run(store, [PLAIN, model], calls)
        rows = list(expected.rows.values())
        session = hb.Session(store)
        for each in (PLAIN, model):
            found = session.get_many(each, list(expected.rows))
            assert [values_of(obj) for obj in found] == rows
            check_exact(store, each)
        # Salted and unsalted tables answer the same, in the same order.
        assert check(session, PLAIN, rows, asking) == check(session, model, rows, asking)


@pytest.mark.lengthy
@QUICK
@given(
    written=st.lists(things, max_size=20, unique_by=key_of),
    again=st.lists(st.integers(0, 19), max_size=10),
    gone=st.sets(st.integers(0, 19), max_size=5),
    asking=askings,
)
def test_rows_of_a_random_salt_come_once_however_often_they_were_written(
    written: list[Values], again: list[int], gone: set[int], asking: Asking
) -> None:
    with hb.connect("memory:") as store:
        hb.create_tables(store, PLAIN, DRAWN)
        for number in [*range(len(written)), *(number for number in again if number < len(written))]:
            with hb.Session(store) as session:
                session.add_all(model(**written[number]) for model in (PLAIN, DRAWN))
        with hb.Session(store) as session:
            for number in gone:
                if number < len(written):
                    session.delete(PLAIN(**written[number]))
                    session.delete(DRAWN(**written[number]))
        rows = [values for number, values in enumerate(written) if number not in gone]
        session = hb.Session(store)
        assert [obj and values_of(obj) for obj in session.get_many(DRAWN, [key_of(values) for values in written])] == [
            None if number in gone else values for number, values in enumerate(written)
        ]
        assert check(session, PLAIN, rows, asking) == check(session, DRAWN, rows, asking)


@pytest.mark.lengthy
@QUICK
@given(
    model=st.sampled_from(MUTABLE),
    written=st.lists(things, max_size=20, unique_by=key_of),
    steady=st.sets(keys),
    between=st.lists(operations, max_size=6),
    asking=askings,
)
def test_what_exists_throughout_comes_exactly_once_over_changing_pages(
    model: Any, written: list[Values], steady: set[Key], between: list[Any], asking: Asking
) -> None:
    question = asking.questions[0]
    with hb.connect("memory:") as store:
        hb.create_tables(store, model)
        with hb.Session(store) as session:
            session.add_all(model(**values) for values in written)
        kept = [values for values in written if key_of(values) in steady]
        query = question.query(hb.Session(store), model)
        changing = iter(between)
        found: list[Values] = []
        token: str | None = None
        while True:
            page = query.page(asking.size, after=token)
            found += [values_of(obj) for obj in page.items]
            token = page.next_token
            if token is None:
                break
            disturb(
                store,
                model,
                [call for _, call in next(changing, []) if call[0] != "commit" and _key(call) not in steady],
            )
        assert [values for values in found if key_of(values) in steady] == question.answer(query, kept)
        assert all(part.holds(values) for values in found for part in question.where)


def disturb(store: hb.Store, model: Any, calls: Sequence[Any]) -> None:
    """Writes between two pages."""
    session = hb.Session(store)
    for call in calls:
        write(session, model, call)
    commit(session)


@pytest.mark.lengthy
@QUICK
@given(written=st.lists(wide_things, min_size=1, max_size=12, unique_by=key_of), column=st.sampled_from(COLUMNS))
def test_a_token_of_any_key_leads_on(written: list[Values], column: str) -> None:
    with hb.connect("memory:", token_key="MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=") as store:
        hb.create_tables(store, HASHED)
        with hb.Session(store) as session:
            session.add_all(HASHED(**values) for values in written)
        session = hb.Session(store)
        for question in (
            Asked([], path, backwards) for path in ("primary", "by_title", "by_size") for backwards in (False, True)
        ):
            query = question.query(session, HASHED)
            assert [values_of(obj) for obj in paged(query, 1)] == question.answer(query, written)


# --- on a real HBase --------------------------------------------------------------------------------------------------


def test_writes_and_queries_on_hbase(hbase_bed: Bed) -> None:
    @settings(QUICK, max_examples=examples(8))
    @given(calls=operations, asking=askings)
    def example(calls: Any, asking: Asking) -> None:
        hbase_bed.use(PLAIN, HASHED)
        expected = run(hbase_bed.store, [PLAIN, HASHED], calls)
        rows = list(expected.rows.values())
        session = hb.Session(hbase_bed.store)
        for each in (PLAIN, HASHED):
            assert [values_of(obj) for obj in session.get_many(each, list(expected.rows))] == rows
            check_exact(hbase_bed.store, each)
        assert check(session, PLAIN, rows, asking) == check(session, HASHED, rows, asking)

    example()


def test_queries_of_many_rows_on_hbase(hbase_bed: Bed) -> None:
    hbase_bed.use(PLAIN, HASHED, DRAWN)

    @settings(QUICK, max_examples=1, derandomize=True)
    @given(st.lists(wide_things, min_size=60, max_size=60, unique_by=key_of))
    def write_all(values: list[Values]) -> None:
        written.clear()
        written.extend(values)

    written: list[Values] = []
    write_all()
    for _ in range(2):
        with hb.Session(hbase_bed.store) as session:
            session.bulk_add(model(**values) for values in written for model in (PLAIN, HASHED, DRAWN))
    session = hb.Session(hbase_bed.store)

    @settings(QUICK, max_examples=examples(4))
    @given(asking=askings)
    def example(asking: Asking) -> None:
        plain = check(session, PLAIN, written, asking)
        assert check(session, HASHED, written, asking) == plain
        assert check(session, DRAWN, written, asking) == plain

    example()
