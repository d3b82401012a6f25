"""`get_one` returns an object, or raises `RowNotFound`; it never returns None."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

import hbmodel as hb
from hbmodel.mapping.declare.dictionary_tables import tables_of
from tests.support.beds import Bed, fresh

NAMES = hb.ids.dictionary("got_names", hb.codecs.UInt16)
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@hb.model(table="got_tickets", family="d", salt=hb.HashSalt(4))
class Ticket:
    tenant: hb.Key[str] = hb.key()
    number: hb.Key[int] = hb.key(hb.UInt32)
    subject: hb.Column[str] = hb.column("s", versions=3)


@hb.model(table="got_shops", family="d")
class Item:
    shop: hb.Key[str] = hb.key()
    name: hb.Key[str] = hb.key(in_qualifier=True)
    stock: hb.Column[int] = hb.column("s")
    version: hb.Column[int] = hb.version()


@hb.model(table="got_named", family="d")
class Named:
    name: hb.Key[str] = hb.key(NAMES)
    size: hb.Column[int] = hb.column("s")


@hb.model(table="got_random", family="d", immutable=True, salt=hb.RandomSalt(4))
class Scattered:
    number: hb.Key[int] = hb.key(hb.UInt32)
    size: hb.Column[int] = hb.column("s")


def test_an_object_is_returned_as_by_get(bed: Bed) -> None:
    session = bed.use(Ticket)
    session.add(Ticket(tenant="a", number=1, subject="x"))
    session.commit()
    assert session.get_one(Ticket, tenant="a", number=1) == session.get(Ticket, tenant="a", number=1)


def test_an_absent_object_is_an_error_with_its_key(bed: Bed) -> None:
    session = bed.use(Ticket)
    with pytest.raises(hb.RowNotFound, match=r"To get None in this case") as caught:
        session.get_one(Ticket, tenant="a", number=2)
    assert isinstance(caught.value, LookupError)
    assert (caught.value.table, caught.value.key) == ("got_tickets", hb.row_key(Ticket, tenant="a", number=2))
    assert hb.schema.key_of(Ticket, caught.value.key) == {"tenant": "a", "number": 2}


@pytest.mark.parametrize(
    ("model", "key"), [(Named, {"name": "never seen"}), (Scattered, {"number": 7})], ids=["dictionary", "random salt"]
)
def test_a_key_without_a_single_row_is_not_named(model: type[Any], key: dict[str, Any]) -> None:
    models = tables_of(NAMES).models[1:] if model is Named else ()
    with fresh(*models, model) as store, pytest.raises(hb.RowNotFound) as caught:
        hb.Session(store).get_one(model, **key)
    assert (caught.value.table, caught.value.key) == (hb.schema.schema_of(model).table, None)


def test_the_time_of_an_earlier_read_is_no_key_field() -> None:
    with fresh(Ticket) as store, pytest.raises(hb.RowNotFound) as caught:
        hb.Session(store).get_one(Ticket, tenant="a", number=1, as_of=NOON)
    assert caught.value.key == hb.row_key(Ticket, tenant="a", number=1)


def test_the_key_is_checked_as_by_get() -> None:
    with fresh(Ticket) as store:
        session = hb.Session(store)
        with pytest.raises(hb.errors.IncompleteKey, match="Give the key by name"):
            session.get_one(Ticket, "a", 1)  # type: ignore[arg-type]
        with pytest.raises(hb.errors.IncompleteKey, match="every field"):
            session.get_one(Ticket, tenant="a")


def test_a_group_has_it_too() -> None:
    with fresh(Item) as store:
        session = hb.Session(store)
        session.add(Item(shop="north", name="lamp", stock=1))
        session.commit()
        with session.group(Item, shop="north") as group:
            assert group.get_one(Item, name="lamp") == group.get(Item, name="lamp")
            with pytest.raises(hb.RowNotFound) as caught:
                group.get_one(Item, name="desk")
    assert hb.schema.key_of(Item, caught.value.key) == {"shop": "north", "name": "desk"}
