"""Key bounds of any `&` and `|`: the read rows contain all matches, and no more rows than the alternatives would read
one by one.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from attrs import evolve
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.errors import EncodingError, QueryError
from hbmodel.mapping.predicates import And, Predicate
from hbmodel.mapping.rows.mapper import KeyMapper
from hbmodel.mapping.schema import Index
from hbmodel.query.ask.query import Query
from hbmodel.query.ask.terms import QueryTerms
from hbmodel.query.explain.explained_plan import explain
from hbmodel.query.match.or_ranges import MAX_CONDITIONS
from hbmodel.query.match.plan import Plan
from hbmodel.query.match.planner import plan
from hbmodel.query.match.range_limits import MAX_RANGES, MAX_SCANS
from hbmodel.store import Row
from tests.query.test_planner import lies_in
from tests.support.beds import Bed
from tests.support.examples import examples
from tests.support.faulty import RecordingStore
from tests.support.random_queries import (
    Oracle,
    RandomModel,
    Values,
    branches,
    elements,
    models,
    paths,
    stored_keys,
    stored_objects,
    trees,
)
from tests.support.random_rows import plain_of, written

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@hb.model(table="disjoined", family="d", salt=hb.HashSalt(4, by=("user",)))
class Post:
    user: hb.Key[int] = hb.key(hb.UInt32)
    at: hb.Key[datetime] = hb.key(desc=True)
    serial: hb.Key[int] = hb.key(hb.codecs.UInt8)
    name: hb.Column[str] = hb.column("n")
    size: hb.Column[int | None] = hb.column("s", hb.codecs.Int8, default=None)

    by_name = hb.index("name", "at")
    by_size = hb.index("size", skip_none=True)


@hb.model(table="disjoined_plain")
class Plain:
    a: hb.Key[int] = hb.key(hb.codecs.UInt8)
    b: hb.Key[str | None] = hb.key()
    c: hb.Key[str] = hb.key()
    d: hb.Column[int] = hb.column("d")


def query(model: Any, *predicates: Predicate) -> Query[Any]:
    return Query(QueryTerms(hb.schema.schema_of(model)), None).where(*predicates)  # type: ignore[arg-type]


def planned(of: Query[Any], path: str | None = None) -> Plan:
    schema = of.terms.schema
    return plan(of.terms, list(schema.indexes.values()), schema.versioned or bool(schema.indexes), path)


def ranges_of(made: Plan) -> list[tuple[bytes, bytes | None]]:
    return [(r.start, r.stop) for bucket in made.buckets for r in bucket.ranges]


# --- single plans -----------------------------------------------------------------------------------------------------


def test_a_keyset_predicate_is_one_range() -> None:
    of = query(
        Plain,
        (Plain.a > 3) | ((Plain.a == 3) & (Plain.b > "x")) | ((Plain.a == 3) & (Plain.b == "x") & (Plain.c >= "y")),
    )
    made = planned(of)
    assert ranges_of(made) == [(b"\x03\x01x\x00\x01y", None)]
    assert (list(made.residual), made.settled, made.full_scan) == ([], True, False)
    explained = explain(made, one_call_scans=True)
    assert (explained.equalities, explained.range_field, explained.client) == ((), "a", [])
    below = planned(query(Plain, (Plain.a < 3) | ((Plain.a == 3) & (Plain.b < "x"))))
    assert ranges_of(below) == [(b"", b"\x03"), (b"\x03\x01", b"\x03\x01x\x00\x01")], (
        "None has no order, so it is not below"
    )


def test_a_keyset_predicate_behind_what_is_fixed_reads_one_bucket() -> None:
    behind = (Post.at < NOON) | ((Post.at == NOON) & (Post.serial > 7))
    made = planned(query(Post, Post.user == 1, behind))
    assert (len(made.buckets), len(ranges_of(made)), made.settled) == (1, 1, True)
    assert explain(made, one_call_scans=True).range_field == "at"
    through = planned(query(Post, Post.name == "x", (Post.at < NOON) | ((Post.at == NOON) & (Post.user > 7))))
    assert (through.path.name, len(ranges_of(through)), through.settled) == ("by_name", 1, True)
    assert planned(query(Post, Post.user == 1, behind).order_by(Post.at.desc())).path.name == "primary"


def test_pairs_are_got_and_not_every_combination_of_them() -> None:
    pairs = [(1, "x", "p"), (2, "y", "q"), (3, None, "r")]
    of = query(
        Plain, functools.reduce(operator.or_, [(Plain.a == a) & (Plain.b == b) & (Plain.c == c) for a, b, c in pairs])
    )
    made = planned(of)
    assert made.rows == [b"\x01\x01x\x00\x01p", b"\x02\x01y\x00\x01q", b"\x03\x00r"]
    assert list(made.residual) == []


def test_disjoint_alternatives_are_several_ranges() -> None:
    made = planned(query(Plain, ((Plain.a < 2) | (Plain.a.between(5, 6)) | (Plain.a > 200)) & (Plain.a != 7)))
    assert ranges_of(made) == [(b"", b"\x02"), (b"\x05", b"\x07"), (b"\xc9", None)]
    assert [repr(p) for p in made.residual] == ["a != ..."]
    assert ranges_of(planned(query(Plain, ~((Plain.a >= 2) & (Plain.a != 5))))) == [(b"", b"\x02"), (b"\x05", b"\x06")]


def test_one_alternative_that_bounds_nothing_bounds_nothing() -> None:
    with pytest.raises(hb.FullScanRefused):
        planned(query(Plain, (Plain.a > 5) | (Plain.d == 1)))
    made = planned(query(Plain, Plain.a == 1, (Plain.b > "x") | (Plain.d == 1)))
    assert ranges_of(made) == [(b"\x01", b"\x02")]
    assert len(made.residual) == 1


def test_what_one_alternative_leaves_open_is_checked() -> None:
    made = planned(query(Plain, ((Plain.a == 1) & (Plain.d == 1)) | (Plain.a == 2)))
    assert ranges_of(made) == [(b"\x01", b"\x03")]
    assert len(made.residual) == 1


def test_contradictory_alternatives_read_nothing() -> None:
    for nothing in (
        (Plain.a == 2) | (Plain.a > 5),
        (Plain.a > 300) | (Plain.a < -1) | ((Plain.a == 1) & (Plain.a == 3)),
    ):
        made = planned(query(Plain, Plain.a == 1, nothing))
        assert (ranges_of(made), made.full_scan) == ([], False)
    assert ranges_of(planned(query(Plain, (Plain.a > 300) | (Plain.a < -1)))) == []


def test_an_index_without_none_serves_alternatives_that_exclude_it() -> None:
    made = planned(query(Post, (Post.size > 5) | ((Post.size == 5) & (Post.user > 1))))
    assert made.path.name == "by_size"
    either = (Post.size > 5) | ((Post.size == 5) & (Post.user > 1))
    for other in (Post.size.in_([None, 5, 6]), (Post.size.is_(None)) | (Post.size < 7)):
        assert planned(query(Post, either, other)).path.name == "by_size", "no entry has None"
    with pytest.raises(hb.FullScanRefused):
        planned(query(Post, (Post.size > 5) | ((Post.size.is_(None)) & (Post.user > 1))))


@pytest.mark.lengthy
def test_the_caps_leave_wider_bounds() -> None:
    many = functools.reduce(operator.or_, [(Plain.a == n % 256) & (Plain.b == f"{n}") for n in range(MAX_CONDITIONS)])
    assert planned(query(Plain, Plain.a >= 5, many)).match.pieces is None
    assert ranges_of(planned(query(Plain, Plain.a >= 5, many))) == [(b"\x05", None)]
    # Under each of very many values several ranges would be too many: one that holds them all is read.
    users = Post.user.in_(range(MAX_RANGES - 1))
    ends = (Post.at < NOON) | (Post.at > NOON + timedelta(days=1))
    made = planned(query(Post, users, ends & (Post.at < NOON + timedelta(days=9))))
    assert len(ranges_of(made)) == MAX_RANGES - 1
    assert (made.match.bounded, [repr(p) for p in made.residual]) == (True, ["(at < ... | at > ...)"])
    few = Post.user.in_(range(MAX_RANGES // 2 - 1))
    exact = planned(query(Post, few, ends & (Post.at < NOON + timedelta(days=9))))
    assert (len(ranges_of(exact)), list(exact.residual)) == (MAX_RANGES - 2, [])


@pytest.mark.lengthy
def test_the_cap_over_all_buckets_leaves_wider_bounds() -> None:
    @hb.model(table="t", salt=hb.HashSalt(256))
    class Spread:
        k: hb.Key[int] = hb.key(hb.codecs.UInt16)
        n: hb.Key[int] = hb.key(hb.codecs.UInt8)
        d: hb.Column[int] = hb.column("d")

    ends = (Spread.n < 3) | (Spread.n > 7)
    for count, pieces in ((MAX_SCANS // 512, 2), (MAX_SCANS // 256, 1)):
        made = planned(query(Spread, Spread.k.in_(range(count)), ends, Spread.n < 9))
        assert len(ranges_of(made)) == count * 256 * pieces
        assert len(made.residual) == (0 if pieces == 2 else 1)
        assert made.match.bounded


# --- any tree ---------------------------------------------------------------------------------------------------------


def leading(of: RandomModel, data: st.DataObject) -> Sequence[str]:
    """Fields of some path's key."""
    return leading_of(of, data.draw(st.sampled_from(paths(of.schema))))


