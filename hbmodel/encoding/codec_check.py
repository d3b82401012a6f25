"""Checks that a program's own codec fulfils what keys, queries and the registry expect of every codec."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn, TypeVar

from hbmodel.encoding.codecs.base import COMPLEMENT, Codec, Order
from hbmodel.encoding.codecs.library import READERS
from hbmodel.errors import DeclarationError, DecodingError, EncodingError

T = TypeVar("T")

TAILS = (b"", b"\x00", b"\x00\x00", b"\x01", b"\xff")
"""Bytes that may follow the part form of a value in a key."""

_CUT_OFF = "decode_part() of an incomplete part form must raise DecodingError."


def check_codec(codec: Codec[T], values: Iterable[T]) -> None:
    """Checks, with some values, that a codec keeps the promises of `hb.Codec`. Use it in the tests of your own codecs.

    It checks that the codec compares by value; that its spec is JSON with a name under "codec" that no codec of the
    library has; that every value reads back equal and of the same type, from the raw form and from the part form with
    anything after it; that no part is a prefix of another; that `order`, `raw_order`, `width`, `may_be_empty` and
    `canonical` are correct; and that values and bytes that do not fit raise `EncodingError` and `DecodingError`.

    Args:
        codec: the codec.
        values: values that the codec stores. They should include the least and the greatest value, values that are
            equal in different forms and, for variable widths, a value that is a prefix of another value. A
            property-based test can generate many values.

    Raises:
        DeclarationError: a promise is broken; the message says which, and `found` shows the value or the bytes.
    """
    given = list(values)
    _check_identity(codec)
    for value in given:
        _check_raw(codec, value)
        if codec.key:
            _check_part(codec, value)
    _check_refusals(codec, given)
    raw = [codec.encode(value) for value in given]
    _check_order(codec, "raw_order", codec.raw_order, given, raw)
    if codec.key:
        parts = [codec.encode_part(value) for value in given]
        _check_order(codec, "order", codec.order, given, parts)
        for part, following in itertools.pairwise(sorted({*parts})):
            if following.startswith(part):
                _broken(codec, "A part form is the beginning of another: it must mark its own end.", part, following)
    if codec.canonical:
        for (one, data), (other, more) in itertools.combinations(zip(given, raw, strict=True), 2):
            if one == other and data != more:
                _broken(
                    codec, "Equal values have different bytes, but the codec says that it is canonical.", one, other
                )


def _broken(codec: Codec[Any], message: str, *found: object) -> NoReturn:
    raise DeclarationError(message, codec=repr(codec), found=", ".join(map(repr, found)) or None)


def _check_identity(codec: Codec[Any]) -> None:
    make, arguments, *_ = codec.__reduce__()
    again = make(*arguments)
    if again != codec or hash(again) != hash(codec):
        _broken(
            codec, "The codec does not equal a copy that is made from the same arguments: make it a frozen attrs class."
        )
    spec = codec.spec
    if not isinstance(spec, dict) or not isinstance(spec.get("codec"), str):
        _broken(codec, 'The spec must be a dictionary with the name of the codec under "codec".', spec)
    try:
        same = json.loads(json.dumps(spec)) == spec
    except TypeError:
        same = False
    if not same:
        _broken(codec, "The spec must be JSON: text, numbers, lists and dictionaries.", spec)
    if spec["codec"] in READERS and not type(codec).__module__.startswith("hbmodel."):
        _broken(codec, "A codec of the library has the name in the spec: choose another one.", spec["codec"])


def _check_raw(codec: Codec[T], value: T) -> None:
    data = codec.encode(value)
    if type(data) is not bytes:
        _broken(codec, "encode() must return bytes.", data)
    if codec.width is not None and len(data) != codec.width:
        _broken(codec, "The raw form does not have the declared width.", value, data)
    if not data and not codec.may_be_empty:
        _broken(codec, "A value is stored as empty bytes: declare may_be_empty = True.", value)
    _check_same(codec, value, codec.decode(data))
    if codec.encode(codec.decode(data)) != data:
        _broken(codec, "The stored bytes change if a value is read and written again.", value, data)
    _check_same(codec, value, codec.constant(value))


def _check_same(codec: Codec[T], value: T, read: T) -> None:
    if type(read) is not type(value) or read != value:
        _broken(codec, "A value does not read back equal and of the same type.", value, read)


def _check_part(codec: Codec[T], value: T) -> None:
    part = codec.encode_part(value)
    for before, tail in itertools.product((b"", b"\x00"), TAILS):
        data, end = before + part + tail, len(before) + len(part)
        read, position = codec.decode_part(data, len(before))
        _check_same(codec, value, read)
        if position != end or codec.part_end(data, len(before)) != end:
            _broken(codec, "decode_part() or part_end() does not find the end of the part form.", value, data)


def _check_refusals(codec: Codec[T], values: Sequence[T]) -> None:
    for wrong in (None, object()):
        forms = (codec.encode, codec.encode_part) if codec.key else (codec.encode,)
        for encode in forms:
            try:
                encode(wrong)  # type: ignore[arg-type]
            except EncodingError:
                continue
            except Exception as error:  # a codec may fail in any way here
                _broken(codec, "A value of another type must raise EncodingError.", wrong, error)
            _broken(codec, "A value of another type must raise EncodingError.", wrong)
    for value in values:
        raw = codec.encode(value)
        for data in {raw[:-1], raw + b"\x00", raw + b"\xff"} - {raw}:
            try:
                read = codec.decode(data)
            except DecodingError:
                continue
            except Exception as error:
                _broken(codec, "Bytes that encode() does not write must raise DecodingError.", data, error)
            if codec.encode(read) != data:
                _broken(codec, "Bytes that encode() does not write must raise DecodingError.", data, read)
        part = codec.encode_part(value) if codec.key else b""
        for length in range(len(part)):
            try:
                codec.decode_part(part[:length], 0)
            except DecodingError:
                continue
            except Exception as error:
                _broken(codec, _CUT_OFF, part[:length], error)
            _broken(codec, _CUT_OFF, part[:length])


def _check_order(codec: Codec[T], name: str, order: Order, values: Sequence[T], data: Sequence[bytes]) -> None:
    if order is None:
        return
    for (one, of_one), (other, of_other) in itertools.combinations(zip(values, data, strict=True), 2):
        try:
            below, above = one < other, other < one  # type: ignore[operator]
        except TypeError:  # values without an order, such as members of an enumeration
            continue
        first, second = (_complement(of_one), _complement(of_other)) if order == "descending" else (of_one, of_other)
        if (below and not first < second) or (above and not second < first):
            _broken(codec, f"The bytes do not sort as {name} says.", one, other)


def _complement(data: bytes) -> bytes:
    # if a byte string is a prefix of another one, its complement sorts after the other complement only with a
    # terminator
    return data.translate(COMPLEMENT) + b"\xff\xff"
