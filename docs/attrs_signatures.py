"""What the reference cannot read from the source alone: constructors of attrs classes, and what a value of a class
is.
"""

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
    """The fields that the constructor takes, in their order."""
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
    """Completes what was read."""

    def on_attribute(self, *, attr: Attribute, **_: Any) -> None:
        """A value of a class of its own module, such as `Bool = BoolCodec()`, is described as the class is."""
        if attr.docstring is None and isinstance(attr.value, ExprCall) and attr.parent is not None:
            made = attr.parent.members.get(str(attr.value.function))
            if isinstance(made, Class) and made.docstring is not None:
                attr.docstring = Docstring(made.docstring.value.partition("\n\n")[0], parent=attr)

    def on_class(self, *, cls: Class, **_: Any) -> None:
        """An attrs class whose docstring has arguments or attributes gets an `__init__`, as the extension for
        dataclasses gives those.
        """
        decorated = any(str(decorator.callable_path) in DECORATORS for decorator in cls.decorators)
        text = "" if cls.docstring is None else cls.docstring.value
        if decorated and "__init__" not in cls.members and ("Args:\n" in text or "Attributes:\n" in text):
            own = Parameter("self", kind=ParameterKind.positional_or_keyword)
            cls.set_member(
                "__init__", Function("__init__", parameters=Parameters(own, *parameters_of(cls)), returns="None")
            )
