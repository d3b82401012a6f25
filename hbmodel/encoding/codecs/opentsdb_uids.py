"""Names stored as ids from OpenTSDB's table of ids, which OpenTSDB may extend at any time."""

from __future__ import annotations

from typing import Any

from attrs import Factory, field, frozen

from hbmodel.encoding.codecs.base import JSON, Codec, FixedWidth, SpecReaders, wrong_type, wrong_width
from hbmodel.encoding.codecs.dictionary import Dictionary
from hbmodel.encoding.codecs.integers import floor_integer, integer, out_of_range
from hbmodel.errors import DeclarationError, EncodingError
from hbmodel.store.checks.numbers import whole_number
from hbmodel.store.values import MAX_ROW_LENGTH

KINDS = ("metrics", "tagk", "tagv")
"""The kinds of names that have ids in OpenTSDB; each kind has its own column, its own counter and its own width."""

WIDEST, WIDEST_RANDOM = 8, 7
"""The maximum length in bytes of an id, and of a random id (`UniqueId`, `RandomUniqueId.MAX_WIDTH`)."""

COUNTER_ROW = b"\x00"
"""The row key of the counters (`UniqueId.MAXID_ROW`), which therefore cannot be a name."""


def highest(width: int) -> int:
    """Returns the greatest id that fits in `width` bytes."""
    return (1 << 8 * width) - 1


@frozen
class UidNumber(FixedWidth[int]):
    """An id: an unsigned number of a few bytes, big-endian."""

    width: int

    python_type = int

    def encode(self, value: int) -> bytes:
        try:
            return integer(value).to_bytes(self.width, "big")
        except OverflowError:
            raise out_of_range(0, highest(self.width)) from None

    def decode(self, data: bytes) -> int:
        if len(data) != self.width:
            raise wrong_width(self.width, len(data))
        return int.from_bytes(data, "big")

    def floor(self, value: int) -> int | None:
        return floor_integer(value, 0, highest(self.width))

    @property
    def spec(self) -> dict[str, JSON]:
        return {"codec": "opentsdb_uid", "width": self.width}


class Latin1Name(str):
    """A name whose bytes are ISO-8859-1, as OpenTSDB stores it."""

    __slots__ = ()

    def encode(self, encoding: str = "latin-1", errors: str = "strict") -> bytes:
        """Returns the bytes of the name."""
        return super().encode(encoding, errors)


def _table(name: Any) -> Any:
    if type(name) is not str or not name:
        raise DeclarationError("OpenTSDB's table of ids needs a name, such as tsdb-uid.", found=repr(name))
    return name


def _kind(kind: Any) -> Any:
    if kind not in KINDS:
        raise DeclarationError("OpenTSDB has no ids of this kind.", found=repr(kind), known=list(KINDS))
    return kind


def _width(width: Any) -> Any:
    number = whole_number(width)
    if number is None or not 1 <= number <= WIDEST:
        raise DeclarationError("The ids of OpenTSDB have 1 to 8 bytes.", found=repr(width))
    return number


@frozen
class UidDictionary(Dictionary):
    """Text that is stored as ids of OpenTSDB. Created with `hb.ids.opentsdb_uids`.

    Attributes:
        table: OpenTSDB's table of ids.
        kind: the kind of the names: `metrics`, `tagk` or `tagv`.
        width: the length of an id in bytes.
        random: whether new ids are random numbers instead of numbers from the counter.
        name: the table and the kind.
        ids: codec of the ids.
    """

    table: str = field(converter=_table)
    kind: str = field(converter=_kind)
    width: int = field(converter=_width)
    random: bool
    name: str = field(  # pyright: ignore[reportIncompatibleVariableOverride]  # nobody assigns it
        init=False, eq=False, repr=False, default=Factory(lambda self: f"{self.table}:{self.kind}", takes_self=True)
    )
    ids: Codec[int] = field(  # pyright: ignore[reportIncompatibleVariableOverride]  # nobody assigns it
        init=False, eq=False, repr=False, default=Factory(lambda self: UidNumber(self.width), takes_self=True)
    )

    def __attrs_post_init__(self) -> None:
        if type(self.random) is not bool:
            raise DeclarationError("random must be True or False.", found=repr(self.random))
        if self.random and (self.kind != "metrics" or self.width > WIDEST_RANDOM):
            raise DeclarationError(
                "OpenTSDB gives random ids only to metrics, and a random id has at most 7 bytes.",
                kind=self.kind,
                width=self.width,
            )

    def constant(self, value: str) -> str:
        if not isinstance(value, str):
            raise wrong_type(str, value)
        try:
            stored = str.encode(value, "latin-1")
        except UnicodeEncodeError:
            raise EncodingError(
                "OpenTSDB stores names in ISO-8859-1, which lacks a character of the name.", dictionary=self.name
            ) from None
        if not 0 < len(stored) <= MAX_ROW_LENGTH or stored == COUNTER_ROW:
            raise EncodingError(
                "A name in OpenTSDB must have 1 to 32,767 characters, and must not be a single NUL character: that is "
                "the row key of OpenTSDB's counters.",
                dictionary=self.name,
                length=len(stored),
            )
        return value

    def written(self, name: str) -> str:
        return Latin1Name(name)

    def read(self, data: bytes) -> str:
        return data.decode("latin-1")

    @property
    def spec(self) -> dict[str, JSON]:
        return {
            "codec": "opentsdb_uids",
            "table": self.table,
            "kind": self.kind,
            "width": self.width,
            "random": self.random,
        }


SPECS: SpecReaders = {
    "opentsdb_uid": lambda spec, codec_of: UidNumber(spec["width"]),
    "opentsdb_uids": lambda spec, codec_of: UidDictionary(spec["table"], spec["kind"], spec["width"], spec["random"]),
}
