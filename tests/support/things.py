"""Random objects, writes and queries over the `Thing` models, with their expected results computed in Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import frozen
from hypothesis import strategies as st

import hbmodel as hb
from tests.support.models import declare_thing
from tests.support.strategies import declared_order

PLAIN = declare_thing("plain", None, None)
HASHED = declare_thing("hashed", hb.HashSalt(4), hb.HashSalt(3))
PARTLY = declare_thing("partly", hb.HashSalt(5, by=("owner",)), hb.HashSalt(2, by=("size",)))
TEXTUAL = declare_thing("textual", hb.salts.TextSalt(("a-", "b-", "c-")), hb.salts.TextSalt(("\0", "\1"), by=("size",)))
DIGESTED = declare_thing("digested", hb.salts.DigestSalt(1, by=("owner", "serial")), hb.salts.DigestSalt(1))
DRAWN = declare_thing("drawn", hb.RandomSalt(3), hb.HashSalt(2), immutable=True)
MUTABLE = (PLAIN, HASHED, PARTLY, TEXTUAL, DIGESTED)

# Texts with quotes, NUL, the last code points, emoji and right-to-left text, for keys, indexes, filters and tokens.
TEXTS = ("", "a", "ab", "a'b", "''", "\0", "\0a", "a\0", "a\0b", "ÿ", "\U0001f984", "שלום", "\uffff", "\U0010ffff")
NUMBERS = (-128, -1, 0, 1, 127)
BYTES = (b"", b"\0", b"\0\xff", b"a", b"a\0", b"\xff", b"\xff\xff", b"'")

KEYS = ("owner", "rank", "serial")
COLUMNS = ("tag", "size", "title", "blob")
POOLS: Mapping[str, Sequence[Any]] = {
    "owner": TEXTS,
    "rank": (None, *NUMBERS),
    "serial": BYTES,
    "tag": (None, *TEXTS),
    "size": (None, *NUMBERS),
    "title": TEXTS,
    "blob": (None, *BYTES),
}

Values = dict[str, Any]
Key = tuple[Any, ...]

# There are few keys, so that writes concern the same rows.
keys = st.tuples(st.sampled_from(TEXTS[:6]), st.sampled_from((None, -1, 0)), st.sampled_from(BYTES[:4]))
columns = st.fixed_dictionaries({name: st.sampled_from(POOLS[name]) for name in COLUMNS})
things = st.builds(lambda key, cells: dict(zip(KEYS, key, strict=True)) | cells, keys, columns)
wide_things = st.fixed_dictionaries({name: st.sampled_from(pool) for name, pool in POOLS.items()})
changes = st.dictionaries(st.sampled_from(COLUMNS), st.none(), min_size=1).flatmap(
    lambda chosen: st.fixed_dictionaries({name: st.sampled_from(POOLS[name]) for name in chosen})
)


def key_of(values: Mapping[str, Any]) -> Key:
    """Returns the key of field values."""
    return tuple(values[name] for name in KEYS)


def values_of(obj: Any) -> Values:
    """Returns the field values of an object."""
    return {name: getattr(obj, name) for name in POOLS}


# --- queries ----------------------------------------------------------------------------------------------------------

Test = Callable[[Values], bool]


@frozen
class Condition:
    """A predicate for any `Thing` model, with an equivalent Python function."""

    text: str
    predicate: Callable[[Any], hb.types.Predicate]
    holds: Test

    def __repr__(self) -> str:
        return self.text


def _comparison(name: str, operator: str, value: Any) -> Condition:
    compare: Callable[[Any, Any], Any] = {
        "==": lambda a, b: a == b,
        "!=": lambda a, b: a != b,
        "<": lambda a, b: a < b,
        "<=": lambda a, b: a <= b,
        ">": lambda a, b: a > b,
        ">=": lambda a, b: a >= b,
    }[operator]

    def holds(values: Values) -> bool:
        found = values[name]
        return (
            bool(compare(found, value))
            if operator in {"==", "!="}
            else found is not None and bool(compare(found, value))
        )

    return Condition(f"{name} {operator} {value!r}", lambda model: compare(getattr(model, name), value), holds)


def _either(parts: Sequence[Condition]) -> Condition:
    def predicate(model: Any) -> hb.types.Predicate:
        made = parts[0].predicate(model)
        for part in parts[1:]:
            made |= part.predicate(model)
        return made

    return Condition(
        f"({' | '.join(map(repr, parts))})", predicate, lambda values: any(part.holds(values) for part in parts)
    )


def _negated(part: Condition) -> Condition:
    return Condition(f"~({part!r})", lambda model: ~part.predicate(model), lambda values: not part.holds(values))


@st.composite
def simple_conditions(draw: st.DrawFn) -> Condition:
    """Returns a condition on one field."""
    name = draw(st.sampled_from(list(POOLS)))
    pool = POOLS[name]
    known = [value for value in pool if value is not None]
    shapes = ["==", "==", "!=", "<", "<=", ">", ">=", "between", "in", "none"]
    if isinstance(known[0], str | bytes):
        shapes += ["starts", "starts"]
    shape = draw(st.sampled_from(shapes))
    if shape == "in":
        wanted = draw(st.lists(st.sampled_from(pool), max_size=4))
        return Condition(
            f"{name} in {wanted!r}",
            lambda model: getattr(model, name).in_(wanted),
            lambda values: values[name] in wanted,
        )
    if shape == "none":
        if None not in pool:
            return _comparison(name, "==", draw(st.sampled_from(known)))
        return Condition(
            f"{name} is None", lambda model: getattr(model, name).is_(None), lambda values: values[name] is None
        )
    if shape == "between":
        low, high = draw(st.sampled_from(known)), draw(st.sampled_from(known))
        return Condition(
            f"{name} between {low!r} and {high!r}",
            lambda model: getattr(model, name).between(low, high),
            lambda values: values[name] is not None and low <= values[name] <= high,
        )
    if shape == "starts":
        whole = draw(st.sampled_from(known))
        prefix = whole[: draw(st.integers(0, len(whole)))]
        return Condition(
            f"{name} starts with {prefix!r}",
            lambda model: getattr(model, name).startswith(prefix),
            lambda values: values[name] is not None and values[name].startswith(prefix),
        )
    return _comparison(name, shape, draw(st.sampled_from(known)))


conditions = st.one_of(
    simple_conditions(),
    simple_conditions(),
    simple_conditions(),
    st.lists(simple_conditions(), min_size=2, max_size=3).map(_either),
    simple_conditions().map(_negated),
)


@frozen
class Asked:
    """A query of any `Thing` model, with the expected answer.

    Attributes:
        where: conditions that must all be true.
        path: name of an index, `primary`, or None for the planner's choice.
        backwards: whether the query is reversed.
    """

    where: Sequence[Condition]
    path: str | None
    backwards: bool

    def query(self, session: hb.Session, model: Any) -> hb.Query[Any]:
        """Returns the query."""
        made = (
            session.query(model)
            .where(*(part.predicate(model) for part in self.where))
            .use_index(self.path)
            .allow_full_scan()
        )
        return made.reversed() if self.backwards else made

    def answer(self, query: hb.Query[Any], rows: Sequence[Values]) -> list[Values]:
        """Returns the rows among `rows` that the query must find, in the order of its path."""
        path = query.explain().path
        layout = query.terms.schema.layout if path == "primary" else query.terms.schema.indexes[path].layout
        place = declared_order(layout)
        kept = [values for values in rows if all(part.holds(values) for part in self.where)]
        in_order = sorted(kept, key=lambda values: place([values[name] for name in layout.names]))
        return in_order[::-1] if self.backwards else in_order


asked = st.builds(
    Asked,
    st.lists(conditions, max_size=3),
    st.sampled_from([None, None, "primary", "by_tag", "by_size", "by_title", "by_rank"]),
    st.booleans(),
)
