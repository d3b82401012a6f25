"""Chooses the codec for a type annotation."""

from __future__ import annotations

from enum import Enum
from ipaddress import IPv4Address, IPv6Address
from types import NoneType, UnionType
from typing import Annotated, Any, NewType, Union, get_args, get_origin

from hbmodel.encoding.codecs.base import Codec
from hbmodel.encoding.codecs.enums import EnumOf
from hbmodel.encoding.codecs.ip_addresses import IPAddress
from hbmodel.encoding.codecs.library import SCALARS
from hbmodel.errors import DeclarationError


def _members(declared: Any) -> set[Any]:
    # The parts of a union, which are plain types, codecs that annotations name, and NoneType.
    origin = get_origin(declared)
    if origin in (Union, UnionType):
        return {member for argument in get_args(declared) for member in _members(argument)}
    if origin is Annotated:
        inner, *extras = get_args(declared)
        codec = next((extra for extra in extras if isinstance(extra, Codec)), None)
        return _members(inner) if codec is None else {codec} | (_members(inner) & {NoneType})
    if isinstance(declared, NewType):
        return _members(declared.__supertype__)
    if type(declared).__name__ == "TypeAliasType":
        return _members(declared.__value__)
    return {declared}


def codec_for(declared: Any) -> tuple[Codec[Any], bool]:
    """Returns the codec of an annotated type, and whether None is a valid value.

    Supports int, float, str, bytes, bool, Decimal, UUID, date, datetime, timedelta, IPv4Address, IPv6Address and their
    union, Enum subclasses, `X | None`, and `Annotated`, which may name the codec: `Annotated[int, UInt32]`. Names must
    be resolved.

    Raises:
        DeclarationError: there is no obvious codec; the message says what to do.
    """
    try:
        members = _members(declared)
    except TypeError:  # not hashable, so it is not a type
        members = set()
    nullable = NoneType in members
    types = members - {NoneType}
    if types == {IPv4Address, IPv6Address}:
        return IPAddress, nullable
    if len(types) == 1:
        only = types.pop()
        if isinstance(only, Codec):
            return only, nullable
        if isinstance(only, type) and issubclass(only, Enum):
            return EnumOf(only), nullable
        # Subclasses are excluded, because a read would return the plain type.
        if isinstance(only, type) and only in SCALARS:
            return SCALARS[only], nullable
    raise DeclarationError(
        "This type has no default codec. Name one: codec=hb.Json(...) or hb.codecs.MsgPack(...) for lists, dicts "
        "and classes, or a Codec of your own. hb.map_column stores each entry of a dict in a cell of its own. Annotate "
        "a field that may be None as X | None.",
        type=repr(declared),
    )
