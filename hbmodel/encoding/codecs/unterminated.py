"""Text and bytes of any length before fields of fixed width, without a terminator, as many Java programs write them."""

from __future__ import annotations

from typing import Any, TypeVar

from attrs import Factory, evolve, field, frozen

from hbmodel.encoding.codecs.base import JSON, Codec, SpecReaders, declared_codec, declared_width
from hbmodel.errors import DeclarationError, DecodingError

V = TypeVar("V")


def _varying(codec: Any) -> Any:
    if declared_codec(codec).width is not None:
        raise DeclarationError(
            "A codec of fixed width has no terminator: use it without Unterminated.", codec=repr(codec)
        )
    return codec


@frozen
class Unterminated(Codec[V]):
    """Stores the raw form of a value in a key in which a known number of bytes follows the value, as in `user +
    (Long.MAX_VALUE - time)`.

    The length of the key determines where the value ends, so every field after it must have a fixed width. Keys are not
    sorted by such values: the keys of `ab` and `abc` are mixed, because the bytes that follow the values decide. A
    query for one value reads the keys that begin with this value, and drops the keys of longer values.

    Args:
        codec: the codec of the values, e.g. `Text`.
        followed_by: the number of bytes of all later fields of the key.
    """

    codec: Codec[V] = field(converter=_varying)
    followed_by: int = field(converter=declared_width)
    python_type: type | tuple[type, ...] = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: self.codec.python_type, takes_self=True)
    )
    may_be_empty: bool = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: self.codec.may_be_empty, takes_self=True)
    )

    order = None
    raw_order = None
    delimited = False

    def encode(self, value: V) -> bytes:
        return self.codec.encode(value)

    def decode(self, data: bytes) -> V:
        return self.codec.decode(data)

    def encode_part(self, value: V) -> bytes:
        return self.codec.encode(value)

    def decode_part(self, data: bytes, start: int) -> tuple[V, int]:
        end = len(data) - self.followed_by
        if end < start:
            raise DecodingError("A stored key is shorter than its fields.", expected=self.followed_by, found=len(data))
        return self.codec.decode(data[start:end]), end

    def encode_prefix(self, prefix: V) -> bytes | None:
        return self.codec.raw_prefix(prefix)

    def floor(self, value: V) -> V | None:
        return self.codec.floor(value)

    @property
    def exact(self) -> Unterminated[V]:
        return evolve(self, codec=self.codec.exact)

    def order_key(self, value: V) -> Any:
        return self.codec.order_key(value)

    @property
    def spec(self) -> dict[str, JSON]:
        return {"codec": "unterminated", "of": self.codec.spec, "followed_by": self.followed_by}


SPECS: SpecReaders = {"unterminated": lambda spec, codec_of: Unterminated(codec_of(spec["of"]), spec["followed_by"])}
