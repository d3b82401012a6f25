"""Codecs of the types of Apache Phoenix, under their names in SQL."""

from __future__ import annotations

from hbmodel.encoding.codecs.booleans import Bool as Boolean
from hbmodel.encoding.codecs.integers import Int8 as TinyInt
from hbmodel.encoding.codecs.integers import Int16 as SmallInt
from hbmodel.encoding.codecs.integers import Int32 as Integer
from hbmodel.encoding.codecs.integers import Int64 as BigInt
from hbmodel.encoding.codecs.java_values import LongTime as UnsignedDate
from hbmodel.encoding.codecs.java_values import LongTime as UnsignedTime
from hbmodel.encoding.codecs.phoenix import (
    Char,
    Date,
    Time,
    UnsignedInt,
    UnsignedLong,
    UnsignedSmallInt,
    UnsignedTimestamp,
    UnsignedTinyInt,
    Varchar,
)
from hbmodel.encoding.codecs.phoenix import PhoenixDecimal as Decimal
from hbmodel.encoding.codecs.phoenix import PhoenixDouble as Double
from hbmodel.encoding.codecs.phoenix import PhoenixFloat as Float
from hbmodel.encoding.codecs.phoenix import PhoenixTimestamp as Timestamp

__all__ = [
    "BigInt",
    "Boolean",
    "Char",
    "Date",
    "Decimal",
    "Double",
    "Float",
    "Integer",
    "SmallInt",
    "Time",
    "Timestamp",
    "TinyInt",
    "UnsignedDate",
    "UnsignedInt",
    "UnsignedLong",
    "UnsignedSmallInt",
    "UnsignedTime",
    "UnsignedTimestamp",
    "UnsignedTinyInt",
    "Varchar",
]
