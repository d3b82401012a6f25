"""Samples for advice hold the objects of a model, and neither deleted nor unreadable rows."""

from __future__ import annotations

from typing import Any

import pytest

import hbmodel as hb
from hbmodel.mapping.schema import schema_of
from hbmodel.store import Family, Put
from hbmodel.tables.advice.sampled_objects import sampled_objects
from tests.support.beds import Bed

WORDS = hb.ids.dictionary("sampled_words", hb.UInt32)


@hb.model(table="sampled_foreign", family="d", external=True)
class Foreign:
    number: hb.Key[int] = hb.key(hb.UInt32)
    owner: hb.Key[int] = hb.key(hb.UInt32)
    size: hb.Column[int | None] = hb.column("s", hb.UInt32, default=None)


@hb.model(table="sampled_wide", family="d", external=True)
class WideForeign:
    number: hb.Key[int] = hb.key(hb.UInt32)
    owner: hb.Key[int] = hb.key(hb.UInt32, in_qualifier=True)
    size: hb.Column[int] = hb.column("s", hb.UInt32)


@hb.model(table="sampled_indexed", family="d")
class Indexed:
    number: hb.Key[int] = hb.key(hb.UInt32)
    owner: hb.Key[int] = hb.key(hb.UInt32)
    name: hb.Column[str] = hb.column("n")

    by_name = hb.index("name")


@hb.model(table="sampled_named", family="d")
class Named:
    word: hb.Key[str] = hb.key(WORDS)
    number: hb.Key[int] = hb.key()
    other: hb.Column[str] = hb.column("o", WORDS)


def as_bytes(number: int) -> bytes:
    return number.to_bytes(4, "big")


def described(store: hb.Store, model: Any) -> tuple[int, int, int]:
    """Objects and unreadable ones in the sample, and the objects whose bytes are counted."""
    description = hb.describe(model, sample=store)
    assert description.sample is not None
    assert description.bytes is not None
    unreadable = description.sample.unreadable
    assert (f"{unreadable} more cannot be read" in str(description)) == bool(unreadable)
    return description.sample.objects, unreadable, description.bytes.objects


def test_unreadable_rows_are_no_objects(bed: Bed) -> None:
    bed.use(Foreign)
    key = as_bytes(1) + as_bytes(7)
    rows = {key: as_bytes(5), as_bytes(2) * 2: b"long text", b"short": as_bytes(5), as_bytes(3) * 2: as_bytes(6)}
    bed.store.put("sampled_foreign", [Put(row, {b"d:s": value}) for row, value in rows.items()])
    assert described(bed.store, Foreign) == (2, 2, 2)
    prefixes = {each.fields: each.rows for each in hb.describe(Foreign, sample=bed.store).prefixes}
    assert prefixes == {("number",): 3}  # three keys can be read


def test_cells_of_wide_rows_that_are_no_objects_are_unreadable(bed: Bed) -> None:
    bed.use(WideForeign)
    names = [as_bytes(1) + b"s", as_bytes(2) + b"s", b"abc"]
    bed.store.put("sampled_wide", [Put(as_bytes(1), {b"d:" + name: as_bytes(5) for name in names})])
    assert described(bed.store, WideForeign) == (2, 1, 2)


def test_deleted_rows_are_no_objects(bed: Bed) -> None:
    session = bed.use(Indexed)
    session.add_all(Indexed(number=n, owner=1, name=f"n{n}") for n in range(5))
    session.commit()
    session.delete_key(Indexed, number=3, owner=1)
    session.commit()
    assert described(bed.store, Indexed) == (4, 0, 4)


def test_rows_from_before_an_index_are_objects() -> None:
    with hb.connect("memory:") as store:
        store.create_table("sampled_indexed", [Family(b"d")])
        store.put("sampled_indexed", [Put(as_bytes(n) * 2, {b"d:n": b"x"}) for n in range(3)])
        assert len(sampled_objects(schema_of(Indexed), store).rows) == 3


@pytest.mark.parametrize("bed", ["memory", "embedded"], indirect=True)
def test_names_of_dictionaries_are_not_looked_up(bed: Bed) -> None:
    session = bed.use(Named)
    session.add_all(Named(word=f"w{n % 3}", number=n, other="x") for n in range(6))
    session.commit()
    assert described(bed.store, Named) == (6, 0, 6)


def test_an_empty_table_has_no_objects(bed: Bed) -> None:
    bed.use(Foreign)
    assert sampled_objects(schema_of(Foreign), bed.store).rows == []
