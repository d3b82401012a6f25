"""The options of a gateway's URL, which environment variables can set too, and the options that are secrets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hbmodel.store.parse_url import count, not_negative, one_of, positive, switch

OPTIONS: dict[str, Callable[[str], Any]] = {
    "timeout": positive,
    "connect_timeout": positive,
    "pool": count,
    "max_age": positive,
    "retry_for": not_negative,
    "attempts": count,
    "transport": one_of("buffered", "framed", "http"),
    "protocol": one_of("binary", "compact"),
    "path": str,
    "user": str,
    "password": str,
    "tls": switch,
    "ca_file": str,
    "cert_file": str,
    "key_file": str,
    "key_password": str,
    "table_prefix": str,
    "table_prefix_separator": str,
}
"""For each option, the function that parses it from text. The names of the options are the names of the constructor's
arguments.
"""

SECRETS = frozenset({"password", "key_password"})
"""The options whose values must not occur in errors."""
