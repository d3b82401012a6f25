"""What `diff` says right after hbmodel has created tables and written to them: nothing, whatever the models are."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hbmodel as hb
from tests.support.beds import HBASE, Bed, fresh
from tests.support.examples import examples
from tests.support.random_queries import KEY_CODECS, RandomModel, models
from tests.support.random_rows import written

INDEXES: Mapping[str, Any] = {
    "none": None,
    "plain": hb.index("m"),
    "salted": hb.index("m", "o", salt=hb.HashSalt(2)),
    "covering": hb.index("m", covers=("o",)),
    "elements": hb.index(hb.each("s")),
    "computed": hb.index("p"),
    "partial": hb.index("m", where=lambda model: model.o == "o1"),
    "unique": hb.index("m", unique=True),
}


@attrs.frozen
class Part:
    """One of the models of a table, and what it has."""

    model: Any
    wide: bool
    versioned: bool
    mapped: bool
    counted: bool
    immutable: bool

    @property
    def row_version(self) -> str:
        """What has one version in a row: a family of versioned models; all models without versions are alike. A commit
        cannot write objects with different row versions into one row.
        """
        return self.model.__name__[0] if self.versioned else ""

    def named(self, row: int, number: int) -> dict[str, Any]:
        """The key of an object; objects of all wide models, and one of each other model, share the row."""
        return {"r": f"r{row}", "k": number}

    def made(self, row: int, number: int) -> Any:
        entries = {"e": {f"_{number}": 1, "x": number}} if self.mapped else {}
        return self.model(**self.named(row, number), m=f"m{row}{number}{self.model.__name__}", s=["s"], **entries)


@st.composite
def parts(draw: st.DrawFn, name: str, family: str, kind: bytes | None, versioned: bool, ttl: timedelta | None) -> Part:
    """A model of a family, or of one kind in a family."""
    wide = kind is not None
    indexes = [each for each in INDEXES if versioned or each not in {"covering", "unique"}]
    index = INDEXES[draw(st.sampled_from(indexes))]
    mapped = ttl is None and draw(st.booleans())
    deleted = not (wide or versioned or index) and draw(st.booleans())
    null: dict[str, Any] = {"null": "delete"} if deleted else {}
    further = family if wide or not draw(st.booleans()) else family + "x"
    body: dict[str, Any] = {
        "r": hb.key(),
        "k": hb.key(hb.codecs.UInt8, in_qualifier=wide),
        "m": hb.column("m", hb.codecs.NonEmpty(hb.Text)),  # so that `insert` works
        "o": hb.column("o", default=None, family=further, **null),
        "s": hb.column("s", hb.Json(list[str]), default=attrs.Factory(list), family=further),
    }
    hints: dict[str, Any] = {
        "r": hb.Key[str],
        "k": hb.Key[int],
        "m": hb.Column[str],
        "o": hb.Column[str | None],
        "s": hb.Column[list[str]],
    }
    counted = ttl is None and draw(st.booleans())
    body["p"] = hb.computed(lambda m: m[:1], of=("m",), codec=hb.Text)
    if index is not None:
        body[f"by_{name}".lower()] = index
    if counted:
        body["h"], hints["h"] = hb.counter("h"), hb.Column[int]
    if mapped:
        body["e"], hints["e"] = hb.map_column("e", factory=dict), hb.Map[str, int]
    if versioned:
        body["version"], hints["version"] = hb.version(), hb.Column[int]
    options: dict[str, Any] = {"exists": hb.flag("f") if draw(st.booleans()) else None}
    options["family"] = hb.family(family, ttl=ttl)
    options["families"] = [hb.family(further, ttl=ttl)] if further != family else []
    immutable = not (versioned or mapped or counted) and draw(st.booleans())
    if kind:
        options["kind"] = kind
    elif not wide and draw(st.booleans()):
        options["salt"] = hb.HashSalt(3, by=("r",))
    made = type(name, (), {**body, "__annotations__": hints, "__module__": __name__})
    model = hb.model(table="drawn", immutable=immutable, **options)(made)
    return Part(model, wide, versioned, mapped, counted, immutable)


@st.composite
def tables(draw: st.DrawFn) -> list[Part]:
    """One to four models of a table: in families of their own, or several kinds in one."""
    drawn: list[Part] = []
    for family in draw(st.sampled_from(["a", "ab", "abc"])):
        versioned = draw(st.booleans())
        ttl = None if versioned or draw(st.booleans()) else timedelta(days=9)
        kinds: Any = draw(st.sampled_from([(None,), (b"",), (b"x", b"\0"), (b"\xff",)]))
        drawn += [draw(parts(f"{family}{at}".upper(), family, kind, versioned, ttl)) for at, kind in enumerate(kinds)]
    return drawn


def write(store: hb.Store, drawn: list[Part]) -> None:
    """Objects of all models, several in a row where they can share one; some are changed, moved and deleted."""
    for row_version in sorted({part.row_version for part in drawn}):
        some = [part for part in drawn if part.row_version == row_version]
        with hb.Session(store) as session:
            session.add_all(part.made(row, number) for part in some for row in range(2) for number in range(3))
    for part in drawn:
        session = hb.Session(store)
        if part.immutable:
            continue
        session.update_key(part.model, **part.named(0, 1), o="o1")
        session.commit()
        session.update_key(part.model, **part.named(0, 1), o=None)
        session.commit()
        session.delete_key(part.model, **part.named(0, 2))
        session.commit()
        kept = session.get(part.model, **part.named(1, 0))
        session.insert(part.made(2, 9))
        if part.mapped:
            session.put_entries(kept, part.model.e, {"_": 1, "\0": 2})
            session.commit()
            session.remove_entries(kept, part.model.e, ["x"])
            session.commit()
        if part.counted:
            session.increment(kept, part.model.h)
        else:
            session.rekey(session.get(part.model, **part.named(1, 1)), k=8)
        if part.versioned and part.wide:
            with session.group(part.model, r="r0") as group:
                group.add(part.made(0, 7))


@pytest.mark.lengthy
@given(tables())
@settings(max_examples=examples(60))
def test_after_writes_of_any_models_there_is_no_difference(drawn: list[Part]) -> None:
    of_all = [part.model for part in drawn]
    with fresh(*of_all) as store:
        write(store, drawn)
        assert str(hb.diff(store, *of_all)) == ""
        for model in of_all:
            assert str(hb.diff(store, model)) == ""


@pytest.mark.lengthy
@given(st.data(), models(codecs=KEY_CODECS, versions=True, wide=True))
@settings(max_examples=examples(40))
def test_after_writes_of_a_model_of_any_codecs_there_is_no_difference(data: st.DataObject, of: RandomModel) -> None:
    with written(data.draw, of) as store:
        assert str(hb.diff(store, of.model)) == ""


@hb.model(table="dw_lines", family="l")
class Line:
    order: hb.Key[int] = hb.key(hb.UInt32)
    line: hb.Key[int] = hb.key(hb.UInt32, in_qualifier=True)
    text: hb.Column[str] = hb.column("t")
    version: hb.Column[int] = hb.version()


@hb.model(table="dw_lines", family="n", kind=b"n")
class Note:
    order: hb.Key[int] = hb.key(hb.UInt32)
    text: hb.Column[str] = hb.column("t")
    version: hb.Column[int] = hb.version()


@pytest.mark.parametrize("bed", ["memory", "embedded", HBASE[1]], indirect=True)
def test_the_version_of_a_shared_row_and_its_link_are_no_columns(bed: Bed) -> None:
    session = bed.use(Line, Note)
    session.add_all([Line(order=1, line=1, text="x"), Line(order=2, line=1, text="x")])
    session.commit()
    assert str(hb.diff(bed.store, Line)) == ""
    session.add_all([Line(order=1, line=2, text="x"), Note(order=1, text="x")])  # links the versions of the families
    session.commit()
    for some in ([Line], [Note], [Line, Note]):
        assert str(hb.diff(bed.store, *some)) == ""
