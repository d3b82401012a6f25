"""Which regions a model can reach, and where rows fall."""

from __future__ import annotations

import hashlib
from datetime import UTC, date, datetime, timedelta
from functools import cache
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.store import Region
from hbmodel.store.ranges import KeyRange
from hbmodel.tables.creation.live_regions import RegionUse, check_regions, first_key
from hbmodel.tables.creation.split_strategies import AtKeys, ByBucket, Hexadecimal, split_keys

HEX = b"0123456789abcdef"


@hb.model(table="digests")
class Digest:
    digest: hb.Key[str] = hb.key()
    value: hb.Column[int] = hb.column("v")


@hb.model(table="buckets", salt=hb.HashSalt(4))
class Bucketed:
    number: hb.Key[int] = hb.key(hb.UInt32)
    value: hb.Column[int] = hb.column("v")


DIGESTS = [Digest(digest=hashlib.md5(bytes(str(n), "ascii")).hexdigest(), value=n) for n in range(500)]


def bytes_split(low: bytes, high: bytes, regions: int) -> list[bytes]:
    """The split keys of HBase's `Bytes.split`: evenly spaced numbers, regardless of the meaning of the bytes."""
    first, last = int.from_bytes(low, "big"), int.from_bytes(high, "big")
    return [(first + (last - first) * n // regions).to_bytes(len(low), "big") for n in range(1, regions)]


def test_bytes_split_leaves_regions_that_no_hex_key_reaches() -> None:
    with hb.connect("memory:") as store:
        store.create_table("digests", [hb.store.Family(b"d")], bytes_split(b"0" * 16, b"f" * 16, 10))
        found = check_regions(store, Digest, sample=DIGESTS, alphabet=HEX)
    assert len(found) == 10
    assert sum(not use.reachable for use in found) == 7
    assert all(use.reachable == (use.rows > 0) for use in found)


def test_create_tables_names_regions_that_no_key_reaches(caplog: pytest.LogCaptureFixture) -> None:
    @hb.model(table="hex_files")
    class Hexed:
        digest: hb.Key[int] = hb.key(hb.codecs.HexText(8))
        value: hb.Column[int] = hb.column("v")

    with hb.connect("memory:") as store, caplog.at_level("WARNING", "hbmodel"):
        keys = bytes_split(b"0" * 8, b"f" * 8, 10)
        creation = hb.create_tables(store, Hexed, splits=AtKeys(keys))
        (created,) = (table for table in creation if table.table == "hex_files")
        unreachable = [use.region.range for use in check_regions(store, Hexed) if not use.reachable]
        assert list(created.unreachable) == unreachable
        assert len(unreachable) == 7
        assert (
            sum(
                line.startswith("! hex_files: no key can be in the region from b'")
                for line in str(creation).splitlines()
            )
            == 7
        )
        assert "Table hex_files was created with 7 regions that can hold no key" in caplog.text
        caplog.clear()
        again = hb.create_tables(store, Hexed, splits=AtKeys(keys))
        assert [table.unreachable for table in again] == [(), ()]
        hb.create_tables(store, Digest, Bucketed, splits={Digest: Hexadecimal(10), Bucketed: hb.ByBucket()})
        assert caplog.text == ""


OTHER_TEXTS = (hb.codecs.DigestPrefixed(hb.Text, 2), hb.codecs.Reversed(hb.Text(4)), hb.codecs.java.UTF)


@pytest.mark.parametrize("codec", OTHER_TEXTS, ids=repr)
def test_text_with_other_bytes_reaches_every_region(codec: Any) -> None:
    """Only where text is stored as UTF-8 are some bytes never used."""

    @hb.model(table="texts")
    class Text:
        name: hb.Key[str] = hb.key(codec)
        value: hb.Column[int] = hb.column("v")

    with hb.connect("memory:") as store:
        creation = hb.create_tables(store, Text, splits=AtKeys([bytes([byte]) for byte in range(1, 256)]))
    assert not any(table.unreachable for table in creation)


def test_hexadecimal_splits_are_all_reached() -> None:
    with hb.connect("memory:") as store:
        store.create_table("digests", [hb.store.Family(b"d")], split_keys(Digest, Hexadecimal(10)))
        found = check_regions(store, Digest, sample=DIGESTS, alphabet=HEX)
    assert len(found) == 10
    assert all(use.reachable and use.rows > 20 for use in found)
    assert sum(use.rows for use in found) == len(DIGESTS)


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)

LEADING: dict[str, tuple[Any, Any, tuple[Any, ...]]] = {
    "one unsigned byte": (int, hb.codecs.UInt8, ()),
    "signed": (int, hb.codecs.Int16, (-100, 100)),
    "wide": (int, hb.UInt64, ()),
    "with None": (int | None, hb.codecs.UInt16, ()),
    "UUID": (UUID, hb.codecs.UUID128, ()),
    "fixed bytes": (bytes, hb.Bytes(2), ()),
    "padded bytes": (bytes, hb.codecs.PaddedBytes(2), ()),
    "fixed bytes with None": (bytes | None, hb.Bytes(1), ()),
    "hex text": (int, hb.codecs.HexText(4), ()),
    "dates": (date, hb.codecs.Date, (date(2020, 1, 1), date(2026, 1, 1))),
    "times": (datetime, None, (NOON, NOON + timedelta(days=9))),
    "reverse stamps": (datetime, hb.codecs.ReverseStamp, (NOON, NOON + timedelta(days=9))),
    "spans": (timedelta, hb.codecs.Duration, (timedelta(0), timedelta(days=9))),
}


@pytest.mark.parametrize("name", LEADING)
@pytest.mark.parametrize(
    "salt", [None, hb.HashSalt(3), hb.salts.TextSalt(("a-", "b-"))], ids=["unsalted", "hashed", "textual"]
)
@pytest.mark.parametrize("desc", [False, True])
def test_every_region_of_a_planned_table_can_be_reached(name: str, salt: Any, desc: bool) -> None:
    hint, codec, bounds = LEADING[name]
    body = {
        "lead": hb.key(codec, desc=desc),
        "value": hb.column("v"),
        "__annotations__": {"lead": hb.Key[hint], "value": hb.Column[int]},
    }
    made = hb.model(table="planned", salt=salt)(type("Planned", (), body))
    buckets = hb.schema.schema_of(made).salt.buckets
    for regions in (2, 3, 7, 16):
        with hb.connect("memory:") as store:
            hb.create_tables(store, made, splits=hb.tables.Uniform(regions, *bounds))
            found = check_regions(store, made)
        assert len(found) == regions * buckets
        assert all(use.reachable for use in found)


TEXTS = st.text(st.sampled_from(["\0", "\1", "a", "b", "é", "\U0010ffff"]), max_size=3)
TEXT_ROWS = {
    kind: st.lists(st.tuples(leading, st.integers(0, 255)), min_size=1, max_size=6)
    for kind, leading in {
        "alone": TEXTS, "followed": TEXTS, "or none": st.none() | TEXTS, "hex": st.text("0123456789abcdef", max_size=3)
    }.items()
}  # fmt: skip


@cache
def texts(kind: str, desc: bool) -> Any:
    """A model that a text leads: alone in its key or followed by a number."""
    hint = str | None if kind == "or none" else str
    body: dict[str, Any] = {"lead": hb.key(desc=desc), "__annotations__": {"lead": hb.Key[hint]}}
    if kind != "alone":
        body["next"] = hb.key(hb.codecs.UInt8)
        body["__annotations__"]["next"] = hb.Key[int]
    body["value"] = hb.column("v")
    body["__annotations__"]["value"] = hb.Column[int]
    return hb.model(table="texts", salt=hb.HashSalt(2))(type("Texts", (), body))


@pytest.mark.parametrize("desc", [False, True])
@pytest.mark.parametrize("kind", ["alone", "followed", "or none", "hex"])
@given(data=st.data())
def test_a_region_that_holds_a_row_is_reachable(kind: str, desc: bool, data: st.DataObject) -> None:
    made = texts(kind, desc)
    rows = data.draw(TEXT_ROWS[kind])
    objects = [made(lead=lead, value=1, **({} if kind == "alone" else {"next": number})) for lead, number in rows]
    keys = {
        hb.row_key(made, **{name: getattr(obj, name) for name in hb.schema.schema_of(made).layout.names})
        for obj in objects
    }
    cuts = {key + data.draw(st.sampled_from([b"", b"\0"])) for key in keys} | {
        key[: data.draw(st.integers(1, len(key)))] for key in keys
    }
    with hb.connect("memory:") as store:
        store.create_table("texts", [hb.store.Family(b"d")], sorted(cuts))
        for use in check_regions(store, made, sample=objects, alphabet=HEX if kind == "hex" else None):
            assert use.reachable or not use.rows


def test_text_that_other_fields_follow_reaches_what_its_terminator_does() -> None:
    @hb.model(table="tenants")
    class Tenant:
        name: hb.Key[str] = hb.key()
        at: hb.Key[int] = hb.key(hb.codecs.UInt8)
        value: hb.Column[int] = hb.column("v")

    with hb.connect("memory:") as store:
        store.create_table("tenants", [hb.store.Family(b"d")], [b"ab\0\1\x40", b"ab\0\1\xf0", b"\xff"])
        sample = [Tenant(name="ab", at=at, value=1) for at in range(256)]
        assert [(use.rows, use.reachable) for use in check_regions(store, Tenant, sample=sample)] == [
            (64, True), (176, True), (16, True), (0, False),
        ]  # fmt: skip


def test_regions_above_the_last_bucket_are_not_reachable() -> None:
    with hb.connect("memory:") as store:
        store.create_table("buckets", [hb.store.Family(b"d")], [*split_keys(Bucketed, ByBucket()), b"\x04", b"\x80"])
        assert [use.reachable for use in check_regions(store, Bucketed)] == [True] * 4 + [False] * 2


def test_a_missing_table_says_so() -> None:
    with hb.connect("memory:") as store, pytest.raises(hb.errors.TableNotFound):
        check_regions(store, Digest)


@given(st.binary(max_size=6), st.integers(0, 4), st.sets(st.integers(0, 255), min_size=1, max_size=5))
def test_first_key_is_the_smallest_not_below_the_start(start: bytes, width: int, alphabet: set[int]) -> None:
    allowed = sorted(alphabet)
    found = first_key(b"p", start, allowed, width)
    strings = [b""]
    for _ in range(width):
        strings = [string + bytes((byte,)) for string in strings for byte in allowed]
    # Behind the fixed width anything may stand, so a string is good if it, or some continuation of it, is not below.
    candidates = sorted(
        max(b"p" + string, start) if start.startswith(b"p" + string) else b"p" + string for string in strings
    )
    assert found == next((candidate for candidate in candidates if candidate >= start), None)


def test_a_region_in_use_is_a_line_for_people() -> None:
    with hb.connect("memory:") as store:
        hb.create_tables(store, Bucketed, splits=hb.tables.AtKeys([b"\x02", b"\x07"]))
        shown = [
            str(use) for use in check_regions(store, Bucketed, sample=[Bucketed(number=n, value=n) for n in range(10)])
        ]
    assert shown[2] == "b'\\x07' to the end: no key of the model can be here"
    assert shown[0].startswith("b'' to b'\\x02': ")
    assert shown[0].endswith(" rows of the sample")
    assert str(RegionUse(Region(KeyRange(b"a", b"b"), b"r"), reachable=True, rows=0)) == "b'a' to b'b': reachable"
