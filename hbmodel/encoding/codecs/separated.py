"""Values of fixed width with a separator between them and the next field of a key, as in `"%010d|" % n`."""

from __future__ import annotations

from typing import Any, TypeVar

from attrs import Factory, evolve, field, frozen

from hbmodel.encoding.codecs.base import JSON, Codec, Order, SpecReaders, declared_codec
from hbmodel.encoding.codecs.padded_and_delimited import declared_delimiter
from hbmodel.errors import DeclarationError, DecodingError

V = TypeVar("V")


def _fixed(codec: Any) -> Any:
    if declared_codec(codec).width is None:
        raise DeclarationError(
            "Only values of fixed width can have a separator after them: for text declare hb.codecs.Delimited, for "
            "integers hb.codecs.DelimitedInt.",
            codec=repr(codec),
        )
    if not codec.key:
        raise DeclarationError("This codec cannot be part of a key: use a scalar codec.", codec=repr(codec))
    return codec


@frozen
class Separated(Codec[V]):
    """A value of fixed width, and a separator if another field follows: `0000000042|` for
    `Separated(DecimalText(10), "|")`. The raw form has no separator.

    The bytes of the value may contain those of the separator, because the width determines where the value ends. Values
    sort as they would without the separator.

    Args:
        codec: the codec of the values, which has a fixed width, e.g. `DecimalText(10)` or `HexText(8)`.
        separator: one or more bytes, or ASCII text.
    """

    codec: Codec[V] = field(converter=_fixed)
    separator: bytes = field(converter=declared_delimiter)
    python_type: type | tuple[type, ...] = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: self.codec.python_type, takes_self=True)
    )
    order: Order = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: self.codec.order, takes_self=True)
    )
    raw_order: Order = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: self.codec.raw_order, takes_self=True)
    )

    def encode(self, value: V) -> bytes:
        return self.codec.encode(value)

    def decode(self, data: bytes) -> V:
        return self.codec.decode(data)

    def encode_part(self, value: V) -> bytes:
        return self.codec.encode_part(value) + self.separator

    def decode_part(self, data: bytes, start: int) -> tuple[V, int]:
        value, end = self.codec.decode_part(data, start)
        return value, self._after_separator(data, end)

    def part_end(self, data: bytes, start: int) -> int:
        return self._after_separator(data, self.codec.part_end(data, start))

    def _after_separator(self, data: bytes, start: int) -> int:
        if not data.startswith(self.separator, start):
            raise DecodingError("A value of a key has no separator after it.", delimiter=self.separator)
        return start + len(self.separator)

    def encode_prefix(self, prefix: V) -> bytes | None:
        return self.codec.encode_prefix(prefix)

    def raw_prefix(self, prefix: V) -> bytes | None:
        return self.codec.raw_prefix(prefix)

    def floor(self, value: V) -> V | None:
        return self.codec.floor(value)

    @property
    def exact(self) -> Separated[V]:
        return evolve(self, codec=self.codec.exact)

    def order_key(self, value: V) -> Any:
        return self.codec.order_key(value)

    def check_row_key(self, *, nullable: bool, last: bool) -> None:
        self.codec.check_row_key(nullable=nullable, last=last)

    @property
    def spec(self) -> dict[str, JSON]:
        return {"codec": "separated", "of": self.codec.spec, "separator": self.separator.hex()}


SPECS: SpecReaders = {
    "separated": lambda spec, codec_of: Separated(codec_of(spec["of"]), bytes.fromhex(spec["separator"]))
}
