"""The names that a model gives to its fields and columns: which of them are allowed, and their bytes."""

from __future__ import annotations

from keyword import iskeyword
from typing import Any
from unicodedata import normalize

from hbmodel.errors import DeclarationError
from hbmodel.store.values import MAX_ROW_LENGTH


def as_qualifier(model: str, alias: Any, *, empty: bool = False, **details: Any) -> bytes:
    """The bytes of a column alias, which may be empty if `empty` is true; raises `DeclarationError` for an invalid
    one.
    """
    if not isinstance(alias, str):
        raise DeclarationError(
            'A column alias must be text: hb.column("n", codec), hb.flag("e").',
            model=model,
            found=repr(alias),
            **details,
        )
    if not alias and not empty:
        raise DeclarationError("A column alias must not be empty.", model=model, **details)
    if alias.startswith("_"):
        raise DeclarationError(
            "Column aliases that begin with '_' are reserved for system cells: give another alias.",
            model=model,
            **details,
        )
    return _utf8(model, alias, MAX_ROW_LENGTH, "A column alias must be at most 32,767 bytes long.", **details)


def is_field_name(name: str) -> bool:
    """Whether code can use this name for an attribute, and Python does not reserve it. Classes that are made by a call
    can have attributes with any names.
    """
    special = name.startswith("__") and name.endswith("__")
    return name.isidentifier() and not iskeyword(name) and not special and normalize("NFKC", name) == name


def _utf8(model: str, text: str, longest: int, message: str, **details: Any) -> bytes:
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise DeclarationError(
            "A name with a lone surrogate cannot be encoded as UTF-8: choose another name.", model=model, **details
        ) from None
    if len(data) > longest:
        raise DeclarationError(message, model=model, length=len(data), **details)
    return data
