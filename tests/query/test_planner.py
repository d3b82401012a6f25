"""Plans: the path of a query, the buckets and key ranges that it reads, and that these are exactly the right ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any
from zlib import crc32

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.errors import QueryError
from hbmodel.mapping.predicates import Predicate
from hbmodel.mapping.schema import Index, TableSchema
from hbmodel.query.ask.explain_text import describe_filter
from hbmodel.query.ask.query import Query
from hbmodel.query.ask.terms import QueryTerms
from hbmodel.query.explain.explained_plan import explain
from hbmodel.query.match.plan import Plan
from hbmodel.query.match.planner import plan
from hbmodel.query.match.range_limits import MAX_RANGES, MAX_SCANS
from hbmodel.store.filters import KeyOnly
from hbmodel.store.ranges import KeyRange, prefix_successor
from tests.support.beds import fresh
from tests.support.examples import examples
from tests.support.random_queries import (
    DESCENDING_CODECS,
    ORDERED_CODECS,
    RandomModel,
    StoredObject,
    conditions,
    in_order,
    models,
    paths,
    stored_keys,
    stored_objects,
)


def planned(query: Query[Any], *, readable: Sequence[Index] | None = None, path: str | None = None) -> Plan:
    """The plan of a query; by default every index can be read."""
    schema = query.terms.schema
    indexes = list(schema.indexes.values())
    return plan(
        query.terms,
        indexes if readable is None else readable,
        indexed=schema.versioned or bool(indexes),
        path_name=path,
    )


def query(model: Any, *predicates: Predicate) -> Query[Any]:
    return Query(QueryTerms(hb.schema.schema_of(model)), None).where(*predicates)  # type: ignore[arg-type]


def ranges_of(made: Plan) -> list[tuple[bytes, bytes | None]]:
    return [(r.start, r.stop) for bucket in made.buckets for r in bucket.ranges]


def shape(made: Plan, of: Query[Any]) -> tuple[str, str, list[str], str | None, int, int]:
    """Path, access, fixed fields, bounded field, buckets and ranges."""
    explained = explain(made, one_call_scans=False)
    return (
        explained.path,
        explained.access,
        list(explained.equalities),
        explained.range_field,
        explained.buckets,
        explained.ranges,
    )


NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@hb.model(table="events", salt=hb.HashSalt(16, by=("user",)))
class Event:
    user: hb.Key[int] = hb.key(hb.UInt32)
    at: hb.Key[datetime] = hb.key(desc=True)
    serial: hb.Key[int] = hb.key(hb.codecs.UInt8)
    name: hb.Column[str] = hb.column("n")
    size: hb.Column[int | None] = hb.column("s", default=None)
    note: hb.Column[str] = hb.column("o", default="")

    by_name = hb.index("name", "at")
    by_size = hb.index("size", salt=hb.HashSalt(4, by=("size",)))


@hb.model(table="plain")
class Plain:
    a: hb.Key[int] = hb.key(hb.codecs.UInt8)
    b: hb.Key[str] = hb.key()
    c: hb.Key[str | None] = hb.key(desc=True)
    d: hb.Column[int] = hb.column("d")
    e: hb.Column[int] = hb.column("e")


@hb.model(table="words")
class Word:
    word: hb.Key[str] = hb.key()
    d: hb.Column[int] = hb.column("d")


@hb.model(table="spread")
class Spread:
    tenant: hb.Key[int] = hb.key(hb.codecs.UInt8)
    number: hb.Key[int] = hb.key(hb.codecs.Reversed(hb.UInt32))
    part: hb.Key[str] = hb.key(hb.codecs.Delimited("|"))
    code: hb.Key[str] = hb.key(hb.Text(4))
    d: hb.Column[int] = hb.column("d")


@hb.model(table="drawn", salt=hb.RandomSalt(3), immutable=True)
class Drawn:
    k: hb.Key[int] = hb.key(hb.codecs.UInt8)
    d: hb.Column[int] = hb.column("d")

    by_d = hb.index("d")


# --- the path ---------------------------------------------------------------------------------------------------------

PLANS: list[tuple[Any, list[Any], tuple[str, str, list[str], str | None, int, int]]] = [
    # A whole key is a get, also of several keys, also where an index would fix more fields.
    (
        Event,
        [Event.user == 1, Event.at == NOON, Event.serial == 2],
        ("primary", "get", ["user", "at", "serial"], None, 1, 1),
    ),
    (
        Event,
        [Event.user == 1, Event.at == NOON, Event.serial == 2, Event.name == "x"],
        ("primary", "get", ["user", "at", "serial"], None, 1, 1),
    ),
    (
        Event,
        [Event.user == 1, Event.at == NOON, Event.serial.in_([1, 3])],
        ("primary", "get", ["user", "at", "serial"], None, 1, 2),
    ),
    # Leading equalities, then bounds.
    (Event, [Event.user == 1], ("primary", "scan", ["user"], None, 1, 1)),
    (Event, [Event.user == 1, Event.at >= NOON], ("primary", "scan", ["user"], "at", 1, 1)),
    (Event, [Event.user == 1, Event.serial == 3], ("primary", "scan", ["user"], None, 1, 1)),
    (Event, [Event.user > 1], ("primary", "scan", [], "user", 16, 16)),
    # The longer bounded prefix wins; a tie goes to the primary, then to the index declared first.
    (Event, [Event.name == "x"], ("by_name", "scan + get", ["name"], None, 1, 1)),
    (Event, [Event.name == "x", Event.at < NOON], ("by_name", "scan + get", ["name"], "at", 1, 1)),
    (Event, [Event.name == "x", Event.user == 1], ("primary", "scan", ["user"], None, 1, 1)),
    (
        Event,
        [Event.name == "x", Event.at == NOON, Event.user == 1],
        ("by_name", "scan + get", ["name", "at", "user"], None, 1, 1),
    ),
    (Event, [Event.name == "x", Event.size == 1], ("by_name", "scan + get", ["name"], None, 1, 1)),
    (Event, [Event.name > "x", Event.user == 1], ("primary", "scan", ["user"], None, 1, 1)),
    (Event, [Event.name > "x", Event.user > 1], ("primary", "scan", [], "user", 16, 16)),
    (Event, [Event.name.startswith("x")], ("by_name", "scan + get", [], "name", 1, 1)),
    (Event, [Event.name > "x"], ("by_name", "scan + get", [], "name", 1, 1)),
    (Event, [Event.name.startswith("")], ("primary", "scan", [], None, 16, 16)),
    # An index may have a salt of its own; None is a value of an index.
    (Event, [Event.size == 7], ("by_size", "scan + get", ["size"], None, 1, 1)),
    (Event, [Event.size.is_(None)], ("by_size", "scan + get", ["size"], None, 1, 1)),
    (Event, [~Event.size.is_(None)], ("by_size", "scan + get", [], "size", 4, 4)),
    (Event, [Event.size < 7], ("by_size", "scan + get", [], "size", 4, 4)),
    # IN lists: one range for each value, each in its own bucket.
    (Event, [Event.user.in_([1, 1, 2])], ("primary", "scan", ["user"], None, 2, 2)),
    (Event, [Event.user.in_([1, 2]), Event.at > NOON], ("primary", "scan", ["user"], "at", 2, 2)),
    (Event, [(Event.user == 1) | (Event.user == 2)], ("primary", "scan", ["user"], None, 2, 2)),
    (Plain, [Plain.a.in_([1, 3]), Plain.b.in_(["x", "y"])], ("primary", "scan", ["a", "b"], None, 1, 4)),
    (Plain, [Plain.a.in_([1, 2])], ("primary", "scan", ["a"], None, 1, 1)),  # neighbours are one range
    (Plain, [Plain.a.in_([])], ("primary", "nothing", ["a"], None, 0, 0)),
    (Plain, [Plain.d.in_([])], ("primary", "scan", [], None, 1, 1)),
    # A contradiction reads nothing.
    (Plain, [Plain.a == 1, Plain.a == 2], ("primary", "nothing", ["a"], None, 0, 0)),
    (Plain, [Plain.a == 1, Plain.a > 1], ("primary", "nothing", ["a"], None, 0, 0)),
    (Plain, [Plain.a.in_([1, 2]), Plain.a.in_([2, 3])], ("primary", "scan", ["a"], None, 1, 1)),
    (Plain, [Plain.a.in_([1, 2, 3]), Plain.a != 2, ~(Plain.a == 3)], ("primary", "scan", ["a"], None, 1, 1)),
    (Plain, [Plain.a > 3, Plain.a < 2], ("primary", "nothing", [], "a", 0, 0)),
    (Plain, [Plain.a > 3, Plain.a < 4], ("primary", "nothing", [], "a", 0, 0)),
    (Plain, [Plain.a >= 256], ("primary", "nothing", [], "a", 0, 0)),
    (Plain, [Plain.a < -1], ("primary", "nothing", ["a"], None, 0, 0)),
    (Plain, [Plain.a == 1, Plain.b.startswith("x"), Plain.b < "a"], ("primary", "nothing", ["a"], "b", 0, 0)),
    (Plain, [Plain.a == 1, Plain.b == "x", Plain.c.is_(None)], ("primary", "get", ["a", "b", "c"], None, 1, 1)),
    (Plain, [Plain.a == 1, Plain.b == "x", ~Plain.c.is_(None)], ("primary", "scan", ["a", "b"], "c", 1, 1)),
    # A random salt: every bucket, also for a whole key.
    (Drawn, [Drawn.k == 1], ("primary", "get", ["k"], None, 3, 3)),
    (Drawn, [Drawn.d == 1], ("by_d", "scan + get", ["d"], None, 1, 1)),
    (Drawn, [Drawn.d == 1, Drawn.k == 1], ("primary", "get", ["k"], None, 3, 3)),
]


@pytest.mark.parametrize(
    ("model", "predicates", "expected"), PLANS, ids=[f"{i}-{m.__name__}" for i, (m, _, _) in enumerate(PLANS)]
)
def test_plans(model: Any, predicates: list[Any], expected: Any) -> None:
    of = query(model, *predicates).allow_full_scan()
    assert shape(planned(of), of) == expected


def test_ranges_are_exact() -> None:
    assert ranges_of(planned(query(Plain, Plain.a == 1))) == [(b"\x01", b"\x02")]
    assert ranges_of(planned(query(Plain, Plain.a == 255))) == [(b"\xff", None)]
    assert ranges_of(planned(query(Plain, Plain.a > 1))) == [(b"\x02", None)]
    assert ranges_of(planned(query(Plain, Plain.a < 255))) == [(b"", b"\xff")]
    assert ranges_of(planned(query(Plain, Plain.a.between(2, 3)))) == [(b"\x02", b"\x04")]
    assert ranges_of(planned(query(Plain, Plain.a == 1, Plain.b.startswith("x\0")))) == [
        (b"\x01x\x00\xff", b"\x01x\x01")
    ]
    assert ranges_of(planned(query(Plain, Plain.a == 1, Plain.b.startswith("x"), Plain.b > "xa"))) == [
        (b"\x01xa\x00\x02", b"\x01y")
    ]
    assert ranges_of(planned(query(Plain, Plain.a > 1, Plain.a > 4, Plain.a >= 4, Plain.a < 9, Plain.a <= 9))) == [
        (b"\x05", b"\x09")
    ]
    assert ranges_of(planned(query(Word, Word.word.startswith("ä")))) == [(b"\xc3\xa4", b"\xc3\xa5")]
    assert planned(query(Word, Word.word == "ä")).rows == [b"\xc3\xa4"]


def test_a_located_bucket_is_the_only_one() -> None:
    user = (7).to_bytes(4, "big")
    bucket = bytes((crc32(user) % 16,))
    (found,) = planned(query(Event, Event.user == 7)).buckets
    assert (found.prefix, list(found.ranges)) == (bucket, [KeyRange(bucket + user, prefix_successor(bucket + user))])


def test_an_unlocated_query_reads_every_bucket() -> None:
    made = planned(query(Event, Event.user > 7))
    assert [bucket.prefix for bucket in made.buckets] == [bytes((n,)) for n in range(16)]
    assert list(made.buckets[15].ranges) == [KeyRange(b"\x0f\0\0\0\x08", b"\x10")]


def test_neighbouring_whole_keys_are_all_got() -> None:
    """Their one-key ranges are adjacent and are joined, but they are still two rows."""
    made = planned(query(Word, Word.word.in_(["a", "a\0", "a\0\0", "b"])))
    assert made.rows == [b"a", b"a\0", b"a\0\0", b"b"]
    assert len(made.buckets[0].ranges) == 2
    assert planned(query(Word, Word.word.in_(["a", "a\0", "b"])).reversed()).rows == [b"b", b"a\0", b"a"]


def test_keys_that_hbase_cannot_hold_are_not_asked_for() -> None:
    made = planned(query(Word, Word.word.in_(["", "a", "x" * 32_768, "x" * 32_767])))
    assert made.rows == [b"a", b"x" * 32_767]


@hb.model(table="shared_words", family="d")
class SharedWord:
    word: hb.Key[str] = hb.key(hb.codecs.Delimited("|"))
    number: hb.Key[int] = hb.key(hb.codecs.Int8, in_qualifier=True)
    size: hb.Column[int] = hb.column("s")


def test_objects_of_rows_that_no_store_takes_are_absent() -> None:
    with fresh(SharedWord) as store:
        session = hb.Session(store)
        session.add(SharedWord(word="a", number=1, size=1))
        session.commit()
        words = session.query(SharedWord)
        for word in ("", "x" * 32_768):
            assert words.where(SharedWord.word == word, SharedWord.number == 1).all() == []
            assert words.where(SharedWord.word == word).all() == []
            found = words.where(SharedWord.word.in_([word, "a"]), SharedWord.number.in_([1, 2])).all()
            assert found == [SharedWord(word="a", number=1, size=1)]


def test_what_lies_behind_a_position() -> None:
    made = planned(query(Event, Event.user > 7))
    rest = made.after(b"\0\0\0\x09abc")
    assert rest[3].prefix == b"\x03"
    assert list(rest[3].ranges) == [KeyRange(b"\x03\0\0\0\x09abc\0", b"\x04")]
    back = planned(query(Event, Event.user > 7).reversed())
    assert list(back.after(b"\0\0\0\x09abc")[3].ranges) == [KeyRange(b"\x03\0\0\0\x08", b"\x03\0\0\0\x09abc")]
    bounded = planned(query(Event, Event.user.between(7, 8)))
    assert all(not bucket.ranges for bucket in bounded.after(b"\0\0\0\x09"))
    assert all(not bucket.ranges for bucket in planned(query(Event, Event.user > 7).reversed()).after(b"\0\0\0\x08"))


def test_only_what_ranges_leave_open_is_checked() -> None:
    exact = planned(query(Event, Event.user == 1, Event.at > NOON))
    assert list(exact.residual) == []
    assert exact.accepts is None
    left, first, second = Event.serial == 3, Event.note == "x", Event.at != NOON
    made = planned(query(Event, Event.user == 1, first & (Event.at > NOON), left, second))
    assert list(made.residual) == [first, left, second]
    through = planned(query(Event, Event.name == "x"))
    assert len(through.residual) == 1, "the primary row decides, not the entry"


# --- order ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "predicates", "ordering", "path", "backwards"),
    [
        (Plain, [], [Plain.a], "primary", False),
        (Plain, [], [Plain.a.desc()], "primary", True),
        (Plain, [], [Plain.a, Plain.b, Plain.c.desc()], "primary", False),
        (Plain, [], [Plain.a.desc(), Plain.b.desc(), Plain.c], "primary", True),
        (Plain, [Plain.a == 1], [Plain.b], "primary", False),
        (Plain, [Plain.a == 1], [Plain.a.desc(), Plain.b], "primary", False),
        (Plain, [Plain.a == 1], [Plain.b, Plain.a], "primary", False),
        (Plain, [Plain.a == 1, Plain.b == "x"], [Plain.c], "primary", True),
        (Plain, [Plain.a == 1, Plain.b == "x"], [Plain.a, Plain.b], "primary", False),
        (Plain, [Plain.a.in_([1, 2])], [Plain.a, Plain.b], "primary", False),
        (Plain, [Plain.a.in_([1])], [Plain.b], "primary", False),
        (Plain, [Plain.a.in_([1, 2])], [Plain.b], "primary", False),
        (Plain, [Plain.a.in_([1, 2]), Plain.b == "x"], [Plain.c], "primary", True),
        (Event, [Event.user.in_([1, 2])], [Event.at.desc()], "primary", False),
        (Event, [Event.name.in_(["x", "y"])], [Event.at], "by_name", True),
        (Event, [Event.user == 1], [Event.at], "primary", True),
        (Event, [Event.user == 1], [Event.at.desc(), Event.serial], "primary", False),
        (Event, [], [Event.name, Event.at.desc()], "by_name", False),
        (Event, [Event.user == 1], [Event.name.desc()], "by_name", True),
        (Event, [Event.name == "x"], [Event.user], "primary", False),
        (Event, [], [Event.size], "by_size", False),
    ],
)
def test_orders_that_a_path_gives(
    model: Any, predicates: list[Any], ordering: list[Any], path: str, backwards: bool
) -> None:
    of = query(model, *predicates).order_by(*ordering).allow_full_scan()
    made = planned(of)
    assert (made.path.name, made.backwards) == (path, backwards)
    assert planned(of.reversed()).backwards != backwards


@pytest.mark.parametrize(
    ("model", "predicates", "ordering"),
    [
        (Plain, [], [Plain.b]),
        (Plain, [], [Plain.d]),
        (Plain, [], [Plain.a, Plain.c]),
        (Plain, [], [Plain.a, Plain.b.desc()]),
        (Plain, [], [Plain.a, Plain.b, Plain.c]),
        (Plain, [Plain.a.in_([1, 2])], [Plain.b, Plain.a]),
        (Plain, [Plain.a.in_([1, 2])], [Plain.c]),
        (Plain, [Plain.a > 1], [Plain.b]),
        (Plain, [], [Plain.a, Plain.a]),
        (Event, [Event.user == 1], [Event.serial]),
        (Event, [Event.user == 1], [Event.at, Event.serial]),
        (Spread, [Spread.tenant == 1], [Spread.number]),
        (Spread, [Spread.tenant == 1, Spread.number == 1], [Spread.part]),
    ],
)
def test_orders_that_no_path_gives(model: Any, predicates: list[Any], ordering: list[Any]) -> None:
    with pytest.raises(hb.errors.OrderNotAvailable) as caught:
        planned(query(model, *predicates).order_by(*ordering).allow_full_scan())
    assert caught.value.fields == [
        part.of.name if isinstance(part, hb.types.FieldExpression) else part.field.name for part in ordering
    ]


def test_an_order_through_a_named_path_only() -> None:
    with pytest.raises(hb.errors.OrderNotAvailable) as caught:
        planned(query(Event, Event.user == 1).order_by(Event.name).use_index("primary"))
    assert caught.value.path == "primary"


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "predicates",
    [
        [],
        [Plain.b == "x"],
        [Plain.d == 1],
        [Plain.a != 1],
        [~(Plain.a == 1)],
        [(Plain.a == 1) | (Plain.b == "x")],
    ],
)
def test_full_scans_are_refused_unless_allowed(predicates: list[Any]) -> None:
    of = query(Plain, *predicates)
    with pytest.raises(hb.FullScanRefused) as caught:
        planned(of)
    assert (caught.value.table, caught.value.path, caught.value.leading) == ("plain", "primary", "a")
    made = planned(of.allow_full_scan())
    assert made.full_scan
    assert ranges_of(made) == [(b"", None)]
    assert explain(made, one_call_scans=False).full_scan


def test_a_limit_bounds_what_nothing_is_checked_of() -> None:
    for of in (
        query(Event),
        query(Event).reversed(),
        query(Event).use_index("by_size"),
        query(Plain).offset(3),
        query(Word, Word.word > ""),
    ):
        if of.terms.predicate is None:
            with pytest.raises(hb.FullScanRefused):
                planned(of)
        made = planned(of.limit(5))
        assert not made.full_scan
        explained = explain(made, one_call_scans=True)
        assert not explained.full_scan
        assert explained.limit == (5 + of.terms.offset if of.terms.predicate is None else None)
        assert ("row(s) of each bucket" in str(explained)) == (of.terms.predicate is None)


def test_a_limit_does_not_bound_what_is_checked_row_by_row() -> None:
    for predicate in (Event.note == "n", Event.serial == 1, Event.user != 1):
        with pytest.raises(hb.FullScanRefused):
            planned(query(Event, predicate).limit(1))


def test_the_empty_prefix_bounds_nothing() -> None:
    with pytest.raises(hb.FullScanRefused):
        planned(query(Word, Word.word.startswith("")))
    assert planned(query(Word, Word.word.startswith("")).allow_full_scan()).accepts is None


@pytest.mark.parametrize(
    ("predicates", "field"),
    [
        ([Spread.tenant == 1, Spread.number > 5], "number"),
        ([Spread.tenant == 1, Spread.number.between(1, 5)], "number"),
        ([Spread.tenant == 1, Spread.number == 5, Spread.part > "x"], "part"),
        ([Spread.tenant == 1, Spread.number == 5, Spread.part == "x", Spread.code.startswith("a\0")], "code"),
    ],
)
def test_ranges_on_bytes_without_order_are_refused(predicates: list[Any], field: str) -> None:
    of = query(Spread, *predicates)
    with pytest.raises(hb.QueryError, match="The bytes of this key field do not keep the order of its") as caught:
        planned(of)
    assert caught.value.field == field
    made = planned(of.allow_full_scan())
    assert made.match.bounds is None
    assert predicates[-1].names() <= {name for p in made.residual for name in p.names()}


def test_equalities_and_prefixes_of_bytes_without_order_are_not() -> None:
    assert not planned(query(Spread, Spread.tenant == 1, Spread.number == 5)).residual
    assert not planned(
        query(Spread, Spread.tenant == 1, Spread.number.in_([5, 6]), Spread.part.startswith("x"))
    ).residual


@pytest.mark.lengthy
def test_too_many_values_are_checked_row_by_row() -> None:
    many = range(MAX_RANGES + 1)
    with pytest.raises(hb.FullScanRefused, match="The query has too many values for this key") as caught:
        planned(query(Event, Event.user.in_(many)))
    assert caught.value.field == "user"
    assert planned(query(Event, Event.user.in_(many)).allow_full_scan()).full_scan
    bounded = planned(query(Event, Event.user.in_(many), Event.user < 20_000))
    assert (list(bounded.match.parts), bounded.match.bounds) == (
        [],
        hb.encoding.key_layout.Bounds(high=20_000, high_inclusive=False),
    )
    assert len(bounded.residual) == 1
    fits = planned(query(Event, Event.user.in_(range(MAX_RANGES))))
    assert len(fits.match.parts[0]) == MAX_RANGES


def test_values_of_several_fields_multiply() -> None:
    letters = [chr(number) for number in range(40, 140)]
    made = planned(query(Plain, Plain.a.in_(range(200)), Plain.b.in_(letters)))
    assert [len(part) for part in made.match.parts] == [200]
    assert len(made.residual) == 1


@pytest.mark.lengthy
def test_buckets_multiply_the_ranges() -> None:
    @hb.model(table="t", salt=hb.HashSalt(256, by=("b",)))
    class Wide:
        a: hb.Key[int] = hb.key()
        b: hb.Key[int] = hb.key()
        d: hb.Column[int] = hb.column("d")

    allowed = MAX_SCANS // 256
    assert len(planned(query(Wide, Wide.a.in_(range(0, 2 * allowed, 2)))).match.parts[0]) == allowed
    with pytest.raises(hb.FullScanRefused, match="The query has too many values for this key"):
        planned(query(Wide, Wide.a.in_(range(0, 2 * allowed + 2, 2))))
    assert len(planned(query(Wide, Wide.a.in_(range(allowed + 1)), Wide.b == 1)).match.parts[0]) == allowed + 1


# --- indexes ----------------------------------------------------------------------------------------------------------


def test_a_named_path_is_taken() -> None:
    of = query(Event, Event.user == 1, Event.name == "x")
    assert planned(of).path.name == "primary"
    assert planned(of.use_index("by_name")).path.name == "by_name"
    assert planned(of.use_index("by_name").use_index(None)).path.name == "primary"
    assert planned(of.use_index("primary")).path.name == "primary"
    with pytest.raises(hb.FullScanRefused) as caught:
        planned(of.use_index("by_size"))
    assert caught.value.path == "by_size"


def test_an_index_that_is_not_built_is_not_read() -> None:
    by_size = hb.schema.schema_of(Event).indexes["by_size"]
    with pytest.raises(hb.errors.IndexUnavailable) as caught:
        planned(query(Event, Event.name == "x").use_index("by_name"), readable=[by_size])
    assert caught.value.index == "by_name"
    assert planned(query(Event, Event.name == "x", Event.size == 1), readable=[by_size]).path.name == "by_size"
    with pytest.raises(hb.errors.IndexUnavailable, match="not built") as caught:
        planned(query(Event, Event.name == "x"), readable=[])
    assert caught.value.index == "by_name"
    assert planned(query(Event, Event.name == "x").allow_full_scan(), readable=[]).path.name == "primary"


def test_an_unknown_path_of_a_token() -> None:
    with pytest.raises(hb.errors.UnknownIndex):
        planned(query(Event, Event.user == 1), path="by_colour")
    assert planned(query(Event, Event.name == "x", Event.user == 1), path="by_name").path.name == "by_name"


def test_the_table_that_the_registry_names_is_read() -> None:
    from attrs import evolve

    later = evolve(hb.schema.schema_of(Event).indexes["by_name"], table="events.by_name.2")
    assert planned(query(Event, Event.name == "x"), readable=[later]).path.table == "events.by_name.2"


# --- what is read -----------------------------------------------------------------------------------------------------


def test_a_selection_reads_its_cells_and_those_of_the_predicates() -> None:
    of = query(Plain, Plain.a == 1, Plain.d == 2).select(Plain.b)
    assert planned(of).reader.columns == (b"d:d",)
    assert planned(query(Plain, Plain.a == 1).select(Plain.e)).reader.columns == (b"d:d", b"d:e"), (
        "d tells that a row is there"
    )
    assert planned(query(Event, Event.user == 1).select(Event.user)).reader.columns == (b"d:_l",)
    assert planned(query(Event, Event.name == "x").select(Event.user)).reader.columns == (b"d:_l", b"d:n")
    assert planned(query(Event, Event.size == 1).select(Event.note)).reader.columns == (b"d:_l", b"d:o", b"d:s")
    assert planned(query(Plain, Plain.a == 1)).reader.columns == (b"d",)


def test_an_entry_is_verified_by_every_field_of_its_index() -> None:
    @hb.model(table="t")
    class Pair:
        k: hb.Key[int] = hb.key()
        a: hb.Column[int] = hb.column("a")
        b: hb.Column[int] = hb.column("b")
        c: hb.Column[int] = hb.column("c")
        by_both = hb.index("a", "b")

    assert planned(query(Pair, Pair.a == 1).select(Pair.c)).reader.columns == (b"d:_l", b"d:a", b"d:b", b"d:c")


# --- explanations -----------------------------------------------------------------------------------------------------


def test_explanations_are_made_for_reading() -> None:
    of = query(
        Event, Event.user == 1, Event.at > NOON, (Event.note == "secret") | Event.size.is_(None), ~(Event.serial == 3)
    ).reversed()
    assert str(explain(planned(of), one_call_scans=False)) == (
        "scan of events (primary)\n"
        "  key:     user fixed, at bounded\n"
        "  scans:   1 range(s) in 1 of 16 bucket(s), backwards\n"
        "  server:  (d:_l >= ... & (d:o = ... | d:s = ...))\n"
        "  client:  (note == ... | size is None), ~(serial == ...)\n"
        "  calls:   at least 2 until the first item (2 for scans, 0 for gets), in at least 2 round trip(s); "
        "1 where a scan is one call (hbase+thrift2:)\n"
        "  why:     the client drops rows that fail ~(serial == ...), and reads on until one passes"
    )
    of = query(Event, Event.user == 1, (Event.note == "secret") | Event.size.is_(None))
    assert str(explain(planned(of), one_call_scans=True)).endswith(
        "calls:   1 until the first item (1 for scans, 0 for gets), in 1 round trip(s)"
    )


@pytest.mark.parametrize(
    ("model", "predicates", "dropping"),
    [
        (Plain, [Plain.a == 1, Plain.b > "x"], []),
        (Plain, [Plain.a == 1, Plain.d == 1], []),  # the server's filter gives the matches alone
        (Plain, [Plain.a == 1, (Plain.d == 1) | (Plain.e > 5)], []),
        (Plain, [Plain.a == 1, Plain.d != 1], ["d != ..."]),
        (Plain, [Plain.a == 1, Plain.c == "x"], ["c == ..."]),
        (Plain, [Plain.a == 1, (Plain.d == 1) | (Plain.c == "x")], ["(d == ... | c == ...)"]),
        (Plain, [Plain.a == 1, Plain.b == "x", Plain.c == "y", Plain.d == 1], ["d == ..."]),
        (Event, [Event.name == "x"], []),
        (Event, [Event.name == "x", Event.size == 1], ["size == ..."]),
        (Drawn, [Drawn.k > 1, Drawn.d == 1], ["d == ..."]),
    ],
)
def test_the_calls_are_the_least_where_the_client_drops_rows(
    model: Any, predicates: list[Any], dropping: list[str]
) -> None:
    of = query(model, *predicates)
    if model is Drawn:
        of = of.use_index("primary")
    explained = explain(planned(of), one_call_scans=True)
    assert (list(explained.dropping), explained.at_least) == (dropping, bool(dropping))
    assert ("at least" in str(explained)) == bool(dropping)


def test_the_calls_are_the_least_where_ranges_are_read_in_turn() -> None:
    of = query(Plain, Plain.a.in_([1, 3]))
    explained = explain(planned(of), one_call_scans=True)
    assert (list(explained.dropping), explained.at_least) == ([], True)
    assert str(explained).endswith("why:     the ranges of a bucket are read in order, and the first ones may be empty")
    assert not explain(planned(query(Plain, Plain.a.in_([1, 2]))), one_call_scans=True).at_least


def test_an_explanation_names_what_is_merged() -> None:
    of = query(Event, Event.user.in_([1, 2])).order_by(Event.at.desc())
    explained = explain(planned(of), one_call_scans=True)
    assert (list(explained.merged), explained.ranges, explained.at_least) == (["user"], 2, False)
    assert "\n  scans:   2 range(s) in 2 of 16 bucket(s), merged over user\n" in str(explained)


def test_explanations_of_other_plans() -> None:
    of = query(Event, Event.name.in_(["a", "c"]), Event.note.startswith("b"), Event.size > 1)
    assert str(explain(planned(of), one_call_scans=False)) == (
        "scan + get of events.by_name (by_name)\n"
        "  key:     name fixed\n"
        "  scans:   2 range(s) in 1 of 1 bucket(s)\n"
        "  server:  no filter\n"
        "  client:  name in ..., note starts with ..., size > ...\n"
        "  calls:   at least 3 until the first item (2 for scans, 1 for gets), in at least 3 round trip(s); "
        "2 where a scan is one call (hbase+thrift2:)\n"
        "  why:     the client drops rows that fail note starts with ..., size > ..., and reads on until one passes"
    )
    neither = ~((Plain.b == "x") & Plain.c.startswith("y"))
    assert list(explain(planned(query(Plain, neither).allow_full_scan()), one_call_scans=False).client) == [
        "~(b == ... & c starts with ...)"
    ]
    assert describe_filter(KeyOnly()) == "no values"
    of = query(Plain).allow_full_scan()
    assert "nothing fixed - full scan" in str(explain(planned(of), one_call_scans=False))
    of = query(Plain, Plain.a.in_([]))
    assert str(explain(planned(of), one_call_scans=False)).startswith("nothing of plain (primary)")
    assert explain(planned(of), one_call_scans=False).calls == 0


# --- every layout, every predicate ------------------------------------------------------------------------------------


def lies_in(made: Plan, key: bytes) -> bool:
    """Whether a stored key is among what the plan reads."""
    inside = any(key in r and key.startswith(bucket.prefix) for bucket in made.buckets for r in bucket.ranges)
    if made.columns is not None:
        assert made.rows is None
        qualifier = made.terms.schema.wide.form.cut(key)[1]
        inside &= any(first <= qualifier and (stop is None or qualifier < stop) for first, stop in made.columns.ranges)
    if made.rows is not None:
        assert (key in made.rows) == inside
    return inside


@pytest.mark.lengthy
@settings(max_examples=examples(150), deadline=None)
@given(st.data())
def test_what_is_read_and_accepted_is_what_matches(data: st.DataObject) -> None:
    check_reading(data)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@settings(max_examples=3_000, deadline=None)
@given(st.data())
def test_what_is_read_and_accepted_is_what_matches_at_length(data: st.DataObject) -> None:
    check_reading(data)


def check_reading(data: st.DataObject) -> None:
    """For any model, rows and query: of every path exactly the matching rows are read and accepted."""
    of = data.draw(models(versions=True, wide=True))
    schema = of.schema
    objects = data.draw(stored_objects(of, indexed=bool(schema.indexes), blanks=True))
    predicates, oracle = data.draw(conditions(of))
    asked = query(of.model, *predicates).allow_full_scan()
    for index in paths(schema):
        try:
            made = planned(asked, path="primary" if index is None else index.name)
        except QueryError:
            event("an index that lacks some rows")
            continue
        event(
            f"{'index' if index else 'primary'}, {len(made.match.parts)} fixed, "
            f"{'bounds' if made.match.bounds else 'no bounds'}"
        )
        consumed = [p.test() for p in made.match.consumed]
        accepts = made.accepts
        for obj in objects:
            keys = stored_keys(schema, index, obj)
            inside = any(lies_in(made, key) for key in keys)
            settled = bool(keys) and all(test(obj.values) for test in consumed)
            if made.columns is not None:
                event(f"{len(made.columns.ranges)} ranges of columns by {len(made.columns.fields)} fields")
            if made.match.pieces is None and (made.columns is None or schema.layout.split is None):
                assert inside == settled, "consumed predicates are exactly what the ranges settle"
            assert settled or not inside
            assert (inside and (accepts is None or accepts(obj.values))) == oracle(obj.values)
            if index is not None:
                first = made.scope.first(keys)
                assert (first is not None) or not oracle(obj.values)


@pytest.mark.lengthy
@settings(max_examples=examples(50), deadline=None)
@given(st.data())
def test_ranges_are_disjoint_and_sorted(data: st.DataObject) -> None:
    of = data.draw(models(versions=True, wide=True))
    predicates, _ = data.draw(conditions(of))
    made = planned(query(of.model, *predicates).allow_full_scan())
    for bucket in made.buckets:
        assert bucket.ranges
        assert all(not r.empty for r in bucket.ranges)
        assert all(
            a.stop is not None and a.stop < b.start for a, b in zip(bucket.ranges, bucket.ranges[1:], strict=False)
        )
        assert all(r.start.startswith(bucket.prefix) for r in bucket.ranges)
        assert all(r.stop is None or r.stop <= (prefix_successor(bucket.prefix) or r.stop) for r in bucket.ranges)


@st.composite
def orderings(draw: st.DrawFn, of: RandomModel, schema: TableSchema) -> list[tuple[str, bool]]:
    """Fields with directions, as a path has them more often than not."""
    layout = draw(st.sampled_from([schema.layout, *(index.layout for index in schema.indexes.values())]))
    taken = layout.names[draw(st.integers(0, 1)) : draw(st.integers(1, 3))]
    turned = draw(st.booleans())
    found = [(f.name, ((f.codec.order == "descending") != f.desc) != turned) for f in layout.fields if f.name in taken]
    return [
        (name, not desc if draw(st.integers(0, 9)) == 0 else desc) for name, desc in found if not name.endswith("[]")
    ]


def first_key(made: Plan, schema: TableSchema, obj: StoredObject) -> bytes:
    """Where a plan comes to a matching object."""
    keys = stored_keys(schema, made.path.index, obj)
    found = keys[0] if made.path.index is None else made.scope.first(keys)
    assert found is not None, "the query asks for an entry of every row that matches"
    return found


@pytest.mark.lengthy
@settings(max_examples=examples(80), deadline=None)
@given(st.data())
def test_a_promised_order_is_kept(data: st.DataObject) -> None:
    of = data.draw(models(data.draw(st.sampled_from([ORDERED_CODECS, DESCENDING_CODECS])), wide=True))
    schema = of.schema
    objects = data.draw(stored_objects(of, indexed=bool(schema.indexes), max_size=12))
    predicates, oracle = data.draw(conditions(of))
    ordering = data.draw(orderings(of, schema))
    if not ordering:
        return
    asked = query(of.model, *predicates).allow_full_scan()
    asked = asked.order_by(*[of.expression(name).desc() if desc else of.expression(name) for name, desc in ordering])
    if data.draw(st.booleans()):
        asked, ordering = asked.reversed(), [(name, not desc) for name, desc in ordering]
    try:
        made = planned(asked)
    except hb.errors.OrderNotAvailable:
        event("no path gives it")
        return
    matching = [obj for obj in objects if oracle(obj.values)]
    event(f"{min(len(matching), 3)} rows in order")
    event("merged" if made.order is not None else "as the keys have it")
    matching.sort(key=lambda obj: made.row_place(first_key(made, schema, obj)), reverse=made.backwards)
    assert in_order(schema, ordering, [obj.values for obj in matching])


@pytest.mark.lengthy
@settings(max_examples=examples(50), deadline=None)
@given(st.data())
def test_a_page_goes_on_exactly_behind_its_position(data: st.DataObject) -> None:
    of = data.draw(models(versions=True, wide=True))
    schema = of.schema
    objects = data.draw(stored_objects(of, indexed=bool(schema.indexes), blanks=True))
    predicates, _ = data.draw(conditions(of))
    asked = query(of.model, *predicates).allow_full_scan()
    asked = asked.reversed() if data.draw(st.booleans()) else asked
    made = planned(asked)
    with suppress(hb.errors.OrderNotAvailable):
        if ordering := data.draw(orderings(of, schema)):
            made = planned(
                asked.order_by(
                    *[of.expression(name).desc() if desc else of.expression(name) for name, desc in ordering]
                )
            )
    event("merged" if made.order is not None else "as the keys have it")
    keys = [key for obj in objects for key in stored_keys(schema, made.path.index, obj) if lies_in(made, key)]
    if not keys:
        return
    chosen = data.draw(st.sampled_from(keys))
    rest, place = made.after(made.path.position(chosen)), made.row_place(chosen)
    for key in keys:
        behind = made.row_place(key) < place if made.backwards else made.row_place(key) > place
        assert any(key in r for bucket in rest for r in bucket.ranges) == behind


def test_an_order_that_another_key_would_give_is_named() -> None:
    """The condition bounds the table's key, but only the index gives the order."""

    @hb.model(table="invoices", family="d")
    class Invoice:
        customer: hb.Key[int] = hb.key()
        number: hb.Key[int] = hb.key()
        due: hb.Column[int] = hb.column("d")
        by_due = hb.index("due")

    with pytest.raises(hb.FullScanRefused, match="In this order") as caught:
        planned(query(Invoice, Invoice.customer == 1).order_by(Invoice.due.desc()))
    assert (caught.value.path, caught.value.fields) == ("by_due", ["due"])
    with pytest.raises(hb.FullScanRefused, match="read the whole table: add a condition") as caught:
        planned(query(Invoice).order_by(Invoice.due.desc()))
    planned(query(Invoice).order_by(Invoice.due.desc()).limit(20))


