"""Adds to the reference what the source does not show: constructors of attrs classes, and descriptions of instances."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from griffe import (
    Attribute,
    Class,
    Docstring,
    ExprCall,
    ExprKeyword,
    Extension,
    Function,
    Parameter,
    ParameterKind,
    Parameters,
)

DECORATORS = {"attrs.frozen", "attrs.define"}
FIELDS = {"attrs.field", "attr.field"}


def parameters_of(made: Class) -> Iterator[Parameter]:
    """Yields the parameters of the constructor, in the order of the fields."""
    for member in made.members.values():
        if (
            not isinstance(member, Attribute)
            or member.annotation is None
            or member.name.startswith("_")
            or "property" in member.labels
        ):
            continue
        given: dict[str, Any] = {}
        default: Any = member.value
        if isinstance(member.value, ExprCall) and member.value.function.canonical_path in FIELDS:
            given = {each.name: each.value for each in member.value.arguments if isinstance(each, ExprKeyword)}
            default = given.get("default", "..." if "factory" in given else None)
        if str(given.get("init")) != "False":
            kind = (
                ParameterKind.keyword_only
                if str(given.get("kw_only")) == "True"
                else ParameterKind.positional_or_keyword
            )
            name = str(given.get("alias", member.name)).strip("\"'")
            yield Parameter(name, annotation=member.annotation, kind=kind, default=default)


class AttrsSignatures(Extension):
    """Completes the objects that were read from the source."""

    def on_attribute(self, *, attr: Attribute, **_: Any) -> None:
        """Describes an instance of a class in the same module, such as `Bool = BoolCodec()`, with the docstring of the
        class.
        """
        if attr.docstring is None and isinstance(attr.value, ExprCall) and attr.parent is not None:
            made = attr.parent.members.get(str(attr.value.function))
            if isinstance(made, Class) and made.docstring is not None:
                attr.docstring = Docstring(made.docstring.value.partition("\n\n")[0], parent=attr)

    def on_class(self, *, cls: Class, **_: Any) -> None:
        """Gives an `__init__` to an attrs class whose docstring has arguments or attributes, as the extension for
        dataclasses does.
        """
        decorated = any(str(decorator.callable_path) in DECORATORS for decorator in cls.decorators)
        text = "" if cls.docstring is None else cls.docstring.value
        if decorated and "__init__" not in cls.members and ("Args:\n" in text or "Attributes:\n" in text):
            own = Parameter("self", kind=ParameterKind.positional_or_keyword)
            cls.set_member(
                "__init__", Function("__init__", parameters=Parameters(own, *parameters_of(cls)), returns="None")
            )
