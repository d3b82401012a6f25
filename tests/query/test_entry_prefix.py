"""Queries that fix every field of an index: what follows the fixed part of an entry is the key of its row."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.protocol.writes import put_object
from hbmodel.query.match.planner import plan
from hbmodel.store import Put
from tests.support.beds import fresh


def initial(name: str) -> str:
    return name[:1]


def doubled(size: int | None) -> int:
    return 2 * (size or 0)


def declare(**options: Any) -> Any:
    @hb.model(table="prefixed", family="d", **options)
    class Thing:
        name: hb.Key[str] = hb.key()
        number: hb.Key[int] = hb.key(hb.codecs.UInt8, desc=True)
        tag: hb.Column[str] = hb.column("t")
        size: hb.Column[int | None] = hb.column("s", hb.codecs.Int8, default=None)

        initial = hb.computed(initial, of="name")
        doubled = hb.computed(doubled, of="size")

        by_tag = hb.index("tag")
        by_both = hb.index(hb.desc("size"), "tag")
        by_salted = hb.index("tag", salt=hb.HashSalt(3, by=("tag",)))
        by_spread = hb.index("tag", "size", salt=hb.HashSalt(3, by=("name",)))
        by_number = hb.index("tag", "number")
        by_initial = hb.index("initial")
        by_doubled = hb.index("doubled")
        sized = hb.index("size", skip_none=True)

    return Thing


PLAIN, SALTED = declare(), declare(salt=hb.HashSalt(2))
NAMES, TAGS, SIZES = ("a", "b", "ab", "\x00", "a\x00b"), ("x", "", "x\x00", "xy"), (None, -1, 0, 1)
THINGS = st.tuples(st.sampled_from(NAMES), st.integers(0, 2), st.sampled_from(TAGS), st.sampled_from(SIZES))


def fixed(model: Any, index: str, tag: str, size: int | None) -> Any:
    """The conditions that fix every field of an index."""
    wanted: Any = {
        "by_number": [model.tag == tag, model.number == 1],
        "by_initial": [model.initial == "a"],
        "by_doubled": [model.doubled == doubled(size)],
        "sized": [model.size == (0 if size is None else size)],
    }
    of_size = model.size.is_(None) if size is None else model.size == size
    return wanted.get(index, [model.tag == tag, of_size] if index in {"by_both", "by_spread"} else [model.tag == tag])


@pytest.mark.parametrize(
    ("index", "known"),
    [
        ("by_tag", True),
        ("by_both", True),
        ("by_salted", True),
        ("by_spread", False),
        ("by_number", False),
        ("by_initial", False),
        ("by_doubled", False),
        ("sized", False),
    ],
)
def test_it_is_known_where_the_rest_of_an_entry_is_the_row_key(index: str, known: bool) -> None:
    for model in (PLAIN, SALTED):
        query = hb.Session(fresh(model)).query(model).where(*fixed(model, index, "x", 1)).use_index(index)
        made = plan(query.terms, list(hb.schema.schema_of(model).indexes.values()), True, index)
        assert (made.entry_prefix is not None) == (known and model is PLAIN), index
    ranged = hb.Session(fresh(PLAIN)).query(PLAIN).where(PLAIN.tag == "x", PLAIN.name > "a").use_index("by_tag")
    several = hb.Session(fresh(PLAIN)).query(PLAIN).where(PLAIN.tag.in_(["x", "y"])).use_index("by_tag")
    indexes = list(hb.schema.schema_of(PLAIN).indexes.values())
    assert (
        plan(ranged.terms, indexes, True, "by_tag").entry_prefix
        == plan(ranged.where(PLAIN.name < "b").terms, indexes, True, "by_tag").entry_prefix
    )
    assert plan(several.terms, indexes, True, "by_tag").entry_prefix is None


@pytest.mark.lengthy
@given(st.lists(THINGS, max_size=8), st.lists(THINGS, max_size=4), st.sampled_from(TAGS), st.sampled_from(SIZES))
def test_every_index_finds_what_a_scan_does(
    things: list[tuple[Any, ...]], moved: list[tuple[Any, ...]], tag: str, size: int | None
) -> None:
    """Beside entries of rows as they were before."""
    for model in (PLAIN, SALTED):
        store = fresh(model)
        session = hb.Session(store)
        made = [model(name=name, number=number, tag=of, size=large) for name, number, of, large in things]
        session.add_all(made)
        session.commit()
        for name, number, of, large in moved:  # entries that stand for nothing, above whatever is deleted
            entries = put_object(
                hb.schema.schema_of(model), model(name=name, number=number, tag=of, size=large)
            ).entries
            for index in hb.schema.schema_of(model).indexes.values():
                store.put(
                    index.table, [Put(entry, {b"d:_v": b"\x01" + bytes(8)}, 2**50) for entry in entries[index.name]]
                )
        there = session.query(model).allow_full_scan().all()
        for index in hb.schema.schema_of(model).indexes:
            conditions = fixed(model, index, tag, size)
            by_scan = session.query(model).where(*conditions).use_index("primary").allow_full_scan().all()
            assert all(thing in there for thing in by_scan)
            by_index = session.query(model).where(*conditions).use_index(index)
            assert sorted(map(repr, by_index)) == sorted(map(repr, by_scan)), index
            assert sorted(map(repr, by_index.reversed())) == sorted(map(repr, by_scan)), index
