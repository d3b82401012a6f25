"""The order of a model's key fields: the order of declaration, bases first, or the order that the model gives."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from hbmodel.errors import DeclarationError
from hbmodel.mapping.declare.fields import FieldSpec

S = TypeVar("S")


def in_key_order(cls: type[Any], specs: Mapping[str, S], order: Sequence[str] | None) -> Mapping[str, S]:
    """Sorts the declarations of a class that is not decorated yet, so that its key fields are in the order of the row
    key.

    Args:
        specs: the declarations of the class and its bases, beginning with those of the last base in `__mro__`.
        order: names of all key fields in the order that the model declares, or None if it declares no order.

    Raises:
        DeclarationError: `order` does not contain exactly the names of the key fields.
    """
    keys = [name for name, spec in specs.items() if isinstance(spec, FieldSpec) and spec.kind == "key"]
    if order is None:
        _warn(cls, keys)
        return specs
    if not isinstance(order, list | tuple) or sorted(map(repr, order)) != sorted(map(repr, keys)):
        raise DeclarationError(
            "key_order names every key field once, in the order of the row key: key_order=(...).",
            model=cls.__name__, found=repr(order), expected=keys,
        )  # fmt: skip
    return {**{name: specs[name] for name in order}, **specs}


def _warn(cls: type[Any], keys: Sequence[str]) -> None:
    """Warns about the resulting key order if two bases declare key fields, and neither is a base of the other."""
    sources = [source for source in dict.fromkeys(source_of(cls, name) for name in keys) if source is not None]
    if not any(not (issubclass(one, other) or issubclass(other, one)) for one in sources for other in sources):
        return
    names = ", ".join(source.__name__ for source in sources)
    warnings.warn(
        f"Several bases of {cls.__name__} define key fields: {names}. The row key begins with those of the base "
        f"that is named last, and this order cannot be changed once there are rows. Confirm it: "
        f"@hb.model(..., key_order={tuple(keys)!r}).",
        stacklevel=4,
    )


def source_of(cls: type[Any], name: str) -> type[Any] | None:
    """Returns the base from which a model inherits a field, or None if the model declares it itself."""
    defining = next((base for base in cls.__mro__ if name in inspect.get_annotations(base)), cls)
    return None if defining is cls else defining
