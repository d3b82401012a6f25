"""Enumerations, stored as the values of their members."""

from __future__ import annotations

from enum import Enum, Flag
from typing import Any, TypeVar

from attrs import Factory, field, frozen

from hbmodel.encoding.codecs.base import JSON, Codec, Order, Source, declared_codec, wrong_type
from hbmodel.encoding.codecs.library import SCALARS
from hbmodel.errors import DeclarationError, DecodingError, EncodingError

E = TypeVar("E", bound=Enum)


def _value_codec(enumeration: type[Enum]) -> Codec[Any]:
    kinds = {type(member.value) for member in enumeration}
    codec = SCALARS.get(kinds.pop()) if len(kinds) == 1 else None
    if codec is None:
        raise DeclarationError(
            "The members of an enumeration need values of one plain type: otherwise name a codec, EnumOf(Type, codec).",
            type=enumeration.__name__,
        )
    return codec


def members_of(codec: Codec[Any]) -> dict[str, str]:
    """Returns the names of the members of an enumeration, by their bytes in hexadecimal digits. For any other codec the
    result is empty.
    """
    if not isinstance(codec, EnumOf):
        return {}
    enumeration: type[Enum] = codec.python_type
    return {codec.encode(member).hex(): str(member.name) for member in enumeration}


def _instance_of_enum(enumeration: Any) -> Any:
    if not isinstance(enumeration, type) or not issubclass(enumeration, Enum):
        raise DeclarationError("EnumOf takes an Enum subclass.", found=repr(enumeration))
    return enumeration


@frozen
class EnumOf(Codec[E]):
    """A member of an enumeration, encoded as its value: order, width and forms come from the value's codec.

    Args:
        enumeration: the Enum subclass. Members of a Flag and their combinations are stored as numbers.
        codec: the codec of the values; by default the codec of the common type of the values.
    """

    python_type: type[E] = field(converter=_instance_of_enum, alias="enumeration")
    codec: Codec[Any] = field(
        default=Factory(lambda self: _value_codec(self.python_type), takes_self=True), converter=declared_codec
    )
    order: Order = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: self.codec.order, takes_self=True)
    )
    raw_order: Order = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: self.codec.raw_order, takes_self=True)
    )
    width: int | None = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: self.codec.width, takes_self=True)
    )
    may_be_empty: bool = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: self.codec.may_be_empty, takes_self=True)
    )
    key: bool = field(init=False, eq=False, repr=False, default=Factory(lambda self: self.codec.key, takes_self=True))

    def __attrs_post_init__(self) -> None:
        # The members are checked here, so that a member that cannot be stored is refused at the declaration and not at
        # the first write.
        for member in self.python_type:
            try:
                self.codec.exact.encode(member.value)
                if member.value != member.value:
                    raise EncodingError("NaN equals no value, so it could not be found again.")
            except EncodingError as error:
                raise DeclarationError(
                    "A member of an enumeration has a value that its codec cannot store: name another codec, "
                    "EnumOf(Type, codec).",
                    member=member.name,
                    reason=error.message,
                ) from error

    def _value(self, value: Any) -> Any:
        if not isinstance(value, self.python_type):
            raise wrong_type(self.python_type, value)
        return value.value

    def _member(self, value: Any) -> E:
        try:
            member = self.python_type(value)
        except ValueError:
            member = None
        # For an unknown value, an enumeration may return a member that has a different value. That value would then be
        # written back instead of the value that was read.
        if member is None or member.value != value:
            raise DecodingError(
                "A stored value is not a member of its enumeration: add the member.", type=self.python_type.__name__
            )
        return member

    def encode(self, value: E) -> bytes:
        return self.codec.encode(self._value(value))

    def decode(self, data: bytes) -> E:
        return self._member(self.codec.decode(data))

    def encode_part(self, value: E) -> bytes:
        return self.codec.encode_part(self._value(value))

    def decode_part(self, data: bytes, start: int) -> tuple[E, int]:
        value, end = self.codec.decode_part(data, start)
        return self._member(value), end

    def part_end(self, data: bytes, start: int) -> int:
        # The end must not depend on the member: an object of a wide row with an unknown member would be left out by
        # reads, without an error.
        return self.codec.part_end(data, start)

    def check_row_key(self, *, nullable: bool, last: bool) -> None:
        self.codec.check_row_key(nullable=nullable, last=last)

    def order_key(self, value: E) -> Any:
        return self.codec.order_key(self._value(value))

    def _settled(self, member: E, code: bytes) -> bool:
        # Members may be equal to each other. A codec may write a value differently each time, or fail to read the value
        # back.
        try:
            return self.encode(member) == code and self.decode(code) is member
        except (EncodingError, DecodingError):
            return False

    @property
    def source(self) -> Source | None:
        if issubclass(self.python_type, Flag) or self.python_type.__hash__ is None:
            return None  # combinations of flags are not members, and members without a hash cannot be dictionary keys
        codes = {member: self.encode(member) for member in self.python_type}
        members = {code: member for member, code in codes.items()}
        if len(members) < len(self.python_type) or not all(self._settled(*each) for each in codes.items()):
            return None
        return Source(self.python_type, "{members}[{v}]", "{codes}[{v}]", scope={"members": members, "codes": codes})

    @property
    def spec(self) -> dict[str, JSON]:
        return self.codec.spec
