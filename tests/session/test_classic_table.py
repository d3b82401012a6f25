"""Wide tables that HBase's own Java client has written as `name|column`: read, queried and changed through a
declaration.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

import hbmodel as hb
from tests.support.beds import HBASE
from tests.support.java_client import Cell, JavaClient, java_client

pytestmark = pytest.mark.hbase


@pytest.fixture(scope="module")
def java(hbmodel_hbase: Any) -> Iterator[JavaClient]:
    with java_client(hbmodel_hbase.directory) as client:
        yield client


@pytest.fixture
def table(java: JavaClient) -> Iterator[str]:
    """A table that Java makes, with the pets of two users; cells of other programs are in their rows too."""
    name = f"classic_{uuid4().hex}"
    java.ask("create", name, family="d")
    java.put(
        name, "ann", {"rex|colour": "brown", "rex|size": 60, "tom|colour": "grey", "tom|size": 25, "visits": 4}, 1_000
    )
    java.put(name, "bob", {"rex|colour": "black", "tom cat|colour": "", "tom|size": -1, "tom|colour": "red"}, 2_000)
    java.put(name, "pets", {"rex|colour": "white", "tom|colour": "grey"}, 3_000)
    yield name
    java.ask("drop", name)


@pytest.fixture(params=HBASE)
def store(request: pytest.FixtureRequest, hbmodel_hbase: Any) -> Iterator[hb.Store]:
    with hb.connect(hbmodel_hbase.url if request.param == "thrift1" else hbmodel_hbase.thrift2_url) as opened:
        yield opened


def declared(table: str) -> Any:
    """The pets of a user, as the Java program keeps them."""

    @hb.model(table=table, family="d", external=True, exists="colour")
    class Pet:
        user: hb.Key[str] = hb.key()
        name: hb.Key[str] = hb.key(hb.codecs.Delimited("|"), in_qualifier=True)
        colour: hb.Column[str] = hb.column("colour")
        size: hb.Column[int | None] = hb.column("size", hb.codecs.JavaInt, default=None)

    return Pet


def of_row(cells: list[Cell], row: bytes) -> dict[bytes, tuple[int, bytes]]:
    return {column: (at, value) for of, column, at, value in cells if of == row}


def test_a_row_for_each_user(java: JavaClient, table: str, store: hb.Store) -> None:
    Pet = declared(table)
    before = list(java.cells(table))
    hb.create_tables(store, Pet)
    session = hb.Session(store)
    pets = session.query(Pet)
    ann = pets.where(Pet.user == "ann")
    assert [(pet.name, pet.colour, pet.size) for pet in ann] == [("rex", "brown", 60), ("tom", "grey", 25)]
    assert session.get(Pet, user="bob", name="tom") == Pet(user="bob", name="tom", colour="red", size=-1)
    assert [(pet.name, pet.colour) for pet in pets.where(Pet.user == "bob", Pet.name.startswith("tom"))] == [
        ("tom cat", ""),
        ("tom", "red"),
    ]
    assert [pet.user for pet in pets.where(Pet.size == 60).allow_full_scan()] == ["ann"]
    assert ann.count() == 2
    first = ann.page(1)
    assert [pet.name for pet in (*first.items, *ann.page(1, after=first.next_token).items)] == ["rex", "tom"]
    assert java.cells(table) == before  # nothing of the table has changed by being declared and read

    session.add(Pet(user="ann", name="ada", colour="green", size=2))
    session.commit()
    session.update(session.get(Pet, user="ann", name="rex"), colour="gold")
    session.commit()  # Thrift1 does not check one object and put another one at once
    session.delete_key(Pet, user="ann", name="tom")
    session.commit()
    after = list(java.cells(table))
    ann_row = of_row(after, b"ann")
    assert {column: value for column, (_, value) in ann_row.items()} == {
        b"d:ada|colour": b"green", b"d:ada|size": b"\0\0\0\2", b"d:rex|colour": b"gold", b"d:rex|size": b"\0\0\0<",
        b"d:visits": b"\0\0\0\4",
    }  # fmt: skip
    neighbours = (b"d:rex|size", b"d:visits")
    assert [ann_row[column] for column in neighbours] == [of_row(before, b"ann")[column] for column in neighbours]
    assert [cell for cell in after if cell[0] != b"ann"] == [cell for cell in before if cell[0] != b"ann"]

    java.put(table, "ann", {"tom|colour": "blue", "ada|size": 3})  # and the Java program goes on
    java.ask("delete", table, family="d", row="ann", columns=["rex|colour", "rex|size"])
    assert [(pet.name, pet.colour, pet.size) for pet in ann] == [("ada", "green", 3), ("tom", "blue", None)]


def test_one_row_for_all(java: JavaClient, table: str, store: hb.Store) -> None:
    @hb.model(table=table, family="d", row=b"pets")
    class Pet:
        name: hb.Key[str] = hb.key(hb.codecs.Delimited("|"), in_qualifier=True)
        colour: hb.Column[str] = hb.column("colour")

    before = list(java.cells(table))
    hb.create_tables(store, Pet)
    session = hb.Session(store)
    assert [(pet.name, pet.colour) for pet in session.query(Pet).allow_full_scan()] == [
        ("rex", "white"),
        ("tom", "grey"),
    ]
    session.delete_key(Pet, name="rex")
    session.commit()
    session.add(Pet(name="ada", colour="green"))
    session.commit()
    after = list(java.cells(table))
    assert {column: value for column, (_, value) in of_row(after, b"pets").items()} == {
        b"d:ada|colour": b"green",
        b"d:tom|colour": b"grey",
    }
    unchanged = [cell for cell in before if cell[1] != b"d:rex|colour" or cell[0] != b"pets"]
    assert [cell for cell in after if cell[1] != b"d:ada|colour" or cell[0] != b"pets"] == unchanged
