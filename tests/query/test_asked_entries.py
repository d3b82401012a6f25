"""Comparing an entry only with the entries of its row that a query asks for gives the same result as comparing it with
all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import pytest
from attrs import evolve, frozen
from hypothesis import HealthCheck, assume, event, given, reject, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.encoding.codecs.text import TextCodec
from hbmodel.encoding.key_layout import KeyField, KeyLayout
from hbmodel.errors import QueryError
from hbmodel.mapping.index_kinds.asked_elements import elements_asked_for
from hbmodel.mapping.rows.mapper import KeyMapper, Values
from hbmodel.protocol.indexed.entry_verifier import EntryVerifier
from hbmodel.query.match.plan import Plan
from hbmodel.query.match.planner import plan
from hbmodel.store import Row
from tests.support.examples import examples
from tests.support.random_queries import StoredObject, elements, leaves, models, stored_objects
from tests.support.strategies import KEY_CODECS, values_of

MANY = 5_000
UNHURRIED = [HealthCheck.filter_too_much, HealthCheck.too_slow]


def planned(query: hb.Query[Any], path: str) -> Plan:
    return plan(query.terms, tuple(query.terms.schema.indexes.values()), True, path)


def verified(verifier: EntryVerifier, entries: Sequence[bytes], rows: Mapping[bytes, StoredObject]) -> Any:
    """The answers for some entries of a table with these rows."""
    asking = verifier.verify(entries)
    try:
        asked: Any = next(asking)
        found: list[Row | None] = [rows[row].read(asked.columns) if row in rows else None for row in asked.rows]
        asking.send(found)
    except StopIteration as done:
        return done.value
    raise AssertionError("one multi-get is enough")


def check(data: st.DataObject) -> None:
    """For any model, rows and query of elements: all entries that the query asks for are made, and no others than the
    row has.
    """
    of = data.draw(models(versions=True))
    schema = of.schema
    several = [index for index in schema.indexes.values() if not index.has_one_entry]
    assume(several)
    index = data.draw(st.sampled_from(several))
    predicates = [*index.where]
    for name in index.fields:
        if name.endswith("[]"):
            predicates.append(data.draw(elements(of, name.removesuffix("[]")))[0])
        elif data.draw(st.booleans()):
            predicates.append(data.draw(leaves(of, name, ("=", "in", "<", ">=", "not none")))[0])
    with hb.connect("memory:") as store:
        asked = hb.Session(store).query(of.model).where(*predicates).allow_full_scan()
    try:
        made = planned(asked, index.name)
    except QueryError:  # the index lacks rows without a value
        reject()
    assert made.entries_asked_for is not None
    every = KeyMapper(schema).entries_code(index)
    objects = data.draw(stored_objects(of, indexed=True, blanks=True))
    rows = {obj.row: obj for obj in objects}
    entries: dict[bytes, None] = {}
    for obj in objects:
        own = every(obj.values, obj.row)
        chosen = made.entries_asked_for(obj.values, obj.row)
        assert [entry for entry in own if entry in made.scope] == [e for e in chosen if e in made.scope]
        assert set(chosen) <= set(own)
        event("none" if not own else "none of some" if not chosen else "fewer" if len(chosen) < len(own) else "all")
        entries.update(dict.fromkeys(own))
        key = {name: obj.values[name] for name in schema.layout.names}
        for other in objects:  # entries that the row had once
            entries.update(dict.fromkeys(every({**other.values, **key}, obj.row)))
    read = [entry for entry in entries if entry in made.scope]
    event(f"{min(len(read), 5)} entries read")
    accepts: Callable[[Values], bool] = made.accepts or (lambda values: True)
    of_all = EntryVerifier(made.reader.schema, index, made.reader, accepts, made.scope)
    of_asked = evolve(of_all, asked=made.entries_asked_for)
    assert verified(of_asked, read, rows) == verified(of_all, read, rows)


@pytest.mark.lengthy
@settings(max_examples=examples(150), deadline=None, suppress_health_check=UNHURRIED)
@given(st.data())
def test_entries_are_verified_as_if_all_of_the_row_were_made(data: st.DataObject) -> None:
    check(data)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@settings(max_examples=1_000, deadline=None, suppress_health_check=UNHURRIED)
@given(st.data())
def test_entries_are_verified_as_if_all_of_the_row_were_made_at_length(data: st.DataObject) -> None:
    check(data)


@hb.model(table="partial", family="d")
class Partial:
    number: hb.Key[int] = hb.key()
    rank: hb.Column[int] = hb.column("r")
    tags: hb.Column[list[str]] = hb.column("t", hb.Json(list[str]))
    by_rank = hb.index("rank", hb.each("tags"), where=lambda partial: partial.tags.contains("b"))


def test_a_condition_that_the_index_settles_leaves_out_no_entry() -> None:
    """The query reads the row's entries of other elements too, and finds the row at the first of them."""
    with hb.connect("memory:") as store:
        made = planned(hb.Session(store).query(Partial).where(Partial.tags.contains("b")).allow_full_scan(), "by_rank")
    values = {"number": 1, "rank": 1, "tags": ["b", "a"]}
    row = hb.row_key(Partial, number=1)
    schema = made.reader.schema
    assert made.entries_asked_for is not None
    assert made.entries_asked_for(values, row) == KeyMapper(schema).entries(schema.index("by_rank"), values, row)


