"""Queries through indexes of every kind give what Python makes of the rows: whole, in pages, in parts, backwards,
while rows change.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator, Sequence
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.errors import HbmodelError, QueryError
from hbmodel.mapping.rows.mapper import KeyMapper
from tests.support.examples import examples

LETTERS = "abc"
TAGS = st.lists(st.sampled_from([*LETTERS, None]), max_size=4)


def initial(text: str) -> str | None:
    """The first letter of a text."""
    return text[:1] or None


def letters(text: str) -> list[str]:
    """The letters of a text, some of them twice."""
    return list(text)


@hb.model(table="kinds", family="d", salt=hb.HashSalt(2))
class Paper:
    number: hb.Key[int] = hb.key(hb.codecs.UInt8)
    tags: hb.Column[list[str | None] | None] = hb.column("t", hb.Json(list[str | None]), nullable=True, default=None)
    title: hb.Column[str] = hb.column("x", default="")
    rank: hb.Column[int | None] = hb.column("r", default=None)
    state: hb.Column[str] = hb.column("s", default="new")

    first = hb.computed(initial, of="title")
    letters = hb.computed(letters, of=["title"])

    by_tag = hb.index(hb.each("tags"))
    by_tag_down = hb.index(hb.each("tags", desc=True), "rank", skip_none=True, salt=hb.HashSalt(3, by=("tags",)))
    by_rank_tag = hb.index("rank", hb.each("tags"), salt=hb.HashSalt(2))
    by_letter = hb.index(hb.each("letters"), where=lambda paper: paper.state == "open")
    by_rank = hb.index("rank", skip_none=True)
    by_first = hb.index("first", "rank", skip_none=True, covers=("state",))
    by_open = hb.index(hb.desc("rank"), where=lambda paper: (paper.state == "open") & (paper.title != "b"))


SCHEMA = hb.schema.schema_of(Paper)
PAPERS = st.builds(
    Paper,
    number=st.integers(0, 9),
    tags=TAGS | st.none(),
    title=st.text(LETTERS, max_size=3),
    rank=st.none() | st.integers(0, 2),
    state=st.sampled_from(["new", "open"]),
)


def sometimes(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Two of three times something."""
    return st.one_of(st.none(), strategy, strategy)


@st.composite
def conditions(draw: st.DrawFn) -> list[tuple[hb.types.Predicate, Any]]:
    """Conditions, each with what Python makes of it."""
    found: list[tuple[hb.types.Predicate, Any]] = []
    for field, name in ((Paper.tags, "tags"), (Paper.letters, "letters")):
        wanted = draw(
            sometimes(
                st.lists(st.sampled_from([*LETTERS, None] if name == "tags" else LETTERS), min_size=1, max_size=3)
            )
        )
        if wanted:
            every = draw(st.integers(0, 3)) == 0
            combined = functools.reduce(
                operator.and_ if every else operator.or_, [field.contains(one) for one in wanted]
            )  # type: ignore[arg-type]
            how = all if every else any
            found.append(
                (
                    combined,
                    lambda p, name=name, wanted=wanted, how=how: how(one in (getattr(p, name) or ()) for one in wanted),
                )
            )
    if (rank := draw(sometimes(st.integers(0, 2)))) is not None:
        match draw(st.sampled_from(["=", ">=", "not none", "in"])):
            case "=":
                found.append((Paper.rank == rank, lambda p: p.rank == rank))
            case ">=":
                found.append((Paper.rank >= rank, lambda p: p.rank is not None and p.rank >= rank))
            case "not none":
                found.append((~Paper.rank.is_(None), lambda p: p.rank is not None))
            case _:
                found.append((Paper.rank.in_([rank, None]), lambda p: p.rank in {rank, None}))
    if draw(st.booleans()):
        found.append((Paper.state == "open", lambda p: p.state == "open"))
    if draw(st.booleans()):
        found.append((Paper.title != "b", lambda p: p.title != "b"))
    if draw(st.booleans()):
        found.append((Paper.first == "a", lambda p: p.title.startswith("a")))
    return found


def pages(query: hb.Query[Any], size: int) -> Iterator[Any]:
    """The items, page by page."""
    token: str | None = None
    while True:
        page = query.page(size, token)
        yield from page.items
        if (token := page.next_token) is None:
            return


