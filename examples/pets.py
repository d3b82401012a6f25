"""An owner, the owner's pets and their visits to the vet, all in one row: three kinds of objects that are read and
written together.

    python examples/pets.py                              # in one temporary file
    python examples/pets.py --store hbase                # on a real HBase that is started for it
    python examples/pets.py --store hbase://host:9090    # in a cluster of your own

Every answer is checked against the data that was loaded.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

import click
from rich.console import Console
from rich.text import Text
from stores import opened

import hbmodel as hb

OWNERS = 40
VISITS = 30
FIRST = datetime(2024, 1, 1, 9, tzinfo=UTC)
NAMES = ("Ada", "Bello", "Cleo", "Dino", "Emma")
SPECIES = ("cat", "dog", "rabbit")


# --- the models -------------------------------------------------------------------------------------------------------
# All three models have the same row key, the owner. Each qualifier begins with a byte for the kind of object. So the
# cells of a row are in this order: those of the owner (`o`), of the pets (`p`) by name, and of the visits (`v`) by pet,
# newest first. A slice of columns contains all visits of one pet, or only the last five. All data of an owner is in one
# region.


@hb.model(table="pets", family="d", kind=b"o")
class Owner:
    """The person who pays. The key has no field in the qualifier, so there is one owner per row."""

    owner: hb.Key[str] = hb.key()
    city: hb.Column[str] = hb.column("c")
    balance: hb.Column[int] = hb.column("b", default=0)  # in cents


@hb.model(table="pets", family="d", kind=b"p")
class Pet:
    """A pet of an owner."""

    owner: hb.Key[str] = hb.key()
    name: hb.Key[str] = hb.key(in_qualifier=True)
    species: hb.Column[str] = hb.column("s")
    born: hb.Column[date | None] = hb.column("b", default=None)


@hb.model(table="pets", family="d", kind=b"v")
class Visit:
    """A visit to the vet by a pet."""

    owner: hb.Key[str] = hb.key()
    pet: hb.Key[str] = hb.key(in_qualifier=True)
    at: hb.Key[datetime] = hb.key(hb.Datetime("s"), desc=True, in_qualifier=True)
    reason: hb.Column[str] = hb.column("r")
    price: hb.Column[int] = hb.column("p")  # in cents


# A model whose objects are read, checked and then changed needs a version. If one model has a version, all models in
# the same family need one, and only HBase's Thrift2 gateway or an embedded store can check versions. So the money of an
# owner is in a separate table.


@hb.model(table="budgets", family="d", kind=b"b")
class Budget:
    """An amount that an owner has reserved for a purpose."""

    owner: hb.Key[str] = hb.key()
    use: hb.Key[str] = hb.key(in_qualifier=True)
    amount: hb.Column[int] = hb.column("a")  # in cents
    version: hb.Column[int] = hb.version()


@hb.model(table="budgets", family="d", kind=b"t")
class Transfer:
    """Money that was moved from one budget to another."""

    owner: hb.Key[str] = hb.key()
    number: hb.Key[int] = hb.key(hb.UInt32, in_qualifier=True)
    amount: hb.Column[int] = hb.column("a")
    version: hb.Column[int] = hb.version()


# --- the data ---------------------------------------------------------------------------------------------------------


def owner_of(number: int) -> str:
    """The name of an owner."""
    return f"owner {number:03}"


def pets_of(number: int) -> tuple[str, ...]:
    """The names of an owner's pets: one to five."""
    return NAMES[: number % len(NAMES) + 1]


def visit(number: int, pet: str, count: int) -> Visit:
    """Returns a visit; each pet comes every four weeks."""
    at = FIRST + timedelta(weeks=4 * count, minutes=15 * NAMES.index(pet))
    reason = ("check", "vaccination", "teeth")[count % 3]
    return Visit(owner=owner_of(number), pet=pet, at=at, reason=reason, price=3_000 + 500 * (count % 7))


def everything() -> Iterator[Owner | Pet | Visit]:
    """All objects, owner by owner."""
    for number in range(OWNERS):
        yield Owner(owner=owner_of(number), city="Ulm" if number % 2 else "Bonn")
        for place, pet in enumerate(pets_of(number)):
            yield Pet(owner=owner_of(number), name=pet, species=SPECIES[place % 3], born=date(2020, 1 + place, 1))
            for count in range(VISITS):
                yield visit(number, pet, count)


# --- what is asked ----------------------------------------------------------------------------------------------------


def check(console: Console, what: str, found: object, expected: object) -> None:
    """Prints an answer, and ends the program if it is wrong."""
    if found != expected:
        raise click.ClickException(f"{what}: {found!r} was found where {expected!r} was written")
    console.print(Text.assemble(f"{what}: ", (str(found), "bold")))


def ask_slices(console: Console, session: hb.Session) -> None:
    """Reads all objects of one kind, of one pet, or of a range of time: each is a range of columns of one row."""
    owner = owner_of(4)
    pets = session.query(Pet).where(Pet.owner == owner)
    check(console, "pets", [pet.name for pet in pets], list(NAMES))
    check(
        console, "pets from C to D", [pet.name for pet in pets.where(Pet.name >= "C", Pet.name < "E")], ["Cleo", "Dino"]
    )
    visits = session.query(Visit).where(Visit.owner == owner)
    check(console, "visits of all pets", visits.count(), 5 * VISITS)
    bello = visits.where(Visit.pet == "Bello")
    newest = [visit(4, "Bello", count) for count in range(VISITS - 1, VISITS - 4, -1)]
    check(
        console,
        "the last three of Bello",
        [str(found.at.date()) for found in bello.limit(3)],
        [str(made.at.date()) for made in newest],
    )
    year = bello.where(Visit.at >= FIRST + timedelta(weeks=52), Visit.at < FIRST + timedelta(weeks=104))
    check(console, "those of the second year", year.count(), 13)
    first = bello.last()
    check(console, "the first of Bello", first, visit(4, "Bello", 0))


