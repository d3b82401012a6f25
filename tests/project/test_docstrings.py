"""The form of the package's docstrings, and the places that need one."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from typing import Any

from tests.project.test_layers import trees


def methods_without_docstring(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The public methods of a module's public classes that say nothing, each with its class."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from (
                (node.name, member.name)
                for member in node.body
                if isinstance(member, ast.FunctionDef) and lacks_docstring(member)
            )


def lacks_docstring(method: ast.FunctionDef) -> bool:
    """Whether a public method says nothing; overloads and setters are described with their method."""
    decorators = [ast.unparse(of) for of in method.decorator_list]
    described = (
        any(of == "overload" or of.endswith(".setter") for of in decorators) or ast.get_docstring(method) is not None
    )
    return not method.name.startswith("_") and not described


def described_by_a_base(of: type[Any], name: str) -> bool:
    """Whether a base class has the method, with a docstring."""
    bases = [vars(base)[name] for base in of.__mro__[1:] if name in vars(base)]
    return any(inspect.getdoc(getattr(base, "fget", None) or getattr(base, "func", base)) for base in bases)


def test_every_public_method_is_described_once() -> None:
    """By its own docstring, or by that of the method that it overrides."""
    silent = [
        f"{module}.{of}.{name}"
        for module, tree in trees().items()
        for of, name in methods_without_docstring(tree)
        if not described_by_a_base(getattr(importlib.import_module(f"hbmodel.{module}".rstrip(".")), of), name)
    ]
    assert silent == []


def test_what_has_no_docstring_is_found() -> None:
    tree = ast.parse(
        "class A:\n    def a(self): ...\n    def b(self):\n        '''B.'''\n    def _c(self): ...\nclass _B:\n    "
        "def d(self): ..."
    )
    assert list(methods_without_docstring(tree)) == [("A", "a")]

    class Base:
        def a(self) -> None:
            """A."""

        def b(self) -> None: ...

    class Sub(Base):
        def a(self) -> None: ...

        def b(self) -> None: ...

    assert [described_by_a_base(Sub, name) for name in "ab"] == [True, False]
    assert not described_by_a_base(Base, "a")