@hb.model(table="partly_ordered", family="d")
class Partly:
    name: hb.Key[str] = hb.key()
    state: hb.Column[str] = hb.column("s")
    rank: hb.Column[int] = hb.column("r")
    editor: hb.Column[str | None] = hb.column("e", default=None)
    waiting = hb.index("rank", where=lambda model: model.state == "new")
    by_editor = hb.index("editor", skip_none=True)


def _partly(refine: Callable[[hb.Query[Any]], hb.Query[Any]]) -> Plan:
    schema = hb.schema.schema_of(Partly)
    terms = refine(Query(QueryTerms(schema), None)).terms  # type: ignore[arg-type]
    return plan(terms, list(schema.indexes.values()), indexed=True)


@pytest.mark.parametrize(
    ("refine", "error", "index", "missing"),
    [
        (lambda q: q.order_by(Partly.rank), hb.errors.OrderNotAvailable, "waiting", "state == ..."),
        (lambda q: q.order_by(Partly.rank.desc()), hb.errors.OrderNotAvailable, "waiting", "state == ..."),
        (lambda q: q.where(Partly.rank > 3), hb.errors.FullScanRefused, "waiting", "state == ..."),
        (lambda q: q.order_by(Partly.editor), hb.errors.OrderNotAvailable, "by_editor", "~(editor is None)"),
    ],
)
def test_an_index_that_lacks_rows_is_named_with_its_condition(
    refine: Callable[[hb.Query[Any]], hb.Query[Any]], error: type[hb.HbmodelError], index: str, missing: str
) -> None:
    with pytest.raises(error, match="repeat the condition of the index in the query") as caught:
        _partly(refine)
    assert (caught.value.index, caught.value.missing) == (index, missing)
    condition = Partly.state == "new" if index == "waiting" else ~Partly.editor.is_(None)
    assert _partly(lambda query: refine(query.where(condition))).path.name == index


@pytest.mark.parametrize(
    "refine",
    [
        lambda q: q.where(Partly.state == "done").order_by(Partly.rank),  # such rows have no entries
        lambda q: q.where(Partly.state == "done", Partly.rank > 3),
        lambda q: q.order_by(Partly.state),
        lambda q: q.where(Partly.state == "done"),
    ],
)
def test_an_index_whose_condition_would_not_help_is_not_named(
    refine: Callable[[hb.Query[Any]], hb.Query[Any]],
) -> None:
    with pytest.raises(hb.errors.QueryError) as caught:
        _partly(refine)
    assert "repeat the condition" not in caught.value.message