def ask_pages(console: Console, session: hb.Session) -> None:
    """Reads a row in pages; the token of each page says where the next page begins."""
    visits = session.query(Visit).where(Visit.owner == owner_of(2))
    token: str | None = None
    sizes: list[int] = []
    seen: list[Visit] = []
    while True:
        page = visits.page(25, after=token)
        sizes.append(len(page.items))
        seen += page.items
        token = page.next_token
        if token is None:
            break
    check(console, "pages of 25 visits", sizes, [25, 25, 25, 15])
    expected = [visit(2, pet, count) for pet in pets_of(2) for count in range(VISITS - 1, -1, -1)]
    check(console, "all of them, in order", seen == expected, True)


def rename_city(console: Console, session: hb.Session) -> None:
    """Changes an object of one kind, and leaves the others unchanged."""
    owner = session.get(Owner, owner=owner_of(3))
    assert owner is not None
    session.update(owner, city="Köln")
    session.commit()
    changed = session.get(Owner, owner=owner_of(3))
    check(console, "the owner has moved", changed and changed.city, "Köln")
    check(console, "his pets", session.query(Pet).where(Pet.owner == owner_of(3)).count(), 4)


def book_visit(console: Console, session: hb.Session) -> None:
    """Writes a visit and the owner who pays for it in one commit. All its writes to one row are one mutation, whatever
    the kinds of the objects.
    """
    owner = session.get(Owner, owner=owner_of(2))
    assert owner is not None
    booked = visit(2, "Cleo", VISITS)
    session.add(booked)
    session.update(owner, balance=owner.balance - booked.price)
    session.commit()
    paid = session.get(Owner, owner=owner_of(2))
    check(console, "the owner has paid", paid and paid.balance, -booked.price)
    newest = session.query(Visit).where(Visit.owner == owner_of(2), Visit.pet == "Cleo").first()
    check(console, "the visit is booked", newest == booked, True)


def move_money(console: Console, store: hb.Store, session: hb.Session) -> None:
    """Changes two budgets and adds a transfer, all together, and only if no other program has changed the row since it
    was read.
    """
    if not store.capabilities.check_and_mutate:
        console.print("This store has no check-and-mutate, so no local transactions; an hbase+thrift2: store has both.")
        return
    hb.create_tables(store, Budget, Transfer)
    session.add_all(Budget(owner="ann", use=use, amount=10_000) for use in ("food", "vet"))
    session.commit()

    def move(group: Any) -> int:
        food, vet = group.get(Budget, use="food"), group.get(Budget, use="vet")
        assert food is not None
        assert vet is not None
        number: int = group.query(Transfer).count() + 1
        group.update(food, amount=food.amount - 2_500)
        group.update(vet, amount=vet.amount + 2_500)
        group.add(Transfer(owner="ann", number=number, amount=2_500))
        return number

    for number in (1, 2):
        check(console, "number of the transfer", session.group(Budget, owner="ann").retry(move), number)
    budgets = {budget.use: budget.amount for budget in session.query(Budget).where(Budget.owner == "ann")}
    check(console, "the budgets", budgets, {"food": 5_000, "vet": 15_000})


def delete_pet(console: Console, session: hb.Session) -> None:
    """Deletes a pet and its visits; all other objects in the row remain."""
    owner = owner_of(1)
    session.delete_key(Pet, owner=owner, name="Ada")
    for gone in session.query(Visit).where(Visit.owner == owner, Visit.pet == "Ada"):
        session.delete(gone)
    session.commit()
    check(console, "pets that are left", [pet.name for pet in session.query(Pet).where(Pet.owner == owner)], ["Bello"])
    left = session.query(Visit).where(Visit.owner == owner).all()
    check(console, "their visits", left == [visit(1, "Bello", count) for count in range(VISITS - 1, -1, -1)], True)
    check(console, "the owner", session.get(Owner, owner=owner) is not None, True)


def show_row(console: Console, store: hb.Store) -> None:
    """Shows how many columns each of the three kinds has in one row of the table."""
    (row,) = store.get("pets", [owner_of(0).encode()])
    assert row is not None
    kinds = [column[2:3].decode() for column in row.columns]
    check(
        console,
        "cells of the first owner's row",
        {kind: kinds.count(kind) for kind in "opv"},
        {"o": 2, "p": 2, "v": 2 * VISITS},
    )


@click.command()
@click.option("--store", default="embedded", show_default=True, help="embedded, hbase, or the URL of a store.")
def main(store: str) -> None:
    """Load owners, pets and visits, and ask for slices of their rows."""
    console = Console(highlight=False)
    try:
        with opened(console, store) as pets_store:
            hb.create_tables(pets_store, Owner, Pet, Visit)
            with hb.Session(pets_store) as session:
                loaded = session.bulk_add(everything())
                console.print(f"{loaded:,} objects in {OWNERS} rows")
                ask_slices(console, session)
                ask_pages(console, session)
                rename_city(console, session)
                book_visit(console, session)
                delete_pet(console, session)
                move_money(console, pets_store, session)
            show_row(console, pets_store)
    except hb.HbmodelError as error:
        raise click.ClickException(str(error)) from error


if __name__ == "__main__":
    main()
