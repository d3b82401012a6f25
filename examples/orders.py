"""A shop's order book: versioned orders with their lines, which several clerks change, and lists by customer, in pages,
and by state.

    python examples/orders.py                              # in one temporary file
    python examples/orders.py --store hbase                # on a real HBase that is started for it
    python examples/orders.py --store hbase://host:9090    # in a cluster of your own: a Thrift2 gateway, hbase+thrift2:

Every answer is compared with an order book that is kept in plain Python.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum

import attrs
import click
from rich.console import Console
from rich.table import Table
from stores import opened

import hbmodel as hb

FIRST = datetime(2026, 3, 1, 9, tzinfo=UTC)
CUSTOMERS = ("ann", "bob", "cid", "dora")
PRICES = {"cup": Decimal("4.50"), "pot": Decimal("19.90"), "tea": Decimal("3.20")}
PAGE = 4


# --- the model --------------------------------------------------------------------------------------------------------
#  Clerks look up an order by its number, so the number is the row key. A shop has only a few orders per second, so the
# region at the end of the table can take all new numbers. Shops with thousands per second would use
# hb.codecs.Reversed(hb.UInt64).
#   The lines are a map column, so an order and its lines are one row, which one commit changes as a whole. All of the
# row has one version: a clerk who adds a line is in conflict with one who changes the state.


class State(Enum):
    """The state of an order."""

    OPEN = "open"
    SHIPPED = "shipped"


@attrs.frozen
class Line:
    """A line of an order: the quantity, and the price per piece at the time of the order."""

    quantity: int
    price: Decimal


@hb.model(table="shop_orders", family="d")
class Order:
    """An order of a customer."""

    number: hb.Key[int] = hb.key(hb.UInt64)
    customer: hb.Column[str] = hb.column("c")
    placed: hb.Column[datetime] = hb.column("p", hb.Datetime("s"))
    reference: hb.Column[str] = hb.column("r")  # from the payment service
    total: hb.Column[Decimal] = hb.column("t")
    state: hb.Column[State] = hb.column("s", default=State.OPEN)
    lines: hb.Map[str, Line] = hb.map_column("l", value=hb.Json(Line), factory=dict)  # by article
    version: hb.Column[int] = hb.version()

    by_customer = hb.index("customer", hb.desc("placed"))
    open_orders = hb.index("placed", where=lambda order: order.state == State.OPEN)
    by_reference = hb.index("reference", unique=True)


NUMBERS = hb.ids.IdSequence("shop_orders", block=10)


# --- what clerks do ---------------------------------------------------------------------------------------------------


def total_of(lines: Mapping[str, Line]) -> Decimal:
    """Returns the total price of all lines."""
    return sum((line.quantity * line.price for line in lines.values()), Decimal(0))


def place(session: hb.Session, order: Order) -> Order:
    """Inserts a new order. If the request was already made, returns the existing order with the same reference."""
    try:
        return session.insert(order)
    except hb.UniqueViolation:
        return session.query(Order).where(Order.reference == order.reference).one()


def adding(number: int, article: str) -> Callable[[hb.Session], Order]:
    """Returns a function for `session.retry` that adds one piece of an article. The function reads the order first, and
    then the line, which the order's version protects.
    """

    def change(session: hb.Session) -> Order:
        order = session.query(Order).where(Order.number == number).one()
        line = session.entries(Order.lines, number=number).get(article) or Line(0, PRICES[article])
        line = attrs.evolve(line, quantity=line.quantity + 1)
        return session.update(order, total=order.total + line.price, lines={article: line})

    return change


def ship(session: hb.Session, number: int) -> bool:
    """Ships an order if it is open, no matter what else in the order has changed. Returns whether it was shipped."""
    try:
        session.update_key(Order, number=number, condition=Order.state == State.OPEN, state=State.SHIPPED)
        session.commit()
    except hb.ConditionFailed:
        return False
    return True


# --- the program ------------------------------------------------------------------------------------------------------


def check(console: Console, what: str, found: object, expected: object) -> None:
    """Prints an answer, and ends the program if it is wrong."""
    if found != expected:
        raise click.ClickException(f"{what}: {found!r} was found where {expected!r} was expected")
    console.print(f"{what}: {found}", soft_wrap=True)


def fill(session: hb.Session, numbers: hb.ids.SequenceIds, count: int) -> dict[int, Order]:
    """Places an order every quarter of an hour. Two of three orders have been shipped."""
    book = {}
    for at in range(count):
        lines = {article: Line(1 + (at + n) % 3, PRICES[article]) for n, article in enumerate(PRICES) if (at + n) % 2}
        customer, placed = CUSTOMERS[at % len(CUSTOMERS)], FIRST + at * timedelta(minutes=15)
        order = Order(
            number=numbers.next(),
            customer=customer,
            placed=placed,
            reference=f"pay-{at:05}",
            total=total_of(lines),
            lines=lines,
        )
        book[order.number] = place(session, hb.evolve(order, state=State.SHIPPED if at % 3 else State.OPEN))
    return book


def repeat_request(console: Console, session: hb.Session, numbers: hb.ids.SequenceIds, book: dict[int, Order]) -> None:
    """The shop's site sends an order twice. The second one is refused, because the reference already exists under
    another number, and the first order is returned.
    """
    first = next(iter(book.values()))
    again = hb.evolve(first, number=numbers.next())
    try:
        session.insert(again)
    except hb.UniqueViolation as error:
        check(console, "refused", (error.index, error.value), ("by_reference", first.reference))
    check(console, "the order with that reference", place(session, again).number, first.number)
    check(console, "under the new number", session.get(Order, number=again.number), None)


def change_together(console: Console, store: hb.Store, book: dict[int, Order]) -> None:
    """Several clerks change one order at once. No change is lost: a refused change is repeated on the current order."""
    number = next(iter(book))
    with hb.Session(store) as eve, hb.Session(store) as fay:
        changed = adding(number, "pot")(eve)
        adding(number, "tea")(fay)
        eve.commit()
        try:
            fay.commit()
        except hb.ConflictError as error:
            check(console, "Fay's change is refused: the order has Eve's version", error.found == changed.version, True)
        fay.retry(adding(number, "tea"))

    def clerk(_: int) -> Order:
        with hb.Session(store) as session:
            return [session.retry(adding(number, "cup")) for _ in range(5)][-1]

    with ThreadPoolExecutor(2) as clerks:
        last = max(clerks.map(clerk, range(2)), key=lambda order: order.version)
    book[number] = expected = more(book[number], "pot", "tea", *["cup"] * 10)
    check(console, "total after two clerks have added five cups each", last.total, expected.total)


def more(order: Order, *articles: str) -> Order:
    """Returns the expected order, with one more piece of each of these articles."""
    lines = dict(order.lines)
    for article in articles:
        lines[article] = Line(lines[article].quantity + 1 if article in lines else 1, PRICES[article])
    return hb.evolve(order, lines=lines, total=total_of(lines))


def ship_once(console: Console, session: hb.Session, book: dict[int, Order]) -> None:
    """Shows that an order is shipped only once, no matter how many clerks try."""
    number = next(number for number, order in book.items() if order.state is State.OPEN)
    check(console, f"order {number} shipped, and again", [ship(session, number), ship(session, number)], [True, False])
    book[number] = hb.evolve(book[number], state=State.SHIPPED)


def turn_pages(console: Console, session: hb.Session, book: dict[int, Order]) -> None:
    """Reads a customer's orders, newest first, page by page to the end and back to the beginning."""
    query = session.query(Order).where(Order.customer == CUSTOMERS[0])
    pages = [query.page(PAGE)]
    while (token := pages[-1].next_token) is not None:
        pages.append(query.page(PAGE, after=token))
    back = [pages[-1]]
    while (token := back[-1].previous_token) is not None:
        back.append(query.page(PAGE, before=token))
    newest = [number for number, order in reversed(book.items()) if order.customer == CUSTOMERS[0]]
    expected = [newest[at : at + PAGE] for at in range(0, len(newest), PAGE)]
    for way, turned in (("forwards", pages), ("backwards", back[::-1])):
        check(
            console,
            f"pages of {CUSTOMERS[0]}'s orders, {way}",
            [[order.number for order in page] for page in turned],
            expected,
        )


