"""Salts: which bucket a row goes to, byte by byte, which bucket a stored key lies in, and what cannot be declared."""

from __future__ import annotations

import hashlib
import json
import pickle
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hbmodel.encoding.codecs as c
from hbmodel.encoding.key_layout import Bounds, KeyField, KeyLayout
from hbmodel.encoding.salts import (
    UNSALTED,
    BoundSalt,
    DigestSalt,
    HashSalt,
    JavaHashSalt,
    NoSalt,
    RandomSalt,
    Salt,
    TextSalt,
)
from hbmodel.errors import DeclarationError, DecodingError, RowKeyError
from hbmodel.store.ranges import KeyRange

LAYOUT = KeyLayout((KeyField("user", c.UInt32), KeyField("day", c.Int8, desc=True), KeyField("name", c.Text)))
VALUES = (7, 1, "x")
PARTS = [b"\x00\x00\x00\x07", b"\x7e", b"x"]


def twice_the_length(data: bytes) -> int:
    """A custom choice function that can be pickled."""
    return len(data) % 2


SALTS: list[Salt] = [
    HashSalt(16),
    HashSalt(256, by=("user",)),
    RandomSalt(3),
    TextSalt(("a-", "b-", "c-")),
    TextSalt((b"1", b"0"), by=("user", "name"), choose=twice_the_length),
    DigestSalt(1),
    DigestSalt(2, by=("name",), algorithm="sha256"),
    JavaHashSalt(7),
    JavaHashSalt(7, by=("name",)),
    NoSalt(),
]


def name_of(salt: Salt) -> str:
    """Its layout, which is the same in every process; the address of a function is not."""
    return str(salt.spec)


def test_known_checksums() -> None:
    # crc32 of the ASCII text 123456789 is the published check value of the algorithm.
    assert HashSalt(256).bucket(b"123456789") == 0xCBF43926 % 256 == 0x26
    assert HashSalt(16).bucket(b"123456789") == 6
    assert HashSalt(16).prefix(6) == b"\x06"
    assert TextSalt(("a-", "b-", "c-")).bucket(b"123456789") == 0xCBF43926 % 3 == 2
    # md5 of "a" is 0cc175b9...
    assert DigestSalt(2).bucket(b"a") == 0x0C
    assert DigestSalt(2).prefix(0x0C) == b"0c"
    assert DigestSalt(1).prefix(0) == b"0"
    assert DigestSalt(3).prefix(0xABC) == b"abc"


@pytest.mark.parametrize(
    ("buckets", "key"),
    [
        (8, "0061"),
        (8, "02610062"),
        (8, "056100620063"),
        (8, "06c3a4"),
        (100, "5c80000000000000019dff"),
        (100, "5b7ffffffffffffffb87ff"),
        (3, "017ffffffe"),
        (3, "0080000004"),
        (3, "017ffffff8"),
    ],
)
def test_java_buckets_are_those_of_row_keys_that_an_upsert_of_phoenix_made(buckets: int, key: str) -> None:
    data = bytes.fromhex(key)
    assert JavaHashSalt(buckets).bucket(data[1:]) == data[0]


def test_the_bucket_is_computed_from_the_bytes_in_the_key() -> None:
    parts = LAYOUT.pack_parts(VALUES)
    assert parts == PARTS
    assert HashSalt(16).bind(LAYOUT).bucket_of(parts) == crc32(b"\x00\x00\x00\x07\x7ex") % 16
    assert HashSalt(16, by=("user",)).bind(LAYOUT).bucket_of(parts) == crc32(b"\x00\x00\x00\x07") % 16
    # Joined in key order, however the fields are named.
    both = HashSalt(16, by=("name", "user")).bind(LAYOUT)
    assert both.by == ("user", "name")
    assert both.bucket_of(parts) == crc32(b"\x00\x00\x00\x07x") % 16
    assert both.spec == HashSalt(16, by=("user", "name")).bind(LAYOUT).spec
    assert DigestSalt(1, by=("name",)).bind(LAYOUT).bucket_of(parts) == int(hashlib.md5(b"x").hexdigest()[0], 16)


