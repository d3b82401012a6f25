"""Codecs: exact, reversible mappings between Python values and bytes, order-preserving wherever the name does not say otherwise."""

from __future__ import annotations

from hbmodel.codecs.base import JSON, Codec, FixedWidth, Order
from hbmodel.codecs.decimals import DecimalNumber
from hbmodel.codecs.enums import EnumOf
from hbmodel.codecs.floats import Float64
from hbmodel.codecs.foreign import DecimalText, Delimited, HexText
from hbmodel.codecs.infer import codec_for
from hbmodel.codecs.integers import Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64
from hbmodel.codecs.java import JavaInt, JavaLong, JavaUTF, ReverseStamp, ReverseStampInt
from hbmodel.codecs.layouts import DigestPrefixed, Reversed, ReversedDigits
from hbmodel.codecs.simple import UUID128, Bool, IPAddress, IPv4, IPv6
from hbmodel.codecs.structured import Json, MsgPack
from hbmodel.codecs.text import Bytes, Text
from hbmodel.codecs.times import Date, Datetime, Duration, Timestamp

__all__ = [
    "JSON",
    "UUID128",
    "Bool",
    "Bytes",
    "Codec",
    "Date",
    "Datetime",
    "DecimalNumber",
    "DecimalText",
    "Delimited",
    "DigestPrefixed",
    "Duration",
    "EnumOf",
    "FixedWidth",
    "Float64",
    "HexText",
    "IPAddress",
    "IPv4",
    "IPv6",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "JavaInt",
    "JavaLong",
    "JavaUTF",
    "Json",
    "MsgPack",
    "Order",
    "ReverseStamp",
    "ReverseStampInt",
    "Reversed",
    "ReversedDigits",
    "Text",
    "Timestamp",
    "UInt8",
    "UInt16",
    "UInt32",
    "UInt64",
    "codec_for",
]