def leading_of(of: RandomModel, index: Index | None) -> Sequence[str]:
    """Fields of a path's key."""
    layout = of.schema.layout if index is None else index.layout
    return [name for name in layout.names if not name.endswith("[]")] or of.schema.layout.names


def check_tree(data: st.DataObject) -> None:
    of = data.draw(models(versions=True, wide=True))
    schema = of.schema
    objects = data.draw(stored_objects(of, indexed=bool(schema.indexes), blanks=True))
    names = leading(of, data)
    drawn = [data.draw(trees(of, names)) for _ in range(data.draw(st.integers(1, 2)))]
    whole = functools.reduce(operator.and_, [predicate for predicate, _ in drawn])
    alternatives = branches(whole)
    assume(len(alternatives) <= 60)
    asked = query(of.model, *[predicate for predicate, _ in drawn]).allow_full_scan()
    for index in paths(schema):
        path = "primary" if index is None else index.name
        try:
            made = planned(asked, path)
        except QueryError:
            event("an index that lacks some rows")
            continue
        try:
            one_by_one = [planned(query(of.model, *each).allow_full_scan(), path) for each in alternatives]
        except QueryError:
            one_by_one = []
        pieces = made.match.pieces
        event(
            f"{'index' if index else 'primary'}, "
            f"{'as it stands' if pieces is None else 'pieces' if len(pieces) > 1 else 'a piece'}"
        )
        consumed = [p.test() for p in made.match.consumed]
        for obj in objects:
            keys = stored_keys(schema, index, obj)
            for key in keys:
                if (
                    one_by_one
                    and made.columns is None
                    and all(each.columns is None for each in one_by_one)
                    and lies_in(made, key)
                ):
                    assert any(lies_in(each, key) for each in one_by_one), "no alternative would read it"
            inside = any(lies_in(made, key) for key in keys)
            assert not inside or all(test(obj.values) for test in consumed)
            matches = all(oracle(obj.values) for _, oracle in drawn)
            assert (inside and (made.accepts is None or made.accepts(obj.values))) == matches


