"""Codecs for values that Java programs, Flink and Hive write with HBase's class `Bytes`."""

from __future__ import annotations

from hbmodel.encoding.codecs.java import JavaByte as Byte
from hbmodel.encoding.codecs.java import JavaInt as Int
from hbmodel.encoding.codecs.java import JavaLong as Long
from hbmodel.encoding.codecs.java import JavaShort as Short
from hbmodel.encoding.codecs.java import JavaUTF as UTF
from hbmodel.encoding.codecs.java import ReverseStamp, ReverseStampInt
from hbmodel.encoding.codecs.java_values import BigDecimal, IntText, IntTime, LongTime
from hbmodel.encoding.codecs.java_values import JavaBoolean as Boolean
from hbmodel.encoding.codecs.java_values import JavaDouble as Double
from hbmodel.encoding.codecs.java_values import JavaFloat as Float

__all__ = [
    "UTF",
    "BigDecimal",
    "Boolean",
    "Byte",
    "Double",
    "Float",
    "Int",
    "IntText",
    "IntTime",
    "Long",
    "LongTime",
    "ReverseStamp",
    "ReverseStampInt",
    "Short",
]
