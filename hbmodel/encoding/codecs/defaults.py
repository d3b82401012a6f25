"""The default codec of each plain Python type."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from ipaddress import IPv4Address, IPv6Address
from types import MappingProxyType
from typing import Any
from uuid import UUID

from hbmodel.encoding.codecs.addresses import IPv4, IPv6
from hbmodel.encoding.codecs.base import Codec
from hbmodel.encoding.codecs.booleans import Bool
from hbmodel.encoding.codecs.decimals import DecimalNumber
from hbmodel.encoding.codecs.floats import Float64
from hbmodel.encoding.codecs.integers import Int64
from hbmodel.encoding.codecs.text import Bytes, Text
from hbmodel.encoding.codecs.times import Date, Duration, Timestamp
from hbmodel.encoding.codecs.uuids import UUID128

SCALARS: Mapping[type, Codec[Any]] = MappingProxyType(
    {
        int: Int64,
        float: Float64,
        str: Text,
        bytes: Bytes,
        bool: Bool,
        Decimal: DecimalNumber,
        UUID: UUID128,
        date: Date,
        datetime: Timestamp,
        timedelta: Duration,
        IPv4Address: IPv4,
        IPv6Address: IPv6,
    }
)
