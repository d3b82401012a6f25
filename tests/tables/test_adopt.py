"""Adopting tables of other programs: every contradiction is found, and a table that fits has none."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.codecs import java, phoenix
from hbmodel.errors import DeclarationError, FamilyNotFound, SchemaMismatch, TableNotFound
from hbmodel.store import Delete, Family, Put
from hbmodel.store.ranges import KeyRange
from hbmodel.tables.adoption.adopt_findings import ABOUT, SUBJECTS
from hbmodel.tables.adoption.table_sample import CELLS, sampled_rows
from hbmodel.tables.registry.registry_table import Registry
from tests.support.beds import Bed
from tests.support.examples import examples

SALT = hb.HashSalt(4)


@hb.model(table="adoptee", family="d", external=True, salt=SALT)
class Reading:
    sensor: hb.Key[str] = hb.key()
    number: hb.Key[int] = hb.key(hb.UInt32)
    level: hb.Column[int] = hb.column("l", java.Long)
    note: hb.Column[str | None] = hb.column("n", default=None)
    tags: hb.Column[list[str]] = hb.column("t", hb.Json(list[str]), factory=list)
    flags: hb.Column[bytes] = hb.column("f", hb.Bytes(2), default=b"\0\0")


def row_of(sensor: str, number: int) -> bytes:
    """The row key, as another program computes it."""
    return hb.row_key(Reading, sensor=sensor, number=number)


LEVEL = (7).to_bytes(8, "big", signed=True)

GOOD: Mapping[bytes, bytes] = {b"d:l": LEVEL, b"d:n": b"n", b"d:t": b'["a"]', b"d:f": b"\1\0"}


def fresh_table(store: hb.Store, table: str = "adoptee", family: Family | None = None) -> None:
    """An empty table that nothing has registered."""
    for name in store.tables():
        store.delete_table(name)
    store.create_table(table, [family or Family(b"d")])


def forget_adoptee(store: hb.Store) -> None:
    """Removes the table and its entry in the registry, whichever of them there is."""
    with suppress(TableNotFound):
        hb.tables.forget(store, "adoptee", existing=True)
    with suppress(TableNotFound):
        store.delete_table("adoptee")


def fill(store: hb.Store, rows: int = 30) -> None:
    """Rows that fit."""
    store.put("adoptee", [Put(row_of(f"s{number % 3}", number), GOOD) for number in range(rows)])


@pytest.mark.lengthy
def test_a_table_that_fits_is_adopted(bed: Bed) -> None:
    store = bed.store
    if bed.real:
        forget_adoptee(store)
        splits = [b"\1", b"\2", b"\3"] if store.capabilities.presplit else []
        store.create_table("adoptee", [Family(b"d")], splits)
    else:
        fresh_table(store)
    fill(store, 300)
    bare = {b"d:l": LEVEL}
    store.put("adoptee", [Put(row_of("bare", 1), bare)])
    adoption = hb.tables.adopt(store, Reading, sample=100)
    assert [str(finding) for finding in adoption.findings if not finding.note] == []
    assert adoption.adopted
    assert adoption.creation is not None
    assert 90 <= adoption.rows <= 140
    assert (adoption.objects, adoption.unreadable, adoption.absent) == (adoption.rows, 0, 0)
    assert hb.Session(store).query(Reading).allow_full_scan().count() == 301
    again = hb.tables.adopt(store, Reading, sample=1000)
    assert (again.rows, again.objects, again.adopted) == (301, 301, True)


# --- one contradiction in one row -------------------------------------------------------------------------------------

KEY = row_of("x", 1)
NOW = int(time.time() * 1000)


def with_cells(**cells: bytes) -> Put:
    """A row that fits but for some cells."""
    return Put(KEY, {**GOOD, **{b"d:" + name.encode(): value for name, value in cells.items()}})


PLANTED: dict[str, tuple[Put, set[str]]] = {
    "a key too short": (Put(KEY[:-1], GOOD), {"key:number"}),
    "a key too long": (Put(KEY + b"\0", GOOD), {"key:number"}),
    "text that is no UTF-8 in a key": (Put(b"\1\xff\0\1" + bytes(4), GOOD), {"key:sensor"}),
    "no bucket": (Put(KEY[1:], GOOD), {"bucket"}),
    "another bucket": (Put(bytes([KEY[0] ^ 1]) + KEY[1:], GOOD), {"bucket"}),
    "a bucket beyond the last": (Put(b"\x09" + KEY[1:], GOOD), {"bucket"}),
    "a number too short": (with_cells(l=LEVEL[1:]), {"value:level"}),
    "a number as text": (with_cells(l=b"7"), {"value:level"}),
    "an empty number": (with_cells(l=b""), {"value:level"}),
    "bytes of another width": (with_cells(f=b"\1"), {"value:flags"}),
    "text that is no UTF-8": (with_cells(n=b"\xff"), {"value:note"}),
    "no JSON": (with_cells(t=b"a,b"), {"value:tags"}),
    "JSON of other values": (with_cells(t=b"[1]"), {"value:tags"}),
    "no required column": (Put(KEY, {b"d:n": b"n"}), {"required:level"}),
    "other columns only": (Put(KEY, {b"d:x": b"n"}), {"required:level", "undeclared:d:x"}),
    "a column more": (with_cells(x=b"1"), {"undeclared:d:x"}),
    "a name that is no text": (Put(KEY, {**GOOD, b"d:\0 \\": b""}), {"undeclared:d:\\x00\\x20\\x5c"}),
    "a time to come": (Put(KEY, GOOD, NOW + 3_600_000), {"future:d"}),
    "microseconds": (Put(KEY, GOOD, NOW * 1000), {"no-milliseconds:d"}),
    "a liveness cell": (with_cells(_l=b"\1"), {"system-cell:d:_l"}),
    "a deleted row of hbmodel": (
        Put(KEY, {b"d:_l": b"\0" * 9, b"d:_v": bytes(9)}),
        {"system-cell:d:_l", "system-cell:d:_v"},
    ),
}


@pytest.mark.parametrize("bed", ["memory", "embedded"], indirect=True)
@pytest.mark.parametrize("planted", PLANTED.values(), ids=list(PLANTED))
def test_each_contradiction_is_found(bed: Bed, planted: tuple[Put, set[str]]) -> None:
    put, expected = planted
    fresh_table(bed.store)
    fill(bed.store)
    bed.store.put("adoptee", [put])
    adoption = hb.tables.adopt(bed.store, Reading)
    names = {finding.name for finding in adoption.open}
    assert names == expected
    assert not adoption.adopted
    first = next(finding for finding in adoption.open if finding.name in expected)
    assert first.key == put.row
    assert first.count >= 1
    assert str(first).startswith(f"! {first.name}: ")
    assert adoption.rows == 31
    assert adoption.objects + adoption.unreadable + adoption.absent == adoption.rows
    assert "adoptee" in str(adoption)
    assert str(first) in str(adoption)
    assert "hbmodel" not in bed.store.tables()
    accepted = hb.tables.adopt(bed.store, Reading, accept=names)
    _, *lines = str(accepted).splitlines()
    assert [line.endswith("(accepted)") for line in lines] == [not finding.note for finding in accepted.findings]
    assert accepted.adopted
    assert {f.name for f in accepted.findings} >= names
    assert Registry(bed.store).bind(hb.schema.schema_of(Reading)) is not None


def test_findings_on_hbase_are_those_of_a_local_store(hbase_bed: Bed) -> None:
    puts = [put for put, _ in PLANTED.values()]
    for at, put in enumerate(puts):
        if put.row == KEY:
            puts[at] = Put(row_of("x", at), put.cells, put.timestamp)
    with hb.connect("memory:") as local:
        for store in (local, hbase_bed.store):
            if store is local:
                fresh_table(store)
            else:
                forget_adoptee(store)
                store.create_table("adoptee", [Family(b"d")])
            fill(store)
            store.put("adoptee", puts)
        there, here = (hb.tables.adopt(store, Reading) for store in (hbase_bed.store, local))
    forget_adoptee(hbase_bed.store)

    def told(adoption: hb.tables.Adoption) -> list[tuple[Any, ...]]:
        return [(f.name, f.count, f.key, f.found) for f in adoption.findings if not f.note]

    assert told(there) == told(here)
    assert (there.rows, there.objects, there.unreadable) == (here.rows, here.objects, here.unreadable)


@hb.model(table="adoptee", family="d", external=True)
class Parts:
    a: hb.Key[str] = hb.key(phoenix.Varchar)
    b: hb.Key[str] = hb.key(phoenix.Varchar)
    c: hb.Key[str] = hb.key()
    text: hb.Column[str | None] = hb.column("t", default=None)


@hb.model(table="adoptee", family="d", external=True)
class Whole:
    key: hb.Key[bytes] = hb.key()
    text: hb.Column[str | None] = hb.column("t", default=None)


PHOENIX_KEYS = [b"a", b"a\0b", b"a\0b\0c", b"a\0\0c"]
"""Keys of three columns, of which NULLs stand at the end: Phoenix writes no separators for these."""


@pytest.mark.parametrize("key", PHOENIX_KEYS[:2])
def test_keys_without_their_last_fields_are_refused(bed: Bed, key: bytes) -> None:
    fresh = bed.store
    forget_adoptee(fresh)
    fresh.create_table("adoptee", [Family(b"d")])
    fresh.put("adoptee", [Put(each, {b"d:t": b"1"}) for each in (key, PHOENIX_KEYS[2], PHOENIX_KEYS[3])])
    adoption = hb.tables.adopt(fresh, Parts)
    assert [(f.name, f.count, f.key) for f in adoption.open] == [(f"key:{'a' if key == b'a' else 'b'}", 1, key)]
    with pytest.raises(SchemaMismatch, match="Rows of the external table contradict the model"):
        hb.create_tables(fresh, Parts)
    assert hb.tables.adopt(fresh, Whole).adopted
    forget_adoptee(fresh)


# --- keys whose bytes differ, rows without columns, families ----------------------------------------------------------


@hb.model(table="adoptee", family="d", external=True)
class Loose:
    name: hb.Key[str] = hb.key()
    text: hb.Column[str | None] = hb.column("t", default=None)


@hb.model(table="adoptee", family="d", external=True, exists=hb.flag("_0", b"x"))
class Flagged:
    name: hb.Key[str] = hb.key()
    text: hb.Column[str | None] = hb.column("t", default=None)


def test_rows_without_declared_cells() -> None:
    with hb.connect("memory:") as store:
        fresh_table(store)
        store.put("adoptee", [Put(b"a", {b"d:t": b"1"}), Put(b"b", {b"d:_0": b"x"}), Put(b"c", {b"d:t": b"2"})])
        loose = hb.tables.adopt(store, Loose)
        assert [(f.name, f.count, f.key) for f in loose.open] == [
            ("no-column", 1, b"b"),
            ("undeclared:d:_0", 1, b"b"),
        ]
        flagged = hb.tables.adopt(store, Flagged)
        assert [(f.name, f.count, f.key) for f in flagged.open] == [("no-object", 2, b"a")]
        assert (flagged.rows, flagged.objects, flagged.absent) == (3, 1, 2)


def test_a_value_in_another_form_is_a_note() -> None:
    with hb.connect("memory:") as store:
        fresh_table(store)
        store.put("adoptee", [Put(KEY, {**GOOD, b"d:t": b'[ "a" ]'})])
        adoption = hb.tables.adopt(store, Reading)
        (note,) = adoption.findings
        assert (note.name, note.note, adoption.adopted) == ("value-form:tags", True, True)
        assert str(note).startswith("~ value-form:tags: 1: ")


class Lenient(hb.Codec[int]):
    """Reads numbers with leading zeros, and writes none: what a careless codec does."""

    python_type = int
    key = False
    order = None
    raw_order = None

    @property
    def canonical(self) -> bool:
        return True

    @property
    def spec(self) -> dict[str, Any]:
        return {"codec": "lenient"}

    def encode(self, value: int) -> bytes:
        return b"%d" % value

    def decode(self, data: bytes) -> int:
        return int(data)


def test_a_value_that_is_written_with_other_bytes() -> None:
    @hb.model(table="adoptee", family="d", external=True)
    class Numbered:
        name: hb.Key[str] = hb.key()
        number: hb.Column[int] = hb.column("n", Lenient())

    with hb.connect("memory:") as store:
        fresh_table(store)
        store.put("adoptee", [Put(b"a", {b"d:n": b"007"}), Put(b"b", {b"d:n": b"7"})])
        (found,) = hb.tables.adopt(store, Numbered).open
        assert (found.name, found.count, found.found, found.detail) == ("value-bytes:number", 1, b"007", "written=b'7'")


def test_families_with_a_ttl_or_versions_are_notes() -> None:
    with hb.connect("memory:") as store:
        fresh_table(store, family=Family(b"d", ttl=86_400, max_versions=3))
        fill(store)
        adoption = hb.tables.adopt(store, Reading)
        assert [(f.name, f.note, f.detail) for f in adoption.findings] == [
            ("family-ttl:d", True, "ttl=86400 s"),
            ("family-versions:d", True, "max_versions=3"),
        ]
        assert adoption.adopted


# --- rows of other models in the same table ---------------------------------------------------------------------------


@hb.model(table="adoptee", family="d", external=True)
class Message:
    user: hb.Key[str] = hb.key(hb.codecs.Delimited("!"))
    number: hb.Key[int] = hb.key(hb.UInt32)
    text: hb.Column[str] = hb.column("t")


@hb.model(table="adoptee", family="e", external=True)
class Unread:
    user: hb.Key[str] = hb.key()
    unread: hb.Column[int] = hb.counter("u")


@hb.model(table="adoptee", family="f", external=True)
class Label:
    user: hb.Key[str] = hb.key(hb.codecs.Delimited("!"))
    number: hb.Key[int] = hb.key(hb.UInt32)
    label: hb.Key[str] = hb.key(in_qualifier=True)
    colour: hb.Column[str] = hb.column("")


def test_rows_in_other_families_are_not_judged(bed: Bed) -> None:
    """Reads do not return them, so they contradict nothing: they may have other keys and lack every column."""
    store = bed.store
    forget_adoptee(store)
    store.create_table("adoptee", [Family(b"d"), Family(b"e"), Family(b"f")])
    first, second = (hb.row_key(Message, user="ann", number=number) for number in (1, 2))
    store.put("adoptee", [Put(first, {b"d:t": b"1", b"f:work": b"red"}), Put(second, {b"d:t": b"2"})])
    store.put("adoptee", [Put(b"ann", {b"e:u": bytes(8), b"e:_l": b"\1"}), Put(b"bob!\0\0\0\3", {b"f:home": b"blue"})])
    for model, objects, undeclared in ((Message, 2, "ef"), (Unread, 1, "f"), (Label, 2, "e"), (Message, 2, "e")):
        adoption = hb.tables.adopt(store, model)
        others = [f"family-undeclared:{family}" for family in undeclared]
        known = ["system-cell:e:_l"] if model is Unread else []
        assert [finding.name for finding in adoption.findings] == known + others, "registered models declare the rest"
        assert (adoption.rows, adoption.objects, adoption.unreadable, adoption.absent) == (objects, objects, 0, 0)
        assert adoption.adopted == (not known)
        assert len(hb.Session(store).query(model).allow_full_scan().all()) == objects
    forget_adoptee(store)


def test_creating_judges_no_rows_in_other_families() -> None:
    with hb.connect("memory:") as store:
        store.create_table("adoptee", [Family(b"d"), Family(b"e")])
        store.put("adoptee", [Put(b"ann", {b"e:u": bytes(8)}), Put(b"ann!\0\0\0\1", {b"d:t": b"1"})])
        hb.create_tables(store, Message, Unread)
        assert hb.Session(store).get(Unread, user="ann") is not None
        assert hb.Session(store).query(Message).where(Message.user == "ann").count() == 1


def test_keys_of_rows_that_are_no_objects_are_not_judged() -> None:
    """Queries leave such rows out before they read the keys."""

    @hb.model(table="adoptee", family="d", external=True, exists="text", salt=SALT)
    class Shown:
        user: hb.Key[str] = hb.key(hb.codecs.Delimited("!"))
        number: hb.Key[int] = hb.key(hb.UInt32)
        text: hb.Column[str] = hb.column("t")

    with hb.connect("memory:") as store:
        fresh_table(store)
        good = hb.row_key(Shown, user="ann", number=1)
        wrong_bucket = bytes([good[0] ^ 1]) + good[1:]
        store.put(
            "adoptee", [Put(good, {b"d:t": b"1"}), Put(b"\1ann", {b"d:u": b"x"}), Put(wrong_bucket, {b"d:u": b"x"})]
        )
        adoption = hb.tables.adopt(store, Shown)
        assert [(finding.name, finding.count) for finding in adoption.findings] == [("no-object", 2)]
        assert (adoption.objects, adoption.unreadable, adoption.absent) == (1, 0, 2)
        hb.create_tables(store, Shown)
        assert hb.Session(store).query(Shown).allow_full_scan().count() == 1


def test_many_undeclared_columns_are_few_findings() -> None:
    with hb.connect("memory:") as store:
        fresh_table(store)
        store.put("adoptee", [Put(KEY, {**GOOD, **{b"d:x%04d" % at: b"" for at in range(100)}})])
        found = hb.tables.adopt(store, Reading).open
        assert len(found) == SUBJECTS + 1
        assert sum(each.count for each in found) == 100
        assert hb.tables.adopt(store, Reading, accept=["undeclared"]).adopted


def test_a_row_of_very_many_cells_is_read_in_part() -> None:
    with hb.connect("memory:") as store:
        fresh_table(store)
        store.put("adoptee", [Put(KEY, {**GOOD, **{b"d:a%05d" % at: b"" for at in range(CELLS + 10)}})])
        adoption = hb.tables.adopt(store, Reading)
        assert {f.kind for f in adoption.open} == {"undeclared"}
        assert sum(f.count for f in adoption.open) == CELLS
        assert adoption.objects == 1


# --- wide rows --------------------------------------------------------------------------------------------------------


@hb.model(table="adoptee", family="d", external=True)
class Point:
    metric: hb.Key[int] = hb.key(hb.UInt32)
    offset: hb.Key[int] = hb.key(hb.UInt32, in_qualifier=True)
    value: hb.Column[int] = hb.column("", java.Long)


@hb.model(table="adoptee", family="d", external=True, row=b"pets", kind=b"p")
class Pet:
    name: hb.Key[str] = hb.key(in_qualifier=True)
    age: hb.Column[int] = hb.column("a", java.Long)
    city: hb.Column[str | None] = hb.column("c", default=None)


def test_wide_rows() -> None:
    with hb.connect("memory:") as store:
        fresh_table(store)
        good = {b"d:" + offset.to_bytes(4, "big"): LEVEL for offset in range(5)}
        store.put("adoptee", [Put(metric.to_bytes(4, "big"), good) for metric in range(10)])
        adoption = hb.tables.adopt(store, Point)
        assert (adoption.findings, adoption.rows, adoption.objects) == ([], 10, 50)
    with hb.connect("memory:") as store:
        fresh_table(store)
        store.put("adoptee", [Put(metric.to_bytes(4, "big"), good) for metric in range(10)])
        bad = {b"d:\0\1": LEVEL, b"d:\0\0\0\7\0": LEVEL, b"d:\0\0\0\x08": b"8"}
        store.put("adoptee", [Put(b"\0\0\0\3", bad), Put(b"no", {b"d:\0\0\0\1": LEVEL})])
        adoption = hb.tables.adopt(store, Point)
        assert [(f.name, f.count, f.key) for f in adoption.open] == [
            ("key:metric", 1, b"no"),
            ("value:value", 1, b"\0\0\0\3"),
            ("qualifier", 2, b"\0\0\0\3"),
        ]
        assert (adoption.rows, adoption.objects, adoption.unreadable) == (11, 50, 2)
        with pytest.raises(SchemaMismatch, match="Rows of the external table contradict the model") as raised:
            hb.create_tables(store, Point)
        assert "! qualifier: 2: " in str(raised.value)
        assert raised.value.table == "adoptee"


@hb.model(table="adoptee", family="d", external=True)
class Attribute:
    k: hb.Key[str] = hb.key()
    name: hb.Key[str] = hb.key(in_qualifier=True)
    value: hb.Column[str] = hb.column("")


def test_a_cell_with_an_empty_qualifier_is_left_out(bed: Bed) -> None:
    """It is a finding that must be accepted, because neither reads nor deletes meet the cell."""
    store = bed.store
    if bed.real:
        forget_adoptee(store)
        store.create_table("adoptee", [Family(b"d")])
    else:
        fresh_table(store)
    store.put("adoptee", [Put(b"1", {b"d:": b"none", b"d:a": b"x"}), Put(b"2", {b"d:": b"only"})])
    adoption = hb.tables.adopt(store, Attribute)
    assert [(f.name, f.count, f.key, f.found) for f in adoption.open] == [("empty-qualifier", 2, b"1", b"none")]
    assert "reads and deletes of objects leave the cell out" in adoption.open[0].what
    assert (adoption.objects, adoption.unreadable, adoption.adopted) == (1, 0, False)
    with pytest.raises(hb.SchemaMismatch, match="Rows of the external table contradict the model"):
        hb.create_tables(store, Attribute)
    assert hb.tables.adopt(store, Attribute, accept=["empty-qualifier"]).adopted
    session = hb.Session(store)
    assert session.query(Attribute).allow_full_scan().all() == [Attribute(k="1", name="a", value="x")]
    assert session.query(Attribute).allow_full_scan().count() == 1
    assert session.query(Attribute).where(Attribute.k == "2").all() == []
    for key in "12":
        session.query(Attribute).where(Attribute.k == key).delete()
    found = store.get("adoptee", [b"1", b"2"])
    assert [None if row is None else {name: cell.value for name, cell in row.columns.items()} for row in found] == [
        {b"d:": b"none"},
        {b"d:": b"only"},
    ]


def test_one_row_for_all_objects() -> None:
    with hb.connect("memory:") as store:
        fresh_table(store)
        pets = {b"d:prex\0\1a": LEVEL, b"d:prex\0\1c": b"Oslo", b"d:pada\0\1a": LEVEL}
        store.put("adoptee", [Put(b"pets", pets)])
        assert hb.tables.adopt(store, Pet).findings == []
        store.put("adoptee", [Put(b"pets", {b"d:pbob\0\1c": b"Rom", b"d:qother": b"", b"d:prex\0\1z": b"?"})])
        store.put("adoptee", [Put(b"cats", pets)])
        adoption = hb.tables.adopt(store, Pet)
        assert {(f.name, f.count) for f in adoption.open} == {
            ("other-row", 1),
            ("no-object", 1),
            ("undeclared:d:z", 1),
        }
        assert (adoption.rows, adoption.objects, adoption.unreadable, adoption.absent) == (2, 2, 0, 2)


def test_wide_rows_of_very_many_cells_are_read_in_part() -> None:
    with hb.connect("memory:") as store:
        fresh_table(store)
        cells = {b"d:pn%06d\0\1%s" % (at, alias): LEVEL for at in range(CELLS) for alias in (b"a", b"c")}
        store.put("adoptee", [Put(b"pets", {b"d:p\0\1a": LEVEL, **cells})])
        adoption = hb.tables.adopt(store, Pet)
        assert adoption.findings == []
        assert adoption.objects == (CELLS + 1) // 2


# --- what is refused --------------------------------------------------------------------------------------------------


def test_what_adopt_refuses() -> None:
    @hb.model(table="adoptee", family="d")
    class Own:
        name: hb.Key[str] = hb.key()
        text: hb.Column[str] = hb.column("t")

    @hb.model(table="adoptee", family="e", external=True)
    class OtherFamily:
        name: hb.Key[str] = hb.key()
        text: hb.Column[str] = hb.column("t")

    with hb.connect("memory:") as store:
        with pytest.raises(TableNotFound, match="There is no such table to adopt"):
            hb.tables.adopt(store, Loose)
        fresh_table(store)
        with pytest.raises(DeclarationError, match="Only tables that other programs write are adopted"):
            hb.tables.adopt(store, Own)
        with pytest.raises(DeclarationError, match="There is no such kind of finding") as raised:
            hb.tables.adopt(store, Loose, accept=["undeclred:d:x"])
        assert "undeclared" in raised.value.known
        for sample in (0, -1, 1.5, True, "9"):
            with pytest.raises(DeclarationError, match="sample must be a whole number"):
                hb.tables.adopt(store, Loose, sample=sample)  # type: ignore[arg-type]
        with pytest.raises(FamilyNotFound):
            hb.tables.adopt(store, OtherFamily)
        assert store.tables() == ["adoptee"]
        assert hb.tables.adopt(store, Loose).adopted  # an empty table contradicts nothing


def test_creating_judges_a_few_rows_once() -> None:
    with hb.connect("memory:") as store:
        fresh_table(store)
        fill(store)
        wrong = bytes([KEY[0] ^ 1]) + KEY[1:]
        store.put("adoptee", [Put(wrong, GOOD)])
        with pytest.raises(SchemaMismatch, match=r"hb\.tables\.adopt\(store, Model\)") as raised:
            hb.create_tables(store, Reading)
        assert "! bucket: 1: " in str(raised.value)
        assert store.tables() == ["adoptee"]
        store.delete("adoptee", [Delete(wrong)])
        hb.create_tables(store, Reading)
        store.put("adoptee", [Put(wrong, GOOD)])
        hb.create_tables(store, Reading)  # it is registered: rows are not judged at each start of a program


def test_rows_that_another_model_gives_system_cells() -> None:
    """The registry knows of them, so they are no finding."""

    @hb.model(table="adoptee", family="d")
    class Indexed:
        name: hb.Key[str] = hb.key()
        text: hb.Column[str] = hb.column("t")
        by_text = hb.index("text")

    @hb.model(table="adoptee", family="d", external=True)
    class Read:
        name: hb.Key[str] = hb.key()
        text: hb.Column[str] = hb.column("t")

    with hb.connect("memory:") as store:
        hb.create_tables(store, Indexed)
        with hb.Session(store) as session:
            session.add(Indexed(name="a", text="b"))
            session.add(Indexed(name="c", text="d"))
        with hb.Session(store) as session:
            session.delete(Indexed(name="c", text="d"))
        adoption = hb.tables.adopt(store, Read)
        assert [f.name for f in adoption.open] == []
        assert (adoption.rows, adoption.objects, adoption.absent) == (2, 1, 1)


# --- a table that does not exist --------------------------------------------------------------------------------------


@hb.model(table="adopted_missing", family="d", external=True, immutable=True)
class Missing:
    name: hb.Key[str] = hb.key()
    text: hb.Column[str] = hb.column("t")

    by_text = hb.index("text")


@hb.model(table="adopted_beside", family="d")
class Beside:
    name: hb.Key[str] = hb.key()
    text: hb.Column[str] = hb.column("t")


def test_the_table_of_an_external_model_must_exist(bed: Bed) -> None:
    store = bed.store
    names = {"adopted_missing", "adopted_missing.by_text", "adopted_beside", "adopted_mising"}
    for name in names.intersection(store.tables()):
        store.delete_table(name)
    for model in (Missing, Beside):
        if "hbmodel" in store.tables() and Registry(store).read(hb.schema.schema_of(model)) is not None:
            hb.tables.forget(store, hb.schema.schema_of(model).table)
    store.create_table("adopted_mising", [Family(b"d")])
    before = store.tables()
    with pytest.raises(TableNotFound, match="The table of an external model does not exist") as raised:
        hb.create_tables(store, Beside, Missing)
    assert (raised.value.table, raised.value.known[0]) == ("adopted_missing", "adopted_mising")
    assert "create_external=True" in str(raised.value)
    assert store.tables() == before
    refused = [line for line in str(hb.diff(store, Beside, Missing)).splitlines() if line.startswith("!")]
    assert len(refused) == 1
    assert refused[0].startswith("! adopted_missing: table: missing (another program creates the table")
    with pytest.raises(SchemaMismatch):
        hb.alter(store, Beside, Missing)
    assert store.tables() == before
    store.create_table("adopted_missing", [Family(b"d")])
    hb.create_tables(store, Beside, Missing)  # the index is hbmodel's own
    assert names - {"adopted_missing.by_text"} <= set(store.tables())
    store.delete_table("adopted_mising")


@hb.model(table="adoptee", family="d", external=True)
class Guess:
    name: hb.Key[str] = hb.key()
    count: hb.Column[int | None] = hb.column("c", hb.Int32, default=None)


@hb.model(table="adoptee", family="d", external=True)
class Known:
    name: hb.Key[str] = hb.key()
    count: hb.Column[int | None] = hb.column("c", java.Int, default=None)


@pytest.mark.parametrize("bed", ["memory", "embedded"], indirect=True)
def test_the_error_for_a_wrong_guess_says_how_to_register_another_one(bed: Bed) -> None:
    store = bed.store
    fresh_table(store)
    hb.create_tables(store, Guess)
    store.put("adoptee", [Put(b"a", {b"d:c": b"\0\0\0\1"})])
    before = store.families("adoptee")
    for call in (hb.create_tables, hb.tables.adopt, lambda store, model: hb.Session(store).get(model, name="a")):
        with pytest.raises(SchemaMismatch, match=r"hb.tables.forget\(store, table, existing=True\)") as raised:
            call(store, Known)
        assert "migrate" not in str(raised.value)
    (refused,) = [each for each in hb.diff(store, Known) if each.effect == "refused"]
    assert "hb.tables.forget(store, table, existing=True)" in str(refused)
    hb.tables.forget(store, "adoptee", existing=True)
    assert hb.tables.adopt(store, Known).adopted
    assert store.families("adoptee") == before
    assert hb.Session(store).get(Known, name="a") == Known(name="a", count=1)


def test_a_missing_table_is_named_before_a_missing_namespace(bed: Bed) -> None:
    @hb.model(table="adopted_nowhere:t", family="d", external=True)
    class Nowhere:
        name: hb.Key[str] = hb.key()
        text: hb.Column[str] = hb.column("t")

    before = bed.store.tables()
    with pytest.raises(TableNotFound, match="The table of an external model does not exist") as raised:
        hb.create_tables(bed.store, Nowhere)
    assert raised.value.table == "adopted_nowhere:t"
    assert bed.store.tables() == before


def test_a_program_may_create_the_table_of_an_external_model() -> None:
    with hb.connect("memory:") as store:
        assert hb.create_tables(store, Missing, create_external=True).created == [
            "hbmodel",
            "adopted_missing.by_text",
            "adopted_missing",
        ]
        assert hb.diff(store, Missing).differences == ()


def test_a_table_that_another_model_shares_is_created() -> None:
    @hb.model(table="adopted_beside", family="e", external=True)
    class Other:
        name: hb.Key[str] = hb.key()
        text: hb.Column[str] = hb.column("t")

    with hb.connect("memory:") as store:
        hb.create_tables(store, Beside, Other)
        assert [family.name for family in store.families("adopted_beside")] == [b"d", b"e"]


# --- the sample -------------------------------------------------------------------------------------------------------


@pytest.mark.lengthy
@settings(max_examples=examples(60), deadline=None)
@given(
    rows=st.sets(st.binary(min_size=1, max_size=4), max_size=60),
    splits=st.sets(st.binary(min_size=1, max_size=2), max_size=6),
    count=st.integers(1, 80),
)
def test_samples_have_each_row_once_from_every_region(rows: set[bytes], splits: set[bytes], count: int) -> None:
    with hb.connect("memory:") as store:
        store.create_table("t", [Family(b"d")], sorted(splits))
        if rows:
            store.put("t", [Put(row, {b"d:": row}) for row in rows])
        read = [row.row for row in sampled_rows(store, "t", count)]
        assert len(read) == len(set(read))
        assert set(read) <= rows
        if count >= 3 * (len(splits) + 1):
            for region in store.regions("t"):
                within = sorted(row for row in rows if row in _Range(region.range))
                if within:
                    assert {within[0], within[-1]} <= set(read)
        if count >= 3 * len(rows) * (len(splits) + 1):
            assert set(read) == rows


class _Range:
    def __init__(self, range: KeyRange) -> None:
        self._range = range

    def __contains__(self, row: bytes) -> bool:
        return row >= self._range.start and (self._range.stop is None or row < self._range.stop)


# --- any bytes at all -------------------------------------------------------------------------------------------------

CELLS_DRAWN = st.dictionaries(
    st.sampled_from([b"d:l", b"d:n", b"d:t", b"d:f", b"d:x", b"e:x"]),
    st.one_of(st.sampled_from([LEVEL, b"", b"a", b"[]", b'["b"]', b"\1\0", b"\xff"]), st.binary(max_size=9)),
    min_size=1,
)

KEYS_DRAWN: st.SearchStrategy[bytes] = st.one_of(
    st.builds(row_of, st.text(max_size=2), st.integers(0, 2**32 - 1)), st.binary(min_size=1, max_size=9)
)


@hb.model(table="adoptee", family="d", external=True, salt=SALT, exists="level")
class Levelled:
    sensor: hb.Key[str] = hb.key()
    number: hb.Key[int] = hb.key(hb.UInt32)
    level: hb.Column[int] = hb.column("l", java.Long)
    note: hb.Column[str | None] = hb.column("n", default=None)
    tags: hb.Column[list[str]] = hb.column("t", hb.Json(list[str]), factory=list)
    flags: hb.Column[bytes] = hb.column("f", hb.Bytes(2), default=b"\0\0")


@pytest.mark.lengthy
@settings(max_examples=examples(200), deadline=None)
@given(st.dictionaries(KEYS_DRAWN, CELLS_DRAWN, max_size=6), st.sampled_from([Reading, Levelled]))
def test_every_row_is_accounted_for_as_queries_do(rows: dict[bytes, dict[bytes, bytes]], model: type[Any]) -> None:
    with hb.connect("memory:") as store:
        store.create_table("adoptee", [Family(b"d"), Family(b"e")])
        if rows:
            store.put("adoptee", [Put(row, cells) for row, cells in rows.items()])
        kinds = list(ABOUT)
        adoption = hb.tables.adopt(store, model, accept=kinds)
        assert adoption.adopted
        errors: list[object] = []
        query = hb.Session(store).query(model).allow_full_scan().on_unreadable(errors.append)
        objects = query.all()
        read = {row: cells for row, cells in rows.items() if any(column.startswith(b"d:") for column in cells)}
        shown = read if model is Reading else [row for row, cells in read.items() if b"d:l" in cells]
        beyond = sum(row[0] >= SALT.buckets for row in shown)  # no query reads these buckets
        assert (adoption.objects, adoption.unreadable) == (len(objects), len(errors) + beyond)
        assert adoption.objects + adoption.unreadable + adoption.absent == adoption.rows == len(read)


def test_the_page_lists_every_kind() -> None:
    page = (Path(__file__).parents[2] / "docs" / "external-tables.md").read_text(encoding="utf-8")
    assert [line.split("`")[1] for line in page.splitlines() if line.startswith("| `") and line.count("|") == 4][
        : len(ABOUT)
    ] == list(ABOUT)
