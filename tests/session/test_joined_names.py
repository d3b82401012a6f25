"""Objects of several models in the rows of one table, whose keys, aliases and map keys contain the names of families
with a colon.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.session.commit.session_sizes import SESSION_SIZES, SessionSizes
from hbmodel.store import Put
from tests.support.beds import Bed, fresh
from tests.support.examples import examples
from tests.support.sizes import SMALL_SIZES, pages_of

TABLE = "joined_names"
GROUPED = "joined_groups"


class Keys:
    owner: hb.Key[str] = hb.key()
    label: hb.Key[str] = hb.key(in_qualifier=True)


@hb.model(table=TABLE, family="d", kind=b"d")
class Tagged(Keys):
    """Its map column gives cells any names."""

    tags: hb.Map[str, str] = hb.map_column("m", factory=dict)
    text: hb.Column[str | None] = hb.column("z", default=None)


@hb.model(table=TABLE, family="d", kind=b":")
class Named(Keys):
    """One alias is another one, the family and something more."""

    text: hb.Column[str | None] = hb.column("a", default=None)
    more: hb.Column[str | None] = hb.column("ad:X", default=None)


@hb.model(table=TABLE, family="dd", kind=b"d")
class Binary:
    owner: hb.Key[str] = hb.key()
    label: hb.Key[bytes] = hb.key(in_qualifier=True)
    text: hb.Column[str | None] = hb.column("d:", default=None)
    more: hb.Column[str] = hb.column(":", default="")


@hb.model(table=TABLE, family="e")
class Bare(Keys):
    """Without an alias."""

    text: hb.Column[str] = hb.column("")


@hb.model(table=TABLE, family="f")
class Plain:
    """With a row of its own, in a family for each column."""

    owner: hb.Key[str] = hb.key()
    text: hb.Column[str] = hb.column("d:z")
    more: hb.Column[str] = hb.column("z", family="ff", default="")


@hb.model(table=GROUPED, family="v", kind=b"v")
class Grouped(Keys):
    text: hb.Column[str | None] = hb.column("a", default=None)
    more: hb.Column[str | None] = hb.column("av:X", default=None)
    version: hb.Column[int] = hb.version()


@hb.model(table=GROUPED, family="v", kind=b"w")
class Beside(Keys):
    text: hb.Column[str | None] = hb.column("w:", default=None)
    version: hb.Column[int] = hb.version()


@hb.model(table="joined_external", family="d", external=True)
class External(Keys):
    text: hb.Column[str | None] = hb.column("m", default=None)
    more: hb.Column[str | None] = hb.column("z", default=None)


UNVERSIONED: tuple[Any, ...] = (Tagged, Named, Binary, Bare, Plain)
VERSIONED: tuple[Any, ...] = (Grouped, Beside)
SIZES = (SESSION_SIZES, SMALL_SIZES, SessionSizes(pages=pages_of(1)))

# Pieces of keys, map keys and values: names of families with their colons, aliases, kinds.
PIECES = st.sampled_from(["d:", "d", "dd:", "e:", "ff:", "v:", "v:a", ":", "a", "m", "z", "w", "X", "\x00"])
WORDS = st.sampled_from(["A", "Y", "Xd:Y", "Xdd:Y", "Xe:Y", "Xv:Y"]) | st.lists(PIECES, max_size=3).map("".join)
OWNERS = st.sampled_from(["d:", "o"])
TAGS = st.dictionaries(st.sampled_from(["k", "kd:X", "d:X", "d:"]) | WORDS.filter(bool), st.just("tag"), max_size=2)


@st.composite
def objects(draw: st.DrawFn, models: tuple[Any, ...]) -> Any:
    model = draw(st.sampled_from(models))
    fields: dict[str, Any] = {"owner": draw(OWNERS)}
    if model is not Plain:
        label = draw(WORDS)
        fields["label"] = label.encode() if model is Binary else label or "-"
    names = [name for name in ("text", "more") if hasattr(model, name)]
    for name in names:
        if draw(st.booleans()) or (name == "text" and model in {Bare, Plain}):
            fields[name] = draw(WORDS)
    if model is Tagged:
        fields["tags"] = draw(TAGS)
    return model(**fields)


def shown(obj: Any) -> dict[str, Any]:
    """The fields of an object, except its version."""
    return {name: value for name, value in hb.asdict(obj).items() if name != "version"}


def key_of(obj: Any) -> dict[str, Any]:
    return {name: getattr(obj, name) for name in ("owner", "label") if hasattr(obj, name)}


def write(session: hb.Session, written: list[Any], together: bool) -> dict[Any, dict[tuple[Any, ...], Any]]:
    """Puts objects; returns the last one of each key, by model."""
    expected: dict[Any, dict[tuple[Any, ...], Any]] = {type(obj): {} for obj in written}
    for obj in written:
        session.add(obj)
        if not together:
            session.commit()
        before = expected[type(obj)].get(key := tuple(key_of(obj).values()))
        if isinstance(obj, Tagged) and before is not None:
            obj = hb.evolve(obj, tags={**before.tags, **obj.tags})  # noqa: PLW2901  # entries that a put does not name stay
        expected[type(obj)][key] = obj
    session.commit()
    return expected


def check(
    store: hb.Store, models: tuple[Any, ...], expected: dict[Any, dict[tuple[Any, ...], Any]], sizes: SessionSizes
) -> None:
    """Each model finds its own objects as they were written, however they are read."""
    session = hb.Session(store, sizes=sizes)
    for model in models:
        wanted = [shown(obj) for _, obj in sorted(expected.get(model, {}).items())]
        query = session.query(model)
        if model is Tagged:
            query = query.load(Tagged.tags)
        everything = query.allow_full_scan()
        assert [shown(obj) for obj in everything] == wanted
        assert [shown(obj) for obj in everything.reversed()] == wanted[::-1]
        for owner in ("d:", "o"):
            of_owner = [fields for fields in wanted if fields["owner"] == owner]
            assert [shown(obj) for obj in query.where(model.owner == owner)] == of_owner
        for obj in expected.get(model, {}).values():
            found = session.get(model, **key_of(obj))
            assert found is not None
            if model is Tagged:
                assert session.entries(Tagged.tags, **key_of(obj)).all() == obj.tags
                assert found.text == obj.text
            else:
                assert shown(found) == shown(obj)


MIXED = [
    Tagged(owner="o", label="A", tags={"k": "1"}, text="2"),
    Tagged(owner="o", label="Xd:Y", tags={"kd:X": "3"}),
    Tagged(owner="o", label="Y", text="4"),
    Named(owner="o", label="A", text="5", more="6"),
    Named(owner="o", label="Xd:Y", more="7"),
    Named(owner="o", label="Y", more="8"),
    Binary(owner="o", label=b"Xdd:dY", text="9"),
    Binary(owner="o", label=b"Y"),
    Bare(owner="o", label="Xe:Y", text="10"),
    Bare(owner="o", label="e:", text="11"),
    Plain(owner="o", text="12", more="13"),
]


def groups() -> list[Any]:
    """Made anew each time: a write gives them a version."""
    return [
        Grouped(owner="o", label="A", text="1", more="2"),
        Grouped(owner="o", label="Xv:vY", more="3"),
        Grouped(owner="o", label="Y", more="4"),
        Beside(owner="o", label="v:w", text="5"),
        Beside(owner="o", label="w:", text="6"),
    ]


@pytest.mark.lengthy
@settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@example(MIXED, True, SESSION_SIZES)
@given(st.lists(objects(UNVERSIONED), max_size=10), st.booleans(), st.sampled_from(SIZES))
def test_objects_come_back_as_they_were_written(written: list[Any], together: bool, sizes: SessionSizes) -> None:
    with fresh(*UNVERSIONED) as store:
        expected = write(hb.Session(store), written, together)
        check(store, UNVERSIONED, expected, sizes)


@pytest.mark.lengthy
@settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@example(groups(), SESSION_SIZES)
@given(
    st.lists(objects(VERSIONED), max_size=8, unique_by=lambda obj: (type(obj), obj.owner, obj.label)),
    st.sampled_from(SIZES),
)
def test_groups_find_the_objects_of_their_row(written: list[Any], sizes: SessionSizes) -> None:
    with fresh(*VERSIONED) as store:
        expected = write(hb.Session(store), written, together=True)
        check(store, VERSIONED, expected, sizes)
        check_groups(store, expected, sizes)


def check_groups(store: hb.Store, expected: dict[Any, dict[tuple[Any, ...], Any]], sizes: SessionSizes) -> None:
    session = hb.Session(store, sizes=sizes)
    for owner in ("d:", "o"):
        group = session.group(Grouped, owner=owner)
        for model in VERSIONED:
            of_owner = [obj for key, obj in sorted(expected.get(model, {}).items()) if key[0] == owner]
            assert [shown(obj) for obj in group.query(model)] == list(map(shown, of_owner))
            for obj in of_owner:
                found = group.get(model, label=obj.label)
                assert found is not None
                assert shown(found) == shown(obj)
        group.discard()


def test_the_same_in_every_store(bed: Bed) -> None:
    session = bed.use(*UNVERSIONED)
    check(bed.store, UNVERSIONED, write(session, MIXED, together=False), SMALL_SIZES)


def test_groups_in_every_store(atomic_bed: Bed) -> None:
    session = atomic_bed.use(*VERSIONED)
    expected = write(session, groups(), together=True)
    check(atomic_bed.store, VERSIONED, expected, SMALL_SIZES)
    check_groups(atomic_bed.store, expected, SMALL_SIZES)


def test_cells_of_other_programs_stay_with_their_object(bed: Bed) -> None:
    """Of two objects, the names of the cells joined are those that the first would have with the aliases of the one
    before.
    """
    session = bed.use(External)

    def column(label: str, alias: bytes) -> bytes:
        return b"d:" + label.encode() + b"\x00\x01" + alias

    cells = [("A", b"m", b"1"), ("A", b"z", b"2"), ("Xd:Y", b"md:X", b"3"), ("Y", b"z", b"4")]
    bed.store.put("joined_external", [Put(b"o", {column(label, alias): value for label, alias, value in cells})])
    found = [(obj.label, obj.text, obj.more) for obj in session.query(External).where(External.owner == "o")]
    assert found == [("A", "1", "2"), ("Y", None, "4")]
    assert session.get(External, owner="o", label="Y") == External(owner="o", label="Y", more="4")
