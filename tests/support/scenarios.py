"""Writes that tests interrupt, and the conditions that a store must then satisfy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from operator import attrgetter
from typing import Any

from attrs import frozen

import hbmodel as hb
from hbmodel.mapping.rows.mapper import KeyMapper, encode_cell
from hbmodel.mapping.schema import Index, TableSchema
from tests.support.beds import cells_of
from tests.support.models import DAY, Fact, Flagged, Hit, Legacy, Order, Person, Sample, Token, Visit, order
from tests.support.strategies import declared_order

Step = Callable[[hb.Session], object]


@frozen
class Scenario:
    """Writes to one model.

    Attributes:
        model: the model of the objects.
        seed: the objects that exist before the writes.
        steps: the writes, which are all in one commit.
        atomic: whether a step needs atomic changes of rows.
        lone_delete: whether a single row is deleted, which is one call if rows change atomically.
        at_once: whether the steps run immediately, not at the commit.
    """

    model: type[Any]
    seed: Sequence[Any]
    steps: Sequence[Step]
    atomic: bool = False
    lone_delete: bool = False
    at_once: bool = False

    def begin(self, store: hb.Store) -> None:
        """Writes the seed."""
        with hb.Session(store) as session:
            session.add_all(self.seed)

    def run(self, session: hb.Session) -> list[hb.Outcome]:
        """Carries out all steps in one commit, and returns the outcomes."""
        for step in self.steps:
            step(session)
        return session.commit()

    def states(self, store: hb.Store) -> list[dict[Any, Any]]:
        """Carries out the steps one by one. Returns the contents before the first step and after each step. The seed
        must already be written.
        """
        found = [objects(store, self.model)]
        for step in self.steps:
            with hb.Session(store) as session:
                step(session)
            found.append(objects(store, self.model))
        return found


def key_of(obj: Any) -> tuple[Any, ...]:
    """Returns the key of an object."""
    return tuple(getattr(obj, name) for name in hb.schema.schema_of(type(obj)).layout.names)


def objects(store: hb.Store, model: type[Any]) -> dict[Any, Any]:
    """Returns every object of the primary table by its key."""
    return {key_of(obj): obj for obj in hb.Session(store).query(model).use_index("primary").allow_full_scan()}


def check_queries(store: hb.Store, model: type[Any], extra: Iterable[Any] = ()) -> None:
    """Asserts that every index query returns the same objects as a test of every row of the primary table.

    Args:
        store: the store with the rows.
        model: the model of the objects.
        extra: objects whose values are queried too.
    """
    session = hb.Session(store)
    rows = list(objects(store, model).values())
    assert session.get_many(model, [key_of(obj) for obj in rows]) == rows
    for index in hb.schema.schema_of(model).indexes.values():
        in_order = sorted(rows, key=lambda obj: _place(index, obj))
        through = session.query(model).use_index(index.name).allow_full_scan()
        assert through.all() == in_order
        assert through.reversed().all() == in_order[::-1]
        assert through.count() == len(rows)
        leading = index.fields[0]
        expression, value_of = getattr(model, leading), attrgetter(leading)
        values = {value_of(obj) for obj in (*rows, *extra)}
        for value in values:
            equal = session.query(model).where(expression == value).use_index(index.name)
            assert equal.all() == [obj for obj in in_order if value_of(obj) == value]
        bound = max((value for value in values if value is not None), default=None)
        if bound is not None:
            below = session.query(model).where(expression < bound).use_index(index.name)
            assert below.all() == [obj for obj in in_order if value_of(obj) is not None and value_of(obj) < bound]


def _place(index: Index, obj: Any) -> Any:
    return declared_order(index.layout)([getattr(obj, name) for name in index.layout.names])


def check_exact(store: hb.Store, model: type[Any]) -> None:
    """Asserts that index tables contain exactly the entries that a rebuild would put, apart from marks of covering
    indexes.
    """
    schema = hb.schema.schema_of(model)
    live = _live_rows(store, schema)
    for index in schema.indexes.values():
        expected = {
            entry: {
                schema.by_name[name].column: encode_cell(schema, schema.by_name[name], getattr(obj, name))
                for name in index.covers
            }
            for row, obj in live.items()
            for entry in KeyMapper(schema).entries(index, vars(obj), row)
        }
        found = cells_of(store, index.table)
        if index.name in schema.covering:
            found = {entry: cells for entry, cells in found.items() if cells.keys() != {schema.status_column}}
            for cells in found.values():
                assert cells.pop(schema.status_column)[1:] == cells[schema.version_column][1:]
        for cells in found.values():
            assert cells.pop(schema.version_column)[:1] == b"\x01"
        assert found == expected


def _live_rows(store: hb.Store, schema: TableSchema) -> dict[bytes, Any]:
    (batches,) = store.scan(schema.table, [hb.store.Scan()])
    decoded = {row.row: hb.decode(schema.model, row) for batch in batches for row in batch}
    return {row: obj for row, obj in decoded.items() if obj is not None}


def _orders() -> list[Order]:
    return [
        order(n, "new" if n % 2 else "paid", customer=n % 3, amount=n if n % 3 else None, note=f"note {n}")
        for n in range(6)
    ]


def _hit(serial: int, page: str = "/") -> Hit:
    return Hit(at=DAY, serial=serial, page=page)


def _sample(label: str, level: int = 0, remark: str | None = None) -> Sample:
    return Sample(station="s", label=label, level=level, remark=remark)


HOUR = timedelta(hours=1)
PEOPLE = [
    Person(name="ann", city="Oslo", street="A", story="long"),
    Person(name="bob", city="Oslo"),
    Person(name="cid"),
]
FACTS = [Fact(number=n, topic="odd" if n % 2 else "even", body="b") for n in range(4)]
SAMPLES = [_sample("a", 1, "r"), _sample("b", 2), _sample("c", 3, "")]

SCENARIOS: dict[str, Scenario] = {
    "add new": Scenario(Order, _orders(), [lambda s: s.add(order(9, "paid", amount=2))]),
    "add over": Scenario(Order, _orders(), [lambda s: s.add(order(1, "sent", customer=1, amount=2))]),
    "add over, same entries": Scenario(
        Order, _orders(), [lambda s: s.add(order(1, "new", customer=1, amount=1, note="changed"))]
    ),
    "add over a deleted row": Scenario(
        Person,
        PEOPLE,
        [lambda s: s.delete(PEOPLE[0]), lambda s: s.add(Person(name="ann", street="B"))],
        lone_delete=True,
    ),
    "update indexed": Scenario(Order, _orders(), [lambda s: s.update(order(1, customer=1), state="sent", note=None)]),
    "update one of two indexed": Scenario(Person, PEOPLE, [lambda s: s.update(PEOPLE[0], street="B")]),
    "update other": Scenario(Order, _orders(), [lambda s: s.update(order(1, customer=1), note="changed")]),
    "delete": Scenario(Order, _orders(), [lambda s: s.delete(order(1, customer=1))], lone_delete=True),
    "delete over two families": Scenario(
        Person, PEOPLE, [lambda s: s.delete_key(Person, name="ann")], lone_delete=True
    ),
    "insert": Scenario(Order, _orders(), [lambda s: s.insert(order(9, amount=1))], atomic=True, at_once=True),
    "batch": Scenario(
        Order,
        _orders(),
        [
            lambda s: s.add(order(9, "sent", amount=1)),
            lambda s: s.add(order(1, "sent", customer=1)),
            lambda s: s.update(order(2, customer=2), state="sent"),
            lambda s: s.update(order(4, customer=1), amount=None, state="new"),
            lambda s: s.delete(order(3, customer=0)),
            lambda s: s.delete(order(5, customer=2)),
            lambda s: s.update(order(9), note="second round"),
            lambda s: s.delete(order(1, customer=1)),
            lambda s: s.add(order(3, "back", customer=0)),
        ],
    ),
    "load": Scenario(
        Order,
        _orders(),
        [
            lambda s: s.bulk_add(
                [order(n, "loaded", customer=n % 3, amount=n) for n in (7, 8, 1, 2, 9, 4, 5)], batch_size=3
            )
        ],
        at_once=True,
    ),
    "immutable add": Scenario(Fact, FACTS, [lambda s: s.add_all([Fact(number=n, topic="odd") for n in (7, 9, 11)])]),
    "immutable delete": Scenario(Fact, FACTS, [lambda s: s.delete(FACTS[1]), lambda s: s.delete(FACTS[2])]),
    "random salt add": Scenario(Hit, [_hit(1), _hit(2)], [lambda s: s.add_all([_hit(3), _hit(4, "/b"), _hit(2)])]),
    "random salt delete": Scenario(Hit, [_hit(1), _hit(2), _hit(2)], [lambda s: s.delete(_hit(2))]),
    "unindexed batch": Scenario(
        Sample,
        SAMPLES,
        [
            lambda s: s.add(_sample("d", 4)),
            lambda s: s.add(_sample("a", 5)),
            lambda s: s.update(_sample("b"), level=6),
            lambda s: s.delete(_sample("c")),
            lambda s: s.add(_sample("c", 7)),
        ],
    ),
    "unindexed insert": Scenario(Sample, SAMPLES, [lambda s: s.insert(_sample("d", 4))], atomic=True, at_once=True),
    "expiring batch": Scenario(
        Visit,
        [Visit(name=name, page="x", note=name) for name in "abcd"],
        [
            lambda s: s.add(Visit(name="a", page="y"), ttl=HOUR),
            lambda s: s.add(Visit(name="e", page="y"), ttl=2 * HOUR),
            lambda s: s.update(Visit(name="b", page="?"), extra="f", ttl=HOUR),
            lambda s: s.delete(Visit(name="c", page="?")),
            lambda s: s.update(Visit(name="a", page="?"), note="second round"),
            lambda s: s.add(Visit(name="e", page="z")),
        ],
    ),
    "expiring row": Scenario(
        Visit, [Visit(name="a", page="x")], [lambda s: s.add(Visit(name="a", page="y"), ttl=HOUR)], lone_delete=True
    ),
    "expiring insert": Scenario(
        Visit,
        [Visit(name="a", page="x")],
        [lambda s: s.insert(Visit(name="b", page="x"), ttl=HOUR)],
        atomic=True,
        at_once=True,
    ),
    "unindexed expiring batch": Scenario(
        Token,
        [Token(name=name, page="x", note=name) for name in "abc"],
        [
            lambda s: s.add(Token(name="a", page="y"), ttl=HOUR),
            lambda s: s.update(Token(name="b", page="?"), extra="f", ttl=HOUR),
            lambda s: s.delete(Token(name="c", page="?")),
            lambda s: s.update(Token(name="a", page="?"), note="second round"),
            lambda s: s.add(Token(name="b", page="z")),
        ],
    ),
    "unindexed expiring row": Scenario(
        Token, [Token(name="a", page="x")], [lambda s: s.add(Token(name="a", page="y"), ttl=HOUR)], lone_delete=True
    ),
    "unindexed expiring insert": Scenario(
        Token,
        [Token(name="a", page="x")],
        [lambda s: s.insert(Token(name="b", page="x"), ttl=HOUR)],
        atomic=True,
        at_once=True,
    ),
    "flagged": Scenario(
        Flagged,
        [Flagged(name="a", text="t"), Flagged(name="b")],
        [lambda s: s.add(Flagged(name="c")), lambda s: s.delete(Flagged(name="a"))],
    ),
    "external": Scenario(
        Legacy,
        [Legacy(code="a", when=1, title="t", tag="g")],
        [
            lambda s: s.add(Legacy(code="b", when=1, title="u", tag="g")),
            lambda s: s.delete_key(Legacy, code="a", when=1),
        ],
    ),
}
