"""Strategies for the split keys of new tables, which distribute the load over several regions from the first row on.

A split key is the first row key of a region; n regions have n - 1 split keys. All strategies here make keys in the byte
layout of the model, so each region can contain keys. HBase's `Bytes.split` interpolates between two byte strings
instead. If keys consist of hex digits, some of its regions lie between `9` (byte 39 in hex) and `a` (byte 61), where
there are no keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID

from attrs import field, frozen

from hbmodel.encoding.codecs import Codec
from hbmodel.encoding.codecs.reversed_and_digests import DigestPrefixed, Reversed, ReversedDigits
from hbmodel.encoding.key_field import KeyField
from hbmodel.encoding.key_layout import KeyLayout, check_length
from hbmodel.encoding.salts import BoundSalt
from hbmodel.errors import DeclarationError, EncodingError
from hbmodel.mapping.rows.mapper import KeyMapper, key_of
from hbmodel.mapping.schema import Index, TableSchema, schema_of

HEX_TEXT = b"0123456789abcdef"
DECIMAL_TEXT = b"0123456789"
ANY_BYTE = bytes(range(256))

EVEN = 64
"""The minimum number of possible prefixes in a region, if enough exist, so that the shares differ only by a percent or
two.
"""


def _at_least_two(regions: Any) -> int:
    if type(regions) is not int or regions < 2:
        raise DeclarationError("A table must be split into at least two regions.", found=regions)
    return regions


def _within(strategy: Any) -> Any:
    if strategy is not None and not isinstance(strategy, Uniform | Hexadecimal):
        raise DeclarationError(
            "Buckets can be split further only by hb.tables.Uniform or hb.tables.Hexadecimal: ByBucket(within=...).",
            found=repr(strategy),
        )
    return strategy


def _hex_digits(bound: Any) -> str:
    if not isinstance(bound, str) or not bound or not set(bound) <= set("0123456789abcdefABCDEF"):
        raise DeclarationError("A bound of hex text must consist of hex digits, such as '8000'.", found=bound)
    return bound.lower()


@frozen
class ByBucket:
    """One region for each salt bucket. If a strategy is given as `within`, it splits each bucket further."""

    within: Uniform | Hexadecimal | None = field(default=None, converter=_within)


@frozen
class Uniform:
    """Regions that each contain an equal share of the possible values of the leading key field.

    If the codec spreads its values (`DigestPrefixed`, `Reversed` numbers, `ReversedDigits`), bounds cannot be given:
    the first bytes of the values are divided equally.

    Attributes:
        regions: the number of regions (in a salted table, per bucket).
        low: the smallest value that will be stored; by default the smallest value of the codec.
        high: the largest value that will be stored; by default the largest value of the codec.
    """

    regions: int = field(converter=_at_least_two)
    low: Any = None
    high: Any = None


@frozen
class Hexadecimal:
    """Regions for a leading text field whose values begin with hex digits. Each region has an equal share of the hex
    numbers.

    With bounds, the shares are the same as in HBase's `RegionSplitter.HexStringSplit` and in the often copied
    `getHexSplits`.

    Attributes:
        regions: the number of regions (in a salted table, per bucket).
        upper: whether the digits are upper-case.
        low: the smallest text that will be stored, as hex digits; "0" by default.
        high: the largest text that will be stored; "f" repeated by default. A shorter bound stands for all texts that
            begin with it.
    """

    regions: int = field(converter=_at_least_two)
    upper: bool = False
    low: str = field(default="0", converter=_hex_digits)
    high: str = field(default="f", converter=_hex_digits)


def _objects(objects: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(objects)


def _keys(keys: Iterable[bytes]) -> tuple[bytes, ...]:
    return tuple(keys)


@frozen
class FromSample:
    """Regions that each hold an equal share of a sample.

    Attributes:
        objects: the sampled objects of the model; their row keys are used, with the salt.
        regions: the maximum number of regions. There may be fewer, because objects with equal keys are never separated.
    """

    objects: tuple[Any, ...] = field(converter=_objects)
    regions: int = field(converter=_at_least_two)


@frozen
class AtKeys:
    """Regions that begin at these row keys, given as bytes."""

    keys: tuple[bytes, ...] = field(converter=_keys)


Splits = ByBucket | Uniform | Hexadecimal | FromSample | AtKeys


def split_keys(model: type[Any], splits: Splits, *, index: str | Index | None = None) -> list[bytes]:
    """Returns the split keys that a strategy makes for a model's primary table or one of its index tables.

    Args:
        model: the model whose table is split.
        splits: the strategy.
        index: an index or its name, to split the table of that index.

    Returns:
        The split keys, sorted and without duplicates.

    Raises:
        DeclarationError: the strategy does not suit the table's key.
        EncodingError: a bound cannot be stored in the leading field.
    """
    schema = schema_of(model)
    if not isinstance(splits, Splits):
        raise DeclarationError("This is not a split strategy: give one, such as hb.ByBucket().", found=repr(splits))
    if index is not None:
        schema.index(index)
    if isinstance(splits, AtKeys):
        return _by_hand(schema, splits)
    layout, salt = table_layout(schema, index)
    if isinstance(splits, FromSample):
        return _from_sample(schema, splits, index)
    if isinstance(splits, ByBucket):
        if salt.buckets == 1:
            raise DeclarationError(
                "The table is not salted, so it has no buckets to split by: use another strategy.",
                table=schema.table,
                index=index,
            )
        inner = [] if splits.within is None else _leading(schema, layout, splits.within)
        return _in_buckets(salt, inner)
    return _in_buckets(salt, _leading(schema, layout, splits))


def table_layout(schema: TableSchema, index: str | Index | None) -> tuple[KeyLayout, BoundSalt]:
    """Returns the layout of the row keys of a table, without salt, and the salt.

    Raises:
        DeclarationError: the table has a single row, which holds all objects.
    """
    if index is not None:
        return schema.index(index).layout, schema.index(index).salt
    if schema.row_layout is None:
        raise DeclarationError(
            "All objects are in one row, which is in one region: leave out splits.", table=schema.table, row=schema.row
        )
    return schema.row_layout, schema.salt


def _in_buckets(salt: BoundSalt, inner: Sequence[bytes]) -> list[bytes]:
    """Returns split keys with which a region begins at every bucket except the first, and at the inner keys of every
    bucket.
    """
    keys = {prefix + key for prefix in salt.prefixes for key in (b"", *inner)}
    return sorted(keys)[1:]


def _leading(schema: TableSchema, layout: KeyLayout, splits: Uniform | Hexadecimal) -> list[bytes]:
    """Returns split keys that divide the values of the packed leading field, without salt."""
    leading = layout.fields[0]
    if isinstance(splits, Hexadecimal):
        packed = [_hex_prefix(schema, layout, n, splits) for n in range(1, splits.regions)]
        return sorted(set(packed))
    spread = _evenly_spread(leading.codec)
    if spread is not None:
        return _spread(schema, leading, *spread, splits)
    if leading.codec.order is None:
        raise DeclarationError(
            "The codec of the leading field does not keep the order: split with hb.tables.FromSample instead.",
            table=schema.table,
            field=leading.name,
        )
    for bound in (splits.low, splits.high):
        if bound is not None:
            layout.pack_field(0, bound)  # this raises an error if the bound is invalid
    low, high, back = _scale(schema, leading.name, leading.codec, splits)
    if high - low + 1 < splits.regions:
        raise DeclarationError(
            "There are fewer values than regions: ask for fewer regions.",
            table=schema.table,
            field=leading.name,
            regions=splits.regions,
        )
    values = [back(low + (high - low + 1) * n // splits.regions) for n in range(1, splits.regions)]
    if leading.desc or leading.codec.order == "descending":
        # In descending order, a region begins with its largest value. So each split key is the largest value of a
        # share.
        values = [back(low + (high - low + 1) * n // splits.regions - 1) for n in range(1, splits.regions)]
    return sorted({layout.pack_field(0, value) for value in values})


def _evenly_spread(codec: Codec[Any]) -> tuple[bytes, int] | None:
    """Returns the possible values of each evenly spread first byte of a codec's values, and the number of such bytes.
    Returns None if the codec does not spread its values.
    """
    match codec:
        case DigestPrefixed():
            return HEX_TEXT if codec.hex else ANY_BYTE, codec.length
        case ReversedDigits():
            return DECIMAL_TEXT, codec.width
        case Reversed() if codec.python_type in {int, datetime}:  # the last bytes of the number are spread evenly
            return ANY_BYTE, codec.width
    return None


def _spread(schema: TableSchema, leading: KeyField, alphabet: bytes, width: int, splits: Uniform) -> list[bytes]:
    """Returns split keys that divide the first bytes of evenly spread values equally."""
    if splits.low is not None or splits.high is not None or leading.desc or leading.nullable:
        raise DeclarationError(
            "The codec of the leading field spreads its values, so the table is split without low and high: leave them "
            "out. The field must be ascending, and must not allow None.",
            table=schema.table,
            field=leading.name,
        )
    base, digits = len(alphabet), 1
    while digits < width and base**digits < splits.regions * EVEN:
        digits += 1
    if base**digits < splits.regions:
        raise DeclarationError(
            "The codec spreads its values over fewer places than regions: ask for fewer regions, or give the codec "
            "a greater length.",
            table=schema.table,
            field=leading.name,
            regions=splits.regions,
        )
    starts = (-(-(base**digits) * n // splits.regions) for n in range(1, splits.regions))
    return sorted({bytes(alphabet[start // base**at % base] for at in reversed(range(digits))) for start in starts})


def _hex_prefix(schema: TableSchema, layout: KeyLayout, n: int, splits: Hexadecimal) -> bytes:
    """Returns the n-th split key. It has just enough hex digits to make the shares almost equal."""
    leading = layout.fields[0]
    if leading.codec.python_type is not str or leading.desc or leading.nullable:
        raise DeclarationError(
            "Hexadecimal splits need a leading field of ascending text that is never None.",
            table=schema.table,
            field=leading.name,
        )
    digits = max(2, len(splits.low), len(splits.high))
    low, high = _hex_bounds(splits, digits)
    if low > high:
        raise DeclarationError(
            "The bound low is greater than the bound high: exchange them.",
            table=schema.table,
            field=leading.name,
            low=splits.low,
            high=splits.high,
        )
    while high - low + 1 < splits.regions * EVEN:
        digits += 1
        low, high = _hex_bounds(splits, digits)
    number = low - (low - high - 1) * n // splits.regions
    return (f"{number:0{digits}X}" if splits.upper else f"{number:0{digits}x}").encode()


def _hex_bounds(splits: Hexadecimal, digits: int) -> tuple[int, int]:
    """Returns the bounds of a strategy as numbers with this many digits."""
    return int(splits.low.ljust(digits, "0"), 16), int(splits.high.ljust(digits, "f"), 16)


_EPOCH_DAY = date(1970, 1, 1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _scale(schema: TableSchema, name: str, codec: Any, splits: Uniform) -> tuple[int, int, Any]:
    """Returns the lowest and the highest value of the leading field, both as integers, and a function that turns such
    an integer into a value.
    """
    kind = codec.python_type
    low, high = splits.low, splits.high
    if kind is int:
        low = getattr(codec, "low", 0) if low is None else low
        high = _largest(codec) if high is None else high
        if high is None:
            raise DeclarationError(
                "Give the largest value: Uniform(regions, low, high).", table=schema.table, field=name
            )
        return low, high, lambda number: number
    if kind is UUID:
        return 0 if low is None else low.int, 2**128 - 1 if high is None else high.int, lambda number: UUID(int=number)
    if kind is bytes and codec.width is not None:
        width = codec.width
        largest = 256**width - 1
        return (
            0 if low is None else int.from_bytes(low.ljust(width, b"\x00"), "big"),
            largest if high is None else int.from_bytes(high.ljust(width, b"\x00"), "big"),
            lambda number: _storable(codec, number.to_bytes(width, "big")),
        )
    if kind in {date, datetime, timedelta, float} and (low is None or high is None):
        raise DeclarationError(
            "Give the bounds of the values: Uniform(regions, low, high).", table=schema.table, field=name
        )
    if kind is date:
        return (low - _EPOCH_DAY).days, (high - _EPOCH_DAY).days, lambda number: _EPOCH_DAY + timedelta(days=number)
    if kind is datetime:
        return (
            int((low - _EPOCH).total_seconds()),
            int((high - _EPOCH).total_seconds()),
            lambda number: _EPOCH + timedelta(seconds=number),
        )
    if kind is timedelta:
        return int(low.total_seconds()), int(high.total_seconds()), lambda number: timedelta(seconds=number)
    raise DeclarationError(
        "Values of the leading field cannot be divided evenly: split with hb.tables.FromSample, hb.tables.AtKeys or, "
        "for hex text, hb.tables.Hexadecimal.",
        table=schema.table,
        field=name,
    )


def _storable(codec: Any, value: bytes) -> bytes:
    """Returns the value, without zeros at the end if the codec pads values with zeros: the stored bytes are the
    same.
    """
    try:
        codec.encode(value)
    except EncodingError:
        return value.rstrip(b"\x00")
    return value


def _largest(codec: Any) -> int | None:
    if getattr(codec, "high", None) is not None:
        return int(codec.high)
    base = {"hex_text": 16, "decimal_text": 10}.get(codec.spec["codec"])
    return None if base is None else int(base**codec.width) - 1


def _by_hand(schema: TableSchema, splits: AtKeys) -> list[bytes]:
    for key in splits.keys:
        if not isinstance(key, bytes):
            raise EncodingError(
                "Split keys must be row keys as bytes, for example from hb.row_key(...).", table=schema.table
            )
        check_length(key, table=schema.table)
    return sorted(set(splits.keys))


def _from_sample(schema: TableSchema, splits: FromSample, index: str | Index | None) -> list[bytes]:
    keys = sorted(sample_keys(schema, splits.objects, index))
    if not keys:
        raise DeclarationError("A sample needs at least one object.", table=schema.table)
    chosen = {keys[len(keys) * n // splits.regions] for n in range(1, splits.regions)}
    return sorted(chosen - {keys[0]})


def sample_keys(schema: TableSchema, objects: Iterable[Any], index: str | Index | None = None) -> list[bytes]:
    """Returns the row keys, with the salt, that objects of a model have in its primary table or an index table."""
    mapper, wide = KeyMapper(schema), schema.wide
    keys: list[bytes] = []
    for obj in objects:
        if not isinstance(obj, schema.model):
            raise DeclarationError(
                "A sample must contain objects of the model.", table=schema.table, found=type(obj).__name__
            )
        row = mapper.new_row(key_of(schema, obj))
        values = {f.name: getattr(obj, f.name) for f in schema.fields}
        if index is not None:
            keys += mapper.entries(schema.index(index), values, row)
        else:
            keys.append(row if wide is None else wide.form.cut(row)[0])
    return keys
