"""Split keys from models: as many regions as asked for, each of them reachable, load spread over them."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.tables.creation.split_strategies import AtKeys, ByBucket, FromSample, Hexadecimal, Uniform, split_keys
from tests.support.own_codec import OneByte


@hb.model(table="hashed")
class Hashed:
    digest: hb.Key[str] = hb.key()
    value: hb.Column[int] = hb.column("v")


@hb.model(table="salted", salt=hb.HashSalt(4, by=("user",)))
class Salted:
    user: hb.Key[int] = hb.key(hb.UInt32)
    at: hb.Key[datetime] = hb.key(desc=True)
    name: hb.Column[str] = hb.column("n")

    by_time = hb.index(hb.desc("at"))
    by_name = hb.index("name")


@hb.model(table="numbered")
class Numbered:
    number: hb.Key[int] = hb.key(hb.codecs.UInt8)
    value: hb.Column[int] = hb.column("v")


def test_by_bucket_begins_a_region_at_each_bucket_but_the_first() -> None:
    assert split_keys(Salted, ByBucket()) == [b"\x01", b"\x02", b"\x03"]


def test_by_bucket_splits_inside_each_bucket_too() -> None:
    half = bytes.fromhex("80000000")
    assert split_keys(Salted, ByBucket(Uniform(2))) == [
        b"\x00" + half,
        b"\x01",
        b"\x01" + half,
        b"\x02",
        b"\x02" + half,
        b"\x03",
        b"\x03" + half,
    ]


def test_uniform_on_a_salted_table_keeps_the_buckets_apart() -> None:
    assert split_keys(Salted, Uniform(2)) == split_keys(Salted, ByBucket(Uniform(2)))


def test_by_bucket_is_refused_on_an_unsalted_table() -> None:
    with pytest.raises(hb.DeclarationError, match="The table is not salted, so it has no buckets to split by"):
        split_keys(Hashed, ByBucket())
    with pytest.raises(hb.DeclarationError, match="The table is not salted, so it has no buckets to split by"):
        split_keys(Salted, ByBucket(), index="by_name")


@given(st.integers(2, 256))
def test_uniform_gives_equal_shares_of_the_values(regions: int) -> None:
    keys = split_keys(Numbered, Uniform(regions))
    assert len(keys) == regions - 1
    starts = [0, *(key[0] for key in keys), 256]
    shares = [after - before for before, after in pairwise(starts)]
    assert max(shares) - min(shares) <= 1


def test_uniform_over_a_descending_field_gives_equal_shares_too() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    keys = split_keys(Salted, Uniform(4, start, start + timedelta(seconds=399)), index="by_time")
    rows = sorted(Salted_entry(start + timedelta(seconds=n)) for n in range(400))
    bounds = [b"", *keys, b"\xff" * 9]
    assert [sum(low <= row < high for row in rows) for low, high in pairwise(bounds)] == [100] * 4


def Salted_entry(at: datetime) -> bytes:
    return hb.schema.schema_of(Salted).indexes["by_time"].layout.pack_field(0, at)


def test_uniform_needs_bounds_where_the_codec_has_none_of_use() -> None:
    with pytest.raises(hb.DeclarationError, match="Give the bounds of the values") as caught:
        split_keys(Salted, Uniform(4), index="by_time")
    assert caught.value.field == "at"


@hb.model(table="own_numbers")
class OwnNumbers:
    number: hb.Key[int] = hb.key(OneByte())
    value: hb.Column[int] = hb.column("v")


def test_uniform_needs_the_largest_number_of_a_codec_of_a_programs_own() -> None:
    with pytest.raises(hb.DeclarationError, match=r"Give the largest value: Uniform\(regions, low, high\)") as caught:
        split_keys(OwnNumbers, Uniform(4))
    assert caught.value.field == "number"
    assert split_keys(OwnNumbers, Uniform(4, 0, 255)) == split_keys(Numbered, Uniform(4))


def test_uniform_is_refused_for_text() -> None:
    with pytest.raises(hb.DeclarationError, match="Values of the leading field cannot be divided evenly"):
        split_keys(Hashed, Uniform(4))


def test_more_regions_than_values_are_refused() -> None:
    with pytest.raises(hb.DeclarationError, match="fewer values"):
        split_keys(Numbered, Uniform(5, 10, 12))


@given(st.integers(2, 300))
def test_hexadecimal_spreads_digests(regions: int) -> None:
    keys = split_keys(Hashed, Hexadecimal(regions))
    assert len(keys) == regions - 1
    numbers = [0.0, *(int(key, 16) / 16 ** len(key) for key in keys), 1.0]
    shares = [(after - before) * regions for before, after in pairwise(numbers)]
    assert 0.7 < min(shares) <= max(shares) < 1.3


def test_hexadecimal_in_upper_case() -> None:
    assert all(key == key.upper() for key in split_keys(Hashed, Hexadecimal(16, upper=True)))
    with pytest.raises(hb.DeclarationError, match="leading field of ascending text"):
        split_keys(Numbered, Hexadecimal(16))


@given(st.integers(2, 60), st.integers(0, 2**32 - 2), st.integers(0, 2**32 - 1))
def test_hexadecimal_between_bounds(regions: int, low: int, above: int) -> None:
    """The shares of `getHexSplits`, as it is copied from page to page: equal parts of the numbers in between."""
    high = min(2**32 - 1, low + above + 1)
    keys = split_keys(Hashed, Hexadecimal(regions, low=f"{low:08x}", high=f"{high:08X}"))
    assert len(keys) == regions - 1
    numbers = [low / 2**32, *(int(key, 16) / 16 ** len(key) for key in keys), (high + 1) / 2**32]
    shares = [(after - before) * regions / (numbers[-1] - numbers[0]) for before, after in pairwise(numbers)]
    assert 0.9 < min(shares) <= max(shares) < 1.1


def test_bounds_of_hex_text_stand_for_what_begins_with_them() -> None:
    assert split_keys(Hashed, Hexadecimal(2, low="8", high="f")) == [b"c0"]
    assert split_keys(Hashed, Hexadecimal(2, low="1000", high="1000"))[0].startswith(b"10008")
    with pytest.raises(hb.DeclarationError, match=r"low is greater than the bound high.*low='9', high='80'"):
        split_keys(Hashed, Hexadecimal(4, low="9", high="80"))
    for bound in ("", "0x1", "g", 5):
        with pytest.raises(hb.DeclarationError, match="A bound of hex text must consist of hex digits"):
            Hexadecimal(4, low=bound)  # type: ignore[arg-type]


SPREADING = (
    hb.codecs.DigestPrefixed(hb.UInt32, 2),
    hb.codecs.DigestPrefixed(hb.UInt32, 3, hex=True),
    hb.codecs.Reversed(hb.UInt32),
    hb.codecs.Reversed(hb.codecs.Int16),
    hb.codecs.ReversedDigits(6),
)


@pytest.mark.parametrize("codec", SPREADING, ids=repr)
@pytest.mark.parametrize("regions", [2, 7, 16, 61])
def test_uniform_over_values_that_a_codec_spreads(codec: Any, regions: int) -> None:
    @hb.model(table="spread")
    class Spread:
        number: hb.Key[int] = hb.key(codec)
        value: hb.Column[int] = hb.column("v")

    keys = split_keys(Spread, Uniform(regions))
    assert len(keys) == regions - 1
    rows = [bisect_right(keys, hb.row_key(Spread, number=number)) for number in range(400 * regions)]
    counts = [rows.count(region) for region in range(regions)]
    assert min(counts) > 300
    assert max(counts) < 500


def test_a_codec_that_spreads_takes_neither_bounds_nor_too_many_regions() -> None:
    @hb.model(table="spread")
    class Spread:
        number: hb.Key[int] = hb.key(hb.codecs.DigestPrefixed(hb.UInt32, 1))
        value: hb.Column[int] = hb.column("v")

    assert len(split_keys(Spread, Uniform(256))) == 255
    with pytest.raises(hb.DeclarationError, match="fewer places than regions"):
        split_keys(Spread, Uniform(257))
    with pytest.raises(hb.DeclarationError, match="spreads its values, so the table is split without low and high"):
        split_keys(Spread, Uniform(4, 0, 1000))

    @hb.model(table="spread")
    class Descending:
        number: hb.Key[int] = hb.key(hb.codecs.ReversedDigits(6), desc=True)
        value: hb.Column[int] = hb.column("v")

    with pytest.raises(hb.DeclarationError, match="spreads its values, so the table is split without low and high"):
        split_keys(Descending, Uniform(4))


def test_a_sample_is_shared_out_equally() -> None:
    objects = [Hashed(digest=hashlib.sha1(bytes([n])).hexdigest(), value=n) for n in range(200)]
    keys = split_keys(Hashed, FromSample(objects, 5))
    rows = [o.digest.encode() for o in objects]
    bounds = [b"", *keys, b"\xff"]
    assert [sum(low <= row < high for row in rows) for low, high in pairwise(bounds)] == [40] * 5


def test_a_sample_of_one_key_cannot_be_parted() -> None:
    assert split_keys(Hashed, FromSample([Hashed(digest="a", value=1)] * 9, 3)) == []
    with pytest.raises(hb.DeclarationError, match="at least one object"):
        split_keys(Hashed, FromSample([], 3))


def test_a_sample_for_an_index_table() -> None:
    objects = [Salted(user=n, at=datetime(2026, 1, 1, tzinfo=UTC), name=f"n{n}") for n in range(4)]
    (key,) = split_keys(Salted, FromSample(objects, 2), index="by_name")
    assert key.startswith(b"n2\x00\x01")


def test_keys_by_hand_are_sorted_and_checked() -> None:
    assert split_keys(Hashed, AtKeys([b"m", b"c", b"m"])) == [b"c", b"m"]
    with pytest.raises(hb.errors.KeyTooLong, match="A row key must not be empty"):
        split_keys(Hashed, AtKeys([b""]))
    with pytest.raises(hb.errors.UnknownIndex):
        split_keys(Hashed, AtKeys([b"m"]), index="by_nothing")
    with pytest.raises(
        hb.EncodingError,
        match=r"Split keys must be row keys as bytes, for example from "
        r"hb\.row_key\(\.\.\.\)",
    ):
        split_keys(Hashed, AtKeys(["m"]))  # type: ignore[list-item]


def test_one_region_is_no_split() -> None:
    with pytest.raises(hb.DeclarationError, match="at least two"):
        Uniform(1)