def list_open(console: Console, session: hb.Session, book: dict[int, Order]) -> None:
    """Lists the orders to ship, the oldest first. The index contains only open orders, so the query reads all of it."""
    waiting = session.query(Order).where(Order.state == State.OPEN)
    check(console, "read from", waiting.explain().path, "open_orders")
    expected = [number for number, order in book.items() if order.state is State.OPEN]
    check(console, "open orders", [order.number for order in waiting], expected)
    table = Table("open", "placed", "customer", "total")
    for order in waiting.limit(3):
        table.add_row(str(order.number), f"{order.placed:%d %b %H:%M}", order.customer, f"{order.total:.2f}")
    console.print(table)


def compare(console: Console, session: hb.Session, book: dict[int, Order]) -> None:
    """Compares all orders and all their lines with the book."""
    found = session.query(Order).allow_full_scan().load(Order.lines).all()
    lines = [order.lines for order in book.values()]
    check(
        console,
        "all orders and lines are right",
        (found, [order.lines for order in found]) == ([*book.values()], lines),
        True,
    )


@click.command()
@click.option("--store", default="embedded", show_default=True, help="embedded, hbase, or the URL of a store.")
@click.option("--orders", "count", type=click.IntRange(1), default=60, show_default=True, help="So many orders.")
def main(store: str, count: int) -> None:
    """Place orders, change them by several clerks, and list them."""
    console = Console(highlight=False)
    try:
        with opened(console, store) as shop, hb.Session(shop) as session:
            hb.create_tables(shop, NUMBERS, Order)
            if session.query(Order).exists():
                raise click.ClickException("The table shop_orders has orders already.")
            numbers = NUMBERS.on(shop)
            try:
                book = fill(session, numbers, count)
            except hb.CapabilityError as error:  # the Thrift1 gateway has no check-and-mutate
                console.print(error.message, soft_wrap=True)
                return
            console.print(f"{count} orders placed")
            repeat_request(console, session, numbers, book)
            change_together(console, shop, book)
            ship_once(console, session, book)
            turn_pages(console, session, book)
            list_open(console, session, book)
            compare(console, session, book)
    except hb.HbmodelError as error:
        raise click.ClickException(str(error)) from error


if __name__ == "__main__":
    main()
