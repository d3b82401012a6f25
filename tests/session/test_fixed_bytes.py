"""Bytes of exactly one length, and padded bytes, in every place of a model."""

from __future__ import annotations

import hashlib
import struct
from typing import Any

import pytest

import hbmodel as hb
from hbmodel.store import Put
from hbmodel.tables.registry.registry_table import Registry
from hbmodel.tables.registry.table_from_registry import TableFromRegistry
from tests.support.beds import Bed, cells_of

VALUES = [bytes(2), b"\x00\x01", b"\x00\xff", b"\x01\x00", b"\x01\x01", b"a\x00", b"ab", b"\xff\x00", b"\xff\xff"]


@hb.model(table="digests")
class Digests:
    digest: hb.Key[bytes] = hb.key(hb.Bytes(2))
    tag: hb.Column[bytes] = hb.column("t", hb.Bytes(2))
    other: hb.Column[bytes | None] = hb.column("o", hb.Bytes(2), default=None, nullable=True)
    parts: hb.Map[bytes, bytes] = hb.map_column("p", hb.Bytes(2), hb.Bytes(2), factory=dict)

    by_tag = hb.index("tag")
    by_head = hb.index("head")
    head = hb.computed(lambda tag: tag[:1], of=["tag"], version=1, codec=hb.Bytes(1))


@hb.model(table="digests-wide", salt=hb.HashSalt(3, by="owner"))
class WideDigests:
    owner: hb.Key[bytes] = hb.key(hb.Bytes(2), desc=True)
    digest: hb.Key[bytes] = hb.key(hb.Bytes(2), in_qualifier=True)
    tag: hb.Column[bytes | None] = hb.column("t", hb.Bytes(2), default=None, nullable=True)

    by_tag = hb.index("tag")


@pytest.mark.lengthy
def test_exact_bytes_are_found_by_every_condition(bed: Bed) -> None:
    session = bed.use(Digests)
    rows = [
        Digests(digest=value, tag=value, other=value if n % 2 else None, parts={value: value})
        for n, value in enumerate(VALUES)
    ]
    session.add_all(rows)
    session.commit()
    asked = session.query(Digests).load(Digests.parts).allow_full_scan()
    assert asked.order_by(Digests.digest).all() == rows
    assert session.get(Digests, digest=b"a\x00") == session.query(Digests).where(Digests.digest == b"a\x00").one()
    bounds = [*VALUES, b"", b"\x00", b"\x00\x00\x00", b"\x01", b"\x01\x00\x00", b"a", b"\xff\xff\xff"]
    for of, name in (
        (Digests.digest, "digest"),
        (Digests.tag, "tag"),
        (Digests.other, "other"),
        (Digests.head, "head"),
    ):
        values = {row.digest: getattr(row, name) for row in rows}

        def found(*predicates: hb.types.Predicate) -> set[bytes]:
            return {row.digest for row in asked.where(*predicates)}

        def having(test: Any, values: dict[bytes, Any] = values) -> set[bytes]:
            return {digest for digest, value in values.items() if value is not None and test(value)}

        for bound in bounds:
            assert found(of >= bound) == having(lambda value: value >= bound)  # noqa: B023
            assert found(of > bound) == having(lambda value: value > bound)  # noqa: B023
            assert found(of < bound) == having(lambda value: value < bound)  # noqa: B023
            assert found(of.between(b"\x00\x01", bound)) == having(lambda value: b"\x00\x01" <= value <= bound)  # noqa: B023
            assert found(of.startswith(bound)) == having(lambda value: value.startswith(bound))  # noqa: B023


def test_in_wide_rows_and_their_indexes(bed: Bed) -> None:
    session = bed.use(WideDigests)
    rows = [WideDigests(owner=owner, digest=value, tag=value or None) for owner in VALUES[:3] for value in VALUES]
    session.add_all(rows)
    session.commit()
    assert sorted(map(repr, session.query(WideDigests).allow_full_scan())) == sorted(map(repr, rows))
    assert session.query(WideDigests).where(WideDigests.owner == bytes(2), WideDigests.digest >= b"\x01").count() == 6
    assert session.query(WideDigests).where(WideDigests.tag == b"a\x00").count() == 3
    assert (
        session.query(WideDigests).where(WideDigests.owner.startswith(b"\x00"), WideDigests.tag == b"\xff\x00").count()
        == 3
    )
    session.delete_key(WideDigests, owner=b"\x00\xff", digest=b"\x01\x00")
    session.commit()
    assert session.get(WideDigests, owner=b"\x00\xff", digest=b"\x01\x00") is None
    assert session.query(WideDigests).allow_full_scan().count() == 26


def test_a_unique_value_may_end_in_zero(atomic_bed: Bed) -> None:
    @hb.model(table="digests-once")
    class Once:
        number: hb.Key[int] = hb.key(hb.codecs.UInt8)
        digest: hb.Column[bytes] = hb.column("d", hb.Bytes(2))
        version: hb.Column[int] = hb.version()

        by_digest = hb.index("digest", unique=True)

    session = atomic_bed.use(Once)
    session.add_all([Once(number=1, digest=b"a\x00"), Once(number=2, digest=b"a\x01")])
    session.commit()
    session.add(Once(number=3, digest=b"a\x00"))
    with pytest.raises(hb.UniqueViolation):
        session.commit()


