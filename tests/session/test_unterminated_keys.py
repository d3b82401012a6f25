"""Keys of text and a time without a terminator between them, as many Java programs write them."""

from __future__ import annotations

import struct
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.session.commit.session_sizes import SessionSizes
from hbmodel.store import Put
from tests.support.beds import Bed, fresh
from tests.support.examples import examples

NAME = hb.codecs.Unterminated(hb.Text, followed_by=8)
LARGEST = 2**63 - 1
FIRST = datetime(2026, 1, 1, tzinfo=UTC)


@hb.model(table="unterminated", family="d", external=True)
class Action:
    """`Bytes.add(Bytes.toBytes(user), Bytes.toBytes(Long.MAX_VALUE - stamp))`."""

    user: hb.Key[str] = hb.key(NAME)
    at: hb.Key[datetime] = hb.key(hb.codecs.ReverseStamp)
    size: hb.Column[int] = hb.column("s")


@hb.model(table="unterminated_salted", family="d", salt=hb.HashSalt(3, by=("user",)))
class Salted:
    """One of ours, with an index, whose entries end with the same fields."""

    user: hb.Key[str] = hb.key(NAME)
    at: hb.Key[datetime] = hb.key(hb.codecs.ReverseStamp)
    size: hb.Column[int] = hb.column("s")

    by_size = hb.index("size")


def at(number: int) -> datetime:
    return FIRST + timedelta(milliseconds=number)


def key(user: str, moment: datetime) -> bytes:
    stamp = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    return user.encode() + struct.pack(">q", LARGEST - stamp)


def test_rows_of_a_java_program(bed: Bed) -> None:
    session = bed.use(Action)
    rows = [("ab", at(2)), ("abc", at(1)), ("ab", at(1)), ("", at(5)), ("b", at(0))]
    bed.store.put("unterminated", [Put(key(*row), {b"d:s": hb.Int64.encode(n)}) for n, row in enumerate(rows)])
    assert [each.size for each in session.query(Action).where(Action.user == "ab")] == [0, 2]
    assert [each.size for each in session.query(Action).where(Action.user == "ab", Action.at < at(2))] == [2]
    assert session.get(Action, user="abc", at=at(1)) == Action(user="abc", at=at(1), size=1)
    session.add(Action(user="abcd", at=at(7), size=9))
    session.commit()
    assert hb.row_key(Action, user="abcd", at=at(7)) == key("abcd", at(7))
    assert session.query(Action).where(Action.user.in_(["a", "ab", "abc"])).count() == 3
    assert session.query(Action).where(Action.user.startswith("ab")).count() == 4
    # the key of the empty user begins with the first byte of a time
    assert session.query(Action).where(Action.user.startswith("\x7f")).all() == []
    assert session.query(Action).where(Action.user == "ab").delete() == 2
    assert session.query(Action).allow_full_scan().count() == 4


USERS = ("", "a", "ab", "abc", "b", "\x7f", "ab\x7f\x00")
"""Some of them begin with others, and some with bytes of times."""

ALL = [(user, number) for user in USERS for number in range(4)]

rows = st.one_of(st.just(ALL), st.lists(st.sampled_from(ALL), max_size=25, unique=True))
users = st.sampled_from(USERS)
CONDITIONS = st.one_of(
    users.map(lambda user: (Action.user == user, Salted.user == user, lambda row: row.user == user)),
    st.lists(users, max_size=4).map(
        lambda some: (Action.user.in_(some), Salted.user.in_(some), lambda row: row.user in some)
    ),
    st.tuples(users, users).map(
        lambda two: (
            (Action.user == two[0]) | (Action.user == two[1]),
            (Salted.user == two[0]) | (Salted.user == two[1]),
            lambda row: row.user in two,
        )
    ),
    st.sampled_from(["\x7f", "ab", "ab\x7f"]).map(
        lambda user: (Action.user.startswith(user), Salted.user.startswith(user), lambda row: row.user.startswith(user))
    ),
    st.tuples(users, st.integers(0, 4), users).map(
        lambda two: (
            ((Action.user == two[0]) & (Action.at < at(two[1]))) | (Action.user == two[2]),
            ((Salted.user == two[0]) & (Salted.at < at(two[1]))) | (Salted.user == two[2]),
            lambda row: (row.user == two[0] and row.at < at(two[1])) or row.user == two[2],
        )
    ),
    users.map(lambda user: (~(Action.user == user), ~(Salted.user == user), lambda row: row.user != user)),
    users.map(lambda user: (Action.user >= user, Salted.user >= user, lambda row: row.user >= user)),
    st.integers(0, 5).map(lambda n: (Action.at < at(n), Salted.at < at(n), lambda row: row.at < at(n))),
    st.integers(0, 5).map(lambda n: (Action.at == at(n), Salted.at == at(n), lambda row: row.at == at(n))),
    st.integers(0, 9).map(lambda n: (Action.size == n, Salted.size == n, lambda row: row.size == n)),
    st.tuples(users, st.integers(0, 5)).map(
        lambda two: (
            (Action.user > two[0]) | ((Action.user == two[0]) & (Action.at < at(two[1]))),
            (Salted.user > two[0]) | ((Salted.user == two[0]) & (Salted.at < at(two[1]))),
            lambda row: row.user > two[0] or (row.user == two[0] and row.at < at(two[1])),
        )
    ),
)


