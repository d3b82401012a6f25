"""Keys of two fields asked for both ways round: by the row key and an index, and by two tables that are written
together.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hbmodel as hb
from tests.support.beds import Bed, fresh
from tests.support.examples import examples

LARGEST = 2**31 - 1


@hb.model(table="composite_installs", family="d")
class Install:
    user_id: hb.Key[int] = hb.key(hb.Int32)
    app: hb.Key[str] = hb.key()
    version: hb.Column[int] = hb.column("v", hb.codecs.UInt16)
    by_app = hb.index("app", "user_id")


@hb.model(table="composite_users", family="d")
class UserOfApp:
    app: hb.Key[str] = hb.key()
    user_id: hb.Key[int] = hb.key(hb.Int32)
    version: hb.Column[int] = hb.column("v", hb.codecs.UInt16)


USERS = st.sampled_from([-LARGEST - 1, -LARGEST, -256, -1, 0, 1, 255, 256, LARGEST - 1, LARGEST]) | st.integers(
    -LARGEST - 1, LARGEST
)
APPS = st.sampled_from(["", "\x00", "\x00\x01", "\x00\xff", "a", "a\x00", "ab", "b", "\U0010ffff"]) | st.text(
    st.characters(exclude_categories=["Cs"]), max_size=4
)


def check(session: hb.Session, pairs: set[tuple[int, str]]) -> None:
    """Every query by one of the fields, by every path that can answer it."""

    def found(model: Any, *predicates: Any, index: str | None = None) -> list[tuple[int, str]]:
        return [(each.user_id, each.app) for each in session.query(model).where(*predicates).use_index(index)]

    def by_app(pair: tuple[int, str]) -> tuple[bytes, int]:
        return pair[1].encode(), pair[0]

    for user in {pair[0] for pair in pairs} | {LARGEST, -LARGEST - 1}:
        own = sorted((pair for pair in pairs if pair[0] == user), key=by_app)
        assert found(Install, Install.user_id == user) == own
        assert found(Install, Install.user_id == user, Install.app > "") == [pair for pair in own if pair[1]]
        assert sorted(found(Install, Install.user_id >= user)) == sorted(pair for pair in pairs if pair[0] >= user)
        assert sorted(found(Install, Install.user_id < user)) == sorted(pair for pair in pairs if pair[0] < user)
        last = session.query(Install).where(Install.user_id == user).last()
        assert (None if last is None else last.app) == (own[-1][1] if own else None)
    for app in {pair[1] for pair in pairs} | {""}:
        users = sorted((pair for pair in pairs if pair[1] == app), key=by_app)
        assert found(Install, Install.app == app, index="by_app") == users
        assert found(UserOfApp, UserOfApp.app == app) == users
        below = [pair for pair in users if pair[0] < 0]
        assert found(Install, Install.app == app, Install.user_id < 0, index="by_app") == below
        assert found(UserOfApp, UserOfApp.app == app, UserOfApp.user_id < 0) == below


def write(session: hb.Session, pairs: set[tuple[int, str]]) -> None:
    session.add_all(
        model(user_id=user, app=app, version=1) for user, app in sorted(pairs) for model in (Install, UserOfApp)
    )
    session.commit()


@pytest.mark.lengthy
@settings(max_examples=examples(40))
@given(st.sets(st.tuples(USERS, APPS), max_size=12))
def test_any_pairs(pairs: set[tuple[int, str]]) -> None:
    session = hb.Session(fresh(Install, UserOfApp))
    write(session, pairs)
    check(session, pairs)


def test_the_ends_of_the_values(bed: Bed) -> None:
    session = bed.use(Install, UserOfApp)
    pairs = {(user, app) for user in (-LARGEST - 1, -1, 0, LARGEST) for app in ("", "a", "b")}
    write(session, pairs)
    check(session, pairs)
    for model in (Install, UserOfApp):
        session.delete_key(model, user_id=LARGEST, app="")
        session.delete_key(model, user_id=-LARGEST - 1, app="b")
    session.commit()
    check(session, pairs - {(LARGEST, ""), (-LARGEST - 1, "b")})
