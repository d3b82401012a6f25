"""The base of all codecs: an exact, reversible mapping between the values of one Python type and bytes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from struct import calcsize
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeAlias, TypeVar

from attrs import field, fields, frozen

from hbmodel.errors import DeclarationError, DecodingError, EncodingError, QueryError

T = TypeVar("T")

COMPLEMENT: Final = bytes(range(255, -1, -1))
"""Translation table that flips every bit."""

JSON: TypeAlias = "dict[str, JSON] | list[JSON] | str | int | float | bool | None"
"""The values that the description of a layout may contain."""

Order: TypeAlias = Literal["ascending", "descending"] | None
"""The relation of byte order to value order; None if there is none."""


@frozen
class Source:
    """Python expressions that do the work of a codec. Code that is generated once per model contains them, so that no
    call is needed for each value.

    They handle ordinary values. For any other value they raise some exception, and the codec's own methods are called
    instead. They never return a different result from those methods.

    Attributes:
        accepts: the exact type of the values that `encode` can encode.
        decode: the expression for the value whose raw form is `{v}`. If `word` is set, `{v}` is the number instead of
            the raw form.
        encode: the expression for the raw form of the value `{v}`. If `word` is set, the expression is for the number
            instead of the raw form.
        part: the expression for the part form of `{v}` if the part form differs from the raw form. If this is None, the
            codec's method is called.
        word: if the raw form is a big-endian number, its format in `struct`'s notation, else None.
        scope: the objects that the names in braces, such as `{table}`, refer to. `{t}` is a variable for intermediate
            results.
    """

    accepts: type
    decode: str
    encode: str
    word: str | None = None
    part: str | None = None
    scope: Mapping[str, Any] = field(factory=dict)


class Codec(ABC, Generic[T]):
    """Encodes values of one type as bytes and decodes them; subclasses are frozen attrs classes, so codecs compare by
    value.

    A value has two forms. The *raw* form is used where nothing follows the value: in a column, or in the last ascending
    field of a row key. The *part* form marks its own end, so that another field can follow; no part is a prefix of
    another part of the same codec. For a fixed width both forms are the same bytes.

    Attributes:
        python_type: the type, or types, of the values.
        order: byte order of the part form.
        raw_order: byte order of the raw form.
        width: length of every encoded value in bytes, or None if it varies.
        may_be_empty: whether some value's raw form is empty.
        key: whether the codec can be used in keys, that is, whether it has a part form.
        delimited: whether a part form shows where it ends. If it does not, a key that begins with the part form of one
            value may contain a different value.
    """

    __slots__ = ()

    python_type: type | tuple[type, ...]
    order: Order = "ascending"
    raw_order: Order = "ascending"
    width: int | None = None
    may_be_empty: bool = False
    key: bool = True
    delimited: bool = True

    if not TYPE_CHECKING:  # type checkers see by themselves that most codecs are not callable

        def __call__(self, *arguments, **options):
            """Refuses a call. A codec without arguments is an instance, so its name is written without parentheses."""
            raise DeclarationError(
                "This codec takes no arguments: write its name alone, without parentheses.", codec=type(self).__name__
            )

    @abstractmethod
    def encode(self, value: T) -> bytes:
        """Returns the raw form of a value.

        Raises:
            EncodingError: the value cannot be stored exactly.
        """

    @abstractmethod
    def decode(self, data: bytes) -> T:
        """Returns the value whose raw form is exactly `data`.

        Raises:
            DecodingError: `encode` does not produce these bytes.
        """

    def encode_part(self, value: T) -> bytes:
        """Returns the part form of a value.

        Raises:
            EncodingError: the value cannot be stored exactly.
        """
        raise DeclarationError("This codec cannot be part of a key: use a scalar codec.", codec=type(self).__name__)

    def decode_part(self, data: bytes, start: int) -> tuple[T, int]:
        """Returns the value whose part form begins at `start`, and the position after it.

        Raises:
            DecodingError: `encode_part` does not produce these bytes.
        """
        raise DeclarationError("This codec cannot be part of a key: use a scalar codec.", codec=type(self).__name__)

    def part_end(self, data: bytes, start: int) -> int:
        """Returns the position at which the part form that begins at `start` ends. A codec may find it without decoding
        the value.

        Raises:
            DecodingError: no part form begins there.
        """
        return self.decode_part(data, start)[1]

    def encode_prefix(self, prefix: T) -> bytes | None:
        """Returns a byte prefix that selects exactly the part forms of the values that start with `prefix`. Returns
        None if no value starts with `prefix`.

        Raises:
            QueryError: with this codec or this prefix, no byte prefix selects exactly these values.
            EncodingError: the prefix is not of the codec's type, or cannot be encoded.
        """
        raise QueryError(
            "Values of this codec cannot be searched by prefix: only text and bytes without a fixed layout can.",
            codec=type(self).__name__,
        )

    def raw_prefix(self, prefix: T) -> bytes | None:
        """Like `encode_prefix`, for the raw form."""
        return self.encode_prefix(prefix)

    def floor(self, value: T) -> T | None:
        """Returns the largest storable value that is not above `value`, or None if all storable values are above
        `value`.

        Queries use this for their bounds, which need not be storable: `at >= 12:00:00.5` has a meaning even if whole
        seconds are stored, and so has `number < 300` even if each number is stored in one byte. Codecs whose types have
        no such bounds return the value unchanged.

        Raises:
            EncodingError: the value is not of the codec's type.
        """
        return value

    @property
    def exact(self) -> Codec[T]:
        """The variant of this codec that refuses values instead of rounding them. If the codec never rounds, this is
        the codec itself.
        """
        return self

    @property
    def canonical(self) -> bool:
        """Whether equal values have equal bytes, so that the server can compare values by their bytes."""
        return self.key

    def constant(self, value: T) -> T:
        """Returns the value that a query must compare with: the given value, encoded and decoded again.

        Raises:
            EncodingError: the value cannot be stored exactly.
        """
        if self.key:
            self.encode_part(value)
        return self.decode(self.encode(value))

    def order_key(self, value: T) -> Any:
        """Returns the key by which `<` and similar operators compare values: the bytes of the value if they preserve
        order, otherwise the value itself.

        A codec that changes the bytes of another codec returns the key of that codec.
        """
        if self.key and self.order is not None:
            part = self.encode_part(value)
            return part if self.order == "ascending" else part.translate(COMPLEMENT)
        return self.encode(value) if self.raw_order == "ascending" else value

    @property
    def source(self) -> Source | None:
        """Python expressions that do the same for ordinary values. If this is None, generated code calls the codec.

        The expressions apply only to the class that defines this property, not to its subclasses.
        """
        return None

    def check_row_key(self, *, nullable: bool, last: bool) -> None:
        """Raises an error if the format cannot store every value at this place in a row key, or has other bytes at this
        place than hbmodel would write. Called when a model is declared.

        Args:
            nullable: whether the field allows None.
            last: whether the key ends with the field.

        Raises:
            DeclarationError: the field cannot be at this place.
        """

    @property
    @abstractmethod
    def spec(self) -> dict[str, JSON]:
        """The byte layout as canonical JSON. Codecs with equal specs write equal bytes for equal values."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Compiled struct functions cannot be pickled; the arguments of the constructor can. attrs adds the class
        # attribute that `fields` reads to every subclass, so mypy does not see the attribute here.
        return type(self), tuple(getattr(self, a.name) for a in fields(type(self)) if a.init)  # type: ignore[arg-type]


