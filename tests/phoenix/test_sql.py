"""Apache Phoenix's own SQL beside hbmodel: what one writes the other reads, and both answer the same queries alike."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from attrs import evolve

import hbmodel as hb
from tests.phoenix.both import recreate
from tests.phoenix.tables import EMPTY, TABLES, Condition, Table, bind
from tests.support.beds import cells_of
from tests.support.phoenix_sql import PhoenixSql

pytestmark = [pytest.mark.slow, pytest.mark.hbase]

QUERIES = 15
"""For each table and each of three states of it."""


def upsert(sql: PhoenixSql, table: Table, objects: Sequence[Any]) -> None:
    """Lets Phoenix write objects."""
    names, marks = ", ".join(table.columns), ", ".join("?" * len(table.columns))
    sql.for_each(f"UPSERT INTO {table.name} ({names}) VALUES ({marks})", [table.row(obj) for obj in objects])


def agree(sql: PhoenixSql, store: hb.Store, table: Table, wanted: Mapping[Any, Any], draw: random.Random) -> None:
    """SQL and hbmodel answer alike: every row, and random queries."""
    session, objects = hb.Session(store), list(wanted.values())
    columns = ", ".join(table.columns)
    found = session.query(table.model).allow_full_scan().all()
    assert sorted(found, key=table.key_of) == sorted(objects, key=table.key_of)
    assert [table.row(obj) for obj in found] == sql(f"SELECT {columns} FROM {table.name} {table.ordered()}")
    assert session.get_many(table.model, list(wanted)) == objects
    found_something = 0
    for _ in range(QUERIES):
        asked = draw.choices(table.conditions, k=draw.randrange(1, 4))
        found_something += compare(sql, session, table, [each(draw, draw.choice(objects)) for each in asked], draw)
    assert found_something > QUERIES / 3


def compare(
    sql: PhoenixSql, session: hb.Session, table: Table, conditions: Sequence[Condition], draw: random.Random
) -> bool:
    """One query, of both: its items, their number, the opposite order, a part of them, pages, and some columns.

    Returns:
        whether it finds anything.
    """
    null = {f"{name} IS NULL" for name in EMPTY}
    either = len(conditions) > 2 and draw.random() < 0.5 and not null & {each.sql for each in conditions[:2]}
    where = " AND ".join([each.sql for each in conditions])
    predicates = [each.predicate for each in conditions]
    if either:
        first, second, *others = conditions
        where = " AND ".join([f"({first.sql} OR {second.sql})", *[each.sql for each in others]])
        predicates = [first.predicate | second.predicate, *[each.predicate for each in others]]
    values = [value for each in conditions for value in each.values]
    query = session.query(table.model).where(*predicates).allow_full_scan()

    def ask(columns: str, clauses: str = "") -> list[tuple[Any, ...]]:
        return sql(f"SELECT {table.hint} {columns} FROM {table.name} WHERE {where} {clauses}", *values)

    columns = ", ".join(table.columns)
    rows = ask(columns, table.ordered())
    shown = f"{where} {values}"
    assert [table.row(obj) for obj in query] == rows, shown
    assert ask("COUNT(*)") == [(query.count(),)] == [(len(rows),)], shown
    match draw.randrange(4):
        case 0:
            assert [table.row(obj) for obj in query.reversed()] == ask(columns, table.ordered(descending=True)), shown
        case 1:
            limit, offset = draw.randrange(1, 20), draw.randrange(10)
            part = ask(columns, f"{table.ordered()} LIMIT {limit} OFFSET {offset}")
            assert [table.row(obj) for obj in query.offset(offset).limit(limit)] == part, shown
        case 2:
            size = max(1, len(rows) // 3)
            token = None
            for start in range(0, len(rows), size):
                page = query.page(size, after=token)
                part = ask(columns, f"{table.ordered()} LIMIT {size} OFFSET {start}")
                assert [table.row(obj) for obj in page] == part, shown
                token = page.next_token
            assert token is None, shown
        case _:
            field = hb.schema.schema_of(table.model).fields[-1]
            some = query.select(getattr(table.model, field.name))
            assert list(some) == ask(table.columns[-1], table.ordered()), shown
    return bool(rows)


def objects_of(table: Table, draw: random.Random) -> dict[Any, Any]:
    """As many random objects as the table has rows, by their keys."""
    made: dict[Any, Any] = {}
    while len(made) < table.size:
        obj = table.make(draw)
        made[table.key_of(obj)] = obj
    return made


def without(wanted: Mapping[Any, Any], table: Table, draw: random.Random, count: int) -> list[Any]:
    """New objects whose keys are free."""
    made: dict[Any, Any] = {}
    while len(made) < count:
        obj = table.make(draw)
        if table.key_of(obj) not in wanted:
            made[table.key_of(obj)] = obj
    return list(made.values())


@pytest.mark.parametrize("name", TABLES)
def test_sql_and_hbmodel_read_what_either_writes(store: hb.Store, sql: PhoenixSql, name: str) -> None:
    table, draw = TABLES[name], random.Random(f"{name} {type(store).__name__}")
    fields = [field.name for field in hb.schema.schema_of(table.model).fields]
    changeable = fields[len(table.key_of(table.make(draw))) :]
    recreate(sql, store, table.model, table.create)

    # Phoenix writes, hbmodel reads.
    wanted = objects_of(table, draw)
    upsert(sql, table, list(wanted.values()))
    adoption = hb.tables.adopt(store, table.model, sample=10 * table.size)
    assert not adoption.findings
    assert (adoption.adopted, adoption.objects) == (True, table.size)
    agree(sql, store, table, wanted, draw)

    # hbmodel writes, Phoenix reads.
    session = hb.Session(store)
    changed, removed = (list(wanted.values())[start : start + table.size // 5] for start in (0, table.size // 5))
    for obj in changed:
        other = table.make(draw)
        changes = {
            field: getattr(other, field) for field in draw.sample(changeable, draw.randrange(1, len(changeable) + 1))
        }
        session.update(obj, **changes)
        wanted[table.key_of(obj)] = evolve(obj, **changes)
    for obj in removed:
        session.delete(obj)
        del wanted[table.key_of(obj)]
    session.commit()
    added = without(wanted, table, draw, table.size // 4)
    session.add_all(added)
    session.commit()
    wanted.update({table.key_of(obj): obj for obj in added})
    agree(sql, store, table, wanted, draw)

    # Phoenix writes to rows that hbmodel wrote or deleted, and deletes some.
    again = [evolve(table.make(draw), **dict(zip(fields, table.key_of(obj), strict=False))) for obj in added[::2]]
    again += [obj for obj in removed if table.key_of(obj) not in wanted]
    upsert(sql, table, again)
    wanted.update({table.key_of(obj): obj for obj in again})
    for obj in [*added[1::2], *changed[::3]]:
        conditions, values = [], []
        for ordered, value in zip(table.order, table.row(obj), strict=False):
            name = ordered.removesuffix(" DESC")
            conditions.append(f"{name} IS NULL" if value is None else f"{name} = ?")
            values += [] if value is None else [bind(name, value)]
        sql(f"DELETE FROM {table.name} WHERE {' AND '.join(conditions)}", *values)
        del wanted[table.key_of(obj)]
    agree(sql, store, table, wanted, draw)

    # The cells are the same, whoever wrote them.
    cells = cells_of(store, table.name)
    session = hb.Session(store)
    for obj in wanted.values():
        session.delete(obj)
    session.commit()
    assert (cells_of(store, table.name), sql(f"SELECT COUNT(*) FROM {table.name}")) == ({}, [(0,)])
    session.add_all(wanted.values())
    session.commit()
    assert cells_of(store, table.name) == cells
    upsert(sql, table, list(wanted.values()))
    assert cells_of(store, table.name) == cells
