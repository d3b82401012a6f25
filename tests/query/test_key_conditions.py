"""How conditions meet the fields of a key: which field they fix, which they bound, and what they settle."""

from __future__ import annotations

from typing import Any

import pytest

import hbmodel as hb
from hbmodel.encoding.key_layout import Bounds
from hbmodel.mapping.index_kinds.base import Condition
from hbmodel.mapping.predicates import Predicate
from hbmodel.mapping.schema import TableSchema
from hbmodel.query.match.key_conditions import KeyConditions, match


@hb.model(table="t")
class Row:
    a: hb.Key[int] = hb.key(hb.codecs.UInt8)
    b: hb.Key[str | None] = hb.key()
    c: hb.Key[str] = hb.key(hb.codecs.Delimited("|"))
    d: hb.Column[int] = hb.column("d")


def meeting(schema: TableSchema, *predicates: Predicate, most: int = 100) -> KeyConditions:
    return match(schema.layout, [Condition(predicate, predicate) for predicate in predicates], schema.by_name, most)


def matched(*predicates: Predicate, most: int = 100) -> KeyConditions:
    schema = hb.schema.schema_of(Row)
    return meeting(schema, *predicates, most=most)


def test_values_of_a_fixed_field_are_packed_sorted_and_different() -> None:
    found = matched(Row.a.in_([9, 2, 9, 3]), Row.b.in_(["x", None, "x\0"]))
    assert found.parts == [[b"\x02", b"\x03", b"\x09"], [b"\x00", b"\x01x\x00\x01", b"\x01x\x00\xff\x00\x01"]]
    assert found.bounds is None
    assert not found.complete(hb.schema.schema_of(Row).layout)
    assert matched(Row.a == 1, Row.b == "x", Row.c == "y").complete(hb.schema.schema_of(Row).layout)


def test_every_condition_on_a_fixed_field_alone_is_settled() -> None:
    own = [Row.a.in_([1, 2, 3, 4]), Row.a > 1, Row.a != 3, ~(Row.a == 4), (Row.a == 2) | (Row.a > 9)]
    mixed = (Row.a == 2) | (Row.d == 1)
    found = matched(*own, mixed)
    assert found.parts == [[b"\x02"]]
    assert list(found.consumed) == own


def test_a_condition_on_two_fields_settles_nothing() -> None:
    found = matched((Row.a == 1) | (Row.d == 1))
    assert (list(found.parts), found.bounds, list(found.consumed), found.open) == ([], None, [], True)


@pytest.mark.parametrize(
    ("predicates", "bounds", "settled"),
    [
        ([Row.b > "x"], Bounds(low="x", low_inclusive=False), 1),
        ([Row.b >= "x", Row.b < "z"], Bounds(low="x", high="z", high_inclusive=False), 2),
        ([Row.b > "x", Row.b >= "x", Row.b > "a"], Bounds(low="x", low_inclusive=False), 3),
        ([Row.b >= "x", Row.b > "x"], Bounds(low="x", low_inclusive=False), 2),
        ([Row.b <= "x", Row.b < "x", Row.b <= "z"], Bounds(high="x", high_inclusive=False), 3),
        ([Row.b.startswith("x")], Bounds(prefix="x"), 1),
        ([Row.b.startswith("x"), Row.b.startswith("xyz"), Row.b.startswith("xy")], Bounds(prefix="xyz"), 1),
        ([Row.b.startswith("x"), Row.b > "xa", ~Row.b.is_(None)], Bounds(prefix="x", low="xa", low_inclusive=False), 3),
        ([~Row.b.is_(None)], Bounds(), 1),
        ([Row.b.startswith("")], Bounds(), 1),
        ([Row.b != "x"], None, 0),
        ([~Row.b.in_(["x", None])], None, 0),
        ([(Row.b > "x") | (Row.b < "a")], None, 0),
    ],
)
def test_bounds(predicates: list[Any], bounds: Bounds | None, settled: int) -> None:
    found = matched(Row.a == 1, *predicates)
    assert found.parts == [[b"\x01"]]
    assert found.bounds == bounds
    assert len(found.consumed) == 1 + settled


def test_bounds_that_say_nothing_leave_the_key_open() -> None:
    @hb.model(table="t")
    class Text:
        k: hb.Key[str] = hb.key()
        d: hb.Column[int] = hb.column("d")

    schema = hb.schema.schema_of(Text)
    found = meeting(schema, Text.k.startswith(""))
    assert found.open
    assert len(found.consumed) == 1, "every key satisfies it"
    assert not matched(Row.a > 0).open


def test_a_field_without_order_is_named() -> None:
    ordered = matched(Row.a == 1, Row.b == "x", Row.c > "a")
    assert (ordered.bounds, ordered.unordered) == (Bounds(low="a", low_inclusive=False), None), (
        "the last field is raw and keeps order"
    )

    @hb.model(table="t")
    class Inner:
        c: hb.Key[str] = hb.key(hb.codecs.Delimited("|"))
        d: hb.Key[int] = hb.key(hb.codecs.Reversed(hb.codecs.UInt8))
        e: hb.Column[int] = hb.column("e")

    schema = hb.schema.schema_of(Inner)
    found = meeting(schema, Inner.c > "a")
    assert (found.bounds, found.unordered, list(found.consumed)) == (None, "c", [])
    found = meeting(schema, Inner.c == "a", Inner.d < 3)
    assert (found.unordered, len(found.parts), len(found.consumed)) == ("d", 1, 1)
    assert meeting(schema, Inner.c.startswith("a")).bounds == Bounds(prefix="a")
    assert meeting(schema, Inner.c != "a").unordered is None


def test_too_many_values_are_left_to_the_check() -> None:
    found = matched(Row.a.in_(range(101)), Row.a < 50, Row.b == "x")
    assert (found.excess, [len(part) for part in found.parts]) == (None, [50, 1]), "counted after what else is known"
    found = matched(Row.a.in_(range(101)), Row.b == "x")
    assert (found.excess, list(found.parts), list(found.consumed), found.open) == ("a", [], [], True)
    found = matched(Row.a.in_(range(11)), Row.b.in_([chr(n) for n in range(97, 107)]))
    assert (found.excess, [len(part) for part in found.parts], len(found.consumed)) == ("b", [11], 1)


def test_contradictions_leave_no_value() -> None:
    assert matched(Row.a == 1, Row.a == 2).parts == [[]]
    assert matched(Row.a.in_([])).parts == [[]]
    assert matched(Row.a == 1, ~(Row.a == 1), Row.b == "x").parts == [[], [b"\x01x\x00\x01"]]
