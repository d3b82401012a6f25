"""Orders that are merged: several values of leading fields, and the order of the field after them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.errors import EncodingError, QueryError
from hbmodel.query.ask.continuation_tokens import decode_token, encode_token
from hbmodel.query.match.merged_order import MAX_MERGED, MergedOrder
from hbmodel.store.ranges import KeyRange
from tests.support.beds import Bed, fresh
from tests.support.examples import examples
from tests.support.random_queries import DESCENDING_CODECS, ORDERED_CODECS, RandomModel, in_order, models, same, trees
from tests.support.random_rows import plain_of, written

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@hb.model(table="merged", family="d", salt=hb.HashSalt(4, by=("user",)))
class Post:
    user: hb.Key[int] = hb.key(hb.UInt32)
    at: hb.Key[datetime] = hb.key(desc=True)
    serial: hb.Key[int] = hb.key(hb.codecs.UInt8)
    name: hb.Column[str] = hb.column("n")
    tags: hb.Column[list[str]] = hb.column("t", hb.Json(list[str]))

    by_name = hb.index("name", "at")
    by_tag = hb.index(hb.each("tags"), "at")


@hb.model(table="merged_spread", family="d", salt=hb.HashSalt(4))
class Spread:
    group: hb.Key[str] = hb.key()
    kind: hb.Key[int] = hb.key(hb.codecs.UInt8)
    at: hb.Key[int] = hb.key(hb.codecs.UInt8)
    name: hb.Column[str] = hb.column("n")


def posts() -> list[Post]:
    tags = ([], ["a"], ["b", "a"], ["c"])
    return [
        Post(user=n % 3, at=NOON - timedelta(minutes=(n * 7) % 41), serial=n, name=f"{n % 4}", tags=tags[n % 4])
        for n in range(90)
    ]


def paged(query: hb.Query[Any], size: int) -> list[Any]:
    """The items of all pages of a query."""
    found: list[Any] = []
    token = None
    while True:
        page = query.page(size, after=token)
        assert len(page.items) <= size
        found += page.items
        token = page.next_token
        if token is None:
            return found
        assert len(page.items) == size


@pytest.mark.lengthy
def test_two_users_newest_first(bed: Bed) -> None:
    session = bed.use(Post)
    every = posts()
    session.bulk_add(every)
    query = session.query(Post).where(Post.user.in_([2, 0])).order_by(Post.at.desc())
    newest = sorted(
        (post for post in every if post.user != 1), key=lambda post: (-post.at.timestamp(), post.serial, post.user)
    )
    assert query.all() == newest
    assert query.reversed().all() == newest[::-1]
    assert query.order_by(Post.at).all() == newest[::-1]
    assert (query.first(), query.last(), query.count()) == (newest[0], newest[-1], 60)
    assert query.offset(5).limit(7).all() == newest[5:12]
    assert query.where(Post.at < NOON - timedelta(minutes=20)).first() == next(
        p for p in newest if p.at < NOON - timedelta(minutes=20)
    )
    for size in (17,) if bed.real else (1, 7, 60):
        assert paged(query, size) == newest
        assert paged(query.reversed(), size) == newest[::-1]
    told = query.explain()
    assert (told.path, told.merged, told.ranges, told.full_scan) == ("primary", ["user"], 2, False)
    assert told.calls <= 4


@hb.model(table="merged_ties", family="d", exists=hb.flag("e"))
class Tied:
    user: hb.Key[int] = hb.key(hb.codecs.UInt8)
    group: hb.Key[int] = hb.key(hb.codecs.UInt8, desc=True)
    at: hb.Key[int] = hb.key(hb.codecs.UInt8, desc=True)
    serial: hb.Key[int] = hb.key(hb.codecs.UInt8)


def test_ties_are_broken_by_the_rest_of_the_key_and_last_by_the_merged_fields(bed: Bed) -> None:
    session = bed.use(Tied)
    every = [Tied(user=n & 1, group=n >> 1 & 1, at=n >> 2 & 1, serial=n >> 3) for n in range(16)]
    session.bulk_add(every)
    query = session.query(Tied).where(Tied.user.in_([1, 0]), Tied.group.in_([0, 1]))
    expected = sorted(every, key=lambda of: (-of.at, of.serial, of.user, -of.group))
    newest = query.order_by(Tied.at.desc())
    assert (newest.all(), newest.reversed().all()) == (expected, expected[::-1])
    assert query.order_by(Tied.at).all() == expected[::-1]
    both = query.order_by(Tied.group.desc(), Tied.at.desc())
    assert both.all() == sorted(every, key=lambda of: (-of.group, -of.at, of.serial, of.user))


@pytest.mark.lengthy
def test_an_order_by_a_field_with_one_value_reverses_the_rest_of_the_key_too(bed: Bed) -> None:
    session = bed.use(Post)
    session.add_all(written_posts := posts())
    session.commit()
    query = session.query(Post)
    of_user = sorted(
        (post for post in written_posts if post.user == 1), key=lambda post: (-post.at.timestamp(), post.serial)
    )
    for condition in (
        Post.user == 1, Post.user.in_([1]), Post.user.in_([1, 7]), Post.user.between(1, 1), Post.user.in_([1, 1]),
    ):  # fmt: skip
        for ordering, expected in (((Post.user,), of_user), ((Post.user.desc(),), of_user[::-1])):
            asked = query.where(condition).order_by(*ordering)
            assert asked.all() == expected
            assert asked.reversed().all() == expected[::-1]
            assert paged(asked, 7) == expected
            assert asked.after(expected[4]).limit(3).all() == expected[5:8]
            assert asked.first() == expected[0]
    fixed = query.where(Post.user == 1).order_by(Post.user.desc(), Post.at.desc())
    assert fixed.all() == of_user, "the last field of the order has the direction of the key"
    for ordering in (Post.user, Post.user.desc()):
        ordered_query = query.order_by(ordering)
        firsts = ordered_query.first_of_each(Post.user, [2, 0, 1, 7])
        assert firsts == [ordered_query.where(Post.user == user).first() for user in (2, 0, 1, 7)]
    named = sorted(
        (post for post in written_posts if post.name == "2"),
        key=lambda post: (-post.at.timestamp(), post.user, post.serial),
    )
    by_name = query.where(Post.name == "2").order_by(Post.name.desc())
    assert by_name.explain().path == "by_name"
    assert by_name.all() == paged(by_name, 5) == named[::-1]


@pytest.mark.lengthy
def test_through_an_index_and_over_salts(bed: Bed) -> None:
    session = bed.use(Post, Spread)
    every = posts()
    session.bulk_add(every)
    query = session.query(Post).where(Post.name.in_(["1", "3"])).order_by(Post.at.desc())
    assert query.explain().path == "by_name"
    found = query.all()
    assert sorted(post.serial for post in found) == [n for n in range(90) if n % 2]
    assert [post.at for post in found] == sorted((post.at for post in found), reverse=True)
    assert paged(query, 20) == found
    tagged = session.query(Post).where(Post.tags.contains("a") | Post.tags.contains("b")).order_by(Post.at)
    assert tagged.explain().path == "by_tag"
    found = tagged.all()
    assert sorted(post.serial for post in found) == [n for n in range(90) if n % 4 in {1, 2}]
    assert [post.at for post in found] == sorted(post.at for post in found)
    assert paged(tagged, 20) == found
    session.bulk_add(Spread(group="abc"[n % 3], kind=n % 5, at=n % 50, name=f"{n}") for n in range(150))
    spread = session.query(Spread).where(Spread.group.in_(["a", "c"]), Spread.kind.in_([1, 2, 4]))
    assert spread.order_by(Spread.at).explain().buckets == 4
    orderings = (
        ([Spread.at], lambda each: each.at),
        ([Spread.kind.desc(), Spread.at.desc()], lambda each: (-each.kind, -each.at)),
        ([Spread.group, Spread.at], lambda each: (each.group, each.at)),
        ([Spread.group, Spread.kind], lambda each: (each.group, each.kind, each.at)),
    )
    for ordering, key in orderings[:2] if bed.real else orderings:
        asked = spread.order_by(*ordering)
        found = asked.all()
        assert found == sorted(found, key=key)
        assert len(found) == 60
        assert paged(asked, 25) == found


@pytest.mark.lengthy
def test_too_many_scans_are_refused_with_a_way_out() -> None:
    with fresh(Post, Spread) as store:
        session = hb.Session(store)
        query = session.query(Post).where(Post.user.in_(range(MAX_MERGED + 1)))
        assert query.all() == []
        with pytest.raises(QueryError, match="give in_ fewer values") as caught:
            query.order_by(Post.at).all()
        assert (caught.value.fields, caught.value.scans, caught.value.most) == (["user"], MAX_MERGED + 1, MAX_MERGED)
        assert session.query(Post).where(Post.user.in_(range(MAX_MERGED))).order_by(Post.at).all() == []
        with pytest.raises(QueryError) as caught:
            session.query(Spread).where(Spread.group.in_([f"{n}" for n in range(MAX_MERGED // 4 + 1)])).order_by(
                Spread.kind
            ).all()
        assert caught.value.scans == MAX_MERGED + 4
        # Whole keys are got, in any number.
        exact = query.where(Post.at.in_([NOON, NOON - timedelta(1)]), Post.serial == 3).order_by(Post.at)
        assert exact.explain().access == "get"
        assert exact.all() == []


@pytest.mark.lengthy
def test_whole_keys_come_in_the_order(bed: Bed) -> None:
    session = bed.use(Post)
    session.bulk_add(posts())
    minutes = [NOON - timedelta(minutes=n) for n in range(41)]
    query = (
        session.query(Post)
        .where(Post.user.in_([0, 1]), Post.at.in_(minutes), Post.serial.in_(range(90)))
        .order_by(Post.at)
    )
    assert query.explain().access == "get"
    found = query.all()
    assert [post.at for post in found] == sorted(post.at for post in posts() if post.user < 2)
    assert paged(query, 20) == found


def test_the_keys_above_or_below_a_place_are_those_that_sort_there() -> None:
    runs = {lead: (lead[:1], lead[1:]) for lead in (b"ax", b"ay", b"bx")}
    order = MergedOrder((1,), runs)
    keys = [lead + tail for lead in runs for tail in (b"", b"\x00", b"m", b"m\x00", b"\xff")]
    for lead in runs:
        of, mine = KeyRange.prefix(b"7" + lead), [key for key in keys if key.startswith(lead)]
        for place in map(order.key, keys):
            above, below = (order.beyond(of, b"7", lead, place, above) for above in (True, False))
            assert [key for key in mine if b"7" + key in above] == [key for key in mine if order.key(key) > place]
            assert [key for key in mine if b"7" + key in below] == [key for key in mine if order.key(key) < place]


def test_tails_of_keys_sort_after_all_fields() -> None:
    runs = {lead: (lead[:1], lead[1:]) for lead in (b"ax", b"ay", b"bx")}
    order = MergedOrder((1,), runs, tail=1)
    bodies = [body + tail for body in (b"m\x00\x01", b"n\x00\x01") for tail in (b"\x00", b"\x02", b"\xff")]
    keys = [lead + body for lead in runs for body in bodies]
    assert sorted(keys[:12], key=order.key)[:6] == [*keys[:3], *keys[6:9]]
    places = [order.key(key) for key in keys]
    places += [order.place([b"a", last, b"m\x00\x01"], tail) for last in (b"v", b"x", b"z") for tail in (b"", b"\xff")]
    for lead in runs:
        of, mine = KeyRange.prefix(b"7" + lead), [key for key in keys if key.startswith(lead)]
        for place in places:
            above, below = (order.beyond(of, b"7", lead, place, above) for above in (True, False))
            assert [key for key in mine if b"7" + key in above] == [key for key in mine if order.key(key) > place]
            assert [key for key in mine if b"7" + key in below] == [key for key in mine if order.key(key) < place]


@hb.model(table="scattered", family="d", salt=hb.salts.RandomSalt(5), immutable=True)
class Scattered:
    place: hb.Key[int] = hb.key(hb.UInt32)
    kind: hb.Column[int] = hb.column("k", hb.UInt32)
    rank: hb.Column[int] = hb.column("r", hb.UInt32)

    by_kind = hb.index("kind", "rank")


def test_buckets_of_rows_do_not_matter_in_a_merged_order() -> None:
    """The bytes of a random salt are at the end of each entry, behind the fields by which the entries are merged."""
    with fresh(Scattered) as store:
        session = hb.Session(store)
        objects = [Scattered(place=place, kind=place % 3, rank=place // 9) for place in range(27)]
        session.add_all(objects)
        session.commit()
        query = session.query(Scattered).use_index("by_kind").where(Scattered.kind.in_([0, 1, 2]))
        for chosen, down in ((query.order_by(Scattered.rank), False), (query.order_by(Scattered.rank.desc()), True)):
            expected = sorted(objects, key=lambda item: (item.rank, item.place, item.kind), reverse=down)
            assert chosen.all() == expected
            assert paged(chosen, 4) == expected
            for kind, place in [(9, 4), (0, 4), (1, 4), (1, 13), (2, 26)]:
                mark = Scattered(place=place, kind=kind, rank=place // 9)
                own = (mark.rank, mark.place, mark.kind)
                places = [(item.rank, item.place, item.kind) for item in expected]
                split = [at < own if down else at > own for at in places]
                assert chosen.after(mark).all() == [item for item, after in zip(expected, split, strict=True) if after]
                assert chosen.before(mark).all() == [
                    item for item, after, at in zip(expected, split, places, strict=True) if not after and at != own
                ]


def test_a_token_that_was_altered_is_refused() -> None:
    from attrs import evolve

    with fresh(Post) as store:
        session = hb.Session(store)
        session.bulk_add(posts())
        query = session.query(Post).where(Post.user.in_([0, 1])).order_by(Post.at)
        token = query.page(3).next_token
        assert token is not None
        known = decode_token(token, None)
        for position in (b"", b"\0\0\0\x07" + known.position[4:], known.position[:3]):
            with pytest.raises(hb.TokenError):
                query.page(3, after=encode_token(evolve(known, position=position)))
        with pytest.raises(hb.TokenError, match="The continuation token belongs to another query"):
            session.query(Post).where(Post.user.in_([0, 2])).order_by(Post.at).page(3, after=token)


def test_parts_of_a_query_of_several_values_are_read_in_the_order() -> None:
    with fresh(Post) as store:
        session = hb.Session(store)
        session.bulk_add(posts())
        query = session.query(Post).where(Post.user.in_([0, 1, 2]))
        parts = query.partitions(3)
        assert len(parts) == 3
        found = []
        for part in parts:
            read = session.read_partition(part).order_by(Post.at).all()
            assert [post.at for post in read] == sorted(post.at for post in read)
            found += read
        assert sorted(post.serial for post in found) == list(range(90))


def test_a_stream_over_many_values_fetches_little_of_each() -> None:
    with fresh(Spread) as store:
        query = (
            hb.Session(store).query(Spread).where(Spread.group.in_([f"{n}" for n in range(250)])).order_by(Spread.kind)
        )
        store.calls.clear()
        query.all()
        (scans,) = [call.items for call in store.calls if call.name == "scan"]
        assert len(scans) == 1_000
        assert max(scan.batch_size for scan in scans) * len(scans) <= 16_000


# --- any model --------------------------------------------------------------------------------------------------------


def ordered(
    data: st.DataObject, of: RandomModel, session: hb.Session
) -> tuple[hb.Query[Any], Any, list[tuple[str, bool]]]:
    """A query for some values of leading fields, in the order of fields after them; its conditions; and the order."""
    index = data.draw(st.sampled_from([None, *of.schema.indexes.values()]))
    layout = of.schema.layout if index is None else index.layout
    names = [name for name in layout.names if not name.endswith("[]")]
    assume(len(names) > 1)
    fixed = data.draw(st.integers(1, len(names) - 1))
    wanted = {
        name: data.draw(st.lists(st.sampled_from((of.pools | of.computed)[name]), min_size=1)) for name in names[:fixed]
    }
    first = data.draw(st.integers(1, fixed))
    last = data.draw(st.integers(fixed + 1, len(names)))
    turned = data.draw(st.booleans())
    taken = [*(name for name in names[first:fixed] if data.draw(st.booleans())), *names[fixed:last]]
    directions = {f.name: ((f.codec.order == "descending") != f.desc) != turned for f in layout.fields}
    ordering = [(name, directions[name]) for name in taken]
    query = (
        session.query(of.model)
        .where(*(of.expression(name).in_(values) for name, values in wanted.items()))
        .allow_full_scan()
    )
    others, oracle = data.draw(trees(of, names)) if data.draw(st.integers(0, 2)) == 0 else (None, lambda values: True)
    query = query if others is None else query.where(others)
    query = query.use_index("primary" if index is None else index.name)
    query = query.order_by(*[of.expression(name).desc() if desc else of.expression(name) for name, desc in ordering])

    def matches(values: dict[str, Any]) -> bool:
        return all(any(same(of.value(values, n), one) for one in some) for n, some in wanted.items()) and oracle(values)

    return query, matches, ordering


@pytest.mark.lengthy
@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_an_order_behind_several_values_is_a_sorted_look_at_every_row(data: st.DataObject) -> None:
    of = data.draw(models(data.draw(st.sampled_from([ORDERED_CODECS, DESCENDING_CODECS])), versions=True, wide=True))
    with written(data.draw, of) as store:
        session = hb.Session(store)
        rows = session.query(of.model).use_index("primary").allow_full_scan().all()
        for _ in range(3):
            try:
                query, matches, ordering = ordered(data, of, session)
                if data.draw(st.booleans()):
                    query, ordering = query.reversed(), [(name, not desc) for name, desc in ordering]
                found = query.all()
            except (QueryError, EncodingError) as error:
                event(f"refused: {type(error).__name__}")
                continue
            event(f"{'merged' if query.explain().merged else 'as the keys have it'}, {min(len(found), 3)} found")
            key = repr
            assert sorted(map(key, map(plain_of, found))) == sorted(
                key(plain_of(obj)) for obj in rows if matches(vars(obj))
            )
            assert in_order(of.schema, ordering, [vars(obj) for obj in found])
            assert list(map(plain_of, query.reversed())) == list(map(plain_of, found[::-1]))
            assert list(map(plain_of, paged(query, data.draw(st.integers(1, 4))))) == list(map(plain_of, found))
            assert query.count() == len(found)


@pytest.mark.lengthy
def test_the_first_of_each_of_many_merges_for_each_alone() -> None:
    with fresh(Spread) as store:
        session = hb.Session(store)
        session.bulk_add(Spread(group=f"{n % 9}", kind=n % 5, at=n % 50, name=f"{n}") for n in range(450))
        query = session.query(Spread).where(Spread.kind.in_([1, 2])).order_by(Spread.at)
        groups = [f"{n}" for n in range(400)]
        found = query.first_of_each(Spread.group, groups)
        assert found == [query.where(Spread.group == group).first() for group in groups]
        assert sum(each is not None for each in found) == 9