def check_rows(store: hb.Store, rows: dict[int, Any], data: st.DataObject) -> None:
    """Through every index that fits a query: the rows that satisfy it, each once."""
    session = hb.Session(store)
    asked = data.draw(conditions())
    expected = {number: row for number, row in rows.items() if all(test(row) for _, test in asked)}
    size, count = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 4))
    for name in (None, "primary", *SCHEMA.indexes):
        query = session.query(Paper).where(*[predicate for predicate, _ in asked]).use_index(name).allow_full_scan()
        query = query.reversed() if data.draw(st.booleans()) else query
        try:
            found = query.all()
        except QueryError as error:
            if name is None or not error.missing:
                raise
            continue
        event(f"{name}, {min(len(found), 3)} rows")
        assert len(found) == len(expected)
        assert {paper.number: paper for paper in found} == expected
        assert list(pages(query, size)) == found
        assert query.count() == len(found)
        assert query.limit(2).all() == found[:2]
        parts = [paper for part in query.partitions(count) for paper in session.read_partition(part)]
        assert sorted(parts, key=lambda paper: paper.number) == sorted(found, key=lambda paper: paper.number)
        assert query.reversed().all() == found[::-1]
        assert query.last() == (found[-1] if found else None)


CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "tags": TAGS | st.none(),
        "title": st.text(LETTERS, max_size=3),
        "rank": st.none() | st.integers(0, 2),
        "state": st.sampled_from(["new", "open"]),
    },
)
WRITES = st.lists(st.one_of(PAPERS, st.tuples(st.integers(0, 9), CHANGES), st.integers(0, 9)), max_size=12)


def carried_out(store: hb.Store, rows: dict[int, Any], writes: Sequence[Any]) -> None:
    """Puts, updates and deletes, in the store and in `rows`."""
    for write in writes:
        with hb.Session(store) as session:
            if isinstance(write, Paper):
                session.add(write)
                rows[write.number] = write
            elif isinstance(write, int):
                session.delete_key(Paper, number=write)
                rows.pop(write, None)
            elif write[0] in rows and write[1]:
                rows[write[0]] = session.update(rows[write[0]], **write[1])


def check_entries(store: hb.Store, rows: dict[int, Any]) -> None:
    """Every index table has exactly the entries of the current rows: outdated entries are gone, and the others have the
    row's time.
    """
    session, keys = hb.Session(store), KeyMapper(SCHEMA)
    for index in SCHEMA.indexes.values():
        (batches,) = store.scan(index.table, [hb.store.Scan()])
        found = {row.row: row for batch in batches for row in batch}
        expected = {}
        for paper in rows.values():
            row = hb.row_key(Paper, number=paper.number)
            for entry in keys.entries(index, vars(paper), row):
                expected[entry] = row
        assert found.keys() == expected.keys()
        for entry, row in expected.items():
            (stored,) = store.get(SCHEMA.table, [row])
            assert stored is not None
            version = SCHEMA.version_column
            assert found[entry].columns[version].value == stored.columns[version].value
    assert {paper.number: paper for paper in session.query(Paper).allow_full_scan()} == rows


@pytest.mark.lengthy
@settings(max_examples=examples(30), deadline=None)
@given(st.data())
def test_queries_through_every_kind_of_index_give_the_rows_that_match(data: st.DataObject) -> None:
    with hb.connect("memory:") as store:
        hb.create_tables(store, Paper)
        rows: dict[int, Any] = {}
        carried_out(store, rows, data.draw(st.lists(PAPERS, min_size=3, max_size=10)))
        for _ in range(2):
            check_rows(store, rows, data)


@pytest.mark.lengthy
@settings(max_examples=examples(30), deadline=None)
@given(st.lists(PAPERS, min_size=1, max_size=5), WRITES, st.data())
def test_entries_follow_every_change_of_what_decides_them(
    first: Sequence[Any], writes: Sequence[Any], data: st.DataObject
) -> None:
    with hb.connect("memory:") as store:
        hb.create_tables(store, Paper)
        rows: dict[int, Any] = {}
        carried_out(store, rows, [*first, *writes])
        check_entries(store, rows)
        check_rows(store, rows, data)


TIMES = hb.indexes.IndexTimes(lease=0.15, longest_call=0.1, clock_bound=0.25, grace=1.3)


