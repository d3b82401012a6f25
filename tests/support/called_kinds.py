"""Kinds of models on whose rows two programs make calls at the same time, and the contents of their rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from attrs import field, frozen

import hbmodel as hb


@frozen(eq=False)
class Kind:
    """A kind of model with the columns m and o, and further features.

    Attributes:
        name: the name of the kind.
        model: the class.
        number: whether m is a number. If not, it is text, which may be empty.
        required: whether m is required.
        counter: whether the model has the counter h.
        wide: whether objects share rows.
        indexed: whether the model has an index on m.
        mapped: whether the model has the map column e.
        numbers: the numbers in the keys of the objects that `prepend` puts, by the names of these objects, starting
            with the last object.
    """

    name: str
    model: Any
    number: bool = True
    required: bool = True
    counter: bool = False
    wide: bool = False
    indexed: bool = False
    mapped: bool = False
    numbers: Mapping[str, int] = field(factory=dict)

    @property
    def schema(self) -> Any:
        return hb.schema.schema_of(self.model)

    @property
    def grouped(self) -> bool:
        """Whether a group can change several objects of a row."""
        return bool(self.wide and self.schema.versioned and not self.numbers)

    @property
    def places(self) -> tuple[str, ...]:
        """The names of the objects that may exist after the calls."""
        return (*(self.numbers or "k"), "z")

    def value(self, number: int) -> Any:
        return number if self.number else str(number)


def kind(
    name: str,
    *,
    number: bool = True,
    required: bool = True,
    counter: bool = False,
    wide: bool = False,
    null: Any = "delete",
    index: str = "",
    version: bool = False,
    family: str = "d",
    mapped: bool = False,
    numbers: str = "",
    **options: Any,
) -> Kind:
    """Declares a kind of model. `numbers` is "up" or "down" if `prepend` numbers its objects."""
    of, null = int if number else str, None if wide else null
    column = hb.column("m") if required else hb.column("m", default=None, **({"null": null} if null else {}))
    fields: dict[str, Any] = {"r": hb.key()} if wide else {}
    types: dict[str, Any] = {"r": hb.Key[str]} if wide else {}
    fields |= {"k": hb.key(in_qualifier=True) if wide else hb.key(), "m": column}
    types |= {"k": hb.Key[str], "m": hb.Column[of] if required else hb.Column[of | None]}  # type: ignore[valid-type]
    if numbers:
        leading = "r" if wide else "p"
        last = hb.key(hb.codecs.UInt8, desc=numbers == "up", **({"in_qualifier": True} if wide else {}))
        fields, types = (
            {leading: hb.key(), "k": last, "m": column},
            {leading: hb.Key[str], "k": hb.Key[int], "m": types["m"]},
        )
    more: dict[str, Any] = {"null": null} if null else {}
    fields["o"], types["o"] = (
        hb.column("o", default=None, **more, **({} if family == "d" else {"family": family})),
        hb.Column[str | None],
    )
    if counter:
        fields["h"], types["h"] = hb.counter("h"), hb.Column[int]
    if version:
        fields["version"], types["version"] = hb.version(), hb.Column[int]
    if index:
        fields["by_m"] = (
            hb.index("m", unique=True)
            if index == "unique"
            else hb.index("m", covers=("o",) if index == "covering" else ())
        )
    if mapped:
        fields["e"], types["e"] = hb.map_column("e", factory=dict), hb.Map[str, int]
    body = {**fields, "__annotations__": types, "__module__": __name__}
    made = hb.model(table=f"tp_{name}", family="d", **options)(type(name.title(), (), body))
    return Kind(name, made, number, required, counter, wide, bool(index), mapped, NUMBERS.get(numbers, {}))


NUMBERS: Mapping[str, Mapping[str, int]] = {
    "up": {name: number for number, name in enumerate("kjihg")},
    "down": {name: 255 - number for number, name in enumerate("kjihg")},
}
"""The numbers of prepended objects if the largest number comes first, and if the smallest comes first."""


KINDS: Mapping[str, Kind] = {
    each.name: each
    for each in (
        kind("plain"),
        kind("empty", null=None),
        kind("text", number=False),
        kind("flag", exists=hb.flag("e")),
        kind("counted", counter=True, exists=hb.flag("e")),
        kind("counter", counter=True),
        kind("external", external=True),
        kind("nothing", number=False, required=False),
        kind("blank", number=False, required=False, null=None),
        kind("families", family="x"),
        kind("salted", salt=hb.HashSalt(4)),
        kind("indexed", index="m", null=None),
        kind("covering", index="covering", version=True, null=None),
        kind("versioned", version=True, null=None),
        kind("unique", index="unique", version=True, null=None),
        kind("wide", wide=True),
        kind("wide_text", wide=True, number=False),
        kind("wide_flag", wide=True, exists=hb.flag("e")),
        kind("wide_counter", wide=True, counter=True),
        kind("wide_indexed", wide=True, index="m", null=None),
        kind("wide_versioned", wide=True, version=True, null=None),
        kind("wide_counted", wide=True, version=True, counter=True),
        kind("wide_unique", wide=True, version=True, index="unique"),
        kind("map", null=None, mapped=True),
        kind("map_delete", mapped=True),
        kind("map_text", number=False, null=None, mapped=True),
        kind("map_flag", null=None, mapped=True, exists=hb.flag("x")),
        kind("map_counter", null=None, mapped=True, counter=True),
        kind("map_indexed", null=None, mapped=True, index="m"),
        kind("map_versioned", null=None, mapped=True, version=True),
        kind("map_unique", null=None, mapped=True, index="unique", version=True),
        kind("map_wide", wide=True, mapped=True),
        kind("map_wide_flag", wide=True, mapped=True, exists=hb.flag("x")),
        kind("map_wide_indexed", wide=True, mapped=True, index="m"),
        kind("map_wide_versioned", wide=True, mapped=True, version=True),
        kind("prepended", null=None, numbers="up"),
        kind("prepended_down", null=None, numbers="down", salt=hb.HashSalt(4)),
        kind("prepended_flag", null=None, numbers="up", exists=hb.flag("e")),
        kind("prepended_flag_down", null=None, numbers="down", exists=hb.flag("e"), salt=hb.HashSalt(4, by=("p",))),
        kind("prepended_counter", null=None, numbers="up", counter=True, exists=hb.flag("e")),
        kind("prepended_map", null=None, numbers="up", mapped=True, exists=hb.flag("x")),
        kind("prepended_indexed", null=None, numbers="down", index="m"),
        kind("prepended_versioned", null=None, numbers="up", version=True),
        kind("prepended_unique", null=None, numbers="up", index="unique", version=True),
        kind("prepended_wide", wide=True, numbers="up"),
        kind("prepended_wide_flag", wide=True, numbers="down", exists=hb.flag("e")),
        kind("prepended_wide_indexed", wide=True, numbers="up", index="m"),
        kind("prepended_wide_versioned", wide=True, numbers="up", version=True),
    )
}


class Row(NamedTuple):
    """The stored contents of an object.

    Attributes:
        m: the column.
        o: the column that may be None.
        h: the counter; 0 for a kind without a counter.
        e: the entries of the map column, in order.
    """

    m: Any
    o: Any
    h: int = 0
    e: tuple[tuple[str, int], ...] = ()

    def merged(self, entries: Mapping[str, int | None]) -> Row:
        """Returns the contents after entries of the map are put, or removed if they are None."""
        all_of_them = {**dict(self.e), **entries}
        return self._replace(e=tuple(sorted((key, value) for key, value in all_of_them.items() if value is not None)))


State = Mapping[str, Row]
"""The remaining objects by name. The calls are made for the object "k", and `rekey` moves it to "z"."""


def names(of: Kind, key: str, name: str = "k") -> dict[str, Any]:
    """Returns the key fields of one of the objects."""
    if of.numbers:
        fields = {**prefix(of, key), "k": of.numbers["k" if name == "z" else name]}
    else:
        fields = {"r": "r" + key, "k": "k"} if of.wide else {"k": key}
    return {**fields, **(moved(of, key) if name == "z" else {})}


def prefix(of: Kind, key: str) -> dict[str, Any]:
    """Returns the key fields without the number."""
    return {"r": "r" + key} if of.wide else {"p": key}


def moved(of: Kind, key: str) -> dict[str, Any]:
    """Returns the fields of the new key of a moved object that differ from its old key."""
    if of.numbers:
        return {name: value + "z" for name, value in prefix(of, key).items()}
    return {"k": "z"} if of.wide else {"k": key + "z"}
