"""The order of key fields from several bases: what it is, where it is shown, and how a model declares it."""

from __future__ import annotations

import warnings
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hbmodel as hb


class Owned:
    owner: hb.Key[str] = hb.key()


class Dated:
    day: hb.Key[int] = hb.key(hb.codecs.UInt16, desc=True)


class OwnedTwice(Owned):
    place: hb.Key[int] = hb.key()


def declare(*bases: type[Any], **options: Any) -> type[Any]:
    body = {"name": hb.key(), "size": hb.column("s"), "__annotations__": {"name": hb.Key[str], "size": hb.Column[int]}}
    made: type[Any] = hb.model(table="ordered", **options)(type("Thing", bases, body))
    return made


def test_the_base_that_is_named_last_comes_first_and_that_is_a_warning() -> None:
    with pytest.warns(
        UserWarning,
        match=r"Several bases of Thing define key fields: Dated, Owned\..*key_order=\('day', 'owner', "
        r"'name'\)",
    ) as seen:
        model = declare(Owned, Dated)
    assert hb.schema.schema_of(model).layout.names == ("day", "owner", "name")
    assert seen[0].filename == __file__, "it shows the declaration"


def test_an_order_that_is_said_is_no_warning() -> None:
    for order in permutations(("owner", "day", "name")):
        model = declare(Owned, Dated, key_order=order)
        assert hb.schema.schema_of(model).layout.names == order
        assert hb.schema.schema_of(model).layout.unpack(hb.row_key(model, owner="a", day=1, name="n")) == tuple(
            {"owner": "a", "day": 1, "name": "n"}[name] for name in order
        )
        assert model(owner="a", day=1, name="n", size=3).size == 3


@pytest.mark.parametrize("bases", [(), (Owned,), (OwnedTwice,), (OwnedTwice, Owned)])
def test_one_line_of_bases_has_one_order(bases: tuple[type[Any], ...]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        names = hb.schema.schema_of(declare(*bases)).layout.names
    assert names == (*("owner", "place")[: len(names) - 1], "name")


def test_a_description_shows_the_order_and_who_brings_each_field() -> None:
    model = declare(Owned, Dated, key_order=["name", "day", "owner"])
    described = hb.describe(model)
    assert described.key == ("name", "day descending (of Dated)", "owner (of Owned)")
    assert str(described).startswith(
        "ordered: key 4 + text bytes (name, day descending (of Dated), owner (of Owned)), 1 cells"
    )


@given(
    st.lists(st.sampled_from(["owner", "day", "name", "size", "other"]), max_size=4).filter(
        lambda o: sorted(o) != ["day", "name", "owner"]
    )
)
def test_an_order_of_other_fields_is_refused(order: list[str]) -> None:
    with pytest.raises(hb.DeclarationError, match="key_order names every key field once") as error:
        declare(Owned, Dated, key_order=order)
    assert sorted(error.value.expected) == ["day", "name", "owner"]


@pytest.mark.parametrize("order", ["name", 5, {"name"}, [["name"]]])
def test_an_order_is_a_sequence_of_names(order: Any) -> None:
    with pytest.raises(hb.DeclarationError, match="key_order names every key field once"):
        declare(key_order=order)
