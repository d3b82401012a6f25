"""The combined changes of two updates of an object."""

from __future__ import annotations

import hbmodel as hb
from hbmodel.mapping.rows.cells_of_update import merged_changes
from tests.support.beds import fresh


@hb.model(table="changed_pets", family="d")
class Pet:
    owner: hb.Key[str] = hb.key()
    name: hb.Key[str] = hb.key(in_qualifier=True)
    kind: hb.Column[str] = hb.column("k")
    food: hb.Map[str, int] = hb.map_column("f")


def test_the_later_value_counts_and_entries_of_a_map_are_those_of_both() -> None:
    first = {"kind": "cat", "size": 1, "food": {"fish": 1, "meat": 1}, "toys": {"ball": 1}}
    second = {"kind": "dog", "food": {"meat": 2, "milk": None}}
    assert merged_changes(first, second, ("food", "toys", "notes")) == {
        "kind": "dog", "size": 1, "food": {"fish": 1, "meat": 2, "milk": None}, "toys": {"ball": 1},
    }  # fmt: skip


def test_entries_put_twice_in_one_commit_are_all_written() -> None:
    session = hb.Session(fresh(Pet))
    pet = Pet(owner="ann", name="rex", kind="dog", food={})
    session.add(pet)
    session.commit()
    session.put_entries(pet, Pet.food, {"fish": 1, "meat": 1})
    session.put_entries(pet, Pet.food, {"meat": 2})
    session.commit()
    assert dict(session.entries(Pet.food, owner="ann", name="rex")) == {"fish": 1, "meat": 2}
