"""Guesses the salt and the fields of row keys from a sample of them."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from math import log2
from typing import Any, Final

from attrs import evolve, frozen

from hbmodel.encoding.codecs import (
    Bytes,
    Codec,
    DecimalText,
    Delimited,
    HexText,
    ReverseDecimalText,
    ReverseStampInt,
    Separated,
    Text,
    UInt32,
    UInt64,
    Unterminated,
)
from hbmodel.encoding.key_layout import KeyField, KeyLayout
from hbmodel.encoding.salts import DigestSalt, HashSalt, JavaHashSalt, Salt
from hbmodel.errors import DecodingError, EncodingError
from hbmodel.tables.adoption.codec_guess import DECIMAL, ENOUGH, HEX, TIMES, CodecGuess, in_bytes, is_text, literal
from hbmodel.tables.adoption.inferred_digest import find_digest

DELIMITERS: Final = (b"|", b":", b"#", b"_", b"-", b"/", b",", b"\x00")
"""The possible delimiters between the parts of a key, the first choice first."""

CLEAR: Final = (b"|", b"#", b"\x00")
"""Delimiters that are seldom used for other purposes."""

MOST_PARTS: Final = 8
"""Keys with more parts than this are treated as one text."""

SHORTEST_HEX: Final = 8
"""Shorter sequences of hex digits may be words, such as `cafe`."""

WIDEST_NUMBER: Final = 1_000
"""The maximum number of digits that are read as a number, because Python refuses to convert a very large number of
digits.
"""

LONG_NUMBER: Final = 10
"""Numbers with at least this many digits are taken for times or ids, which all have the same number of digits."""

MILLISECOND_DIGITS: Final = 13
SECOND_DIGITS: Final = 10

_REVERSED_SECONDS: Final = (
    ", perhaps times in seconds that are subtracted from 9999999999 (hb.codecs.ReverseDecimalText(10))"
)
"""What is said of digits from which times in seconds can be computed. Other numbers may look like them."""

LONG: Final = 8
"""The number of bytes of a long."""

LONG_MAX: Final = (1 << 63) - 1

PROOF: Final = 32.0
"""How many bits of the prefixes must agree with a salt, so that the agreement is not taken for chance."""

LONGEST_PREFIX: Final = 3
"""The longest prefix that is examined as a possible salt, in bytes."""

FIRST_PART: Final = "part1"
"""The name of the first of several fields."""

_UUID: Final = re.compile(rb"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


_Firsts = tuple[Sequence[bytes], Sequence[bytes]]


@frozen
class InferredKey:
    """The result of a guess at the form of row keys.

    Attributes:
        parts: the fields in key order, each with its name and an example.
        salt: the salt at the beginning of the keys, as source text, or None.
        note: a remark about the beginning of the keys, or None.
    """

    parts: Sequence[tuple[str, CodecGuess, bytes]]
    salt: str | None = None
    note: str | None = None


def infer_key(keys: Sequence[bytes]) -> InferredKey:
    """Guesses the salt and the fields of keys. At least one key must be given. All given keys can be decoded with the
    result and encoded to the same bytes again.
    """
    rests = {width: [key[width:] for key in keys] for width in range(1, LONGEST_PREFIX + 1)}
    firsts = {width: found for width, rest in rests.items() if (found := _first_fields(rest)) is not None}
    salt = _salt(keys, rests)
    if salt is None and (salt := _salt(keys, {width: ended for width, (_, ended) in firsts.items()})) is not None:
        salt = evolve(salt, text=f'{salt.text[:-1]}, by="{FIRST_PART}")', by_first=True)
    if salt is not None:
        fields = infer_fields(rests[salt.width])
        if not salt.by_first or fields[0][0] == FIRST_PART:
            return InferredKey(fields, salt.text, "this salt computes the bucket of every sampled row")
    return _digest_prefixed(keys) or InferredKey(infer_fields(keys), note=_perhaps_salted(keys))


# --- salts ------------------------------------------------------------------------------------------------------------


def _salts(first: int) -> Iterator[tuple[str, Salt]]:
    """Yields the salts that are possible if `first` is the largest first byte of the keys."""
    for buckets in range(max(2, first + 1), 257):
        yield f"hb.HashSalt({buckets})", HashSalt(buckets)
        yield f"hb.salts.JavaHashSalt({buckets})", JavaHashSalt(buckets)
    for digits in (3, 2, 1):
        yield f"hb.salts.DigestSalt({digits})", DigestSalt(digits)


@frozen
class _FoundSalt:
    """A salt that explains the beginnings of all keys, as source text.

    Attributes:
        width: the number of bytes of the salt in a key.
        by_first: whether the salt is computed only from the first field.
    """

    text: str
    width: int
    by_first: bool = False


def _salt(keys: Sequence[bytes], salted: Mapping[int, Sequence[bytes]]) -> _FoundSalt | None:
    """Returns the salt that explains the beginnings of all keys.

    Args:
        salted: for each width of a salt, the bytes of each key from which the salt may be computed.
    """
    for text, salt in _salts(max(key[0] for key in keys)):
        if salt.width in salted and _computes(salt, keys, salted[salt.width]):
            return _FoundSalt(text, salt.width)
    return None


def _digest_prefixed(keys: Sequence[bytes]) -> InferredKey | None:
    """Returns the fields of keys that begin with a digest, or None if there is no digest. The whole rest of the keys is
    a single field if the digest was computed from it.
    """
    digest = find_digest(keys, DELIMITERS, _plain_first_fields, PROOF)
    if digest is None:
        return None
    rests = digest.rests
    (name, guess, example), *others = [("key", _one_field(rests), rests[0])] if digest.whole else infer_fields(rests)
    guess = digest.before(guess)
    layout = KeyLayout((KeyField(name, guess.codec), *(KeyField(name, other.codec) for name, other, _ in others)))
    if not all(_is_exact(layout, key) for key in keys):
        return None
    example = keys[0][: len(keys[0]) - len(rests[0]) + len(example)]
    return InferredKey([(name, guess, example), *others])


def _first_fields(keys: Sequence[bytes]) -> _Firsts | None:
    """Returns the first field of each key, without and with the delimiter after it, or None if the keys have no
    delimiter.
    """
    delimiter = _delimiter(keys)
    if delimiter is None:
        return None
    plain = [key.partition(delimiter)[0] for key in keys]
    return plain, [each + delimiter for each in plain]


def _plain_first_fields(keys: Sequence[bytes]) -> Sequence[bytes] | None:
    """Returns the first field of each key without the delimiter after it, or None if the keys have no delimiter."""
    firsts = _first_fields(keys)
    return None if firsts is None else firsts[0]


def _computes(salt: Salt, keys: Sequence[bytes], salted: Sequence[bytes]) -> bool:
    """Returns whether a salt of these bytes explains the beginnings of the keys, and whether the agreement is more than
    chance.
    """
    if not all(key.startswith(salt.prefix(salt.bucket(data))) for key, data in zip(keys, salted, strict=True)):
        return False
    return len(set(salted)) * log2(salt.buckets) >= PROOF and len({key[: salt.width] for key in keys}) > 1


def _perhaps_salted(keys: Sequence[bytes]) -> str | None:
    """Returns a remark if the keys begin with a short prefix that has few values and does not depend on the rest of the
    key.
    """
    for width in range(1, LONGEST_PREFIX + 1):
        counts = Counter(key[:width] for key in keys)
        share = len(keys) / len(counts)
        if not 2 <= len(counts) <= 256 or share < 4 or len(keys) < ENOUGH or min(map(len, keys)) <= 2 * width:
            continue
        even = share / 3 <= min(counts.values()) and max(counts.values()) <= share * 3
        behind: dict[bytes, set[bytes]] = defaultdict(set)
        for key in keys:
            behind[key[:width]].add(key[width : 2 * width])
        union = set[bytes]().union(*behind.values())
        unrelated = all(2 * len(each) > len(union) for each in behind.values())
        if even and not unrelated:
            return None  # a longer prefix would only contain more bytes of the following part
        # If keys are random, the bytes after the prefix have the same variety of values as the prefix.
        other = 2 * len(union & counts.keys()) < len(union | counts.keys())
        if even and unrelated and other:
            return (
                f"perhaps a salt: the first {in_bytes([width])} of the keys take {len(counts)} values, about equally "
                "often; no salt that hbmodel tried computes them from the rest"
            )
    return None


# --- fields -----------------------------------------------------------------------------------------------------------


def infer_fields(keys: Sequence[bytes]) -> Sequence[tuple[str, CodecGuess, bytes]]:
    """Returns the fields of keys without a salt, in key order, each with its name and an example."""
    parts = _guesses(keys)
    names = ["key"] if len(parts) == 1 else [f"part{at}" for at in range(1, len(parts) + 1)]
    layout = KeyLayout(tuple(KeyField(name, guess.codec) for name, guess in zip(names, parts, strict=True)))
    if not all(_is_exact(layout, key) for key in keys):
        return [("key", CodecGuess("bytes", "hb.Bytes", Bytes, False, "bytes of no known form"), keys[0])]
    examples = layout.pack_parts(layout.unpack(keys[0], 0))
    return list(zip(names, parts, examples, strict=True))


def _is_exact(layout: KeyLayout, key: bytes) -> bool:
    try:
        return b"".join(layout.pack_parts(layout.unpack(key, 0))) == key
    except (DecodingError, EncodingError):
        return False


def _guesses(keys: Sequence[bytes]) -> Sequence[CodecGuess]:
    if (known := _number_or_uuid(keys)) is not None:
        return [known]
    if all(is_text(key.replace(b"\x00", b"")) for key in keys):
        delimiter = _delimiter(keys)
        if delimiter is not None:
            return _delimited([*zip(*(key.split(delimiter) for key in keys), strict=True)], delimiter)
        if not any(b"\x00" in key for key in keys):
            return [_one_field(keys)]
    return _ended_by_long(keys) or [_one_field(keys)]


def _one_field(keys: Sequence[bytes]) -> CodecGuess:
    """Returns the codec of keys that are a single field, whether or not they contain delimiters."""
    if (known := _number_or_uuid(keys)) is not None:
        return known
    widths = {len(key) for key in keys}
    if all(map(is_text, keys)):
        return CodecGuess("str", "hb.Text", Text, len(keys) >= ENOUGH, f"text (UTF-8) of {in_bytes([*widths])}")
    reason = f"{in_bytes([*widths])} of no known form"
    if len(widths) == 1:
        (width,) = widths
        return CodecGuess("bytes", f"hb.Bytes({width})", Bytes(width), False, reason)
    return CodecGuess("bytes", "hb.Bytes", Bytes, False, reason)


def _number_or_uuid(keys: Sequence[bytes]) -> CodecGuess | None:
    """Returns the codec of keys that are numbers of one width, or UUIDs as text."""
    widths = {len(key) for key in keys}
    if len(widths) == 1 and (number := _number(keys, *widths)) is not None:
        return number
    if all(_UUID.fullmatch(key) for key in keys):
        return CodecGuess("str", "hb.Text", Text, len(keys) >= ENOUGH, "UUIDs as text")
    return None


def _ended_by_long(keys: Sequence[bytes]) -> Sequence[CodecGuess] | None:
    """Returns the fields of keys that are text followed by a number of eight bytes, or None if the keys do not have
    this form.

    Without a delimiter before the number, eight bytes are taken for a number only if they are a time.
    """
    heads, ends = [key[:-LONG] for key in keys], [key[-LONG:] for key in keys]
    if not all(heads) or not all(is_text(head.replace(b"\x00", b"")) for head in heads):
        return None
    time = _time(ends)
    number = time or _number(ends, LONG)
    if number is None:
        return None
    delimiter = _delimiter(heads)
    if delimiter is not None and all(head.endswith(delimiter) for head in heads):
        parts = zip(*(head.split(delimiter)[:-1] for head in heads), strict=True)
        return [*(evolve(each, likely=number.likely) for each in _delimited([*parts, ends], delimiter)[:-1]), number]
    if time is None or any(b"\x00" in head for head in heads):
        return None
    codec: Codec[str] = Unterminated(Text, followed_by=LONG)
    text = f"hb.codecs.Unterminated(hb.Text, followed_by={LONG})"
    return [CodecGuess("str", text, codec, time.likely, f"text before the last {LONG} bytes"), time]


def _delimited(fields: Sequence[Sequence[bytes]], delimiter: bytes) -> Sequence[CodecGuess]:
    """Returns the fields of keys with a delimiter between them, from the values of each.

    Digits are taken for numbers of fixed width only if a field has leading zeros or is as long as a time. If neither is
    the case, keys that were not sampled may have more digits.
    """
    shown = literal(delimiter if delimiter == bytes(1) else delimiter.decode())
    likely = len(fields[0]) >= ENOUGH and delimiter in CLEAR
    numbers = [_number(values, len(values[0])) if len({*map(len, values)}) == 1 else None for values in fields]
    padded = [number is not None and _is_padded(values) for number, values in zip(numbers, fields, strict=True)]
    numbers = [
        evolve(number, likely=number.likely and sure) if number and any(padded) else None
        for number, sure in zip(numbers, padded, strict=True)
    ]
    guesses: list[CodecGuess] = []
    for number in numbers[:-1]:
        if number is None:
            text, reason = f"hb.codecs.Delimited({shown})", f"text up to {delimiter!r}"
            guesses.append(CodecGuess("str", text, Delimited(delimiter), likely, reason))
        else:
            text, reason = f"hb.codecs.Separated({number.text}, {shown})", f"{number.reason} and {delimiter!r}"
            guesses.append(CodecGuess("int", text, Separated(number.codec, delimiter), number.likely, reason))
    last = CodecGuess("str", "hb.Text", Text, likely, f"text after the last {delimiter!r}")
    return [*guesses, numbers[-1] or last]


def _is_padded(values: Sequence[bytes]) -> bool:
    return len(values[0]) >= LONG_NUMBER or any(value.startswith(b"0") and len(value) > 1 for value in values)


def _are_reversed_seconds(keys: Sequence[bytes], width: int) -> bool:
    if width != SECOND_DIGITS:
        return False
    largest = 10**width - 1
    return all(1000 * (largest - int(key)) in TIMES and 1000 * int(key) >= TIMES.stop for key in keys)


def _number(keys: Sequence[bytes], width: int) -> CodecGuess | None:
    """Returns the codec of keys of one width, if the keys are numbers."""
    enough = len(keys) >= ENOUGH
    if width == MILLISECOND_DIGITS and all(map(DECIMAL.fullmatch, keys)):
        times = ReverseDecimalText(width)
        if all(times.decode(key) in TIMES and int(key) >= TIMES.stop for key in keys):
            reason = f"{width} digits, times in ms that are subtracted from 9999999999999"
            return CodecGuess("int", f"hb.codecs.ReverseDecimalText({width})", times, enough, reason)
    if width <= WIDEST_NUMBER and all(map(DECIMAL.fullmatch, keys)):
        codec: Codec[Any] = DecimalText(width)
        reason = f"{width} decimal digits" + (_REVERSED_SECONDS if _are_reversed_seconds(keys, width) else "")
        return CodecGuess("int", f"hb.codecs.DecimalText({width})", codec, enough, reason)
    if SHORTEST_HEX <= width <= WIDEST_NUMBER and all(map(HEX.fullmatch, keys)):
        return CodecGuess("int", f"hb.codecs.HexText({width})", HexText(width), enough, f"{width} hex digits")
    if width == LONG and (time := _time(keys)) is not None:
        return time
    if width in {4, 8} and not all(map(is_text, keys)):
        lead = width // 4
        leads, ends = ({key[:lead] for key in keys}, {key[lead:] for key in keys})
        if len(ends) > 1 and len(leads) <= max(1, len(keys) // ENOUGH):
            name, codec = ("hb.UInt64", UInt64) if width == 8 else ("hb.UInt32", UInt32)
            return CodecGuess("int", name, codec, False, f"{width} bytes whose beginning hardly varies")
    return None


def _time(longs: Sequence[bytes]) -> CodecGuess | None:
    """Returns the codec of numbers of eight bytes, if all of them are times."""
    numbers, enough = [int.from_bytes(each, "big") for each in longs], len(longs) >= ENOUGH
    if all(number in TIMES for number in numbers):
        reason = "8 bytes, times in milliseconds (java.LongTime for datetimes)"
        return CodecGuess("int", "hb.UInt64", UInt64, enough, reason)
    if all(LONG_MAX - number in TIMES for number in numbers):
        reason = "8 bytes, times in ms that are subtracted from 2**63 - 1 (hb.codecs.ReverseStamp for datetimes)"
        return CodecGuess("int", "hb.codecs.ReverseStampInt", ReverseStampInt, enough, reason)
    return None


def _delimiter(keys: Sequence[bytes]) -> bytes | None:
    """Returns the delimiter that occurs the same number of times in every key, if there is one."""
    for delimiter in DELIMITERS:
        counts = {key.count(delimiter) for key in keys}
        # Text contains no zero bytes, so every zero byte must be a delimiter.
        if len(counts) == 1 and 1 <= min(counts) < MOST_PARTS:
            if delimiter != b"\x00" and any(b"\x00" in key for key in keys):
                continue
            return delimiter
    return None
