"""Codecs for values that other programs write as text, such as Python's `str()`, `isoformat()` and `strftime()`."""

from __future__ import annotations

from hbmodel.encoding.codecs.float_and_bool_text import BoolText as Bool
from hbmodel.encoding.codecs.float_and_bool_text import DecimalValue as Decimal
from hbmodel.encoding.codecs.float_and_bool_text import FloatText as Float
from hbmodel.encoding.codecs.java_values import IntText as Int
from hbmodel.encoding.codecs.time_text import DateText as Date
from hbmodel.encoding.codecs.time_text import DatetimeText as Datetime

__all__ = ["Bool", "Date", "Datetime", "Decimal", "Float", "Int"]
