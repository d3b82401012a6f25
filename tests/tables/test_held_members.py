"""Members of enumerations that `alter(..., drop=True)` is to remove from the registry while rows hold them."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hbmodel as hb
from tests.support.beds import HBASE, Bed, fresh
from tests.support.examples import examples

NAMES = ("NEW", "SENT", "BACK")
VALUES: Mapping[str, Mapping[str, Any]] = {
    "text": {"NEW": "new", "SENT": "\0", "BACK": ""},
    "number": {"NEW": 0, "SENT": 5, "BACK": -1},
}


def states(of: str, names: Sequence[str]) -> Any:
    return enum.Enum("State", {name: VALUES[of][name] for name in names})  # type: ignore[misc]


@attrs.frozen
class Shape:
    """How a model stores the enumeration.

    Attributes:
        place: "column", "map", "key" or "qualifier".
        none: whether the field may be None.
        more: further declarations: a version, an index, or nothing.
    """

    of: str
    place: str
    none: bool
    desc: bool
    more: str
    flag: bool

    def model(self, names: Sequence[str]) -> Any:
        """The model whose enumeration has these members."""
        state = states(self.of, names)
        codec = hb.EnumOf(state)
        hint: Any = state | None if self.none else state
        body: dict[str, Any] = {"k": hb.key(), "v": hb.column("v", default=0)}
        hints: dict[str, Any] = {"k": hb.Key[int], "v": hb.Column[int]}
        if self.place == "column":
            body["s"], hints["s"] = hb.column("s", codec), hb.Column[hint]
        elif self.place == "map":
            body["s"], hints["s"] = hb.map_column("s", hb.Int32, codec, factory=dict), hb.Map[int, state]
        else:
            wide = {"in_qualifier": True} if self.place == "qualifier" else {}
            body["s"], hints["s"] = hb.key(codec, desc=self.desc, **wide), hb.Key[hint]
        if self.more == "version":
            body["version"], hints["version"] = hb.version(), hb.Column[int]
        elif self.more == "index":
            body["by_v"] = hb.index("v")
        exists = hb.flag("e") if self.flag else None
        salt = hb.HashSalt(3)
        return hb.model(table=f"held_{self.place}", salt=salt, exists=exists)(
            type("Thing", (), {**body, "__annotations__": hints, "__module__": __name__})
        )

    def made(self, model: Any, number: int, name: str | None) -> Any:
        """An object that holds a member."""
        of = model.s.of.value if self.place == "map" else model.s.of
        member = None if name is None else of.codec.python_type[name]
        held = member if self.place != "map" else {} if member is None else {number: member}
        return model(k=number, s=held, v=number)


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    place = draw(st.sampled_from(["column", "map", "key", "qualifier"]))
    return Shape(
        draw(st.sampled_from(sorted(VALUES))),
        place,
        place == "map" or draw(st.booleans()),
        draw(st.booleans()),
        draw(st.sampled_from(["version", "index", ""])),
        draw(st.booleans()),
    )


def read_all(store: hb.Store, model: Any, shape: Shape) -> None:
    query = hb.Session(store).query(model).allow_full_scan()
    (query.load(model.s) if shape.place == "map" else query).all()


@pytest.mark.lengthy
@given(
    shapes(),
    st.lists(st.tuples(st.sampled_from([*NAMES, None]), st.booleans()), max_size=6),
    st.sets(st.sampled_from(NAMES), min_size=1),
)
@settings(max_examples=examples(150))
def test_a_member_is_forgotten_if_no_object_that_can_be_found_holds_it(
    shape: Shape, rows: list[tuple[str | None, bool]], kept: set[str]
) -> None:
    before, after = shape.model(NAMES), shape.model(sorted(kept))
    with fresh(before) as store:
        with hb.Session(store) as session:
            made = [shape.made(before, at, name if shape.none else name or "NEW") for at, (name, _) in enumerate(rows)]
            session.add_all(made)
        with hb.Session(store) as session:
            for obj, (_, deleted) in zip(made, rows, strict=True):
                if deleted:
                    session.delete(obj)
        held = {name or "NEW" * (not shape.none) for name, deleted in rows if not deleted} - kept - {""}
        if held:
            with pytest.raises(hb.SchemaMismatch) as caught:
                hb.alter(store, after, drop=True)
            refused: list[str] = caught.value.differences
            assert {line.partition(" member ")[2].partition(":")[0] for line in refused} == held
            assert len(hb.diff(store, after)) == len(set(NAMES) - kept), "nothing is forgotten"
            with pytest.raises(hb.DecodingError, match="not a member of its enumeration"):
                read_all(store, after, shape)
        else:
            hb.alter(store, after, drop=True)
            assert not hb.diff(store, after)
            read_all(store, after, shape)


@pytest.mark.parametrize("bed", ["memory", "embedded", *HBASE], indirect=True)
@pytest.mark.parametrize("place", ["column", "qualifier"])
def test_the_error_names_the_member_the_field_and_what_to_do(bed: Bed, place: str) -> None:
    shape = Shape("text", place, False, False, "", False)
    before, after = shape.model(NAMES), shape.model(["NEW"])
    session = bed.use(before)
    session.add_all([shape.made(before, 1, "NEW"), shape.made(before, 2, "SENT")])
    session.commit()
    with pytest.raises(hb.SchemaMismatch, match="must not forget these members") as caught:
        hb.alter(bed.store, after, drop=True)
    where = "column d:s" if place == "column" else "key 1"
    assert caught.value.differences == [
        f"! held_{place}: {where} member SENT: field s holds it in 1 of 2 sampled objects (reading such a row would "
        "raise DecodingError: write another member into all of these rows with a model that has it, then repeat the "
        "call; or keep the member)"
    ]
    session.delete(session.get(before, k=2, **({} if place == "column" else {"s": before.s.of.codec.python_type.SENT})))
    session.commit()
    hb.alter(bed.store, after, drop=True)
    assert not hb.diff(bed.store, after)


def test_a_combination_of_flags_holds_each_of_them() -> None:
    def model(**members: int) -> Any:
        rights = enum.Flag("Rights", members)  # type: ignore[misc]
        body: dict[str, Any] = {"k": hb.key(), "s": hb.column("s", hb.EnumOf(rights))}
        body["__annotations__"] = {"k": hb.Key[int], "s": hb.Column[Any]}
        return hb.model(table="flags")(type("Rights", (), body))

    before, after = model(READ=1, WRITE=2, OWN=4), model(READ=1)
    with fresh(before) as store:
        rights = before.s.of.codec.python_type
        with hb.Session(store) as session:
            session.add(before(k=1, s=rights.READ | rights.WRITE))
        with pytest.raises(hb.SchemaMismatch) as caught:
            hb.alter(store, after, drop=True)
        (line,) = caught.value.differences
        assert "member WRITE" in line