@frozen
class Folded(TextCodec):
    """Text in lower case, whatever it is given: values that differ have the same bytes."""

    def encode(self, value: str) -> bytes:
        return TextCodec.encode(self, value.lower())


FOLDED = Folded()


@pytest.mark.lengthy
@settings(max_examples=examples(300), deadline=None)
@given(st.data())
def test_no_element_with_the_bytes_of_an_asked_one_is_left_out(data: st.DataObject) -> None:
    codec = data.draw(st.just(FOLDED) | st.sampled_from(KEY_CODECS)).exact
    values = st.sampled_from(["a", "A", "b", "B", ""]) if codec == FOLDED else values_of(codec)
    pool = data.draw(st.lists(values | st.none(), min_size=1, max_size=5))
    held = data.draw(st.lists(st.sampled_from(pool), max_size=8))
    asked = [
        None if one is None else codec.constant(one) for one in data.draw(st.lists(st.sampled_from(pool), max_size=3))
    ]
    fields = [KeyField("of", codec, desc=data.draw(st.booleans()), nullable=True), KeyField("key", hb.codecs.Int8)]
    layout = KeyLayout(tuple(fields) if codec.delimited or data.draw(st.booleans()) else (fields[0],))

    def pack(value: Any) -> bytes:
        return layout.pack_field(0, value)

    def stands_for(element: Any) -> bool:
        read = None if element is None else codec.decode(codec.encode(element))
        return pack(element) in {pack(one) for one in asked} or read in asked

    chosen = elements_asked_for(codec, asked, pack)
    assert chosen is not None
    wanted = [element for element in held if stands_for(element)]
    event("all" if len(wanted) == len(held) else "some")
    assert [element for element in chosen(held) if stands_for(element)] == wanted
    assert len(chosen(held)) <= len(held)
    if codec.canonical and codec != FOLDED:
        assert chosen(held) == wanted


def test_elements_that_cannot_be_told_apart_are_all_kept() -> None:
    def refuse(value: Any) -> bytes:
        raise hb.errors.EncodingError("It cannot be stored.")

    assert elements_asked_for(hb.Text, ["a"], refuse) is None
    pack = KeyLayout((KeyField("of", hb.Text, nullable=True),)).pack
    chosen = elements_asked_for(hb.Text, ["a"], lambda value: pack([value]))
    assert chosen is not None
    assert chosen(["a", "b", 7, ["a"]]) == ["a", 7, ["a"]], "the row's entries tell what is wrong with the others"


# --- the work of a hit ------------------------------------------------------------------------------------------------


MADE: list[bytes] = []
"""What counting salts were given."""

ENCODED: list[str] = []
"""What counting codecs encoded."""


@frozen
class CountingSalt(hb.HashSalt):
    """Notes the entries that are made: each has its bucket."""

    def bucket(self, data: bytes) -> int:
        MADE.append(data)
        return super().bucket(data)


@frozen
class CountingText(TextCodec):
    """Notes the values that are encoded."""

    def encode(self, value: str) -> bytes:
        ENCODED.append(value)
        return TextCodec.encode(self, value)


def entries_made(hint: Any, tags: Sequence[Any], *asked: Any) -> int:
    """How many entries a query for rows with any of some elements makes, for a row with these elements."""

    @hb.model(table="tagged", family="d")
    class Tagged:
        number: hb.Key[int] = hb.key()
        tags: hb.Column[list[hint]] = hb.column("t", hb.Json(list[hint]))
        by_tag = hb.index(hb.each("tags"), salt=CountingSalt(2, by=("number",)))

    with hb.connect("memory:") as store:
        hb.create_tables(store, Tagged)
        with hb.Session(store) as session:
            session.add(Tagged(number=1, tags=list(tags)))
        condition = Tagged.tags.contains(asked[0])
        for one in asked[1:]:
            condition |= Tagged.tags.contains(one)
        query = hb.Session(store).query(Tagged).where(condition)
        assert query.explain().path == "by_tag"
        MADE.clear()
        ENCODED.clear()
        assert [item.number for item in query] == [1]
        return len(MADE)


@pytest.mark.lengthy
@pytest.mark.parametrize(("hint", "tags"), [(str, list(map(str, range(MANY)))), (int, list(range(MANY)))])
def test_a_hit_makes_the_entries_asked_for_alone(hint: Any, tags: Sequence[Any]) -> None:
    assert entries_made(hint, tags, tags[7]) <= 4
    assert entries_made(hint, [*tags, tags[7]], tags[7], tags[9]) <= 8


@pytest.mark.lengthy
def test_elements_of_other_codecs_are_encoded_once_and_make_no_entry() -> None:
    assert entries_made(Annotated[str, CountingText()], list(map(str, range(MANY))), "7") <= 4
    assert len(ENCODED) <= MANY + 20