@pytest.mark.lengthy
@settings(max_examples=examples(120), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_what_is_read_is_what_some_alternative_reads(data: st.DataObject) -> None:
    check_tree(data)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@settings(max_examples=1_500, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_what_is_read_is_what_some_alternative_reads_at_length(data: st.DataObject) -> None:
    check_tree(data)


class CountingStore(RecordingStore):
    """Keeps the keys that scans of a table find and gets ask for: without filters, which may keep rows from a
    narrower query.
    """

    def __init__(self, store: hb.Store) -> None:
        super().__init__(store)
        self.scanned: dict[str, list[bytes]] = {}
        self.got: dict[str, list[bytes]] = {}

    def scan(self, table: str, scans: Any) -> Any:
        return [
            self._counted(table, batches)
            for batches in super().scan(table, [evolve(scan, filter=None) for scan in scans])
        ]

    def _counted(self, table: str, batches: Any) -> Any:
        for batch in batches:
            self.scanned.setdefault(table, []).extend(row.row for row in batch)
            yield batch

    def get(self, table: str, rows: Sequence[bytes], columns: Sequence[bytes] = ()) -> Sequence[Row | None]:
        self.got.setdefault(table, []).extend(rows)
        return super().get(table, rows, columns)

    def read(self, table: str) -> tuple[list[bytes], list[bytes]]:
        """The keys that scans found and gets asked for since the last time."""
        found = self.scanned.pop(table, []), self.got.pop(table, [])
        self.scanned.clear()
        self.got.clear()
        return found


def by_key(of: RandomModel, objects: Sequence[Any]) -> list[dict[str, Any]]:
    """Comparable forms of objects, in one order for every path."""
    keys = KeyMapper(of.schema)
    return [
        plain_of(obj)
        for obj in sorted(objects, key=lambda obj: keys.parts([getattr(obj, name) for name in of.schema.layout.names]))
    ]


def has_value(of: RandomModel, name: str, values: Values) -> bool:
    return of.value(values, name) is not None


@st.composite
def fitting(draw: st.DrawFn, of: RandomModel, index: Index | None) -> list[tuple[Predicate, Oracle]]:
    """Conditions that only rows with entries in an index satisfy."""
    found: list[tuple[Predicate, Oracle]] = []
    if index is not None and index.where:
        found.append((And(tuple(index.where)), of.wheres[index.name]))
    for part in () if index is None else index.parts:
        name = part.operand.name
        if name.endswith("[]"):
            found.append(draw(elements(of, name.removesuffix("[]"))))
        elif part.required:
            found.append((And(tuple(part.required)), functools.partial(has_value, of, name)))
    return found


def collections_of(index: Index) -> set[str]:
    """The fields of which an index has an entry for each element."""
    return {name.removesuffix("[]") for name in index.fields if name.endswith("[]")}


def check_reads(data: st.DataObject) -> None:
    of = data.draw(models(versions=True))
    assume(not of.schema.salt.random)
    index = data.draw(st.sampled_from([*paths(of.schema), *of.schema.indexes.values()]))
    path, table = ("primary", of.schema.table) if index is None else (index.name, index.table)
    with written(data.draw, of) as inner:
        store = CountingStore(inner)
        session = hb.Session(store)
        tree = data.draw(trees(of, leading_of(of, index)))
        asked = [tree, *data.draw(fitting(of, index))]
        predicate = functools.reduce(operator.and_, [each for each, _ in asked])
        alternatives = branches(predicate)
        assume(len(alternatives) <= 30)
        entries: set[bytes] = set()  # of the path, that some alternative reads
        rows: set[bytes] = set()  # of the table, that some alternative reads through them
        try:
            every = session.query(of.model).use_index("primary").allow_full_scan().all()
            expected = [obj for obj in every if all(oracle(vars(obj)) for _, oracle in asked)]
            query = session.query(of.model).where(predicate).use_index(path).allow_full_scan()
            query.explain()
            store.read(table)
            found = query.all()
            got = store.got.get(of.schema.table, [])
            scanned, _ = store.read(table)
            for each in alternatives:
                session.query(of.model).where(*each).use_index(path).allow_full_scan().all()
                rows |= set(store.got.get(of.schema.table, []))
                entries |= set(store.read(table)[0])
        except (QueryError, EncodingError):
            event("refused")
            return
        event(f"{'primary' if index is None else 'index'}, {min(len(scanned), 3)} scanned, {min(len(got), 3)} got")
        if index is None:
            assert [plain_of(obj) for obj in found] == [plain_of(obj) for obj in expected]
        else:
            assert by_key(of, found) == by_key(of, expected)
        assert len(scanned) == len(set(scanned))
        assert len(got) == len(set(got))
        if index is None:  # each row is scanned or got
            assert {*scanned, *got} <= entries | rows
            return
        if collections_of(index) & tree[0].names():
            # The entries of one condition on elements are read. An alternative may have another one, with fewer
            # elements.
            event("several conditions on elements")
            return
        assert set(scanned) <= entries
        keys = KeyMapper(of.schema)
        assert set(got) <= {row for entry in scanned for row in keys.row_of_entry(index, entry)}
        # A condition is tested on the keys of entries if they contain all of its fields. One of its alternatives may
        # need fewer fields: then rows are read that no alternative reads alone.
        whole = predicate.names() <= set(index.layout.names)
        assert not whole or set(got) <= rows
        event(f"conditions on {'the key alone' if whole else 'other fields'}")


@pytest.mark.lengthy
@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_a_store_reads_no_more_than_for_the_alternatives(data: st.DataObject) -> None:
    check_reads(data)


# --- on every store ---------------------------------------------------------------------------------------------------


def test_keyset_pages_are_the_whole_and_read_no_more_than_their_rows(bed: Bed) -> None:
    session = bed.use(Post)
    posts = [
        Post(user=n % 2, at=NOON - timedelta(minutes=n // 6), serial=n, name=f"{n % 3}", size=n % 5 or None)
        for n in range(60)
    ]
    session.bulk_add(posts)
    query = session.query(Post).where(Post.user == 1).order_by(Post.at.desc(), Post.serial)
    whole = query.all()
    found: list[Post] = query.limit(11).all()
    while len(found) < len(whole):
        last = found[-1]
        page = query.where((Post.at < last.at) | ((Post.at == last.at) & (Post.serial > last.serial))).limit(11)
        assert page.explain().client == []
        assert page.explain().ranges == 1
        found += page.all()
    assert found == whole
    ends = session.query(Post).where(Post.user == 0, (Post.at >= NOON) | (Post.at < NOON - timedelta(minutes=8))).all()
    assert [post.serial for post in ends] == [0, 2, 4, 54, 56, 58]
    large = (Post.size > 3) | ((Post.size == 3) & (Post.user == 1))
    assert {post.serial for post in session.query(Post).where(large)} == {
        n for n in range(60) if n % 5 == 4 or (n % 5 == 3 and n % 2)
    }
