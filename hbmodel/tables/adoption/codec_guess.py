"""A codec that was guessed from sampled bytes, with its source text, the confidence of the guess, and the evidence."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, Literal

from attrs import frozen

from hbmodel.encoding.codecs import Codec
from hbmodel.errors import DecodingError, EncodingError

Confidence = Literal["likely", "unsure"]

ENOUGH: Final = 20
"""The number of examples from which a guess may be `likely`."""

TIMES: Final = range(946_684_800_000, 4_102_444_800_000)
"""Milliseconds since 1970 from 2000 to 2100."""

DECIMAL: Final = re.compile(rb"[0-9]+")
HEX: Final = re.compile(rb"[0-9a-f]+")
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


@frozen
class CodecGuess:
    """A guessed codec, and the evidence for it.

    Attributes:
        annotation: the type of the values, as source text.
        text: the codec, as source text.
        codec: the codec itself.
        likely: whether no other format is plausible, provided that there are enough examples.
        reason: the evidence for it, in a few words.
    """

    annotation: str
    text: str
    codec: Codec[Any]
    likely: bool
    reason: str


def is_exact(codec: Codec[Any], data: bytes) -> bool:
    """Returns whether a codec decodes the bytes and encodes the decoded value to the same bytes."""
    try:
        return codec.encode(codec.decode(data)) == data
    except (DecodingError, EncodingError):
        return False


def is_text(data: bytes) -> bool:
    """Returns whether bytes are UTF-8 without control characters other than tabs and ends of lines."""
    if _CONTROL.search(data):
        return False
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def literal(value: str | bytes) -> str:
    """Returns a Python literal, in double quotes if no escapes are needed then."""
    shown = repr(value)
    if shown.count("'") != 2 or '"' in shown or "\\" in shown:
        return shown
    return shown.replace("'", '"')


def in_bytes(widths: Sequence[int]) -> str:
    """Returns a text for some lengths, such as `3 to 5 bytes`."""
    low, high = min(widths), max(widths)
    unit = "byte" if high == 1 else "bytes"
    return f"{low} {unit}" if low == high else f"{low} to {high} {unit}"
