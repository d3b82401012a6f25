"""Names for the class and the fields of a proposed model, made from the names of a table and its columns."""

from __future__ import annotations

import re
from keyword import iskeyword
from typing import Final

from attrs import define, field

_FORBIDDEN: Final = frozenset(
    ("Any", "bool", "bytes", "condition", "dict", "float", "hb", "int", "java", "list", "self", "str")
)
"""Names that the source uses for something else, or that a model cannot have."""

_LONGEST: Final = 60
_SHOWN_BYTES: Final = 8


def class_name(table: str) -> str:
    """Returns a class name made from the name of a table: `OrderItems` from `shop:order_items`."""
    words = re.findall(r"[A-Za-z0-9]+", table.rpartition(":")[2])
    name = "".join(word[0].upper() + (word[1:].lower() if word.isupper() else word[1:]) for word in words)
    if not name or name[0].isdigit():
        name = f"Table{name}"
    return f"{name}Row" if iskeyword(name) or name in _FORBIDDEN else name


@define
class FieldNames:
    """Makes a unique name for each field."""

    _taken: set[str] = field(factory=set)

    def name(self, wanted: str) -> str:
        """Returns the wanted name, followed by a number if the name is already used."""
        name, number = wanted, 2
        while name in self._taken:
            name, number = f"{wanted}_{number}", number + 1
        self._taken.add(name)
        return name

    def of_column(self, qualifier: bytes) -> str:
        """Returns a name made from a qualifier: `order_id` from `orderId`."""
        text = qualifier.decode("utf-8", "replace")
        parted = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", text)
        name = re.sub(r"[^A-Za-z0-9]+", "_", parted).strip("_").lower()[:_LONGEST].strip("_")
        if not qualifier:
            name = "value"
        elif not name:
            name = f"c_{qualifier[:_SHOWN_BYTES].hex()}"
        elif name[0].isdigit():
            name = f"c_{name}"
        if iskeyword(name) or name in _FORBIDDEN:
            name = f"{name}_"
        return self.name(name)
