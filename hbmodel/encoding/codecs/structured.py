"""Structured column values (lists, dicts, dataclasses, attrs classes, ...) as JSON or MessagePack."""

from __future__ import annotations

import math
import re
from abc import abstractmethod
from collections.abc import Callable
from datetime import datetime
from typing import Any, ClassVar, TypeVar, overload

import msgspec
from attrs import Factory, field, frozen
from typing_extensions import override

from hbmodel.encoding.codecs.base import JSON, Codec, SpecReaders
from hbmodel.errors import DeclarationError, DecodingError, EncodingError

V = TypeVar("V")

# The errors that msgspec raises for values that it cannot write, including errors of other code that it calls.
UNWRITABLE = (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError, AttributeError)
UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)


OTHER_KEYS = re.compile("Only dicts with str keys are supported when `order`")
MIXED_KEYS = re.compile("'<' not supported between instances")
NO_JSON_KEYS = re.compile("Only dicts with str-like or number-like keys")
NATIVE = (bytes, bytearray, memoryview, datetime)
"""Types that each format writes in its own way, so they must be passed to it unchanged."""

EXPECTED = re.compile(r"Expected `(?P<expected>[^`]*)`[^`]*?(?:, got `(?P<found>[^`]*)`)?(?: - at |$)")
MISSING = re.compile(r"Object missing required field `(?P<missing>[^`]*)`")
UNSUPPORTED = re.compile(r"Encoding objects of type (?P<found>\S+) is unsupported")
PATH = re.compile(r" - at `(?P<path>\$[^`]*)`$")


def _misfit(error: Exception) -> dict[str, str]:
    """Returns the parts of msgspec's message that name types, declared fields and the places of these fields. The rest
    of the message is left out, because it may contain values.
    """
    message = str(error)
    said = [
        matched
        for pattern in (EXPECTED, MISSING, UNSUPPORTED, PATH)
        if (matched := pattern.search(message)) is not None
    ]
    named = {name: value for matched in said for name, value in matched.groupdict().items() if value is not None}
    return named if named.keys() - {"path"} else {"reason": type(error).__name__, **named}


def _float_in(value: Any, chosen: Callable[[float], bool]) -> float | None:
    """Returns a chosen float in a value, or None if the value contains none or cannot be written for other reasons."""
    try:
        parts = [msgspec.to_builtins(value, builtin_types=NATIVE)]
    except UNWRITABLE:
        return None
    while parts:
        part = parts.pop()
        if isinstance(part, float) and chosen(part):
            return part
        if isinstance(part, dict):
            parts += [*part, *part.values()]
        elif isinstance(part, list | tuple | set | frozenset):
            parts += part
    return None


def _decoder(form: Any, declared: Any) -> Any:
    try:
        return form.Decoder(declared)
    except (TypeError, ValueError) as error:
        raise DeclarationError(
            "A structured value cannot have this type: see `reason`.", type=repr(declared), reason=str(error)
        ) from error


class _Structured(Codec[V]):
    __slots__ = ()

    order = None
    raw_order = None
    key = False

    _encoder: Any
    _decoder: Any
    _form: ClassVar[Any]
    """`msgspec.json` or `msgspec.msgpack`."""

    _none: ClassVar[bytes]
    """The bytes of None."""

    _float_refusal: ClassVar[str]
    """The error for a float that cannot be stored."""

    @staticmethod
    @abstractmethod
    def _is_refused(number: float) -> bool:
        """Returns whether a float cannot be stored."""

    def _written(self, value: V) -> bytes:
        try:
            data: bytes = self._encoder.encode(value)
        except TypeError as error:
            if not OTHER_KEYS.match(str(error)):
                raise
            # here msgspec sorts keys that are not text; elsewhere it keeps their order
            plain = msgspec.to_builtins(value, order="deterministic", builtin_types=NATIVE)
            data = self._form.encode(plain)
        return data

    def encode(self, value: V) -> bytes:
        try:
            data = self._written(value)
            exact = self._decoder.decode(data) == value
        except UNWRITABLE as error:
            if NO_JSON_KEYS.match(str(error)):
                raise EncodingError(
                    "JSON has no keys of this type in a dictionary: use hb.codecs.MsgPack, or keys that are text or "
                    "numbers."
                ) from None
            if MIXED_KEYS.search(str(error)):
                raise EncodingError(
                    "The keys of a dictionary have several types, which have no common order: use keys of one type."
                ) from None
            self._check_finite(value)
            raise EncodingError("A structured value does not fit its declared type.", **_misfit(error)) from None
        if not exact:
            self._check_finite(value)
            raise EncodingError(
                "A structured value would not be equal after a read: give a value of the declared types, such as a set "
                "for a set, not a list.",
                found=type(value).__name__,
            )
        return data

    def _check_finite(self, value: V) -> None:
        """Raises an error that names a float in the value that cannot be stored, if there is one."""
        if (number := _float_in(value, self._is_refused)) is not None:
            raise EncodingError(self._float_refusal, found=str(number))

    def decode(self, data: bytes) -> V:
        try:
            value: V = self._decoder.decode(data)
        except UNREADABLE:
            if data.strip() == self._none:
                raise DecodingError(
                    "The cell holds null, which the declared type does not allow: let the codec and the annotation "
                    "allow None, such as hb.Json(dict | None)."
                ) from None
            raise DecodingError("Stored bytes are not a structured value of the declared type.") from None
        return value


