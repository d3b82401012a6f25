"""Text and bytes that are not empty, so that the cell always shows that its row exists."""

from __future__ import annotations

from typing import Any, TypeVar

from attrs import Factory, evolve, field, frozen

from hbmodel.encoding.codecs.base import JSON, Codec, Order, SpecReaders, declared_codec
from hbmodel.errors import DeclarationError, DecodingError, EncodingError

V = TypeVar("V")


def _may_be_empty(codec: Any) -> Any:
    if not declared_codec(codec).may_be_empty or codec.width is not None:
        raise DeclarationError("No value of this codec is empty: use the codec without NonEmpty.", codec=repr(codec))
    return codec


@frozen
class NonEmpty(Codec[V]):
    """Stores values in the same way as another codec, but refuses the empty value.

    A model with a required column of this codec needs no flag for `insert`, `put` and `prepend`, because the cell is
    never empty.

    Args:
        codec: the codec of the values, e.g. `Text`.
    """

    codec: Codec[V] = field(converter=_may_be_empty)
    python_type: type | tuple[type, ...] = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: self.codec.python_type, takes_self=True)
    )
    order: Order = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: self.codec.order, takes_self=True)
    )
    raw_order: Order = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: self.codec.raw_order, takes_self=True)
    )
    key: bool = field(init=False, eq=False, repr=False, default=Factory(lambda self: self.codec.key, takes_self=True))

    may_be_empty = False

    def encode(self, value: V) -> bytes:
        data = self.codec.encode(value)
        if not data:
            raise EncodingError("The value is empty, and its field is declared as never empty.")
        return data

    def decode(self, data: bytes) -> V:
        if not data:
            raise DecodingError("A stored value is empty, and its field is declared as never empty.")
        return self.codec.decode(data)

    def encode_part(self, value: V) -> bytes:
        self.encode(value)
        return self.codec.encode_part(value)

    def decode_part(self, data: bytes, start: int) -> tuple[V, int]:
        value, end = self.codec.decode_part(data, start)
        self.decode(self.codec.encode(value))
        return value, end

    def encode_prefix(self, prefix: V) -> bytes | None:
        return self.codec.encode_prefix(prefix)

    def raw_prefix(self, prefix: V) -> bytes | None:
        return self.codec.raw_prefix(prefix)

    def floor(self, value: V) -> V | None:
        floor = self.codec.floor(value)
        return None if floor is None or not self.codec.encode(floor) else floor

    @property
    def exact(self) -> NonEmpty[V]:
        return evolve(self, codec=self.codec.exact)

    @property
    def canonical(self) -> bool:
        return self.codec.canonical

    def order_key(self, value: V) -> Any:
        return self.codec.order_key(value)

    def check_row_key(self, *, nullable: bool, last: bool) -> None:
        self.codec.check_row_key(nullable=nullable, last=last)

    @property
    def spec(self) -> dict[str, JSON]:
        return {"codec": "non_empty", "of": self.codec.spec}


SPECS: SpecReaders = {"non_empty": lambda spec, codec_of: NonEmpty(codec_of(spec["of"]))}
