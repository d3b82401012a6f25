"""Row comparison: what comes before or after an object, in whatever order a query has."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.errors import EncodingError, HbmodelError, QueryError
from tests.support.beds import Bed, fresh
from tests.support.examples import examples
from tests.support.random_queries import (
    COMPARISONS,
    DESCENDING_CODECS,
    ORDERED_CODECS,
    RandomModel,
    conditions,
    leaves,
    models,
    paths,
)
from tests.support.random_rows import plain_of, written
from tests.support.strategies import KEY_CODECS, given_as

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@hb.model(table="compared", family="d", salt=hb.HashSalt(4))
class Post:
    user: hb.Key[int] = hb.key(hb.UInt32)
    at: hb.Key[datetime] = hb.key(desc=True)
    serial: hb.Key[int | None] = hb.key(hb.codecs.UInt8)
    name: hb.Column[str] = hb.column("n")
    size: hb.Column[int | None] = hb.column("s", hb.codecs.Int8, default=None)
    tags: hb.Column[list[str]] = hb.column("t", hb.Json(list[str]))

    by_name = hb.index("name", "at")
    by_size = hb.index("size", skip_none=True)
    by_tag = hb.index(hb.each("tags"), "at")


@hb.model(table="compared_logged", family="d", salt=hb.RandomSalt(3), immutable=True)
class Logged:
    serial: hb.Key[int] = hb.key(hb.codecs.UInt8)
    page: hb.Column[str] = hb.column("p")

    by_page = hb.index("page")


def post(n: int) -> Post:
    return Post(
        user=n % 2,
        at=NOON - timedelta(minutes=n // 4),
        serial=n or None,
        name=f"{n % 3}",
        size=n % 5 or None,
        tags=["a", f"b{n % 3}"],
    )


def check(query: hb.Query[Any], every: int) -> None:
    """Every n-th item is compared with all items."""
    whole = query.all()
    for at, item in list(enumerate(whole))[::every]:
        assert query.after(item).all() == whole[at + 1 :]
        assert query.before(item).all() == whole[:at]
        assert query.after(item).reversed().all() == whole[:at:-1]
        assert query.reversed().after(item).all() == whole[:at][::-1]
        assert query.after(item).count() == len(whole) - at - 1
        assert query.before(item).last() == (whole[at - 1] if at else None)
        assert query.after(whole[0]).before(item).all() == whole[1:at]


@pytest.mark.lengthy
def test_before_and_after_an_object(bed: Bed) -> None:
    session = bed.use(Post)
    session.bulk_add(map(post, range(40)))
    posts = session.query(Post)
    check(posts.where(Post.user.in_([0, 1])).order_by(Post.at.desc(), Post.serial), 19)
    check(posts.where(Post.name == "1").order_by(Post.at.desc()), 12)
    if bed.real:
        return
    check(posts.where(Post.user == 1), 7)
    check(posts.where(Post.user == 1).order_by(Post.at), 9)
    check(posts.where(Post.tags.contains("a")), 19)
    check(posts.where(Post.size > 1), 11)
    check(posts.where(Post.user == 1, Post.at >= NOON - timedelta(minutes=5), Post.name != "0"), 3)


def test_an_object_need_not_be_there_nor_match() -> None:
    with fresh(Post) as store:
        session = hb.Session(store)
        session.bulk_add(map(post, range(0, 40, 2)))
        query = session.query(Post).where(Post.user == 0).order_by(Post.at.desc(), Post.serial)
        gone = post(17)
        object.__setattr__(gone, "user", 0)
        assert [each.serial for each in query.after(gone)] == [18, *range(20, 40, 2)]
        assert [each.serial for each in query.before(gone)] == [None, *range(2, 17, 2)]
        assert query.after(post(17)).all() == query.after(gone).all(), "every item is of one user"
        users = session.query(Post).where(Post.user.in_([0, 2]))
        assert users.after(post(17)).all() == [], "user 1 comes behind those of user 0"
        merged = session.query(Post).where(Post.user.in_([0, 2])).order_by(Post.at.desc(), Post.serial)
        assert [each.serial for each in merged.after(post(17))] == [18, *range(20, 40, 2)]


@pytest.mark.parametrize("name", ["0", "1", "2"])
def test_a_value_that_every_item_has_is_not_compared(name: str) -> None:
    with fresh(Post) as store:
        session = hb.Session(store)
        session.bulk_add(map(post, range(40)))
        for number in (4, 17, 39, 60):
            mark = post(number)
            for one in (Post.name == name, Post.name.in_([name])):
                query = session.query(Post).where(one).order_by(Post.at.desc())
                assert query.explain().path == "by_name"
                whole = query.all()

                def order(each: Post) -> tuple[Any, ...]:
                    return -each.at.timestamp(), each.user, each.serial or 0

                assert query.after(mark).all() == [each for each in whole if order(each) > order(mark)]
                assert query.before(mark).all() == [each for each in whole if order(each) < order(mark)]
                # The last field of the index, after others that have many values.
                some = query.where(Post.user == 1)
                assert some.after(post(number)).all() == [
                    each for each in some if order(each) > (order(mark)[0], 1, mark.serial)
                ]
            tagged = session.query(Post).where(Post.tags.contains(f"b{name}")).order_by(Post.at)
            assert tagged.after(mark).all() == [each for each in tagged if order(each)[::1] < order(mark)]


def test_keys_and_mappings_instead_of_objects() -> None:
    with fresh(Post) as store:
        session = hb.Session(store)
        session.bulk_add(map(post, range(40)))
        posts = session.query(Post)
        query, last = posts.where(Post.user == 1), post(17)
        rest = query.after(last).all()
        assert rest
        key = {"user": 1, "at": last.at, "serial": 17}
        for item in (
            key,
            tuple(key.values()),
            list(key.values()),
            {"at": last.at, "serial": 17},
            {"at": last.at, "serial": 17, "size": 3},
        ):
            assert query.after(item).all() == rest
        assert query.after({"at": last.at, "serial": None}).count() == len(rest) + 1
        named = posts.where(Post.name == "2").order_by(Post.at.desc())
        assert named.after({"at": last.at, "user": 1, "serial": 17}).all() == named.after(last).all()
        with pytest.raises(QueryError, match="need more fields for the key that the") as caught:
            named.after({"at": last.at, "user": 1}).all()
        assert (caught.value.path, caught.value.missing) == ("by_name", ["serial"])


def test_what_cannot_be_compared_is_refused() -> None:
    with fresh(Post) as store:
        session = hb.Session(store)
        query = session.query(Post).where(Post.user == 1)
        for wrong in (7, "abc", b"abc", None, object()):
            with pytest.raises(QueryError, match="take an object of the model"):
                query.after(wrong)
        with pytest.raises(QueryError, match="every field of the key"):
            query.before((1, NOON))
        with pytest.raises(QueryError, match="every field of the key"):
            query.before((1, NOON, 3, 4))
        with pytest.raises(hb.errors.UnknownField):
            query.after({"colour": 1})
        with pytest.raises(EncodingError):
            query.after({"at": "noon"})
        with pytest.raises(QueryError, match="has no entry"):
            session.query(Post).where(Post.tags.contains("y") | Post.tags.contains("z")).after(post(1)).all()
        with pytest.raises(QueryError, match="first_of_each"):
            session.query(Post).after(post(1)).first_of_each(Post.user, [1])


def test_it_bounds_a_scan() -> None:
    with fresh(Post) as store:
        session = hb.Session(store)
        session.bulk_add(map(post, range(40)))
        query = session.query(Post)
        with pytest.raises(hb.FullScanRefused):
            query.all()
        whole = query.allow_full_scan().all()
        assert query.after(whole[9]).all() == whole[10:]
        assert not query.after(whole[9]).explain().full_scan
        assert "from an object on" in repr(query.after(whole[9]))


def test_pages_and_parts_keep_to_it() -> None:
    with fresh(Post) as store:
        session = hb.Session(store)
        session.bulk_add(map(post, range(40)))
        whole = session.query(Post).allow_full_scan().all()
        query = session.query(Post).after(whole[5]).before(whole[30])
        found, token = [], None
        while True:
            page = query.page(7, after=token)
            found += page.items
            token = page.next_token
            if token is None:
                break
            with pytest.raises(hb.TokenError):
                session.query(Post).after(whole[4]).before(whole[30]).page(7, after=token)
        assert found == whole[6:30] == query.all()
        parts = [pickle.loads(pickle.dumps(part)) for part in query.partitions(4)]
        read = [each for part in parts for each in session.read_partition(part)]
        assert sorted(each.serial or 0 for each in read) == sorted(each.serial or 0 for each in whole[6:30])


def test_copies_under_a_random_salt_are_one_object() -> None:
    with fresh(Logged) as store:
        for _ in range(8):
            with hb.Session(store) as session:
                session.add_all(Logged(serial=n, page="/") for n in range(5))
        session = hb.Session(store)
        for query in (session.query(Logged).allow_full_scan(), session.query(Logged).where(Logged.page == "/")):
            assert [each.serial for each in query.after({"serial": 2, "page": "/"})] == [3, 4]
            assert [each.serial for each in query.before(Logged(serial=2, page="/"))] == [0, 1]
            assert [each.serial for each in query.reversed().after(Logged(serial=2, page="/"))] == [1, 0]


@pytest.mark.lengthy
@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_any_query_is_cut_at_any_of_its_items(data: st.DataObject) -> None:
    of = data.draw(models(versions=True, wide=True))
    with written(data.draw, of) as store:
        session = hb.Session(store)
        for _ in range(3):
            index = data.draw(
                st.sampled_from(
                    [None, *of.schema.indexes.values()] if data.draw(st.integers(0, 3)) else paths(of.schema)[-1:]
                )
            )
            asked = data.draw(conditions(of))[0] if data.draw(st.integers(0, 2)) else []
            query = (
                session.query(of.model)
                .where(*asked)
                .allow_full_scan()
                .use_index("primary" if index is None else index.name)
            )
            query = query.reversed() if data.draw(st.booleans()) else query
            try:
                whole = query.all()
            except (QueryError, EncodingError):
                event("refused")
                continue
            event(f"{'primary' if index is None else 'index'}, {min(3, len(whole))} items")
            if not whole:
                continue
            at = data.draw(st.integers(0, len(whole) - 1))
            expected = [plain_of(each) for each in whole]
            assert [plain_of(each) for each in query.after(whole[at])] == expected[at + 1 :]
            assert [plain_of(each) for each in query.before(whole[at])] == expected[:at]
            assert [plain_of(each) for each in query.before(whole[at]).reversed()] == expected[:at][::-1]


# --- objects that need not be among the items -------------------------------------------------------------------------

Place = Callable[[Mapping[str, Any]], tuple[bytes, ...]]


def drawn(data: st.DataObject, of: RandomModel, session: hb.Session) -> tuple[hb.Query[Any], Place, bool]:
    """A query that fixes fields of a key to a few values each, its order as a sort key of values, and whether it
    descends by it.
    """
    plain = [
        index
        for index in of.schema.indexes.values()
        if not index.where and not any(name.endswith("[]") for name in index.layout.names)
    ]
    index = data.draw(st.sampled_from([None, *plain]))
    layout = of.schema.layout if index is None else index.layout
    names = layout.names
    chosen = (
        data.draw(st.lists(st.sampled_from(names), unique=True, max_size=2))
        if data.draw(st.booleans())
        else names[: data.draw(st.integers(1, 2))]
    )
    values = of.pools | of.computed
    few = {name: data.draw(st.lists(st.sampled_from(values[name]), min_size=1, max_size=3)) for name in chosen}
    query = session.query(of.model).allow_full_scan().use_index("primary" if index is None else index.name)
    for name, some in few.items():
        query = query.where(
            of.expression(name) == some[0] if len(some) == 1 and some[0] is not None else of.expression(name).in_(some)
        )
    if index is not None:
        nullable = [name for name in index.fields if name not in few and of.schema.by_name[name].nullable]
        query = query.where(*(~of.expression(name).is_(None) for name in nullable))
    others = [name for name in values if name not in few]
    if others and data.draw(st.integers(0, 3)) == 0:
        query = query.where(data.draw(leaves(of, data.draw(st.sampled_from(others)), tuple(COMPARISONS)))[0])
    packed = {
        name: {layout.pack_field(layout.names.index(name), value) for value in some} for name, some in few.items()
    }
    free = [name for name in layout.names if len(packed.get(name, ())) != 1]
    turned = data.draw(st.booleans())
    several = len(list(itertools.takewhile(lambda name: name in few, free)))
    first = data.draw(st.sampled_from([0, several, several]))
    ordering = free[first : data.draw(st.integers(first, len(free)))]
    if ordering:
        turns = {f.name: ((f.codec.order == "descending") != f.desc) != turned for f in layout.fields}
        query = query.order_by(
            *[of.expression(name).desc() if turns[name] else of.expression(name) for name in ordering]
        )
    merged = free[:first] if ordering else []

    def place(values: Mapping[str, Any]) -> tuple[bytes, ...]:
        order = [*(name for name in free if name not in merged), *merged]
        return tuple(layout.pack_field(layout.names.index(name), of.value(values, name)) for name in order)

    return query, place, turned and bool(ordering)


@pytest.mark.lengthy
@settings(max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_any_object_is_compared_by_the_fields_that_differ_among_the_items(data: st.DataObject) -> None:
    of = data.draw(
        models(data.draw(st.sampled_from([KEY_CODECS, ORDERED_CODECS, DESCENDING_CODECS])), versions=True, wide=True)
    )
    built = [f for f in of.schema.fields if f.kind in {"key", "column"} and f.name in of.pools]
    with written(data.draw, of) as store:
        session = hb.Session(store)
        for _ in range(4):
            try:
                query, place, down = drawn(data, of, session)
                whole = query.all()
                mark = of.model(
                    **{
                        f.name: given_as(data.draw, f.codec, data.draw(st.sampled_from(of.pools[f.name])))
                        for f in built
                    }
                )
                own = place({f.name: f.as_stored(getattr(mark, f.name)) for f in built})
            except HbmodelError as error:
                event(f"refused: {type(error).__name__}")
                continue
            places = [place(vars(each)) for each in whole]
            assert places == sorted(places, reverse=down)
            read = [plain_of(each) for each in whole]
            above = [each for each, at in zip(read, places, strict=True) if at > own]
            below = [each for each, at in zip(read, places, strict=True) if at < own]
            behind, ahead = (below, above) if down else (above, below)
            event(
                f"{'merged' if query.explain().merged else query.explain().path == 'primary'}, "
                f"{min(len(whole), 3)} items"
            )
            event(f"{bool(behind)} {bool(ahead)}")
            assert list(map(plain_of, query.after(mark))) == behind
            assert list(map(plain_of, query.before(mark))) == ahead
            assert list(map(plain_of, query.reversed().after(mark))) == ahead[::-1]
            assert list(map(plain_of, query.before(mark).reversed())) == ahead[::-1]


@hb.model(table="compared_sets", family="d")
class Marked:
    number: hb.Key[int] = hb.key(hb.codecs.UInt8)
    rank: hb.Column[int] = hb.column("r", hb.codecs.Int8)
    marks: hb.Column[list[int]] = hb.column("m", hb.Json(list[int]))

    nines = hb.index("rank", hb.each("marks"), where=lambda model: model.marks.contains(9))
    nines_first = hb.index(hb.each("marks"), "rank", where=lambda model: model.marks.contains(9))
    low = hb.index("rank", hb.each("marks"), where=lambda model: model.rank <= 1)


MARKS = st.lists(st.sampled_from([0, 5, 9, 10]), max_size=3, unique=True)


@pytest.mark.lengthy
@given(
    st.lists(st.tuples(st.integers(-1, 2), MARKS), max_size=8),
    st.sampled_from(["nines", "nines_first", "low"]),
    st.data(),
)
@settings(max_examples=examples(100))
def test_objects_of_a_partial_index_of_elements(
    rows: list[tuple[int, list[int]]], index: str, data: st.DataObject
) -> None:
    with hb.connect("memory:") as store:
        hb.create_tables(store, Marked)
        session = hb.Session(store)
        session.add_all(Marked(number=number, rank=rank, marks=marks) for number, (rank, marks) in enumerate(rows))
        session.commit()
        asked = [Marked.rank <= data.draw(st.integers(0, 1)), Marked.marks.contains(9)]
        if data.draw(st.booleans()):
            asked.append(Marked.marks.contains(data.draw(st.sampled_from([5, 9, 10]))))
        query = session.query(Marked).where(*asked).use_index(index).allow_full_scan()
        check(query, 1)