@pytest.mark.lengthy
def test_indexes_of_every_kind_are_built_on_rows_that_are_there() -> None:
    bare = hb.model(table="kinds", family="d", salt=hb.HashSalt(2))(
        type(
            "Bare",
            (),
            {
                "number": hb.key(hb.codecs.UInt8),
                "tags": hb.column("t", hb.Json(list[str | None]), nullable=True, default=None),
                "title": hb.column("x", default=""),
                "rank": hb.column("r", default=None),
                "state": hb.column("s", default="new"),
                "__annotations__": {
                    "number": hb.Key[int],
                    "tags": hb.Column[list[str | None] | None],
                    "title": hb.Column[str],
                    "rank": hb.Column[int | None],
                    "state": hb.Column[str],
                },
            },
        )
    )
    rows = {
        n: Paper(number=n, tags=[LETTERS[n % 3], "a"][: n % 4], title=LETTERS[: n % 4], rank=n % 3 or None)
        for n in range(12)
    }
    object.__setattr__(rows[3], "state", "open")
    with hb.connect("memory:") as store:
        hb.create_tables(store, bare)
        with hb.Session(store) as session:
            session.add_all(bare(**vars(paper)) for paper in rows.values())
        hb.create_tables(store, Paper)
        for name in SCHEMA.indexes:
            hb.indexes.build_index(store, Paper, name, times=TIMES)
        found, keys = (
            {paper.number: paper for paper in hb.Session(store).query(Paper).allow_full_scan()},
            KeyMapper(SCHEMA),
        )
        assert found == rows
        for index in SCHEMA.indexes.values():
            (batches,) = store.scan(index.table, [hb.store.Scan()])
            made = {row.row for batch in batches for row in batch}
            wanted = {
                e for p in rows.values() for e in keys.entries(index, vars(p), hb.row_key(Paper, number=p.number))
            }
            assert made == wanted
            assert made
            report = hb.indexes.verify_index(store, Paper, index.name, times=TIMES)
            assert (report.rows, report.entries) == (len(rows), len(made))
            assert (report.missing, report.stale, report.pending, report.refused) == (0, 0, 0, 0)
        either = Paper.tags.contains("a") | Paper.tags.contains("b")
        numbers = [paper.number for paper in hb.Session(store).query(Paper).where(either).use_index("by_tag")]
        assert sorted(numbers) == [n for n, paper in rows.items() if {"a", "b"} & set(paper.tags or ())]


@pytest.mark.hbase
@pytest.mark.parametrize("gateway", ["url", "thrift2_url"])
def test_queries_through_every_kind_of_index_on_hbase(hbmodel_hbase: Any, gateway: str) -> None:
    with hb.connect(f"{getattr(hbmodel_hbase, gateway)}?table_prefix=k{uuid4().hex[:8]}") as store:
        hb.create_tables(store, Paper)
        rows: dict[int, Any] = {}

        @settings(max_examples=4, deadline=None)
        @given(st.data())
        def check(data: st.DataObject) -> None:
            carried_out(store, rows, data.draw(st.lists(PAPERS, min_size=2, max_size=6)))
            carried_out(store, rows, data.draw(WRITES))
            check_entries(store, rows)
            check_rows(store, rows, data)

        check()


# --- which queries an index answers -----------------------------------------------------------------------------------


def session_of_none() -> hb.Session:
    """A session on empty tables."""
    store = hb.connect("memory:")
    hb.create_tables(store, Paper)
    return hb.Session(store)


@pytest.mark.parametrize(
    ("predicates", "index"),
    [
        ([Paper.tags.contains("a")], "by_tag"),
        ([Paper.tags.contains("a") | Paper.tags.contains("b")], "by_tag"),
        ([Paper.rank == 1], "by_rank"),
        ([Paper.rank > 1], "by_rank"),
        ([~Paper.rank.is_(None)], "by_rank"),
        ([Paper.rank == 1, Paper.tags.contains("a")], "by_tag_down"),
        ([Paper.rank == None, Paper.tags.contains("a")], "by_rank_tag"),  # noqa: E711
        ([Paper.state == "open", Paper.title == "a"], "by_open"),
        ([Paper.state == "open", Paper.title > "b"], "by_open"),
        ([Paper.state.in_(["open"]), Paper.title.in_(["a", "c"])], "by_open"),
        ([Paper.letters.contains("a"), Paper.state == "open"], "by_letter"),
        ([Paper.first == "a", Paper.rank > 0], "by_first"),
    ],
)
def test_the_index_that_holds_the_rows_asked_for_is_chosen(
    predicates: Sequence[hb.types.Predicate], index: str
) -> None:
    told = session_of_none().query(Paper).where(*predicates).explain()
    assert told.path == index


