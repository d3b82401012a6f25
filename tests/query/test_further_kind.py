"""A kind of index part that the package does not have: its operand is not a field of the model, and its entries match
more rows than a query.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from attrs import evolve, frozen
from typing_extensions import override

import hbmodel as hb
from hbmodel.encoding.codecs.base import JSON
from hbmodel.mapping.index_kinds.base import Condition, DeclaredPart, IndexPart
from hbmodel.mapping.model_field import Field, Values
from hbmodel.mapping.predicates import In, Not, Predicate, StartsWith, equalities
from hbmodel.store import Scan
from tests.support.beds import fresh
from tests.support.faulty import RecordingStore


@frozen
class LowerPart(IndexPart):
    """A text in lower case."""

    of: Field
    operand: Field
    desc: bool = False
    required: Sequence[Predicate] = ()

    @property
    @override
    def reads(self) -> frozenset[str]:
        return self.of.reads

    @override
    def values_of(self, values: Values) -> Sequence[Any]:
        text = self.of.value_in(values)
        return (None if text is None else text.lower(),)

    @override
    def on_entries(self, conditions: Sequence[Condition]) -> Sequence[Condition]:
        asked = [equal[1] for c in conditions if (equal := equalities(c.asked)) and equal[0].name == self.of.name]
        on_entry: list[Predicate] = [
            In(self.operand, tuple(text and text.lower() for text in texts)) for texts in asked
        ]
        for asked_for in (condition.asked for condition in conditions):
            if isinstance(asked_for, StartsWith) and asked_for.field.name == self.of.name:
                on_entry.append(StartsWith(self.operand, asked_for.prefix.lower()))
        return [*conditions, *(Condition(predicate, predicate) for predicate in on_entry)]

    @override
    def without_none(self) -> IndexPart:
        given = (Not((In(self.of, (None,)),)),)
        return evolve(self, operand=evolve(self.operand, nullable=False), required=given)

    @property
    @override
    def spec(self) -> Mapping[str, JSON]:
        return {"lower": self.of.name}

    @property
    @override
    def description(self) -> str:
        return f"{self.of.name} in lower case"


@frozen
class Lower(DeclaredPart):
    """As it is declared."""

    name: str
    desc: bool | None = None

    @override
    def resolve(self, fields: Mapping[str, Field]) -> IndexPart:
        field = fields[self.name]
        return LowerPart(field, evolve(field, name=f"{field.name}.lower"))


@hb.model(table="further_kind", family="d")
class Person:
    number: hb.Key[int] = hb.key(hb.codecs.UInt8)
    name: hb.Column[str] = hb.column("n")
    town: hb.Column[str] = hb.column("t")
    version: hb.Column[int] = hb.version()

    by_name = hb.index(Lower("name"), covers=("name",))


NAMES = ("Ann", "ann", "ANN", "bob")


@pytest.fixture
def session() -> Iterator[hb.Session]:
    with fresh(Person) as store, hb.Session(store) as session:
        session.add_all(Person(number=n, name=name, town="x") for n, name in enumerate(NAMES))
        session.commit()
        yield session


def found(session: hb.Session, *conditions: Any, covered: bool) -> list[str]:
    """The names that a query through the index finds, from entries alone or from rows."""
    query = session.query(Person).where(*conditions).use_index("by_name")
    if covered:
        return sorted(name for (name,) in query.select(Person.name).all())
    return sorted(person.name for person in query.all())


@pytest.mark.parametrize("covered", [True, False], ids=["entries", "rows"])
def test_a_query_finds_what_it_asks_for_alone(session: hb.Session, covered: bool) -> None:
    for name in (*NAMES, *NAMES, "Bob"):  # the second time by the shape of the first query
        assert found(session, Person.name == name, covered=covered) == [each for each in NAMES if each == name]
    assert found(session, Person.name.in_(["ANN", "bob", "BOB"]), covered=covered) == ["ANN", "bob"]
    for prefix in ("A", "an", "A", "an"):
        assert found(session, Person.name.startswith(prefix), covered=covered) == sorted(
            name for name in NAMES if name.startswith(prefix)
        )
    assert session.query(Person).where(Person.name == "Ann").use_index("by_name").count() == 1


def test_entries_are_read_by_their_keys(session: hb.Session) -> None:
    store = session.store
    assert isinstance(store, RecordingStore)
    store.calls.clear()
    assert found(session, Person.name == "Ann", covered=True) == ["Ann"]
    (scans,) = [call.items for call in store.calls if call.name == "scan"]
    assert [scan.range.start for scan in scans] == [b"ann\x00\x01"]
    assert {call.table for call in store.calls} == {hb.schema.schema_of(Person).indexes["by_name"].table}


def test_a_broken_entry_is_told_by_its_field(session: hb.Session) -> None:
    index = hb.schema.schema_of(Person).indexes["by_name"]
    (batches,) = session.store.scan(index.table, [Scan()])
    entry = next(iter(next(iter(batches))))
    later = entry.columns[b"d:n"].timestamp + 1
    session.store.put(index.table, [hb.store.Put(entry.row, {b"d:n": b"\xff"}, timestamp=later)])
    with pytest.raises(hb.DecodingError, match="UTF-8") as caught:
        found(session, Person.name.in_(NAMES), covered=True)
    assert caught.value.field == "name"
