"""Booleans, UUIDs and IP addresses."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address
from typing import TypeVar
from uuid import UUID

from attrs import frozen

from hbmodel.encoding.codecs.base import JSON, Codec, FixedWidth, Source, wrong_type, wrong_width
from hbmodel.errors import DecodingError, EncodingError

A = TypeVar("A", IPv4Address, IPv6Address)

TAG_4, TAG_6 = b"\x04", b"\x06"


def _pack_address(value: IPv4Address | IPv6Address) -> bytes:
    # Exact types: an interface is an address too, but one with a network, which would be lost.
    if type(value) is IPv4Address:
        return TAG_4 + value.packed
    if type(value) is IPv6Address:
        if value.scope_id is not None:
            raise EncodingError("An IPv6 address with a scope cannot be stored: the scope has no bytes.")
        return TAG_6 + value.packed
    raise wrong_type((IPv4Address, IPv6Address), value)


@frozen
class BoolCodec(FixedWidth[bool]):
    """A bool as 00 or 01."""

    python_type = bool
    width = 1

    def encode(self, value: bool) -> bytes:
        """00 or 01."""
        if value is True:
            return b"\x01"
        if value is False:
            return b"\x00"
        raise wrong_type(bool, value)

    encode_part = encode

    def decode(self, data: bytes) -> bool:
        """Of 00 or 01."""
        if data == b"\x01":
            return True
        if data == b"\x00":
            return False
        raise DecodingError("A stored bool is 00 or 01.")

    @property
    def source(self) -> Source | None:
        """For exactly the codec's type."""
        return Source(bool, "{values}[{v}]", "(b'\\x01' if {v} else b'\\x00')", scope={"values": {b"\x00": False, b"\x01": True}})

    @property
    def spec(self) -> dict[str, JSON]:
        """The name alone."""
        return {"codec": "bool"}


@frozen
class UUIDCodec(FixedWidth[UUID]):
    """A UUID as its 16 bytes, in the order of its text."""

    python_type = UUID
    width = 16

    def encode(self, value: UUID) -> bytes:
        """16 bytes."""
        if not isinstance(value, UUID):
            raise wrong_type(UUID, value)
        return value.bytes

    encode_part = encode

    def decode(self, data: bytes) -> UUID:
        """Of 16 bytes."""
        if len(data) != self.width:
            raise wrong_width(self.width, len(data))
        return UUID(bytes=data)

    @property
    def spec(self) -> dict[str, JSON]:
        """The name alone."""
        return {"codec": "uuid"}


@frozen
class IPAddressCodec(Codec[IPv4Address | IPv6Address]):
    """An IP address of either version: 04 and 4 bytes, or 06 and 16 bytes; all of version 4 come first. Both forms are the same."""

    python_type = (IPv4Address, IPv6Address)

    def encode(self, value: IPv4Address | IPv6Address) -> bytes:
        """Version and address."""
        return _pack_address(value)

    encode_part = encode

    def decode(self, data: bytes) -> IPv4Address | IPv6Address:
        """Of all these bytes."""
        value, end = self.decode_part(data, 0)
        if end != len(data):
            raise DecodingError("Stored bytes go on behind the end of an IP address.")
        return value

    def decode_part(self, data: bytes, start: int) -> tuple[IPv4Address | IPv6Address, int]:
        """The address that begins at `start`, and the position behind it."""
        tag = data[start : start + 1]
        end = start + (5 if tag == TAG_4 else 17)
        if tag not in (TAG_4, TAG_6) or end > len(data):
            raise DecodingError("Stored bytes are not an IP address.")
        packed = data[start + 1 : end]
        return (IPv4Address(packed) if tag == TAG_4 else IPv6Address(packed)), end

    @property
    def spec(self) -> dict[str, JSON]:
        """The name alone."""
        return {"codec": "ip"}


@frozen
class IPVersionCodec(FixedWidth[A]):
    """An IP address of one version, with the same bytes as in `IPAddress`, so 5 or 17 of them."""

    python_type: type[A]  # pyright: ignore[reportIncompatibleVariableOverride]  # nobody assigns it
    tag: bytes
    width: int

    def encode(self, value: A) -> bytes:
        """Version and address."""
        if type(value) is not self.python_type:
            raise wrong_type(self.python_type, value)
        return _pack_address(value)

    encode_part = encode

    def decode(self, data: bytes) -> A:
        """Of all these bytes."""
        if len(data) != self.width or not data.startswith(self.tag):
            raise DecodingError("Stored bytes are not an IP address of this version.")
        return self.python_type(data[1:])

    @property
    def spec(self) -> dict[str, JSON]:
        """The version."""
        return {"codec": "ip", "version": self.tag[0]}


Bool = BoolCodec()
UUID128 = UUIDCodec()
IPAddress = IPAddressCodec()
IPv4 = IPVersionCodec(IPv4Address, TAG_4, 5)
IPv6 = IPVersionCodec(IPv6Address, TAG_6, 17)
