"""Actions by user, newest first, as HBase's own Java client writes them: limits, offsets, pages, and the same next
to it with an index.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

import hbmodel as hb
from tests.support.beds import HBASE
from tests.support.java_client import JavaClient, java_client

pytestmark = pytest.mark.hbase

FIRST = datetime(2026, 3, 1, tzinfo=UTC)
USERS = (0, 7, 2**31 - 1)
COUNT = 7


def at(number: int) -> datetime:
    return FIRST + timedelta(milliseconds=number // 2)  # two of each moment, told apart by their ids


@pytest.fixture(scope="module")
def java(hbmodel_hbase: Any) -> Iterator[JavaClient]:
    with java_client(hbmodel_hbase.directory) as client:
        yield client


@pytest.fixture
def table(java: JavaClient) -> Iterator[str]:
    """A table that Java makes, with seven actions of each user."""
    name = f"user_actions_{uuid4().hex}"
    java.ask("create", name, family="content")
    for user in USERS:
        for number in range(COUNT):
            stamp = round(at(number).timestamp() * 1000)
            java.put(name, [user, {"reverse": stamp}, number], {"name": f"a{number}"}, family="content")
    yield name
    java.ask("drop", name)


@pytest.fixture(params=HBASE)
def store(request: pytest.FixtureRequest, hbmodel_hbase: Any) -> Iterator[hb.Store]:
    with hb.connect(hbmodel_hbase.url if request.param == "thrift1" else hbmodel_hbase.thrift2_url) as opened:
        yield opened


def declared(table: str, *, own: bool) -> Any:
    """The Java program's layout, in a separate table with an index."""

    @hb.model(table=table, family="content", external=not own)
    class Action:
        user_id: hb.Key[int] = hb.key(hb.UInt32)
        at: hb.Key[datetime] = hb.key(hb.codecs.ReverseStamp)
        action_id: hb.Key[int] = hb.key(hb.UInt32)
        name: hb.Column[str] = hb.column("name")

        if own:
            by_id = hb.index("action_id")

    return Action


def test_the_table_of_a_java_program(java: JavaClient, table: str, store: hb.Store) -> None:
    Action = declared(table, own=False)
    before = list(java.cells(table))
    assert [row for row, *_ in before] == sorted(
        hb.row_key(Action, user_id=user, at=at(number), action_id=number) for user in USERS for number in range(COUNT)
    )
    session = hb.Session(store)
    order = [6, 4, 5, 2, 3, 0, 1]  # newest first, and of one moment by id
    for user in USERS:
        newest = session.query(Action).where(Action.user_id == user)
        assert [each.action_id for each in newest] == order
        assert [each.action_id for each in newest.reversed()] == order[::-1]
        for offset in range(COUNT + 1):
            assert [each.action_id for each in newest.limit(2).offset(offset)] == order[offset : offset + 2]
        pages, token, more = [], None, True
        while more:
            page = newest.page(3, after=token)
            pages.append([each.action_id for each in page.items])
            token, more = page.next_token, page.next_token is not None
        assert pages == [order[:3], order[3:6], order[6:]]
        since = newest.where(Action.at >= at(4), Action.at < at(6))
        assert [each.name for each in since] == ["a4", "a5"]
    assert java.cells(table) == before  # reading has changed nothing

    session.add(Action(user_id=7, at=at(9), action_id=9, name="a9"))
    session.delete_key(Action, user_id=7, at=at(6), action_id=6)
    session.commit()
    java.put(table, [7, {"reverse": round(at(11).timestamp() * 1000)}, 11], {"name": "a11"}, family="content")
    newest = session.query(Action).where(Action.user_id == 7)
    assert [each.name for each in newest.limit(3)] == ["a11", "a9", "a4"]
    assert [cell for cell in java.cells(table) if cell[0][:4] != b"\0\0\0\7"] == [
        cell for cell in before if cell[0][:4] != b"\0\0\0\7"
    ]


def test_a_table_of_its_own_with_an_index(table: str, store: hb.Store) -> None:
    Theirs, Own = declared(table, own=False), declared(f"own_{uuid4().hex}", own=True)
    hb.create_tables(store, Theirs, Own)
    try:
        with hb.Session(store) as session:
            read = session.query(Theirs).allow_full_scan()
            session.bulk_add(
                Own(user_id=each.user_id, at=each.at, action_id=each.action_id, name=each.name) for each in read
            )
            found = session.query(Own).where(Own.action_id == 3).all()
            assert [(each.user_id, each.at, each.name) for each in found] == [(user, at(3), "a3") for user in USERS]
            with pytest.raises(hb.FullScanRefused):
                session.query(Theirs).where(Theirs.action_id == 3).all()
            newest = session.query(Own).where(Own.user_id == 7)
            assert [each.action_id for each in newest.limit(2).offset(1)] == [4, 5]
    finally:
        hb.drop_tables(store, Own)
