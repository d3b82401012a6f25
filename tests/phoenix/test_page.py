"""What the page about Apache Phoenix says, as its SQL shows it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import hbmodel as hb
from hbmodel.codecs import phoenix
from tests.phoenix.both import recreate
from tests.support.beds import cells_of
from tests.support.phoenix_sql import PhoenixSql, RefusedStatement

pytestmark = [pytest.mark.slow, pytest.mark.hbase]


def test_what_the_page_shows(store: hb.Store, sql: PhoenixSql) -> None:
    """Its statements, and the row that it writes as Phoenix would."""
    page = (Path(__file__).parents[2] / "docs" / "coming-from-phoenix.md").read_text("utf-8")
    blocks = [block.split("```")[0] for block in page.split("```sql\n")[1:]]
    statements = [statement for block in blocks for statement in block.split(";") if statement.strip()]
    for name in re.findall(r"CREATE TABLE (\w+)", page):
        sql(f"DROP TABLE IF EXISTS {name} CASCADE")
    for statement in statements:
        sql(statement)
    sql("UPSERT INTO metrics VALUES ('web', 1, 2, 'ok')")
    assert sql("SELECT note FROM metrics WHERE cpu = 2") == [("ok",)]
    sql("UPSERT INTO stats VALUES ('web1', 5, -1.5, 'eu')")
    shown = page.split('store.create_table("STATS"')[1].split("store.put(")[0].split("\n", 1)[1]
    names: dict[str, Any] = {}
    exec(shown, names)
    assert cells_of(store, "STATS") == {names["key"]: names["cells"]}


INDEXED = """CREATE TABLE INDEXED (k VARCHAR PRIMARY KEY, a INTEGER, b VARCHAR) COLUMN_ENCODED_BYTES = 0"""


@hb.model(table="INDEXED", family="0", external=True, exists=hb.flag("_0", b"x"))
class Indexed:
    k: hb.Key[str] = hb.key(phoenix.Varchar)
    a: hb.Column[int | None] = hb.column("A", phoenix.Integer, default=None)
    b: hb.Column[str | None] = hb.column("B", default=None)


def test_an_index_of_phoenix_does_not_learn_what_hbmodel_writes(store: hb.Store, sql: PhoenixSql) -> None:
    recreate(sql, store, Indexed, INDEXED, "CREATE INDEX INDEXED_BY_A ON INDEXED (a) INCLUDE (b)")
    sql.for_each("UPSERT INTO INDEXED VALUES (?, ?, ?)", [("changed", 1, "x"), ("gone", 2, "x"), ("kept", 3, "x")])
    assert hb.tables.adopt(store, Indexed).adopted
    session = hb.Session(store)
    found = session.query(Indexed).allow_full_scan().all()
    assert found == [Indexed(k="changed", a=1, b="x"), Indexed(k="gone", a=2, b="x"), Indexed(k="kept", a=3, b="x")]
    session.update(found[0], a=5)
    session.delete(found[1])
    session.add(Indexed(k="new", a=7, b="x"))
    session.commit()

    asked = "SELECT {} k, a, b FROM INDEXED WHERE a < 10"
    assert "INDEXED_BY_A" in sql("EXPLAIN " + asked.format(""))[0][0]
    assert sorted(sql(asked.format(""))) == [("changed", 1, "x"), ("gone", 2, "x"), ("kept", 3, "x")]
    assert sorted(sql(asked.format("/*+ NO_INDEX */"))) == [("changed", 5, "x"), ("kept", 3, "x"), ("new", 7, "x")]


def test_a_local_index_of_phoenix_is_reported(store: hb.Store, sql: PhoenixSql) -> None:
    recreate(sql, store, Indexed, INDEXED, "CREATE LOCAL INDEX INDEXED_LOCALLY ON INDEXED (a)")
    sql("UPSERT INTO INDEXED VALUES ('x', 1, 'y')")
    adoption = hb.tables.adopt(store, Indexed)
    assert not adoption.adopted
    assert {finding.name for finding in adoption.open} == {"key:k", "no-object"}
    assert hb.tables.adopt(store, Indexed, accept=["key:k", "no-object"]).adopted
    assert hb.Session(store).query(Indexed).allow_full_scan().all() == [Indexed(k="x", a=1, b="y")]


@pytest.mark.parametrize("how", ["STORE_NULLS = true", "a DEFAULT"])
def test_nulls_that_are_stored_as_empty_values_are_reported(store: hb.Store, sql: PhoenixSql, how: str) -> None:
    create = INDEXED + ", STORE_NULLS = true" if how[0] == "S" else INDEXED.replace("a INTEGER", "a INTEGER DEFAULT 4")
    recreate(sql, store, Indexed, create)
    sql("UPSERT INTO INDEXED VALUES ('null', NULL, 'x')")
    adoption = hb.tables.adopt(store, Indexed)
    assert [finding.name for finding in adoption.open] == ["value:a"]
    assert adoption.open[0].found == b""


def test_a_column_with_a_default_that_is_missing_has_the_default(store: hb.Store, sql: PhoenixSql) -> None:
    recreate(sql, store, Indexed, INDEXED.replace("a INTEGER", "a INTEGER DEFAULT 4"))
    hb.create_tables(store, Indexed)
    with hb.Session(store) as session:
        session.add(Indexed(k="x", a=None, b="y"))
    assert sql("SELECT k, a, b FROM INDEXED") == [("x", 4, "y")]


def test_columns_of_immutable_rows(store: hb.Store, sql: PhoenixSql) -> None:
    immutable = INDEXED.replace("COLUMN_ENCODED_BYTES = 0", "IMMUTABLE_ROWS = true")
    recreate(sql, store, Indexed, immutable)
    sql("UPSERT INTO INDEXED VALUES ('x', 1, 'y')")
    assert set(cells_of(store, "INDEXED")[b"x"]) == {b"0:\0\0\0\0", b"0:1"}  # all columns in one cell
    recreate(
        sql,
        store,
        Indexed,
        f"{immutable}, IMMUTABLE_STORAGE_SCHEME = ONE_CELL_PER_COLUMN, COLUMN_ENCODED_BYTES = 0",
    )
    sql("UPSERT INTO INDEXED VALUES ('x', 1, 'y')")
    assert hb.tables.adopt(store, Indexed).adopted
    assert hb.Session(store).get(Indexed, k="x") == Indexed(k="x", a=1, b="y")


def test_what_hbmodel_does_not_check(store: hb.Store, sql: PhoenixSql) -> None:
    """Lengths, empty text, and columns that no field names."""
    recreate(
        sql,
        store,
        Indexed,
        "CREATE TABLE INDEXED (k VARCHAR PRIMARY KEY, a INTEGER, b VARCHAR(3), c VARCHAR) COLUMN_ENCODED_BYTES = 0",
    )
    with pytest.raises(RefusedStatement, match="ERROR 206"):
        sql("UPSERT INTO INDEXED (k, b) VALUES ('long', 'longer')")
    sql("UPSERT INTO INDEXED VALUES ('x', 1, 'y', 'undeclared')")
    assert hb.tables.adopt(store, Indexed, accept=["undeclared:0:C"]).adopted
    with pytest.raises(hb.RowExists):
        hb.Session(store).insert(Indexed(k="x", a=2, b="y"))
    with hb.Session(store) as session:
        session.add_all([Indexed(k="long", a=2, b="longer"), Indexed(k="none", a=3, b="")])
        session.delete_key(Indexed, k="x")
    assert sql("SELECT * FROM INDEXED ORDER BY k") == [
        ("long", 2, "longer", None),
        ("none", 3, None, None),
        ("x", None, None, "undeclared"),
    ]
    assert hb.Session(store).get(Indexed, k="x") is None


@hb.model(table="NULLABLE", family="0", external=True, exists=hb.flag("_0", b"x"))
class EachColumn:
    a: hb.Key[str] = hb.key(phoenix.Varchar)
    b: hb.Key[str] = hb.key(phoenix.Varchar)


def test_a_field_for_each_key_column_that_may_be_null_does_not_fit(store: hb.Store, sql: PhoenixSql) -> None:
    create = "CREATE TABLE NULLABLE (a VARCHAR NOT NULL, b VARCHAR, CONSTRAINT pk PRIMARY KEY (a, b)) "
    recreate(sql, store, EachColumn, f"{create} COLUMN_ENCODED_BYTES = 0")
    sql.for_each("UPSERT INTO NULLABLE VALUES (?, ?)", [("a", None), ("a", "b")])
    assert [finding.name for finding in hb.tables.adopt(store, EachColumn).open] == ["key:a"]
    with pytest.raises(hb.SchemaMismatch):
        hb.create_tables(store, EachColumn)


@hb.model(table="EMPTY_TEXT", family="0", external=True, exists=hb.flag("_0", b"x"))
class EmptyText:
    a: hb.Key[str] = hb.key(phoenix.Varchar)
    b: hb.Key[str] = hb.key(phoenix.Varchar)
    c: hb.Key[int] = hb.key(phoenix.SmallInt)
    d: hb.Key[str] = hb.key(phoenix.Varchar)


def test_null_is_empty_text_in_a_key_if_its_place_shows_it(store: hb.Store, sql: PhoenixSql) -> None:
    columns = "(a VARCHAR, b VARCHAR, c SMALLINT NOT NULL, d VARCHAR, CONSTRAINT pk PRIMARY KEY (a, b, c, d))"
    recreate(sql, store, EmptyText, f"CREATE TABLE EMPTY_TEXT {columns} COLUMN_ENCODED_BYTES = 0")
    rows = [(a, b, 0, d) for a in (None, "a") for b in (None, "b") for d in (None, "d")]
    wanted = [EmptyText(a=a or "", b=b or "", c=c, d=d or "") for a, b, c, d in rows]
    sql.for_each("UPSERT INTO EMPTY_TEXT VALUES (?, ?, ?, ?)", rows)
    adoption = hb.tables.adopt(store, EmptyText)
    assert not adoption.findings
    session = hb.Session(store)
    assert session.query(EmptyText).allow_full_scan().all() == wanted
    for obj in wanted:
        session.delete(obj)
    session.commit()
    assert sql("SELECT * FROM EMPTY_TEXT") == []
    session.add_all(wanted)
    session.commit()
    assert sql("SELECT * FROM EMPTY_TEXT ORDER BY a, b, c, d") == rows
    for where, count in (("a IS NULL", 4), ("a IS NULL AND b = 'b' AND d IS NULL", 1), ("d IS NOT NULL", 4)):
        assert sql(f"SELECT COUNT(*) FROM EMPTY_TEXT WHERE {where}") == [(count,)]


@hb.model(table="NULL_DESC", family="0", external=True, exists=hb.flag("_0", b"x"))
class Descending:
    a: hb.Key[int] = hb.key(phoenix.SmallInt)
    b: hb.Key[str] = hb.key(phoenix.Varchar, desc=True)
    c: hb.Key[int] = hb.key(phoenix.SmallInt)


@hb.model(table="NULL_DESC", family="0", external=True, exists=hb.flag("_0", b"x"))
class LastDescending:
    a: hb.Key[int] = hb.key(phoenix.SmallInt)
    b: hb.Key[str] = hb.key(phoenix.Varchar, desc=True)


@pytest.mark.parametrize(
    ("model", "columns", "row"),
    [
        (Descending, "c SMALLINT NOT NULL, CONSTRAINT pk PRIMARY KEY (a, b DESC, c)", "1, NULL, 1"),
        (LastDescending, "c INTEGER, CONSTRAINT pk PRIMARY KEY (a, b DESC)", "1, NULL, NULL"),
    ],
)
def test_null_in_a_descending_column_of_a_key_is_reported(
    store: hb.Store, sql: PhoenixSql, model: Any, columns: str, row: str
) -> None:
    create = f"CREATE TABLE NULL_DESC (a SMALLINT NOT NULL, b VARCHAR, {columns}) COLUMN_ENCODED_BYTES = 0"
    recreate(sql, store, model, create)
    sql(f"UPSERT INTO NULL_DESC VALUES ({row})")
    assert [finding.name for finding in hb.tables.adopt(store, model).open] == ["key:b"]


def test_rows_that_phoenix_does_not_find(sql: PhoenixSql) -> None:
    """Why these conditions are not compared."""
    sql("DROP TABLE IF EXISTS NOT_FOUND")
    sql(
        "CREATE TABLE NOT_FOUND (a INTEGER NOT NULL, b VARCHAR, c INTEGER NOT NULL CONSTRAINT pk PRIMARY KEY (a, b, c))"
    )
    sql.for_each("UPSERT INTO NOT_FOUND VALUES (1, ?, 1)", [(None,), ("b",)])
    assert sql("SELECT b FROM NOT_FOUND WHERE b < 'c' OR b IS NULL") == [(None,), ("b",)]
    assert sql("SELECT b FROM NOT_FOUND WHERE a = 1 AND (b < 'c' OR b IS NULL)") == []

    sql("DROP TABLE NOT_FOUND")
    columns = "a VARCHAR NOT NULL, b DECIMAL NOT NULL, c CHAR(3) NOT NULL"
    sql(f"CREATE TABLE NOT_FOUND ({columns} CONSTRAINT pk PRIMARY KEY (a DESC, b, c))")
    sql.for_each("UPSERT INTO NOT_FOUND VALUES ('a', ?, 'c')", [(0,), (1,)])
    assert sql("SELECT /*+ RANGE_SCAN */ b FROM NOT_FOUND WHERE a = 'a' AND b IN (0, 1)") == [(0,), (1,)]
    assert sql("SELECT b FROM NOT_FOUND WHERE a = 'a' AND b IN (0, 1)") == []