@pytest.mark.lengthy
@settings(max_examples=examples(150), deadline=None)
@given(
    rows=rows, conditions=st.lists(CONDITIONS, min_size=1, max_size=2), size=st.integers(1, 4), skip=st.integers(0, 3)
)
def test_every_query_answers_as_a_look_at_every_object(
    rows: list[tuple[str, int]], conditions: list[Any], size: int, skip: int
) -> None:
    store = fresh(Action, Salted)
    session = hb.Session(store, sizes=SessionSizes(skipped=2))
    for model, place in ((Action, 0), (Salted, 1)):
        objects = [model(user=user, at=at(n), size=number % 10) for number, (user, n) in enumerate(rows)]
        session.bulk_add(objects)
        wanted = [each for each in objects if all(condition[2](each) for condition in conditions)]
        query = session.query(model).where(*[condition[place] for condition in conditions]).allow_full_scan()
        found = query.all()
        assert sorted(found, key=objects.index) == wanted
        assert query.count() == len(wanted)
        assert query.exists() == bool(wanted)
        assert query.reversed().all() == found[::-1]
        assert query.offset(skip).limit(size).all() == found[skip : skip + size]
        assert (query.first(), query.last()) == ((found[0], found[-1]) if found else (None, None))
        token, pages = None, []
        while True:
            page = query.page(size, after=token)
            pages += page.items
            token = page.next_token
            if token is None:
                break
        assert pages == found
        parts = [item for partition in query.partitions(3) for item in session.read_partition(partition)]
        assert sorted(parts, key=objects.index) == wanted


@pytest.mark.lengthy
@settings(max_examples=examples(60), deadline=None)
@given(rows=rows, user=users)
def test_the_newest_of_a_user_come_first(rows: list[tuple[str, int]], user: str) -> None:
    session = hb.Session(fresh(Salted))
    session.bulk_add([Salted(user=name, at=at(n), size=n) for name, n in rows])
    own = sorted((n for name, n in rows if name == user), reverse=True)
    query = session.query(Salted).where(Salted.user == user)
    assert [each.size for each in query] == own
    assert [each.size for each in query.order_by(Salted.at.desc())] == own
    assert [each.size for each in query.order_by(Salted.at)] == own[::-1]
    newest = query.first()
    assert (newest and newest.size) == (own[0] if own else None)


def test_what_the_keys_cannot_give_is_refused() -> None:
    session = hb.Session(fresh(Salted))
    query = session.query(Salted)
    with pytest.raises(hb.QueryError, match="do not keep the order"):
        hb.Session(fresh(Action)).query(Action).where(Action.user >= "a").all()
    with pytest.raises(hb.errors.OrderNotAvailable):
        query.where(Salted.user.in_(["a", "ab"])).order_by(Salted.at.desc()).all()
    with pytest.raises(hb.errors.OrderNotAvailable):
        query.order_by(Salted.user).allow_full_scan().all()
    with pytest.raises(hb.QueryError, match="cannot separate the values of a field without a terminator"):
        query.first_of_each(Salted.user, ["a", "ab"])


WRONG: dict[str, dict[str, Any]] = {
    "nothing behind": {"a": (str, hb.key(NAME))},
    "another width behind": {"a": (str, hb.key(NAME)), "b": (int, hb.key(hb.UInt32))},
    "more behind": {"a": (str, hb.key(NAME)), "b": (int, hb.key(hb.UInt64)), "c": (int, hb.key(hb.UInt32))},
    "text behind": {"a": (str, hb.key(NAME)), "b": (str, hb.key())},
    "None behind": {"a": (str, hb.key(NAME)), "b": (int | None, hb.key(hb.UInt64, nullable=True))},
    "None": {"a": (str | None, hb.key(NAME, nullable=True)), "b": (int, hb.key(hb.UInt64))},
}


@pytest.mark.parametrize("name", WRONG)
def test_keys_whose_end_is_unknown_are_refused(name: str) -> None:
    fields = WRONG[name]
    body = {
        "__annotations__": {**{field: hb.Key[kind] for field, (kind, _) in fields.items()}, "v": hb.Column[int]},
        **{field: declared for field, (_, declared) in fields.items()},
        "v": hb.column("v"),
    }
    with pytest.raises(hb.DeclarationError, match="A value without a terminator must not be None"):
        hb.model(table="wrong")(type("Wrong", (), body))


def test_an_index_puts_other_bytes_behind_it() -> None:
    with pytest.raises(hb.DeclarationError, match="A value without a terminator must not be None"):

        @hb.model(table="wrong")
        class Wrong:
            user: hb.Key[str] = hb.key(NAME)
            at: hb.Key[datetime] = hb.key(hb.codecs.ReverseStamp)
            size: hb.Column[int] = hb.column("s")

            by_user = hb.index("user", "size")


def test_codecs_of_fixed_width_have_no_terminator() -> None:
    with pytest.raises(hb.DeclarationError, match="A codec of fixed width has no terminator"):
        hb.codecs.Unterminated(hb.UInt32, followed_by=8)
