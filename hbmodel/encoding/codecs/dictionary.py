"""Names stored as the short ids of a dictionary in the store: a codec that looks up the ids and names that it writes
and reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

from attrs import Factory, field, frozen

from hbmodel.encoding.codecs.base import JSON, Codec, FixedWidth, SpecReaders, declared_codec, wrong_type
from hbmodel.errors import DeclarationError, DecodingError, EncodingError, QueryError
from hbmodel.store.values import MAX_ROW_LENGTH


class NameIds(Protocol):
    """Maps names of dictionaries to ids and back, from a cache or the store."""

    def id_of(self, dictionary: Dictionary, name: str) -> int:
        """Returns the id of a name. Raises `UnknownName` if the name has no id."""
        ...

    def claim(self, dictionary: Dictionary, name: str) -> int:
        """Returns the id of a name. If the name has no id, an id is assigned."""
        ...

    def name_of(self, dictionary: Dictionary, number: int) -> str:
        """Returns the name of an id. Raises `DecodingError` if the id has no name."""
        ...


_NAMES: ContextVar[NameIds | None] = ContextVar("hbmodel_names", default=None)
"""The names and ids of the session whose call is in progress. This variable is unset after the call."""

_CLAIMS: ContextVar[bool] = ContextVar("hbmodel_claims", default=False)
"""Whether values are encoded for a write, so that a name without an id gets one."""

bind_names = _NAMES.set
"""Sets the names and ids of this thread. Returns the token to pass to `unbind_names`."""

unbind_names = _NAMES.reset
"""Undoes a `bind_names`."""


@contextmanager
def claiming() -> Iterator[None]:
    """A block in which values are encoded for a write, so that names without an id get one."""
    token = _CLAIMS.set(True)
    try:
        yield
    finally:
        _CLAIMS.reset(token)


class _NumbersAsNames:
    """Stands in for the ids of a dictionary that need not exist: the name of every id is its number as text."""

    def id_of(self, dictionary: Dictionary, name: str) -> int:
        """Returns the name as a number."""
        return int(name)

    claim = id_of

    def name_of(self, dictionary: Dictionary, number: int) -> str:
        """Returns the number as text."""
        return str(number)


@contextmanager
def numbers_as_names() -> Iterator[None]:
    """A block in which the name of every id is its number as text, so that only the bytes of ids matter. No table is
    read.
    """
    token = bind_names(_NumbersAsNames())
    try:
        yield
    finally:
        unbind_names(token)


def _name(name: Any) -> Any:
    if type(name) is not str or not name:
        raise DeclarationError("A dictionary needs a name, with which the names of its tables begin.", found=repr(name))
    return name


def _ids(codec: Any) -> Any:
    if declared_codec(codec).width is None or codec.python_type is not int or not codec.key:
        raise DeclarationError(
            "The ids of a dictionary need an integer codec of fixed width, such as hb.UInt32.", codec=repr(codec)
        )
    return codec


@frozen
class Dictionary(FixedWidth[str]):
    """Text that is stored as ids. Created with `hb.ids.dictionary`.

    Attributes:
        name: the name of the dictionary; the names of its tables begin with it.
        ids: codec of the ids.
    """

    name: str = field(converter=_name)
    ids: Codec[int] = field(converter=_ids)
    width: int = field(init=False, eq=False, repr=False, default=Factory(lambda self: self.ids.width, takes_self=True))

    python_type = str
    order = None
    raw_order = None

    def encode(self, value: str) -> bytes:
        """Returns the id of a name.

        Raises:
            UnknownName: the name has no id, and the value is not encoded for a write, which would assign an id.
        """
        self.constant(value)
        names = _NAMES.get()
        if names is None:
            raise EncodingError(
                "Only the calls of a session look up the ids of names: elsewhere, use hb.ids.Names(store).",
                field=self.name,
            )
        return self.ids.encode(names.claim(self, value) if _CLAIMS.get() else names.id_of(self, value))

    def decode(self, data: bytes) -> str:
        number, names = self.ids.decode(data), _NAMES.get()
        if names is None:
            raise DecodingError(
                "Only the calls of a session look up the names of ids: elsewhere, use hb.ids.Names(store).",
                field=self.name,
            )
        return names.name_of(self, number)

    def constant(self, value: str) -> str:
        if type(value) is not str:
            raise wrong_type(str, value)
        try:
            length = len(value.encode())
        except UnicodeEncodeError:
            raise EncodingError(
                "Text with a lone surrogate cannot be encoded as UTF-8: remove the surrogate."
            ) from None
        if not 0 < length <= MAX_ROW_LENGTH:
            raise EncodingError("A name must have 1 to 32,767 bytes in UTF-8.", length=length)
        return value

    def written(self, name: str) -> str:
        """Checks a name and returns it as a str. `encode()` of this str returns the bytes in the tables."""
        return name

    def read(self, data: bytes) -> str:
        """Returns the name with these bytes in the tables; raises `DecodingError` if they are not text."""
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise DecodingError("A name in the dictionary is not valid UTF-8.", dictionary=self.name) from None

    def floor(self, value: str) -> str:
        """Always raises an error, because rows are sorted by id, that is, in the order in which names were added.

        Raises:
            QueryError: always.
        """
        raise QueryError("The names of a dictionary have no order: compare them with == or in_.", dictionary=self.name)

    @property
    def spec(self) -> dict[str, JSON]:
        return {"codec": "dictionary", "name": self.name, "ids": self.ids.spec}


SPECS: SpecReaders = {"dictionary": lambda spec, codec_of: Dictionary(spec["name"], codec_of(spec["ids"]))}
