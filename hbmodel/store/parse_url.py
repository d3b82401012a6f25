"""Parses store URLs, `scheme://host:port,host:port?option=value&...`, and options in the environment, which URLs may
leave out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote

from attrs import frozen

from hbmodel.errors import StoreURLError

Options = Mapping[str, Callable[[str], Any]]
"""For each option, by its name, the function that converts text to the option's value or raises ValueError."""


def parse_store_url(url: str, scheme: str, options: Options, secrets: Collection[str] = ()) -> dict[str, Any]:
    """Returns the keyword arguments that a URL contains: `host`, if the URL has one, and the options.

    No error contains the URL, because the URL may contain secrets, even in wrong places. Errors contain only names of
    options, and values of options that are known not to be secret.

    Args:
        scheme: the scheme with which the URL must begin, without `://`.
        secrets: the options whose values must not occur in errors.

    Raises:
        StoreURLError: the URL has another scheme, parts that a gateway's address does not have, or an unknown or bad
            option.
    """
    form = f"{scheme}://host:port,host:port?option=value"
    written_scheme, colon, rest = url.partition("://")
    if not colon or written_scheme != scheme:
        raise StoreURLError(
            "The store URL does not have the expected scheme: write the URL in the expected form.", expected=form
        )
    address, _, query = rest.partition("?")
    hosts, _, path = address.partition("/")
    if path or "@" in hosts or "#" in rest:
        raise StoreURLError("The store URL may contain hosts, ports and options only.", expected=form)
    if any(host.count(":") > 1 and "[" not in host for host in hosts.split(",")):
        raise StoreURLError(
            "An IPv6 address must be written in brackets in a store URL.", expected=f"{scheme}://[::1]:port"
        )
    arguments: dict[str, Any] = {}
    if hosts.startswith(":") and hosts[1:].isdecimal():
        arguments["port"] = int(hosts[1:])
    elif hosts:
        arguments["host"] = [unquote(host) for host in hosts.split(",")]
    given = parse_qsl(query.replace("+", "%2B"), keep_blank_values=True)  # parse_qsl would make a space of a plus sign
    # An apparent option with an unknown name may be the rest of a secret that contains an unescaped "&".
    quotable = not any(name in secrets for name, _ in given)
    for name, text in given:
        if name not in options:
            raise StoreURLError(
                "The store URL has an unknown option: remove it, or use a known one.",
                option=name if quotable else None,
                known=sorted(options),
            )
        if name in arguments:
            raise StoreURLError("The store URL gives an option twice: give it once.", option=name)
        try:
            arguments[name] = options[name](text)
        except ValueError:
            raise StoreURLError(
                "The value of an option in the store URL is invalid: see `expected`.",
                option=name,
                value=text if quotable else None,
                expected=_expected(options[name]),
            ) from None
    return arguments


def environment_options(
    environment: Mapping[str, str], options: Options, secrets: Collection[str] = ()
) -> dict[str, Any]:
    """Returns the options that environment variables set: `HBMODEL_TIMEOUT` for `timeout`, and so on. An empty variable
    sets nothing.

    Args:
        secrets: the options whose values must not occur in errors.

    Raises:
        StoreURLError: a variable has a bad value; `variable` is its name.
    """
    arguments: dict[str, Any] = {}
    for name, convert in options.items():
        variable = f"HBMODEL_{name.upper()}"
        if text := environment.get(variable):
            try:
                arguments[name] = convert(text)
            except ValueError:
                value = None if name in secrets else text
                raise StoreURLError(
                    "An environment variable has an invalid value: see `expected`.",
                    variable=variable,
                    value=value,
                    expected=_expected(convert),
                ) from None
    return arguments


def _expected(convert: Callable[[str], Any]) -> str | None:
    """Returns the description of the values that an option accepts; None if it accepts any text."""
    return convert.expected if isinstance(convert, Converter) else None


@frozen
class Converter:
    """Converts the text of an option to its value.

    Attributes:
        expected: the description of the accepted values, for errors.
        convert: returns the value, or raises `ValueError`.
    """

    expected: str
    convert: Callable[[str], Any]

    def __call__(self, text: str) -> Any:
        return self.convert(text)


def _positive(text: str) -> float:
    number = float(text)
    if not 0 < number < float("inf"):
        raise ValueError(text)
    return number


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def one_of(*choices: str) -> Converter:
    """Returns a converter that accepts one of these words."""

    def choose(text: str) -> str:
        if text not in choices:
            raise ValueError(text)
        return text

    return Converter(f"one of {', '.join(choices)}", choose)


positive = Converter("a positive, finite number", _positive)
not_negative = Converter("a finite number of at least 0", lambda text: 0.0 if float(text) == 0 else _positive(text))
count = Converter("a whole number of at least 1", _count)
switch = Converter("true or false", lambda text: one_of("true", "false")(text) == "true")
