"""Converts values to and from text on a command line, by the codec of their field, and to JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any, Final
from uuid import UUID

from hbmodel.encoding.codecs import Codec
from hbmodel.encoding.codecs.times import microseconds
from hbmodel.errors import EncodingError
from hbmodel.store.key_text import shell_bytes, shell_text

SECOND = 1_000_000


def _bool(text: str) -> bool:
    return {"true": True, "false": False}[text]


def _decimal(text: str) -> Decimal:
    return Decimal(text)


def _seconds(text: str) -> timedelta:
    return timedelta(0, 0, int(Decimal(text) * SECOND))


_READ: Final[Mapping[Any, tuple[Callable[[str], Any], str]]] = {
    int: (int, "a whole number"),
    float: (float, "a number"),
    Decimal: (_decimal, "a number"),
    bool: (_bool, "true or false"),
    str: (str, "text"),
    bytes: (shell_bytes, r"bytes as HBase's shell shows them: \x00\x01abc"),
    UUID: (UUID, "a UUID"),
    date: (date.fromisoformat, "a date: 2026-03-01"),
    datetime: (datetime.fromisoformat, "a time with its zone: 2026-03-01T12:00:00Z"),
    timedelta: (_seconds, "seconds"),
    IPv4Address: (IPv4Address, "an IP address"),
    IPv6Address: (IPv6Address, "an IP address"),
    (IPv4Address, IPv6Address): (ip_address, "an IP address"),
    object: (json.loads, "JSON"),
}


def value_of_text(codec: Codec[Any], text: str, field: str) -> Any:
    """Parses the text of a value. Whether the value can be stored is checked by the codec later, when the value is
    used.

    Args:
        text: the text that a user entered.

    Raises:
        EncodingError: the text is not a value of the codec's type.
    """
    read, expected = _READ.get(codec.python_type, _READ[object])
    try:
        value: Any = read(text)
    except (ValueError, KeyError, InvalidOperation, OverflowError):
        raise EncodingError("The text is not a value of the field.", field=field, expected=expected) from None
    if isinstance(value, datetime) and value.tzinfo is None:
        raise EncodingError("The text is not a value of the field.", field=field, expected=expected)
    return value


def json_of_value(value: Any) -> Any:
    """Converts a value to JSON. Numbers, text, booleans, None, lists and dictionaries are kept. Any other value is
    converted to text.
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else str(value)  # JSON has no infinity and no NaN
    if isinstance(value, bytes):
        return shell_text(value)
    if isinstance(value, timedelta):
        return str(Decimal(microseconds(value)) / SECOND)
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(json_of_value(key)): json_of_value(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [json_of_value(each) for each in value]
    return str(value)


def text_of_value(value: Any) -> str:
    """Returns a value as readable text: None as `null`, and ambiguous or unprintable text as a JSON string."""
    shown = json_of_value(value)
    if isinstance(shown, str):
        return (
            shown if shown.isprintable() and shown == shown.strip() and shown not in {"", "null"} else json.dumps(shown)
        )
    return json.dumps(shown)