DefaultCodecs = Mapping[type, Codec[Any]]
"""The type of `DEFAULTS` in a module of codecs: the codec of each plain Python type that a field may be annotated
with.
"""

SpecReaders = Mapping[str, Callable[[Mapping[str, Any], Callable[[Mapping[str, Any]], Codec[Any]]], Codec[Any]]]
"""The type of `SPECS` in a module of codecs: for each name in a spec, a function that makes the codec. Its second
argument makes the codec of an inner spec.
"""


class FixedWidth(Codec[T]):
    """Base class of codecs that write the same number of bytes for every value: raw form and part form are the same."""

    __slots__ = ()

    width: int  # pyright: ignore[reportIncompatibleVariableOverride]  # nobody assigns it

    def encode_part(self, value: T) -> bytes:
        return self.encode(value)

    def constant(self, value: T) -> T:
        return self.decode(self.encode(value))

    def decode_part(self, data: bytes, start: int) -> tuple[T, int]:
        end = start + self.width
        return self.decode(data[start:end]), end

    def part_end(self, data: bytes, start: int) -> int:
        end = start + self.width
        if end > len(data):
            raise wrong_width(self.width, len(data) - start)
        return end


def source_of(codec: Codec[Any]) -> Source | None:
    """Returns the expressions of a codec, or None if its own class does not define them. Expressions of a base class
    would ignore changes in the subclass.
    """
    source = codec.source if "source" in vars(type(codec)) else None
    if source is None or (source.word is not None and calcsize(">" + source.word) != codec.width):
        return None
    return source


def below(codec: Codec[T], value: T) -> tuple[T | None, bool]:
    """Returns the floor of a value, and whether this floor is the value itself.

    The two are compared by their bytes and not by `==`, because in the repeated hour of a clock change a datetime does
    not equal any datetime of another zone.

    Raises:
        EncodingError: the value is not of the codec's type.
    """
    floor = codec.floor(value)
    if floor is None or floor is value:
        return floor, floor is value
    try:
        return floor, codec.exact.encode(value) == codec.encode(floor)
    except EncodingError:  # the value cannot be stored exactly, so its floor is below it
        return floor, False


_EXACT = frozenset({str, bytes, int, bool})
"""Types whose codecs either store a value unchanged or refuse it."""


def read_back(codec: Codec[T], value: T) -> T:
    """Returns the value in the form that a read would return. A value that the codec cannot store is returned
    unchanged.
    """
    kind = type(value)
    # codecs without a form for keys store only values that read back equal
    if not codec.key or (kind in _EXACT and kind is codec.python_type):
        return value
    try:
        return codec.constant(value)
    except EncodingError:
        return value


def wrong_type(expected: type | tuple[type, ...], value: object) -> EncodingError:
    """Returns the error for a value whose type is not that of the codec. The error shows the types but never the
    value.
    """
    types = expected if isinstance(expected, tuple) else (expected,)
    name = type(value).__name__
    module = type(value).__module__
    return EncodingError(
        "A value does not have the type that its codec stores: give one of the expected type.",
        expected=" or ".join(t.__name__ for t in types),
        found=f"{module}.{name}" if any(t.__name__ == name for t in types) else name,
    )


def wrong_width(expected: int, found: int) -> DecodingError:
    """Returns the error for bytes that are longer or shorter than the codec's fixed width."""
    return DecodingError("Stored bytes do not have the length that their codec writes.", width=expected, found=found)


def declared_width(width: int) -> int:
    """Validates a width given in a declaration.

    Raises:
        DeclarationError: the width is not a positive int.
    """
    if type(width) is not int or width < 1:
        raise DeclarationError("A width must be a positive int.", found=width)
    return width


def declared_codec(codec: Any) -> Any:
    """Validates a codec given in a declaration.

    Raises:
        DeclarationError: the argument is not a codec, but for example a type.
    """
    if not isinstance(codec, Codec):
        raise DeclarationError("A codec is needed here, such as hb.Int64 or hb.Text.", found=repr(codec))
    return codec
