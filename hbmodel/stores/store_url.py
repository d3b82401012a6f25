"""Store URLs: `scheme://host:port?option=value&...`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from hbmodel.errors import StoreURLError


def parse_store_url(url: str, scheme: str, options: Mapping[str, tuple[str, Callable[[str], Any]]]) -> dict[str, Any]:
    """The keyword arguments that a URL stands for: `host` and `port`, where it names them, and its options.

    Args:
        url: the whole URL.
        scheme: what it must begin with, without `://`.
        options: by name in the URL, the name of the argument and what makes its value from text (ValueError if it cannot).

    Raises:
        StoreURLError: it is of another scheme, has parts that a gateway's address has not got, or an unknown or bad option.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise StoreURLError("The store URL has no valid host and port.", url=url) from error
    if parts.scheme != scheme:
        raise StoreURLError("The store URL has another scheme.", url=url, expected=f"{scheme}://")
    if parts.path.strip("/") or parts.fragment or "@" in parts.netloc:
        raise StoreURLError("The store URL may hold a host, a port and options only.", expected=f"{scheme}://host:port?option=value")
    arguments: dict[str, Any] = {}
    if parts.hostname:
        arguments["host"] = unquote(parts.hostname)
    if port is not None:
        arguments["port"] = port
    for name, text in parse_qsl(parts.query, keep_blank_values=True):
        if name not in options:
            raise StoreURLError("The store URL has an unknown option.", option=name, known=sorted(options))
        argument, convert = options[name]
        if argument in arguments:
            raise StoreURLError("The store URL gives an option twice.", option=name)
        try:
            arguments[argument] = convert(text)
        except ValueError as error:
            raise StoreURLError("The store URL has an option with a bad value.", option=name, value=text) from error
    return arguments


def positive(text: str) -> float:
    """A positive, finite number from a URL."""
    number = float(text)
    if not 0 < number < float("inf"):
        raise ValueError(text)
    return number


def not_negative(text: str) -> float:
    """A finite number from 0 on from a URL."""
    return 0.0 if float(text) == 0 else positive(text)


def count(text: str) -> int:
    """A whole number from 1 on from a URL."""
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def one_of(*choices: str) -> Callable[[str], str]:
    """What accepts one of these words in a URL."""

    def choose(text: str) -> str:
        if text not in choices:
            raise ValueError(text)
        return text

    return choose
