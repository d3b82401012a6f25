"""IP addresses."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address
from typing import Any, TypeVar

from attrs import frozen

from hbmodel.encoding.codecs.base import JSON, Codec, DefaultCodecs, FixedWidth, SpecReaders, wrong_type
from hbmodel.errors import DecodingError, EncodingError

A = TypeVar("A", IPv4Address, IPv6Address)


TAG_4, TAG_6 = b"\x04", b"\x06"


def _pack_address(value: IPv4Address | IPv6Address) -> bytes:
    # Only exact types are accepted: an interface is also an address, but the network of the interface would be lost.
    if type(value) is IPv4Address:
        return TAG_4 + value.packed
    if type(value) is IPv6Address:
        if value.scope_id is not None:
            raise EncodingError("An IPv6 address with a scope cannot be stored: give the address without its scope.")
        return TAG_6 + value.packed
    raise wrong_type((IPv4Address, IPv6Address), value)


@frozen
class IPAddressCodec(Codec[IPv4Address | IPv6Address]):
    """An IP address of either version: 04 and 4 bytes, or 06 and 16 bytes; IPv4 sorts first. Raw and part form are
    the same.
    """

    python_type = (IPv4Address, IPv6Address)

    def encode(self, value: IPv4Address | IPv6Address) -> bytes:
        return _pack_address(value)

    encode_part = encode

    def decode(self, data: bytes) -> IPv4Address | IPv6Address:
        value, end = self.decode_part(data, 0)
        if end != len(data):
            raise DecodingError("Stored bytes continue after the end of an IP address.")
        return value

    def decode_part(self, data: bytes, start: int) -> tuple[IPv4Address | IPv6Address, int]:
        tag = data[start : start + 1]
        end = start + (5 if tag == TAG_4 else 17)
        if tag not in (TAG_4, TAG_6) or end > len(data):
            raise DecodingError("Stored bytes are not an IP address.")
        packed = data[start + 1 : end]
        return (IPv4Address(packed) if tag == TAG_4 else IPv6Address(packed)), end

    @property
    def spec(self) -> dict[str, JSON]:
        return {"codec": "ip"}


@frozen
class IPVersionCodec(FixedWidth[A]):
    """An IP address of one version, stored in the same 5 or 17 bytes that `IPAddress` stores."""

    python_type: type[A]  # pyright: ignore[reportIncompatibleVariableOverride]  # nobody assigns it
    tag: bytes
    width: int

    def encode(self, value: A) -> bytes:
        if type(value) is not self.python_type:
            raise wrong_type(self.python_type, value)
        return _pack_address(value)

    encode_part = encode

    def decode(self, data: bytes) -> A:
        if len(data) != self.width or not data.startswith(self.tag):
            raise DecodingError("Stored bytes are not an IP address of this version.")
        return self.python_type(data[1:])

    @property
    def spec(self) -> dict[str, JSON]:
        return {"codec": "ip", "version": self.tag[0]}


IPAddress = IPAddressCodec()
IPv4 = IPVersionCodec(IPv4Address, TAG_4, 5)
IPv6 = IPVersionCodec(IPv6Address, TAG_6, 17)

_BY_VERSION: Mapping[int | None, Codec[Any]] = {None: IPAddress, 4: IPv4, 6: IPv6}

DEFAULTS: DefaultCodecs = {IPv4Address: IPv4, IPv6Address: IPv6}
SPECS: SpecReaders = {"ip": lambda spec, codec_of: _BY_VERSION[spec.get("version")]}
