"""Binds the salts that models and indexes declare to the fields of their keys."""

from __future__ import annotations

from typing import Any

from hbmodel.encoding.key_layout import KeyLayout
from hbmodel.encoding.object_key_layout import ObjectKeyLayout
from hbmodel.encoding.salts import UNSALTED, BoundSalt, RowSalt, Salt
from hbmodel.errors import DeclarationError


def bound_salt(model: str, salt: Salt | None, layout: KeyLayout, **details: Any) -> BoundSalt:
    """Binds the salt of a model or an index to the fields of a key.

    Args:
        model: name of the model, for errors.
        salt: the declared salt, if there is one.
        layout: the key that is salted.
        details: further details for errors, such as the index.

    Raises:
        DeclarationError: the salt does not fit the key.
    """
    if salt is None:
        return UNSALTED
    try:
        return (RowSalt.of(salt, layout) if isinstance(layout, ObjectKeyLayout) else salt).bind(layout)
    except DeclarationError as error:
        raise DeclarationError(error.message, **{"model": model, **details, **error.details}) from None