@hb.model(table="theirs", external=True)
class Theirs:
    digest: hb.Key[bytes] = hb.key(hb.Bytes(4))
    kind: hb.Column[bytes] = hb.column("k", hb.Bytes(2))


def test_rows_of_other_programs_read_back_as_they_are(bed: Bed) -> None:
    session = bed.use(Theirs)
    keys = sorted(
        [
            *(struct.pack(">I", number) for number in (0, 1, 255, 256, 65_536, 2**24, 2**32 - 1)),
            hashlib.md5(b"").digest()[:4],
        ]
    )
    bed.store.put("theirs", [Put(key, {b"d:k": b"x\x00"}) for key in keys])
    assert [(row.digest, row.kind) for row in session.query(Theirs).allow_full_scan()] == [
        (key, b"x\x00") for key in keys
    ]
    assert [session.get(Theirs, digest=key) for key in keys] == [Theirs(digest=key, kind=b"x\x00") for key in keys]
    bed.store.put("theirs", [Put(b"\x00\x00\x00", {b"d:k": b"x\x00"})])
    with pytest.raises(hb.DecodingError):
        session.query(Theirs).allow_full_scan().all()


@pytest.mark.parametrize("value", [b"", b"a", b"abc", b"a\x00\x00"])
def test_a_value_of_another_length_is_refused(value: bytes) -> None:
    with hb.connect("memory:") as store:
        hb.create_tables(store, Digests)
        session = hb.Session(store)
        for call in (
            lambda: hb.row_key(Digests, digest=value),
            lambda: session.add(Digests(digest=b"ab", tag=value)),
            lambda: session.query(Digests).where(Digests.tag == value),
            lambda: session.query(Digests).where(Digests.digest.in_([value])),
        ):
            with pytest.raises(hb.EncodingError, match="give exactly that many bytes") as caught:
                call()
            assert caught.value.field in {"digest", "tag"}
            assert (caught.value.width, caught.value.found) == (2, len(value))


@hb.model(table="padded")
class Padded:
    code: hb.Key[bytes] = hb.key(hb.codecs.PaddedBytes(4))
    kind: hb.Column[bytes] = hb.column("k", hb.codecs.PaddedBytes(2))

    by_kind = hb.index("kind")


@hb.model(table="padded")
class Exact:
    code: hb.Key[bytes] = hb.key(hb.Bytes(4))
    kind: hb.Column[bytes] = hb.column("k", hb.Bytes(2))

    by_kind = hb.index("kind")


def test_padded_and_exact_bytes_are_two_readings_of_one_table(bed: Bed) -> None:
    """The description in the registry is the same as before there were two codecs."""
    session = bed.use(Padded)
    registered = Registry(bed.store).read(hb.schema.schema_of(Padded))
    assert registered is not None
    assert registered.layout["key"][0]["codec"] == {"codec": "bytes", "width": 4}
    session.add_all([Padded(code=b"ab", kind=b""), Padded(code=b"abcd", kind=b"xy"), Padded(code=b"", kind=b"z")])
    session.commit()
    assert not hb.diff(bed.store, Exact)
    hb.create_tables(bed.store, Exact)
    other = hb.Session(bed.store)
    rows = other.query(Exact).allow_full_scan().all()
    assert rows == [
        Exact(code=bytes(4), kind=b"z\x00"),
        Exact(code=b"ab\x00\x00", kind=bytes(2)),
        Exact(code=b"abcd", kind=b"xy"),
    ]
    assert [row.code for row in other.query(Exact).where(Exact.kind == b"z\x00")] == [bytes(4)]
    other.update(rows[1], kind=b"q\x00")
    other.commit()
    assert session.get(Padded, code=b"ab") == Padded(code=b"ab", kind=b"q")
    assert [row.code for row in session.query(Padded).where(Padded.kind == b"q")] == [b"ab"]
    shown: Any = TableFromRegistry.find(Registry(bed.store), "padded").model
    assert [row.code for row in other.query(shown).allow_full_scan()] == [bytes(4), b"ab\x00\x00", b"abcd"]


def test_padded_bytes_refuse_what_padding_would_change() -> None:
    for value in (b"a\x00", b"abcde"):
        with pytest.raises(hb.EncodingError):
            hb.row_key(Padded, code=value)
    with hb.connect("memory:") as store:
        hb.create_tables(store, Padded, splits=hb.tables.Uniform(4))
        hb.Session(store).bulk_add([Padded(code=b"ab", kind=b"x")])
        assert cells_of(store, "padded").keys() == {b"ab\x00\x00"}
        assert [region.range.start for region in store.regions("padded")] == [
            b"",
            b"\x40\x00\x00\x00",
            b"\x80\x00\x00\x00",
            b"\xc0\x00\x00\x00",
        ]
