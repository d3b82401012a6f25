"""Builds Python functions from source code that is generated for one model, in which codecs become expressions where
possible.

Such a function handles ordinary values and valid stored bytes. If any exception is raised in the function, it falls
back to plain code, which handles every case and every error.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct, calcsize
from typing import Any

from hbmodel.encoding.codecs import Codec
from hbmodel.encoding.codecs.base import Source, source_of

UNSIGNED = "BHIQ"
"""Formats of unsigned numbers. For these, the bitwise complement of a number is the largest number of the format minus
the number.
"""


class Code:
    """The source of one function while it is being written.

    Attributes:
        outer: the number of steps by which lines are indented in addition to their own depth.
    """

    def __init__(self, head: str) -> None:
        self.outer = 0
        self._lines = [head]
        self._scope: dict[str, Any] = {}
        self._variables = 0

    def add(self, line: str, depth: int = 1) -> None:
        """Adds a line, indented by `depth` steps."""
        self._lines.append("    " * (self.outer + depth) + line)

    def name(self, value: object) -> str:
        """Makes a name that refers to a value in the scope of the function."""
        name = f"n{len(self._scope)}"
        self._scope[name] = value
        return name

    def variable(self) -> str:
        """Makes the name of a new local variable."""
        self._variables += 1
        return f"x{self._variables}"

    def fill(self, template: str, source: Source, value: str) -> str:
        """Fills a template of a codec's `Source`: returns the expression with `value` in place of `{v}`."""
        used = {name: self.name(meaning) for name, meaning in source.scope.items() if f"{{{name}}}" in template}
        return template.format(v=value, t=self.variable() if "{t}" in template else "", **used)

    def decode(self, codec: Codec[Any], data: str) -> str:
        """Returns an expression for the value of a raw form. The expression `data` may be evaluated more than once."""
        source = source_of(codec)
        if source is None:
            return f"{self.name(codec.decode)}({data})"
        if source.word is None:
            return self.fill(source.decode, source, data)
        return self.fill(source.decode, source, f"{self.name(unpack_word(source.word))}({data})[0]")

    def encode(self, codec: Codec[Any], value: str) -> str:
        """Returns an expression for the raw form of the value in a variable. The expression is valid only under the
        condition that `accepts` returns.
        """
        source = source_of(codec)
        if source is None:
            return f"{self.name(codec.encode)}({value})"
        if source.word is None:
            return self.fill(source.encode, source, value)
        return f"{self.name(pack_word(source.word))}({self.fill(source.encode, source, value)})"

    def accepts(self, codec: Codec[Any], value: str) -> str | None:
        """Returns the condition under which the expression of `encode` may be used, or None if the codec itself
        checks values.
        """
        source = source_of(codec)
        return None if source is None else f"type({value}) is {self.name(source.accepts)}"

    def build(self) -> Callable[..., Any]:
        """Compiles the function."""
        name = self._lines[0].removeprefix("def ").partition("(")[0]
        # The source contains nothing from outside: names are made here, and bytes and numbers are written as their
        # repr.
        exec("\n".join(self._lines), self._scope)
        function: Callable[..., Any] = self._scope[name]
        return function


def unpack_word(word: str) -> Callable[[bytes], tuple[Any, ...]]:
    """Returns the function of `struct` that reads one number."""
    return Struct(">" + word).unpack


def pack_word(word: str) -> Callable[..., bytes]:
    """Returns the function of `struct` that writes one number."""
    return Struct(">" + word).pack


def complement(word: str, value: str) -> str:
    """Returns the expression of a number with every bit flipped."""
    return f"({(1 << (8 * calcsize('>' + word))) - 1} - {value})"