def test_a_query_needs_only_the_fields_that_choose() -> None:
    bound = HashSalt(16, by="user").bind(LAYOUT)
    assert bound.by == ("user",)
    assert bound.bucket_of_fields({"user": PARTS[0], "other": b"?"}) == bound.bucket_of(PARTS)
    with pytest.raises(RowKeyError) as caught:
        bound.bucket_of_fields({"name": b"x"})
    assert caught.value.missing == ["user"]
    everything = HashSalt(16).bind(LAYOUT)
    assert everything.by == LAYOUT.names
    assert everything.bucket_of_fields(dict(zip(LAYOUT.names, PARTS, strict=True))) == everything.bucket_of(PARTS)


@pytest.mark.parametrize("salt", SALTS, ids=name_of)
def test_prefixes_are_different_and_of_one_width(salt: Salt) -> None:
    bound = salt.bind(LAYOUT)
    assert bound.buckets == salt.buckets == len(bound.prefixes)
    assert len(set(bound.prefixes)) == bound.buckets
    assert {len(prefix) for prefix in bound.prefixes} == {bound.width} == {salt.width}
    assert bound.random == salt.random == isinstance(salt, RandomSalt)
    for bucket, prefix in enumerate(bound.prefixes):
        assert bound.prefix(bucket) == prefix
        assert bound.bucket_at(prefix + b"".join(PARTS)) == bucket


@pytest.mark.parametrize("salt", [salt for salt in SALTS if not salt.random], ids=name_of)
@given(
    values=st.tuples(
        st.integers(0, 2**32 - 1), st.integers(-128, 127), st.text(st.characters(exclude_categories=["Cs"]), max_size=3)
    )
)
def test_a_stored_key_lies_in_the_bucket_that_was_computed(salt: Salt, values: Any) -> None:
    bound = salt.bind(LAYOUT)
    parts = LAYOUT.pack_parts(values)
    bucket = bound.bucket_of(parts)
    key = bound.prefix(bucket) + b"".join(parts)
    assert bound.bucket_at(key) == bucket
    assert LAYOUT.unpack(key, bound.width) == values
    assert bound.bucket_of_fields(dict(zip(LAYOUT.names, parts, strict=True))) == bucket
    assert key in bound.range_in(bucket, LAYOUT.range_of(parts))


def test_every_bucket_of_a_hash_is_used() -> None:
    bound = HashSalt(16).bind(LAYOUT)
    assert {bound.bucket_of(LAYOUT.pack_parts((user, 0, ""))) for user in range(400)} == set(range(16))


def test_ranges_stay_within_their_bucket() -> None:
    bound = HashSalt(256).bind(LAYOUT)
    assert bound.range_in(3, KeyRange()) == KeyRange(b"\x03", b"\x04")
    assert bound.range_in(255, KeyRange(b"a")) == KeyRange(b"\xffa", None)
    assert bound.range_in(3, KeyRange(b"a", b"b")) == KeyRange(b"\x03a", b"\x03b")
    assert bound.range_in(3, LAYOUT.range_of([], Bounds(low=2**32 - 1))) == KeyRange(b"\x03\xff\xff\xff\xff", b"\x04")
    assert bound.range_in(3, KeyRange(b"", b"")).empty
    assert UNSALTED.range_in(0, KeyRange(b"a", b"b")) == KeyRange(b"a", b"b")
    assert UNSALTED.range_in(0, KeyRange()) == KeyRange()


def test_without_a_salt_there_is_one_bucket() -> None:
    assert UNSALTED.buckets == 1
    assert UNSALTED.width == 0
    assert UNSALTED.prefixes == (b"",)
    assert UNSALTED.bucket_of(PARTS) == 0
    assert UNSALTED.bucket_of_fields({}) == 0
    assert UNSALTED.bucket_at(b"any") == 0
    assert not UNSALTED.random
    assert UNSALTED.spec == {"salt": "none", "by": []}


def test_a_random_bucket_is_drawn_and_never_computed() -> None:
    bound = RandomSalt(3).bind(LAYOUT)
    assert {bound.draw() for _ in range(200)} == {0, 1, 2}
    with pytest.raises(RowKeyError, match="A random salt is drawn for each write"):
        bound.bucket_of(PARTS)
    with pytest.raises(RowKeyError):
        bound.bucket_of_fields(dict(zip(LAYOUT.names, PARTS, strict=True)))
    with pytest.raises(RowKeyError):
        HashSalt(3).bind(LAYOUT).draw()


