"""Codecs: exact, reversible mappings of Python values to bytes, order-preserving unless the name says otherwise."""

from __future__ import annotations

from hbmodel.encoding.codecs.base import JSON, Codec, FixedWidth, Order
from hbmodel.encoding.codecs.booleans import Bool
from hbmodel.encoding.codecs.codec_of_type import codec_for
from hbmodel.encoding.codecs.decimals import DecimalNumber
from hbmodel.encoding.codecs.dictionary import Dictionary
from hbmodel.encoding.codecs.enums import EnumOf
from hbmodel.encoding.codecs.floats import Float32, Float64
from hbmodel.encoding.codecs.integers import (
    Int8,
    Int16,
    Int32,
    Int64,
    UInt8,
    UInt16,
    UInt24,
    UInt32,
    UInt40,
    UInt48,
    UInt56,
    UInt64,
)
from hbmodel.encoding.codecs.ip_addresses import IPAddress, IPv4, IPv6
from hbmodel.encoding.codecs.java import JavaInt, JavaLong, JavaUTF, ReverseStamp, ReverseStampInt
from hbmodel.encoding.codecs.non_empty import NonEmpty
from hbmodel.encoding.codecs.padded_and_delimited import (
    DecimalText,
    Delimited,
    DelimitedInt,
    HexText,
    ReverseDecimalText,
)
from hbmodel.encoding.codecs.reversed_and_digests import DigestPrefixed, Reversed, ReversedDigits
from hbmodel.encoding.codecs.separated import Separated
from hbmodel.encoding.codecs.structured import Json, MsgPack
from hbmodel.encoding.codecs.text import Bytes, PaddedBytes, Text
from hbmodel.encoding.codecs.times import Date, Datetime, Duration, Timestamp
from hbmodel.encoding.codecs.unterminated import Unterminated
from hbmodel.encoding.codecs.uuids import UUID128

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
    "DelimitedInt",
    "Dictionary",
    "DigestPrefixed",
    "Duration",
    "EnumOf",
    "FixedWidth",
    "Float32",
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
    "NonEmpty",
    "Order",
    "PaddedBytes",
    "ReverseDecimalText",
    "ReverseStamp",
    "ReverseStampInt",
    "Reversed",
    "ReversedDigits",
    "Separated",
    "Text",
    "Timestamp",
    "UInt8",
    "UInt16",
    "UInt24",
    "UInt32",
    "UInt40",
    "UInt48",
    "UInt56",
    "UInt64",
    "Unterminated",
    "codec_for",
]