@pytest.mark.parametrize(
    ("predicates", "index"),
    [
        ([], "by_tag"),
        ([Paper.tags == ["a"]], "by_tag"),
        ([~Paper.tags.contains("a")], "by_tag"),
        ([Paper.tags.contains("a") | (Paper.rank == 1)], "by_tag"),
        ([Paper.tags.contains(None), Paper.rank == 1], "by_tag_down"),
        ([Paper.tags.contains("a")], "by_tag_down"),
        ([Paper.rank == None], "by_rank"),  # noqa: E711
        ([Paper.rank != 1], "by_rank"),
        ([Paper.rank.in_([1, None])], "by_rank"),
        ([Paper.state == "open"], "by_open"),
        ([Paper.state.in_(["open", "new"]), Paper.title != "b"], "by_open"),
        ([Paper.state == "open", Paper.title < "c"], "by_open"),
        ([(Paper.state == "open") | (Paper.rank == 1), Paper.title != "b"], "by_open"),
        ([Paper.letters.contains("a")], "by_letter"),
        ([Paper.first == "a"], "by_first"),
        ([Paper.rank == 1], "by_first"),
    ],
)
def test_an_index_that_may_lack_rows_of_the_query_is_refused(
    predicates: Sequence[hb.types.Predicate], index: str
) -> None:
    query = session_of_none().query(Paper).where(*predicates).allow_full_scan()
    assert query.explain().path != index
    with pytest.raises(QueryError, match="The index has entries for only some rows") as caught:
        query.use_index(index).all()
    assert caught.value.index == index
    assert caught.value.missing
    assert "open" not in str(caught.value).replace("by_open", "")


def test_explain_shows_the_kind() -> None:
    session = session_of_none()
    told = session.query(Paper).where(Paper.tags.contains("a"), Paper.rank == 1).use_index("by_tag_down").explain()
    assert told.kinds == ("each of tags without None", "rank without None")
    assert "(by_tag_down, each of tags without None, rank without None)" in str(told)
    told = session.query(Paper).where(Paper.state == "open", Paper.title != "b").explain()
    assert told.kinds == ("where state == ...", "where title != ...")
    assert not told.full_scan
    told = session.query(Paper).where(Paper.first == "a", Paper.rank == 1).explain()
    assert told.kinds == ("computed first without None", "rank without None")
    assert session.query(Paper).where(Paper.number == 1).explain().kinds == ()


def test_a_token_of_an_index_that_no_longer_fits_is_refused() -> None:
    store = hb.connect("memory:")
    hb.create_tables(store, Paper)
    with hb.Session(store) as session:
        session.add_all(Paper(number=n, tags=["a", "b"]) for n in range(5))
    session = hb.Session(store)
    page = session.query(Paper).where(Paper.tags.contains("a") | Paper.tags.contains("b")).page(2)
    with pytest.raises(HbmodelError, match=r"was read by an index .* that this query cannot use"):
        session.query(Paper).where(Paper.rank == 1).page(2, page.next_token)


def test_contains_needs_a_collection_of_known_elements() -> None:
    @hb.model(table="loose")
    class Loose:
        key: hb.Key[int] = hb.key()
        anything: hb.Column[Any] = hb.column("a", hb.Json(list[int]))
        pair: hb.Column[tuple[int, str]] = hb.column("p", hb.Json(tuple[int, str]))
        inner: hb.Column[list[list[int]]] = hb.column("i", hb.Json(list[list[int]]))
        text: hb.Column[str] = hb.column("t")

    for field in (Loose.anything, Loose.pair, Loose.inner, Loose.text, Loose.key):
        with pytest.raises(QueryError, match="contains needs a collection"):
            field.contains(1)  # type: ignore[misc,call-overload]
    with pytest.raises(hb.EncodingError, match="type"):
        Paper.tags.contains(1)  # type: ignore[arg-type]
