"""Prices that change: kept as cell versions, read as of a given time, and stored again in rows with reverse timestamps
in the key.

python examples/cell_versions.py                              # in one temporary file
python examples/cell_versions.py --store hbase                # on a real HBase that is started for it
python examples/cell_versions.py --store hbase://host:9090    # in a cluster of your own
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from stores import opened

import hbmodel as hb
from hbmodel.store import Scan

KEPT = 4
"""How many versions of a price the column keeps."""

CHANGES = 10
"""How many times each price changes."""


# --- the models -------------------------------------------------------------------------------------------------------


@hb.model(table="shop_products", family="p")
class Product:
    """A product with its last prices."""

    sku: hb.Key[str] = hb.key()
    name: hb.Column[str] = hb.column("n")
    price: hb.Column[Decimal] = hb.column("p", versions=KEPT)
    stock: hb.Column[int] = hb.column("s", family="s", default=0)


@hb.model(table="shop_prices", family="p")
class Price:
    """The same history with one row per price. The newest price comes first, and all prices are kept."""

    sku: hb.Key[str] = hb.key()
    since: hb.Key[datetime] = hb.key(hb.Datetime("ms"), desc=True)
    price: hb.Column[Decimal] = hb.column("p")


SKUS = ("apple", "bread", "cheese")


def price(sku: str, change: int) -> Decimal:
    """Returns the price of a product after the given number of changes."""
    return Decimal(100 * (SKUS.index(sku) + 1) + change) / 100


# --- the programs -----------------------------------------------------------------------------------------------------


def history(session: hb.Session) -> Iterator[datetime]:
    """Writes both histories, and yields the time after each change."""
    for change in range(CHANGES):
        for sku in SKUS:
            new = price(sku, change)
            if change == 0:
                session.add(Product(sku=sku, name=sku.title(), price=new))
            else:
                session.update(Product(sku=sku, name="", price=new), price=new)
            session.add(Price(sku=sku, since=now(), price=new))
        session.commit()
        yield pause()


def now() -> datetime:
    """The current time in whole milliseconds, the unit of cell timestamps."""
    found = datetime.now(UTC)
    return found.replace(microsecond=found.microsecond // 1000 * 1000)


def pause() -> datetime:
    """Returns a time that lies between the writes so far and the next ones."""
    time.sleep(0.01)
    found = now()
    time.sleep(0.01)
    return found


def by_versions(session: hb.Session, at: datetime) -> list[Decimal | None]:
    """Returns the prices as of a time, read from cell versions."""
    prices = session.query(Product).allow_full_scan().as_of(at).select(Product.sku, Product.price)
    found = dict(prices.all())
    return [found.get(sku) for sku in SKUS]


def by_stamps(session: hb.Session, at: datetime) -> list[Decimal | None]:
    """Returns the same prices, read from the rows with times in their keys: the newest price of each product at that
    time.
    """
    found = session.query(Price).where(Price.since <= at).first_of_each(Price.sku, SKUS)
    return [None if each is None else each.price for each in found]


def bytes_of(store: hb.Store, table: str) -> tuple[int, int]:
    """The number of rows that a scan returns, and the size of their cells in bytes. The size of a cell includes its row
    key, family, qualifier, time and value.
    """
    rows = size = 0
    (batches,) = store.scan(table, [Scan()])
    for batch in batches:
        for row in batch:
            rows += 1
            size += sum(20 + len(row.row) + len(column) - 1 + len(cell.value) for column, cell in row.columns.items())
    return rows, size


def shown(prices: Sequence[Decimal | None]) -> list[str]:
    """Returns prices as text, `-` where there is no price."""
    return ["-" if each is None else str(each) for each in prices]


def report(console: Console, store: hb.Store, session: hb.Session) -> None:
    """Writes the prices, queries them, and prints the tables."""
    begun = pause()
    times = [begun, *history(session)]

    versions = session.versions(Product, Product.price, sku="apple")
    known = session.query(Price).where(Price.sku == "apple").all()
    console.print(
        f"prices of the apple: {CHANGES}; versions kept: {len(versions)}; rows with reverse timestamps: {len(known)}"
    )
    console.print(f"versions, newest first: {', '.join(shown([each.value for each in versions]))}")
    later = all(each.time >= row.since for each, row in zip(versions, known, strict=False))
    console.print(f"each version is at least as late as the row of the same price: {later}")

    table = Table("as of change", *SKUS, "with reverse timestamps")
    for change in (0, CHANGES - KEPT, CHANGES - KEPT + 1, CHANGES - 1, CHANGES):
        at = times[change]
        exact = by_stamps(session, at)
        # HBase may keep versions beyond the column's limit until it compacts, so the example does not look for them.
        promised = change == 0 or change > CHANGES - KEPT
        answer = by_versions(session, at) if promised else None
        cells = ["not kept"] * len(SKUS) if answer is None else shown(answer)
        table.add_row(str(change), *cells, "the same" if answer == exact else ", ".join(shown(exact)))
    console.print(table)

    at = times[-2]
    cheap = (
        session.query(Product).allow_full_scan().where(Product.price < price("bread", 0)).select(Product.sku).as_of(at)
    )
    console.print(
        f"below the first price of bread, as of the change before the last: {', '.join(sku for (sku,) in cheap)}"
    )
    try:
        session.get(Product, sku="apple", as_of=at)
    except hb.QueryError as error:
        console.print(f"a whole product, with its stock: refused, family {error.details['family']} keeps no versions")

    session.delete_key(Product, sku="bread")
    session.commit()
    console.print(f"as of the same time, after bread was deleted: {', '.join(shown(by_versions(session, at)))}")
    session.add(Product(sku="bread", name="Bread", price=Decimal("9.99")))
    session.commit()
    console.print(f"and after it was added again: {', '.join(shown(by_versions(session, at)))}")
    again = session.versions(Product, Product.price, sku="bread")
    console.print(f"its versions: {', '.join(shown([each.value for each in again]))}")

    sizes = Table("", "rows that a scan reads", "bytes")
    for label, model in (
        ("the newest prices, with versions", Product),
        ("every price, with reverse timestamps", Price),
    ):
        rows, size = bytes_of(store, hb.schema.schema_of(model).table)
        sizes.add_row(label, f"{rows:,}", f"{size:,}")
    console.print(sizes)


@click.command()
@click.option("--store", default="embedded", show_default=True, help="embedded, hbase, or the URL of a store.")
def main(store: str) -> None:
    """Change some prices, and read them as they were."""
    console = Console(highlight=False)
    models: Sequence[Any] = (Product, Price)
    try:
        with opened(console, store) as shop, hb.Session(shop) as session:
            hb.create_tables(shop, *models)
            report(console, shop, session)
    except hb.HbmodelError as error:
        raise click.ClickException(str(error)) from error


if __name__ == "__main__":
    main()
