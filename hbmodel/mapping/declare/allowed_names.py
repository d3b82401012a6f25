"""The names that a model gives to its table, fields and columns: which of them are allowed, and their bytes."""

from __future__ import annotations

import re
from keyword import iskeyword
from typing import Any
from unicodedata import normalize

from hbmodel.errors import DeclarationError
from hbmodel.store.values import MAX_ROW_LENGTH

_SYSTEM = re.compile(rb"_[lrstuv]?|_p.*", re.DOTALL)
"""The qualifiers of hbmodel's own cells, in tables of rows and of indexes."""


_TABLE_NAME = re.compile(r"(?:[A-Za-z0-9_]+:)?[A-Za-z0-9_][A-Za-z0-9_.-]*")


def check_table(model: str, table: object) -> None:
    """Checks the name of a primary table.

    Raises:
        DeclarationError: the name is invalid; the error names the model and the table.
    """
    if not isinstance(table, str) or not _TABLE_NAME.fullmatch(table):
        raise DeclarationError(
            "A table name may contain letters, digits, '_', '-' and '.', with an optional 'namespace:' before it.",
            model=model,
            table=table,
        )
    if table.startswith("default:"):
        raise DeclarationError(
            "A table of the default namespace must be written without the namespace.", model=model, table=table
        )
    if table.startswith("hbase:"):
        raise DeclarationError("The namespace hbase is reserved for HBase: choose another.", model=model, table=table)


def as_qualifier(
    model: str, alias: Any, *, family: bytes = b"", empty: bool = False, external: bool = False, **details: Any
) -> bytes:
    """Returns the bytes of a column alias. Raises `DeclarationError` if the alias is invalid.

    Args:
        model: name of the model, for errors.
        alias: the alias.
        family: the family of the column. An alias that is text and begins with the family is treated as a mistake.
        empty: whether the alias may be empty.
        external: whether other programs write the table. They may have chosen any bytes, and names that begin with
            an underscore.
    """
    if external and isinstance(alias, bytes | bytearray):
        qualifier = bytes(alias)
        _check_length(model, qualifier, **details)
    elif not isinstance(alias, str):
        raise DeclarationError(
            'A column alias must be text: hb.column("n", codec), hb.flag("e").',
            model=model,
            found=repr(alias),
            **details,
        )
    else:
        qualifier = _utf8(model, alias, **details)
        _check_length(model, qualifier, **details)
        if family and qualifier.startswith(family + b":"):
            raise DeclarationError(
                "A column alias is the qualifier only: leave out the family. If the qualifier of an external table "
                "really begins with it, give it as bytes.",
                model=model,
                **details,
            )
    if not qualifier and not empty:
        raise DeclarationError(
            "A column alias must not be empty. Only hb.column() may have an empty alias, in tables of other programs "
            'and in wide rows. Such a column can also read counters: hb.column("", hb.codecs.java.Long).',
            model=model,
            **details,
        )
    if qualifier.startswith(b"_") and not external:
        raise DeclarationError(
            "Column aliases that begin with '_' are reserved for system cells: give another alias.",
            model=model,
            **details,
        )
    if external and _SYSTEM.fullmatch(qualifier):
        raise DeclarationError(
            "The aliases _, _l, _r, _s, _t, _u, _v and those that begin with _p are reserved for system cells, even "
            "in tables of other programs: this column cannot be declared.",
            model=model,
            **details,
        )
    return qualifier


def is_field_name(name: str) -> bool:
    """Whether the name can be written as an attribute in code and is not reserved by Python. Classes that are made by a
    call can have attributes with any names.
    """
    special = name.startswith("__") and name.endswith("__")
    return name.isidentifier() and not iskeyword(name) and not special and normalize("NFKC", name) == name


def _utf8(model: str, text: str, **details: Any) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise DeclarationError(
            "A name with a lone surrogate cannot be encoded as UTF-8: choose another name.", model=model, **details
        ) from None


def _check_length(model: str, qualifier: bytes, **details: Any) -> None:
    if len(qualifier) > MAX_ROW_LENGTH:
        raise DeclarationError(
            "A column alias must be at most 32,767 bytes long.", model=model, length=len(qualifier), **details
        )