def test_a_choice_of_ones_own() -> None:
    salt = TextSalt(("even", "odd-"), by=("name",), choose=twice_the_length)
    bound = salt.bind(LAYOUT)
    assert bound.prefix(bound.bucket_of([b"", b"", b"ab"])) == b"even"
    assert bound.prefix(bound.bucket_of([b"", b"", b"abc"])) == b"odd-"
    assert salt.spec["choose"] == "own"
    for wrong in (lambda data: 2, lambda data: -1, lambda data: "0"):
        with pytest.raises(RowKeyError, match="The function of a text salt must return a number below `buckets`"):
            TextSalt(("a", "b"), choose=wrong).bind(LAYOUT).bucket_of(PARTS)  # type: ignore[arg-type]


def test_a_bucket_of_a_part_of_a_field() -> None:
    salt = TextSalt([bytes([n]) for n in range(16)], by="name", choose=lambda data: crc32(data.partition(b":")[0]) % 16)
    bound = salt.bind(LAYOUT)
    buckets = {bound.bucket_of([b"", b"", b"%d:%d" % (user, item)]) for user in range(100) for item in range(3)}
    assert buckets == {*range(16)}
    assert all(bound.bucket_of([b"", b"", b"ada:%d" % item]) == crc32(b"ada") % 16 for item in range(100))


@pytest.mark.parametrize(
    ("salt", "key"),
    [
        (HashSalt(16), b"\x10abc"),
        (HashSalt(16), b""),
        (TextSalt(("a-", "b-")), b"c-"),
        (TextSalt(("a-", "b-")), b"a"),
        (DigestSalt(2), b"AB"),
        (DigestSalt(2), b"g0"),
    ],
)
def test_a_key_of_no_bucket_is_refused(salt: Salt, key: bytes) -> None:
    with pytest.raises(DecodingError, match="A stored key does not begin with the prefix of any bucket"):
        salt.bind(LAYOUT).bucket_at(key)


@pytest.mark.parametrize(
    "declare",
    [
        lambda: HashSalt(1),
        lambda: HashSalt(257),
        lambda: HashSalt(True),
        lambda: HashSalt("16"),  # type: ignore[arg-type]
        lambda: RandomSalt(0),
        lambda: HashSalt(16, by=("user", "user")),
        lambda: HashSalt(16, by=(1,)),  # type: ignore[arg-type]
        lambda: TextSalt("ab"),  # type: ignore[arg-type]
        lambda: TextSalt(("a",)),
        lambda: TextSalt(("a", "a")),
        lambda: TextSalt(("a", "b-")),
        lambda: TextSalt(("", "")),
        lambda: TextSalt(()),
        lambda: TextSalt([f"{n:04x}" for n in range(4097)]),
        lambda: TextSalt((1, 2)),  # type: ignore[arg-type]
        lambda: JavaHashSalt(1),
        lambda: DigestSalt(0),
        lambda: DigestSalt(4),
        lambda: DigestSalt(1, algorithm="none"),
        lambda: HashSalt(16, by=("user", "colour")).bind(LAYOUT),
    ],
)
def test_declarations_that_cannot_work(declare: Any) -> None:
    with pytest.raises(DeclarationError):
        declare()


@pytest.mark.parametrize("salt", SALTS, ids=name_of)
def test_salts_are_values(salt: Salt) -> None:
    bound = salt.bind(LAYOUT)
    for one in (salt, bound):
        again = pickle.loads(pickle.dumps(one))
        assert again == one
        assert hash(again) == hash(one)
        assert json.loads(json.dumps(one.spec)) == one.spec
        assert again.spec == one.spec
    assert bound == BoundSalt(salt, LAYOUT.names)


def test_specs_tell_layouts_apart() -> None:
    specs = [json.dumps(salt.bind(LAYOUT).spec, sort_keys=True) for salt in SALTS]
    assert len(set(specs)) == len(specs)
    assert HashSalt(16).bind(LAYOUT).spec == {"salt": "hash", "buckets": 16, "by": ["user", "day", "name"]}