@frozen
class JsonCodec(_Structured[V]):
    """Values as JSON; object members that have no defined order are sorted by name."""

    _form: ClassVar[Any] = msgspec.json
    _none: ClassVar[bytes] = b"null"
    _float_refusal: ClassVar[str] = (
        "JSON has neither NaN nor infinities: give None instead, or use hb.codecs.MsgPack for infinities."
    )

    declared: Any
    python_type: Any = field(init=False, eq=False, repr=False, default=object)
    _encoder: Any = field(init=False, eq=False, repr=False, factory=lambda: msgspec.json.Encoder(order="deterministic"))
    _decoder: Any = field(
        init=False,
        eq=False,
        repr=False,
        default=Factory(lambda self: _decoder(msgspec.json, self.declared), takes_self=True),
    )

    @staticmethod
    @override
    def _is_refused(number: float) -> bool:
        return not math.isfinite(number)

    @property
    def spec(self) -> dict[str, JSON]:
        return {"codec": "json"}


@frozen
class MsgPackCodec(_Structured[V]):
    """Values as MessagePack; map members that have no defined order are sorted by their keys."""

    _form: ClassVar[Any] = msgspec.msgpack
    _none: ClassVar[bytes] = b"\xc0"
    _float_refusal: ClassVar[str] = (
        "A NaN inside a structured value would not be equal after a read: give None instead."
    )

    declared: Any
    python_type: Any = field(init=False, eq=False, repr=False, default=object)
    _encoder: Any = field(
        init=False, eq=False, repr=False, factory=lambda: msgspec.msgpack.Encoder(order="deterministic")
    )
    _decoder: Any = field(
        init=False,
        eq=False,
        repr=False,
        default=Factory(lambda self: _decoder(msgspec.msgpack, self.declared), takes_self=True),
    )

    @staticmethod
    @override
    def _is_refused(number: float) -> bool:
        return math.isnan(number)

    @property
    def spec(self) -> dict[str, JSON]:
        return {"codec": "msgpack"}


@overload
def Json(declared: type[V], /) -> Codec[V]: ...
@overload
def Json(declared: Any, /) -> Codec[Any]: ...
def Json(declared: Any, /) -> Codec[Any]:
    """Returns a column codec that stores values of a type as JSON (any type that msgspec supports); not for keys.

    Raises:
        DeclarationError: msgspec does not support the type.
    """
    return JsonCodec(declared)


@overload
def MsgPack(declared: type[V], /) -> Codec[V]: ...
@overload
def MsgPack(declared: Any, /) -> Codec[Any]: ...
def MsgPack(declared: Any, /) -> Codec[Any]:
    """Returns a column codec that stores values of a type as MessagePack (any type that msgspec supports); not for
    keys.

    Raises:
        DeclarationError: msgspec does not support the type.
    """
    return MsgPackCodec(declared)


SPECS: SpecReaders = {"json": lambda spec, codec_of: Json(Any), "msgpack": lambda spec, codec_of: MsgPack(Any)}
