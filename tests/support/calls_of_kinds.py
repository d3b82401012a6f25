"""Kinds of models, and the calls that a program makes for one row of each of them, with what they leave."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from attrs import field, frozen

import hbmodel as hb

HOUR = timedelta(hours=1)


# --- kinds of models ----------------------------------------------------------------------------------------------------


@frozen(eq=False)
class Kind:
    """A kind of model, with the columns m and o, and what more it has.

    Attributes:
        name: of the kind.
        model: the class.
        number: whether m is a number; else it is text, which may be empty.
        required: whether m is required.
        counter: whether it has the counter h.
        wide: whether the rows are shared.
        indexed: whether it has an index on m.
    """

    name: str
    model: Any
    number: bool = True
    required: bool = True
    counter: bool = False
    wide: bool = False
    indexed: bool = False

    @property
    def schema(self) -> Any:
        return hb.schema_of(self.model)

    def value(self, number: int) -> Any:
        return number if self.number else str(number)


def kind(
    name: str, *, number: bool = True, required: bool = True, counter: bool = False, wide: bool = False, null: Any = "delete",
    index: str = "", version: bool = False, family: str = "d", **options: Any,
) -> Kind:  # fmt: skip
    """Declares a kind of model."""
    of, null = int if number else str, None if wide else null
    column = hb.column("m") if required else hb.column("m", default=None, **({"null": null} if null else {}))
    fields: dict[str, Any] = {"r": hb.key()} if wide else {}
    types: dict[str, Any] = {"r": hb.Key[str]} if wide else {}
    fields |= {"k": hb.key(part="column") if wide else hb.key(), "m": column}
    types |= {"k": hb.Key[str], "m": hb.Column[of] if required else hb.Column[of | None]}  # type: ignore[valid-type]
    more: dict[str, Any] = {"null": null} if null else {}
    fields["o"], types["o"] = hb.column("o", default=None, **more, **({} if family == "d" else {"family": family})), hb.Column[str | None]
    if counter:
        fields["h"], types["h"] = hb.counter("h"), hb.Column[int]
    if version:
        fields["version"], types["version"] = hb.version(), hb.Column[int]
    if index:
        fields["by_m"] = hb.index("m", unique=True) if index == "unique" else hb.index("m", covers=("o",) if index == "covering" else ())
    body = {**fields, "__annotations__": types, "__module__": __name__}
    made = hb.model(table=f"tp_{name}", family="d", **options)(type(name.title(), (), body))
    return Kind(name, made, number, required, counter, wide, bool(index))


KINDS: Mapping[str, Kind] = {
    each.name: each
    for each in (
        kind("plain"),
        kind("empty", null=None),
        kind("text", number=False),
        kind("flag", exists=hb.flag("e")),
        kind("counted", counter=True, exists=hb.flag("e")),
        kind("counter", counter=True),
        kind("foreign", foreign=True),
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
    )
}


# --- calls, and what each of them does to a row --------------------------------------------------------------------------

State = Mapping[str, tuple[Any, Any, int]]
"""The rows by key: m, o and the counter."""


@frozen(eq=False)
class Deed:
    """One call of a program.

    Attributes:
        make: makes it, given the kind, the session, the key, and a number from which its values come.
        then: what is there after it, given the kind, what was there and that number; or the error that it ends with.
        fits: whether a kind takes it.
    """

    name: str
    make: Callable[[Kind, hb.Session, str, int], object]
    then: Callable[[Kind, State, int], State | type[hb.HbmodelError]]
    fits: Callable[[Kind], bool] = field(default=lambda kind: True)


def names(of: Kind, key: str) -> dict[str, str]:
    """The key fields."""
    return {"r": "r" + key, "k": "k"} if of.wide else {"k": key}


def moved(of: Kind, key: str) -> dict[str, str]:
    """The fields of the key to which an object moves, as far as they change."""
    return {"k": "z"} if of.wide else {"k": key + "z"}


def _object(of: Kind, key: str, m: Any, o: Any) -> Any:
    return of.model(**names(of, key), m=m, o=o)


def _add(of: Kind, state: State, m: Any, o: Any) -> State:
    held = state.get("k")
    return {**state, "k": (m, o, held[2] if held else 0)}


def _update(of: Kind, state: State, **changes: Any) -> State | type[hb.HbmodelError]:
    held = state.get("k")
    if held is None:
        return hb.RowNotFound
    return {**state, "k": (changes.get("m", held[0]), changes.get("o", held[1]), held[2])}


def _rekey(of: Kind, state: State) -> State | type[hb.HbmodelError]:
    if "k" not in state:
        return hb.RowNotFound
    return hb.RowExists if "z" in state else {"z": state["k"]}


def _rekey_now(of: Kind, session: hb.Session, key: str, n: int) -> None:
    session.rekey(of.model(**names(of, key), m=of.value(0)), **moved(of, key))


def _expires(of: Kind) -> bool:
    return not of.counter and not of.schema.versioned


def _increment(of: Kind, state: State) -> State | type[hb.HbmodelError]:
    held = state.get("k")
    return hb.RowNotFound if held is None else {**state, "k": (held[0], held[1], held[2] + 1)}


def _load(of: Kind, session: hb.Session, key: str, n: int) -> None:
    session.load([_object(of, key, of.value(n), None)])


def _delete_found(of: Kind, session: hb.Session, key: str, n: int) -> None:
    session.query(of.model).where(*[getattr(of.model, name) == value for name, value in names(of, key).items()]).delete()


def _deleted(of: Kind, state: State, n: int) -> State:
    return {key: row for key, row in state.items() if key != "k"}


def _insertable(of: Kind) -> bool:
    return of.required and of.number


def _update_deed(name: str, fits: Callable[[Kind], bool] = lambda of: True, ttl: timedelta | None = None, **changes: Any) -> Deed:
    """An update; the value `...` stands for a number of the run."""

    def made(of: Kind, n: int) -> dict[str, Any]:
        return {field: of.value(n) if value is ... else value for field, value in changes.items()}

    def make(of: Kind, session: hb.Session, key: str, n: int) -> None:
        session.update_key(of.model, **names(of, key), **made(of, n), **({} if ttl is None else {"ttl": ttl}))

    return Deed(name, make, lambda of, state, n: _update(of, state, **made(of, n)), fits)


def _add_deed(name: str, o: str | None, fits: Callable[[Kind], bool] = lambda of: True, ttl: timedelta | None = None) -> Deed:
    def make(of: Kind, session: hb.Session, key: str, n: int) -> None:
        session.add(_object(of, key, of.value(n), o), **({} if ttl is None else {"ttl": ttl}))

    return Deed(name, make, lambda of, state, n: _add(of, state, of.value(n), o), fits)


DEEDS: Mapping[str, Deed] = {
    deed.name: deed
    for deed in (
        _add_deed("add", "a"),
        _add_deed("add none", None),
        _add_deed("add ttl", "t", _expires, HOUR),
        Deed("load", _load, lambda of, state, n: _add(of, state, of.value(n), None)),
        _update_deed("update m", m=...),
        _update_deed("update o", o="u"),
        _update_deed("forget o", o=None),
        _update_deed("update both", m=..., o=None),
        _update_deed("forget m", lambda of: not of.required, m=None),
        _update_deed("update ttl", _expires, HOUR, o="v"),
        Deed("delete", lambda of, session, key, n: session.delete_key(of.model, **names(of, key)), _deleted),
        Deed("query delete", _delete_found, _deleted),
        Deed(
            "insert",
            lambda of, session, key, n: session.insert(_object(of, key, of.value(n), "i")),
            lambda of, state, n: hb.RowExists if "k" in state else _add(of, state, of.value(n), "i"),
            _insertable,
        ),
        Deed(
            "increment",
            lambda of, session, key, n: session.increment(of.model(**names(of, key), m=of.value(0)), of.model.h),
            lambda of, state, n: _increment(of, state),
            lambda of: of.counter,
        ),
        Deed("rekey", _rekey_now, lambda of, state, n: _rekey(of, state), lambda of: _insertable(of) and not of.schema.foreign),
    )
}


def fitting(of: Kind) -> list[str]:
    """The calls that the kind takes."""
    return [name for name, deed in DEEDS.items() if deed.fits(of)]


def beginnings(of: Kind) -> list[tuple[str, ...]]:
    """What was done before."""
    found: list[tuple[str, ...]] = [(), ("add",), ("add none",)]
    if of.schema.versioned is False and not of.counter:
        found.append(("add ttl",))
    if of.counter:
        found.append(("add", "increment", "increment"))
    return found
