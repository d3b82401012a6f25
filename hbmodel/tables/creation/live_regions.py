"""Checks the regions of a live table: which of them no key of a model can be in, and how a sample of rows is
distributed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Any

from attrs import frozen

from hbmodel.encoding.codecs import Codec, Separated
from hbmodel.encoding.codecs.base import COMPLEMENT
from hbmodel.encoding.key_field import KeyField
from hbmodel.encoding.key_layout import KeyLayout
from hbmodel.encoding.salts import BoundSalt
from hbmodel.errors import DeclarationError
from hbmodel.mapping.schema import Index, TableSchema, schema_of
from hbmodel.store.port import Store, check_store
from hbmodel.store.ranges import KeyRange
from hbmodel.store.values import Region
from hbmodel.tables.creation.split_strategies import ANY_BYTE, DECIMAL_TEXT, HEX_TEXT, sample_keys, table_layout

UTF8_BYTES = bytes(b for b in range(256) if b < 0xC0 or 0xC2 <= b <= 0xF4)
"""Every byte that can occur in UTF-8 text."""


@frozen
class RegionUse:
    """How a model uses one region.

    Attributes:
        region: the region of the live table.
        reachable: whether a row key of the model can be in it.
        rows: how many rows of the sample are in it.
    """

    region: Region
    reachable: bool
    rows: int

    def __str__(self) -> str:
        keys = self.region.range
        bounds = f"{keys.start!r} to {'the end' if keys.stop is None else repr(keys.stop)}"
        if not self.reachable:
            return f"{bounds}: no key of the model can be here"
        return f"{bounds}: {self.rows} rows of the sample" if self.rows else f"{bounds}: reachable"


def check_regions(
    store: Store,
    model: type[Any],
    *,
    index: str | Index | None = None,
    sample: Iterable[Any] = (),
    alphabet: bytes | None = None,
) -> list[RegionUse]:
    """Compares the regions of a live table with the keys of a model.

    Args:
        store: the store that has the table.
        model: the model whose primary table or index table is checked.
        index: an index or its name, to check the table of that index.
        sample: objects of the model. Their rows in each region are counted.
        alphabet: the bytes that occur in the leading field, if its codec allows more bytes than these, such as
            `b"0123456789abcdef"` for digests as text.

    Raises:
        TableNotFound: the table does not exist.
        DeclarationError: the table has a single row, which holds all objects.
    """
    check_store(store)
    schema = schema_of(model)
    layout, salt = table_layout(schema, index)
    regions = store.regions(schema.table if index is None else schema.index(index).table)
    starts = [region.range.start for region in regions]
    rows = [0] * len(regions)
    for key in sample_keys(schema, sample, index):
        rows[bisect_right(starts, key) - 1] += 1
    allowed, end = _leading_bytes(layout, alphabet)
    return [
        RegionUse(region, _reachable(region.range, salt, layout.fields[0], allowed, end), count)
        for region, count in zip(regions, rows, strict=True)
    ]


def unreachable_regions(schema: TableSchema, split_keys: Sequence[bytes], index: str | Index | None) -> list[KeyRange]:
    """Returns the regions between split keys that no key of a model can be in, because the codec of the leading field
    never stores such bytes.
    """
    if not split_keys:
        return []
    layout, salt = table_layout(schema, index)
    allowed, end = _leading_bytes(layout, None)
    starts = [b"", *split_keys]
    regions = [KeyRange(start, stop) for start, stop in zip(starts, [*split_keys, None], strict=True)]
    return [region for region in regions if not _reachable(region, salt, layout.fields[0], allowed, end)]


def _leading_bytes(layout: KeyLayout, alphabet: bytes | None) -> tuple[bytes, int | None]:
    """Returns the bytes that the packed leading field can contain (after the marker of a nullable field), and the byte
    that ends the field, or None.

    After the ending byte, which is the terminator or a part of the value, any byte may follow.
    """
    leading = layout.fields[0]
    if isinstance(alphabet, str):
        raise DeclarationError("An alphabet must be bytes, such as b'0123456789abcdef'.")
    allowed = bytes(sorted(set(alphabet))) if alphabet is not None else codec_bytes(leading.codec)
    if not allowed:
        raise DeclarationError("An alphabet needs at least one byte.")
    whole = len(layout.fields) == 1 and not leading.desc and not layout.tail  # this field ends with the key
    end = None if whole or leading.codec.width is not None else 0
    if end is not None:
        allowed = bytes(sorted({end, *allowed}))
    if not leading.desc:
        return allowed, end
    return bytes(sorted(allowed.translate(COMPLEMENT))), None if end is None else 255 - end


def codec_bytes(codec: Codec[Any]) -> bytes:
    """Returns the bytes that can occur in a codec's values."""
    kind = codec.spec["codec"]
    if kind == "hex_text":
        return HEX_TEXT
    if kind in {"decimal_text", "reverse_decimal_text", "reversed_digits"}:
        return DECIMAL_TEXT
    if isinstance(codec, Separated):
        return codec_bytes(codec.codec) + codec.separator
    if kind == "bool":
        return b"\x00\x01"
    return UTF8_BYTES if kind in {"text", "delimited"} else ANY_BYTE


def _reachable(keys: KeyRange, salt: BoundSalt, leading: KeyField, allowed: bytes, end: int | None) -> bool:
    """Returns whether a key in any salt bucket can be in the range. Only the salt and the leading field are
    considered.
    """
    none, some = (b"\xff", b"\xfe") if leading.desc else (b"\x00", b"\x01")
    for prefix in salt.prefixes:
        firsts = [
            first_key(prefix + (some if leading.nullable else b""), keys.start, allowed, leading.codec.width, end)
        ]
        if leading.nullable:  # the other fields directly follow the marker of None
            firsts.append(first_key(prefix + none, keys.start, ANY_BYTE, 0))
        if any(first is not None and (keys.stop is None or first < keys.stop) for first in firsts):
            return True
    return False


def first_key(
    prefix: bytes, start: bytes, allowed: Sequence[int], width: int | None, end: int | None = None
) -> bytes | None:
    """Returns the smallest string that consists of `prefix` and allowed bytes and is not below `start`, or None.

    Args:
        allowed: sorted byte values that may follow the prefix.
        width: how many allowed bytes follow the prefix, before arbitrary bytes; None for any number.
        end: an allowed byte after which any bytes may follow, or None.
    """
    if start <= prefix:
        return prefix + bytes((allowed[0],)) * (width or 0)
    if not start.startswith(prefix):
        return None
    rest = start[len(prefix) :]
    length = len(rest) if width is None else width
    key = bytearray()
    for at in range(length):
        wanted = rest[at] if at < len(rest) else allowed[0]
        if wanted == end:
            break
        if wanted in allowed:
            key.append(wanted)
            continue
        return _raised(prefix, key, wanted, allowed, length)
    return prefix + bytes(key) + rest[len(key) :]


def _raised(prefix: bytes, key: bytearray, wanted: int, allowed: Sequence[int], length: int) -> bytes | None:
    """Returns the next larger string, if the byte `wanted` cannot be matched. A larger byte replaces it. If no larger
    byte is allowed, the last preceding byte that can be increased is increased.
    """
    while True:
        larger = next((byte for byte in allowed if byte > wanted), None)
        if larger is not None:
            key.append(larger)
            return prefix + bytes(key).ljust(length, bytes((allowed[0],)))
        if not key:
            return None
        wanted = key.pop()
