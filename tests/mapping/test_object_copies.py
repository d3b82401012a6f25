"""Objects as dictionaries, and copies with some fields changed."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.mapping.rows.mapper import RowDecoder
from tests.support.beds import fresh
from tests.support.examples import examples
from tests.support.random_queries import models, stored_objects


@hb.model(table="copied")
class Copied:
    name: hb.Key[str] = hb.key()
    size: hb.Column[int] = hb.column("s", default=0)
    notes: hb.Map[str, int] = hb.map_column("n")
    version: hb.Column[int] = hb.version()

    double = hb.computed(lambda size: size * 2, of="size", codec=hb.Int64)


@hb.model(table="counted")
class Counted:
    name: hb.Key[str] = hb.key()
    city: hb.Column[str | None] = hb.column("c", default=None)
    views: hb.Column[int] = hb.counter("v")


def test_counters_are_left_out() -> None:
    with fresh(Counted) as store:
        session = hb.Session(store)
        session.add(Counted(name="a", city="Oslo"))
        session.commit()
        session.increment(Counted(name="a"), Counted.views, 5)
        read = session.get(Counted, name="a")
        assert read is not None
        assert read.views == 5
        assert hb.asdict(read) == {"name": "a", "city": "Oslo"}
        assert hb.evolve(read, city="Rome") == Counted(name="a", city="Rome")
        assert read.city == "Oslo"


def test_the_version_is_that_of_the_same_row() -> None:
    with fresh(Copied) as store:
        session = hb.Session(store)
        session.insert(Copied(name="a", size=1, notes={"x": 1}))
        read = session.get(Copied, name="a")
        assert read is not None
        assert read.version
        assert hb.asdict(read) == {"name": "a", "size": 1, "notes": hb.types.NotLoaded}
        assert hb.evolve(read, size=2).version == hb.evolve(read, name="a").version == read.version
        assert hb.evolve(read, name="b").version == 0
        impossible: tuple[Any, ...] = (None, 5, Decimal("sNaN"), "\ud800")
        assert [hb.evolve(read, name=name).version for name in impossible] == [0] * 4, "no row has such a key"
        whole = hb.evolve(read, notes={"y": 2})
        assert hb.asdict(whole) == {"name": "a", "size": 1, "notes": {"y": 2}}
        hb.asdict(whole)["notes"]["z"] = 3
        assert whole.notes == {"y": 2}


@pytest.mark.parametrize("name", ["views", "colour", "version", "double", "_hbmodel_version_"])
def test_what_no_constructor_takes(name: str) -> None:
    for obj in (Copied(name="a"), Counted(name="a")):
        with pytest.raises(hb.errors.UnknownField) as caught:
            hb.evolve(obj, **{name: 1})
        assert (caught.value.field, caught.value.table) == (name, hb.schema.schema_of(type(obj)).table)
    if name == "colour":
        with pytest.raises(hb.errors.UnknownField, match=r"known=\['name', 'notes', 'size'\]"):
            hb.evolve(Copied(name="a"), colour=1)
    if name == "views":
        with pytest.raises(hb.errors.UnknownField, match=r"increment\(\) changes a counter"):
            hb.evolve(Counted(name="a"), views=1)


@pytest.mark.parametrize("thing", [None, 3, "text", object()])
def test_objects_of_models_only(thing: Any) -> None:
    for function in (hb.asdict, hb.evolve):
        with pytest.raises(hb.HbmodelError):
            function(thing)


@pytest.mark.lengthy
@settings(max_examples=examples(50), deadline=None)
@given(st.data())
def test_a_dictionary_makes_the_object_again(data: st.DataObject) -> None:
    of = data.draw(models(versions=True, wide=True))
    objects = data.draw(stored_objects(of, indexed=False))
    make = RowDecoder.of(of.schema, indexed=False).make
    for stored in objects:
        obj = make({f.name: stored.values[f.name] for f in of.schema.fields})
        again = of.schema.model(**hb.asdict(obj))
        assert hb.asdict(again) == hb.asdict(obj) == hb.asdict(hb.evolve(obj))
