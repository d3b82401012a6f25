"""Store URLs: `scheme://host:port?option=value&...`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote

from hbmodel.errors import StoreURLError


def parse_store_url(url: str, scheme: str, options: Mapping[str, Callable[[str], Any]]) -> dict[str, Any]:
    """The keyword arguments that a URL stands for: `host`, where it names any, and its options.

    What the URL says is quoted in no error, but for the names of options and values that cannot be secrets: it may hold some.

    Args:
        url: the whole URL, `scheme://host:port,host:port?option=value&...`.
        scheme: what it must begin with, without `://`.
        options: by name, what makes an option's value from text (ValueError if it cannot).

    Raises:
        StoreURLError: it is of another scheme, has parts that a gateway's address has not got, or an unknown or bad option.
    """
    form = f"{scheme}://host:port,host:port?option=value"
    found, colon, rest = url.partition("://")
    if not colon or found != scheme:
        raise StoreURLError("The store URL has another scheme.", expected=form)
    address, _, query = rest.partition("?")
    hosts, _, path = address.partition("/")
    if path or "@" in hosts or "#" in rest:
        raise StoreURLError("The store URL may hold hosts, ports and options only.", expected=form)
    if any(host.count(":") > 1 and "[" not in host for host in hosts.split(",")):
        raise StoreURLError("An IPv6 address stands in brackets in a store URL.", expected=f"{scheme}://[::1]:port")
    arguments: dict[str, Any] = {}
    if hosts.startswith(":") and hosts[1:].isdecimal():
        arguments["port"] = int(hosts[1:])
    elif hosts:
        arguments["host"] = [unquote(host) for host in hosts.split(",")]
    for name, text in parse_qsl(query, keep_blank_values=True):
        if name not in options:
            raise StoreURLError("The store URL has an unknown option.", option=name, known=sorted(options))
        if name in arguments:
            raise StoreURLError("The store URL gives an option twice.", option=name)
        try:
            arguments[name] = options[name](text)
        except ValueError:
            raise StoreURLError("The store URL has an option with a bad value.", option=name, value=text) from None
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
