"""Loads the names of a package when they are first used (PEP 562), so that a program does not spend time on importing
parts of hbmodel that it does not use.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module


def lazy(
    package: str, *, names: Mapping[str, str], modules: Sequence[str] = ()
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Returns the functions `__getattr__` and `__dir__` for a package.

    Args:
        names: for each module of hbmodel, the names that it defines and the package offers, separated by spaces.
        modules: modules of the package that can be used as its attributes without being imported first.
    """
    homes = {name: f"hbmodel.{module}" for module, offered in names.items() for name in offered.split()}

    def attribute(name: str) -> object:
        if name in homes:
            value = getattr(import_module(homes[name]), name)
        elif name in modules:
            value = import_module(f"{package}.{name}")
        else:
            place = _place(name)
            raise AttributeError(
                f"module {package!r} has no attribute {name!r}" + (f": write {place}.{name}" if place else ""),
                name=name,
                obj=sys.modules[package],
            )
        setattr(sys.modules[package], name, value)
        return value

    def _place(name: str) -> str | None:
        """Returns the module of the package that offers a name, or None."""
        if name.startswith("_"):
            return None
        for module in modules:
            found = import_module(f"{package}.{module}")
            offered = getattr(found, "__all__", None)
            if offered is None:  # the names that the module defines, but not those that it imports
                offered = [
                    each for each, value in vars(found).items() if getattr(value, "__module__", "") == found.__name__
                ]
            if name in offered:
                return found.__name__
        return None

    def listed() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes, *modules})

    return attribute, listed
