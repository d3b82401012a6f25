"""Two models in one table: people and their pictures, each in its own column family, with the same row keys.

    python examples/families.py                              # in one temporary file
    python examples/families.py --store hbase                # on a real HBase that is started for it
    python examples/families.py --store hbase://host:9090    # in a cluster of your own

The bytes that queries read are measured, and compared with those of the same data in a single family.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from stores import opened

import hbmodel as hb


@hb.model(table="people", family="p")
class Person:
    """The data that is read often."""

    name: hb.Key[str] = hb.key()
    town: hb.Column[str] = hb.column("t")
    born: hb.Column[int] = hb.column("b", hb.codecs.UInt16)
    by_town = hb.index("town")


@hb.model(table="people", family="i")
class Picture:
    """The large data, under the same row keys. Not every person has a picture."""

    name: hb.Key[str] = hb.key()
    kind: hb.Column[str] = hb.column("k")
    image: hb.Column[bytes] = hb.column("i")


@hb.model(table="people_in_one", family="d")
class Whole:
    """Person and picture in one model and one family."""

    name: hb.Key[str] = hb.key()
    town: hb.Column[str] = hb.column("t")
    born: hb.Column[int] = hb.column("b", hb.codecs.UInt16)
    kind: hb.Column[str | None] = hb.column("k", default=None)
    image: hb.Column[bytes | None] = hb.column("i", default=None)


@hb.model(table="people_in_two", family="p")
class Split:
    """Person and picture in one model, with the picture in a separate family."""

    name: hb.Key[str] = hb.key()
    town: hb.Column[str] = hb.column("t")
    born: hb.Column[int] = hb.column("b", hb.codecs.UInt16)
    kind: hb.Column[str | None] = hb.column("k", family="i", default=None)
    image: hb.Column[bytes | None] = hb.column("i", family="i", default=None)


TOWNS = ("Bergen", "Bonn", "Oslo", "Rome")
IMAGE = 2_000


def load(session: hb.Session, count: int) -> None:
    """Writes `count` people; every second person has a picture."""
    for n in range(count):
        name, town, born = f"person{n:04}", TOWNS[n % 4], 1950 + n % 50
        picture: dict[str, Any] = {"kind": "png", "image": bytes([n % 256]) * IMAGE} if n % 2 else {}
        session.add(Person(name=name, town=town, born=born))
        if picture:
            session.add(Picture(name=name, **picture))
        session.add_all(
            [Whole(name=name, town=town, born=born, **picture), Split(name=name, town=town, born=born, **picture)]
        )
    session.commit()


def read(store: hb.Store, question: Callable[[hb.Session], Any]) -> tuple[Any, int]:
    """Returns the answer, and how many bytes of cells were read from the tables of people."""
    calls: list[hb.store.Call] = []
    with hb.Session(store, on_call=calls.append) as session:
        answer = question(session)
    return answer, sum(call.bytes for call in calls if call.table.startswith("people"))


def towns(model: Any) -> Callable[[hb.Session], Any]:
    """Returns a query for the town of every person that loads whole objects."""
    return lambda session: sorted(each.town for each in session.query(model).allow_full_scan())


def selected(model: Any) -> Callable[[hb.Session], Any]:
    """Returns a query for the town of every person that loads only this field."""
    return lambda session: sorted(town for (town,) in session.query(model).select(model.town).allow_full_scan())


def measure(store: hb.Store, console: Console) -> None:
    """Runs the same query on each layout, and prints the bytes that it read."""
    questions: Sequence[tuple[str, Callable[[hb.Session], Any]]] = (
        ("two models: objects of Person", towns(Person)),
        ("two models: town of Person", selected(Person)),
        ("one model, two families: objects", towns(Split)),
        ("one model, two families: town", selected(Split)),
        ("one model, one family: objects", towns(Whole)),
        ("one model, one family: town", selected(Whole)),
    )
    found = Table("everybody's town", "bytes read")
    answers = []
    for name, question in questions:
        answer, size = read(store, question)
        answers.append(answer)
        found.add_row(name, f"{size:,}")
    console.print(found)
    console.print("equal answers" if all(answer == answers[0] for answer in answers) else "different answers")


def delete(store: hb.Store, console: Console) -> None:
    """Deletes the person from one row and the picture from another. The other object of each row remains."""
    with hb.Session(store) as session:
        session.delete_key(Person, name="person0001")
        session.delete_key(Picture, name="person0003")
    session = hb.Session(store)
    for name in ("person0001", "person0003"):
        person, picture = session.get(Person, name=name), session.get(Picture, name=name)
        console.print(f"{name}: {'a' if person else 'no'} person, {'a' if picture else 'no'} picture")
    console.print(
        f"differences between the table and each model: {len(hb.diff(store, Person))}, {len(hb.diff(store, Picture))}"
    )


@click.command()
@click.option("--store", default="embedded", show_default=True, help="embedded, hbase, or the URL of a store.")
@click.option("--count", type=click.IntRange(10, 9999), default=200, show_default=True, help="So many people.")
def main(store: str, count: int) -> None:
    """Keep people and their pictures apart in one table, and measure what queries read."""
    console = Console(highlight=False, soft_wrap=True)
    try:
        with opened(console, store) as opened_store:
            hb.create_tables(opened_store, Person, Picture, Whole, Split)
            load(hb.Session(opened_store), count)
            measure(opened_store, console)
            delete(opened_store, console)
    except hb.HbmodelError as error:
        raise click.ClickException(str(error)) from error


if __name__ == "__main__":
    main()
